"""Names of files for the menu, after an `@`."""

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from clew.cli.sanitize import sanitize

_MENTION = re.compile(r'(?:^|\s)(@(?:"[^"\n]*|[^\s"]*))$')
_MOST_SEEN = 5_000
_MOST_SHOWN = 200


def mention(text: str) -> str:
    """Return the `@name` that `text` ends in, with its sign; empty when it ends otherwise."""
    found = _MENTION.search(text)
    return found[1] if found else ""


def mentions(typed: str, folder: Path) -> list[tuple[str, str]]:
    """Return what `typed`, a mention, may become, each with what to call it.

    Folders end in a slash. Names with spaces are put in quotation marks. Hidden files are found
    by those who type their dot. Names that a terminal would obey are left out.
    """
    path = typed.removeprefix("@").removeprefix('"')
    start = path.rpartition("/")[2]
    head = path[: len(path) - len(start)]
    place = Path(folder, os.path.expanduser(head or "."))  # noqa: PTH111 - may name nobody
    names = sorted(islice(_names(place, start), _MOST_SEEN), key=_order)[:_MOST_SHOWN]
    return [(_quoted(f"{head}{name}"), name) for name in names]


def _names(place: Path, start: str) -> Iterator[str]:
    try:
        with os.scandir(place) as entries:
            for entry in islice(entries, _MOST_SEEN):
                if _fits(entry.name, start):
                    yield f"{entry.name}/" if entry.is_dir() else entry.name
    except OSError:
        return


def _fits(name: str, start: str) -> bool:
    is_found = name.lower().startswith(start.lower())
    is_hidden = name.startswith(".") and not start.startswith(".")
    return is_found and not is_hidden and sanitize(name) == name and not set('"\n\t') & set(name)


def _order(name: str) -> tuple[str, str]:
    return name.lower(), name


def _quoted(path: str) -> str:
    if " " not in path:
        return f"@{path}"
    return f'@"{path}' if path.endswith("/") else f'@"{path}"'
