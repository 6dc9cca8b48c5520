"""Keeps `python -m clew` from importing modules of the folder in which it starts.

Python puts that folder first on the path of modules, so a `json.py` in a folder that you cloned
would run with your rights. This module is imported before anything else of Clew, and removes the
folder if this process was started with `-m clew` or a module of it. It changes nothing in a
program that imports Clew.

A `clew.py`, or a module that Python needs to find Clew, such as `importlib.py`, runs before any
line of Clew. Only `clew` and `python -P -m clew` are safe from those.
"""

import sys


def _find_started_module() -> str:
    """Return the module that `python -m` runs; empty while no module is being started."""
    if sys.argv[:1] != ["-m"]:
        return ""
    following = [*sys.orig_argv[2:], ""]
    for flag, value in zip(sys.orig_argv[1:], following, strict=False):
        if flag.startswith("-") and flag[1:2] not in ("X", "W", "-") and "m" in flag:
            return flag.partition("m")[2] or value
    return ""


if _find_started_module().partition(".")[0] == "clew" and not sys.flags.safe_path:
    del sys.path[0]
