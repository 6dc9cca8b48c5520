"""Notices that a user needs once, not at every start: remembered in the user's folder."""

from contextlib import suppress
from pathlib import Path

import msgspec

from clew.core.json_text import decode_json
from clew.files.atomic import make_private_folder, replace_file
from clew.files.safe_read import read_regular

_FILE = "notices.json"
_MAX_BYTES = 100_000


def take_notice(home: Path, name: str, text: str) -> str:
    """Return a notice that was not shown yet, and remember it; an empty string otherwise.

    A notice whose text has changed is shown again. If the folder cannot be read or written, it is
    shown at every start.

    Args:
        home: The user's folder, `~/.clew`.
        name: What the notice is about.
        text: What to show.
    """
    path = home / _FILE
    shown = _read(path)
    if shown.get(name) == text:
        return ""
    with suppress(OSError):
        make_private_folder(home)
        replace_file(path, msgspec.json.encode({**shown, name: text}), mode=0o600, durable=False)
    return text


def _read(path: Path) -> dict[str, str]:
    try:
        return decode_json(read_regular(path, limit=_MAX_BYTES), type=dict[str, str])
    except (OSError, ValueError):
        return {}
