"""The table of all corpora, in the terminal and in `docs/safety.md`."""

import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from attacks.corpus import CorpusResult, Status

PAGE = Path(__file__).parent.parent / "docs" / "safety.md"
COLUMNS = ("corpus", "what must hold", "cases", "held", "failed", "skipped", "seconds")
_MARKS = re.compile(r"(<!-- attacks: begin -->\n\n).*?(\n<!-- attacks: end -->)", re.DOTALL)


def format_text(results: Sequence[CorpusResult]) -> str:
    """Return the table for a terminal."""
    rows = [COLUMNS, *(_cells(result) for result in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def format_markdown(results: Sequence[CorpusResult]) -> str:
    """Return the table for a page, with the day and the machine."""
    marks = ["---", "---", *["---:"] * 3, "---", "---:"]
    rows = [COLUMNS, marks, *(_cells(result) for result in results)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    machine = f"{os.cpu_count() or 1} cores, {platform.platform()}"
    return f"Measured {datetime.now(UTC):%Y-%m-%d} with `make attack` ({machine}):\n\n{table}\n"


def add_results(
    file: Path, results: Sequence[CorpusResult], order: Sequence[str]
) -> list[CorpusResult]:
    """Add results to a file, and return everything in it; a corpus that ran again counts once."""
    known = {result.name: result for result in results}
    if file.exists():
        earlier = msgspec.json.decode(file.read_bytes(), type=list[CorpusResult])
        known = {result.name: result for result in earlier} | known
    every = sorted(known.values(), key=lambda result: order.index(result.name))
    file.write_bytes(msgspec.json.encode(every))
    return every


def merge(page: str, table: str) -> str:
    """Return `page` with the table between its two marks.

    Raises:
        LookupError: The page has no such marks.
    """
    changed, count = _MARKS.subn(lambda found: f"{found[1]}{table}{found[2]}", page)
    if count != 1:
        raise LookupError("the page needs `<!-- attacks: begin -->` and `<!-- attacks: end -->`")
    return changed


def _cells(result: CorpusResult) -> tuple[str, ...]:
    skipped = len(result.select(Status.SKIPPED))
    why = f" ({'; '.join(result.reasons)})" if skipped else ""
    return (
        result.name,
        result.target,
        str(len(result.outcomes)),
        str(len(result.select(Status.HELD))),
        str(len(result.select(Status.FAILED))),
        f"{skipped}{why}",
        f"{result.seconds:.0f}",
    )
