"""Install packages with pip and show how far it is: `python scripts/install.py PIP-ARGUMENTS`.

On a terminal, one line is updated; elsewhere, each step is a line. What pip says appears only if it
fails. Uses the standard library alone, because it installs everything else.
"""

import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

_STEP = re.compile(r"(Collecting|Downloading|Using cached|Building|Installing collected)\s*(\S*)")
_WIDTH = 72


class Progress:
    """Shows the current step and the seconds since the start."""

    def __init__(self) -> None:
        self._live = sys.stdout.isatty()
        self._started = time.monotonic()
        self._step = "starting pip"
        self._packages = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> "Progress":
        if self._live:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._live:
            self._thread.join()
        seconds = time.monotonic() - self._started
        start = "\r\x1b[K" if self._live else ""
        _write(f"{start}  {self._packages} packages in {seconds:.0f} s\n")

    def add(self, line: str) -> None:
        """Read a line of pip."""
        found = _STEP.match(line.strip())
        if found is None:
            return
        kind, name = found[1], found[2].rpartition("/")[2]
        self._packages += kind == "Collecting"
        if kind == "Installing collected":
            self._show(f"installing {self._packages} packages")
        elif self._live:
            self._show(f"package {self._packages}: {name}")
        elif kind == "Collecting" and self._packages % 10 == 0:
            self._show(f"{self._packages} packages found")

    def _show(self, step: str) -> None:
        self._step = step
        if not self._live:
            _write(f"  {step}\n")

    def _tick(self) -> None:
        while not self._over.wait(0.2):
            seconds = time.monotonic() - self._started
            line = f"  {seconds:3.0f} s  {self._step}"[:_WIDTH]
            _write(f"\r\x1b[K{line}")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """Run pip; returns its exit code."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
    said: list[str] = []
    with (
        Progress() as progress,
        subprocess.Popen(  # noqa: S603 - the arguments are those of the Makefile
            [*command, "--progress-bar", "off", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as pip,
    ):
        for line in pip.stdout or ():
            said.append(line)
            progress.add(line)
    if pip.returncode:
        sys.stderr.write("".join(said))
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
