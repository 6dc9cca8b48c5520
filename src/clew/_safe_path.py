"""Keeps `python -m clew` from importing modules of the folder in which it starts.

Python puts that folder first on the path of modules, so a `json.py` in a folder that you cloned
would run with your rights. If this process was started with `-m clew`, or a module of it, this
module removes the folder. It changes nothing in a program that imports Clew.

Python adds the folder after it has read the `.pth` files of installed packages, and imports
`runpy` next. `clew_safe_path.pth`, which is installed beside Clew, imports this module before
that, so that the folder is removed before a `clew.py` or a `runpy.py` in it can be found. Where
Clew was not installed, but is only on `PYTHONPATH`, this module is imported first of Clew's own.
"""

import os
import sys  # Python has loaded both; any other module could be one of the folder


def _find_started_module() -> str:
    """Return the module that `python -m` is looking for; empty in any other process."""
    if sys.argv[:1] != ["-m"]:
        return ""
    word = sys.orig_argv[-len(sys.argv)]  # the last option of Python, with its value
    return word.partition("m")[2] if word.startswith("-") else word


class _StartFolder:
    """A finder of modules that removes the start folder from the path, then itself."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(self, *_: object) -> None:
        if sys.path[:1] == [self._folder]:
            del sys.path[0]
            # A new list, because the import in progress walks through the old one.
            sys.meta_path = [finder for finder in sys.meta_path if finder is not self]


def _keep_start_folder_out() -> None:
    if sys.flags.safe_path or _find_started_module().partition(".")[0] != "clew":
        return
    try:
        folder = os.getcwd()  # noqa: PTH109 - pathlib is too large to import here
    except OSError:
        return  # the folder was deleted; Python adds none then
    if sys.path[:1] == [folder]:
        del sys.path[0]
    else:
        sys.meta_path.insert(0, _StartFolder(folder))


_keep_start_folder_out()
