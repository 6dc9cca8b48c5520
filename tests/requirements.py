"""The requirement ledger: which ids of `docs/requirements.md` a test shows.

Run it as `python -m tests.requirements`, or as `make requirements`.
"""

import contextlib
import io
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import MappingProxyType

import pytest

TABLE = Path(__file__).parent.parent / "docs" / "requirements.md"
_FIRST_CELL = re.compile(r"^\| *([^|]*?) *\|", re.MULTILINE)


PARTLY: Mapping[str, str] = MappingProxyType({})
"""Requirements whose tests show only a part: they count as not shown until the rest exists."""


class CollectionFailed(Exception):
    """pytest could not collect the tests; the message is what it printed."""


class Collector:
    """A pytest plugin that counts, for each id, the tests marked with it."""

    def __init__(self) -> None:
        self.shown: Counter[str] = Counter()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Read the markers of every collected test."""
        for item in session.items:
            marked = {str(id_) for mark in item.iter_markers("req") for id_ in mark.args}
            self.shown.update(marked)


def table_ids(text: str) -> list[str]:
    """Return the ids in the first column of the tables, in the order they are written."""
    cells: list[str] = _FIRST_CELL.findall(text)
    return [cell for cell in cells if cell != "id" and cell.strip("-: ")]


def collect() -> Counter[str]:
    """Let pytest collect the tests, and return how many of them show each id.

    Raises:
        CollectionFailed: A test file could not be read, so a count would mislead.
    """
    collector, printed = Collector(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = pytest.main(["--collect-only", "-q"], plugins=[collector])
    if code != pytest.ExitCode.OK:
        raise CollectionFailed(printed.getvalue())
    return collector.shown


def unknown_ids(ids: Sequence[str], shown: Mapping[str, int]) -> list[str]:
    """Return the ids that tests name and the table does not have."""
    return sorted(set(shown) - set(ids))


def report(
    ids: Sequence[str], shown: Mapping[str, int], partly: Mapping[str, str] = PARTLY
) -> Iterator[str]:
    """Yield the lines of the ledger: each family in turn, then the count."""
    shown = {id_: count for id_, count in shown.items() if id_ not in partly}
    for family, members in groupby(ids, key=_family):
        yield family
        yield from _family_lines(list(members), shown, partly)
    done = sum(1 for id_ in ids if shown.get(id_))
    yield ""
    yield f"{done} of {len(ids)} requirements shown by tests"


def _family(id_: str) -> str:
    return id_.partition("-")[0]


def _family_lines(
    members: Sequence[str], shown: Mapping[str, int], partly: Mapping[str, str]
) -> Iterator[str]:
    done = [f"{id_} ({shown[id_]})" for id_ in members if shown.get(id_)]
    missing = [id_ for id_ in members if not shown.get(id_) and id_ not in partly]
    if done:
        yield f"  shown:         {', '.join(done)}"
    if missing:
        yield f"  not shown yet: {', '.join(missing)}"
    for id_ in members:
        if id_ in partly:
            yield f"  in part:       {id_}: {partly[id_]}"


def main() -> None:
    """Print the ledger; end with code 1 and a sentence where it cannot be trusted."""
    ids = table_ids(TABLE.read_text(encoding="utf-8"))
    try:
        shown = collect()
    except CollectionFailed as error:
        sys.exit(f"{error}\nThe tests could not be collected.")
    sys.stdout.write("\n".join(report(ids, shown)) + "\n")
    if unknown := unknown_ids(ids, shown):
        sys.exit(f"Tests name ids that docs/requirements.md lacks: {', '.join(unknown)}")


if __name__ == "__main__":
    main()
