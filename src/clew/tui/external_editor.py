"""Edits the input in the user's own editor: `$VISUAL`, or `$EDITOR`."""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path


def find_editor(environ: Mapping[str, str]) -> list[str]:
    """Return the command of the user's editor, without the file; empty if none is named."""
    for name in ("VISUAL", "EDITOR"):
        try:
            words = shlex.split(environ.get(name, ""))
        except ValueError:
            continue
        if words:
            return words
    return []


def edit_text(text: str, editor: list[str]) -> str | None:
    """Return the text as the user left it; None if the editor failed.

    Blocks until the editor ends. The terminal must be the editor's meanwhile.
    """
    handle, name = tempfile.mkstemp(prefix="clew-", suffix=".md")
    path = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        done = subprocess.run([*editor, name], check=False)  # noqa: S603 - the user's own choice
        if done.returncode:
            return None
        return path.read_text(encoding="utf-8", errors="replace").removesuffix("\n")
    except OSError:
        return None
    finally:
        path.unlink(missing_ok=True)
