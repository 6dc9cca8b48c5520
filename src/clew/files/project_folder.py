"""The `.clew` folder of a project: what Clew keeps there for itself stays out of git."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from clew.files.atomic import replace_file

NAME = ".clew"
IGNORE_FILE = b"""\
# Written by Clew. These files are yours alone; settings.json, skills, agents and commands can be
# committed. Change this file as you like: Clew does not write it again.
/.gitignore
/memory/
/settings.local.json
"""


@contextmanager
def keep_out_of_git(path: Path) -> Iterator[None]:
    """Write a `.gitignore` into the `.clew` folder if the block creates that folder.

    A folder that exists already is not touched: its files belong to the user.

    Args:
        path: The folder `.clew`, or anything in it; other paths are not touched.
    """
    folder = next((one for one in (path, *path.parents) if one.name == NAME), None)
    is_new = folder is not None and not folder.exists()
    yield
    if folder is not None and is_new and folder.is_dir():
        # A project works without it.
        with suppress(OSError):
            replace_file(folder / ".gitignore", IGNORE_FILE, mode=0o644, durable=False)
