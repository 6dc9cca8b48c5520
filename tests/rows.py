"""Tables of data: one test runs every row, and a failure names the rows that failed.

A parametrised test costs a few milliseconds per row before it does anything, which adds up
where a row is only data. What needs a fresh folder or a fresh session for each row is still
parametrised.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def each_row(
    names: str | Sequence[str], rows: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test with each row of a table; takes what `pytest.mark.parametrize` does.

    Args:
        names: The arguments that a row gives, separated by commas.
        rows: The values, in tuples if there are several names.
    """
    split = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    table = list(rows)
    if not table:
        raise ValueError("a table without rows shows nothing")

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(**fixtures: object) -> None:
            failed: list[Exception] = []
            for number, row in enumerate(table, 1):
                values = (row,) if len(split) == 1 else row
                try:
                    test(**dict(zip(split, values, strict=True)), **fixtures)
                except Exception as error:  # noqa: BLE001 - all of them are raised below
                    error.add_note(f"row {number} of {len(table)}: {row!r}")
                    failed.append(error)
            if len(failed) == 1:
                raise failed[0]
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(table)} rows failed", failed)

        left = [one for name, one in signature.parameters.items() if name not in split]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate
