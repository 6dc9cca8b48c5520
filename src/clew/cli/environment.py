"""Protects the keys in the environment of the `clew` process from the commands that it runs.

A program of the same user can read the environment that a process was started with, and the
memory of a process that may be traced. So the program takes the keys out of its environment,
overwrites them there, and asks the system to forbid tracing. Only the program does this: a
library must not change the environment of the application that uses it.
"""

import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping

from clew.core.secret_variables import is_secret_variable

_READ_LATER = ("AWS_", "PG")
"""Libraries read these from the environment themselves, when they connect."""
_SHORTEST = 8
"""A shorter value may be a word that other variables contain too."""
_PR_SET_DUMPABLE = 4


def take_secrets() -> dict[str, str]:
    """Remove keys from the environment of this process; return the environment as it was."""
    before = dict(os.environ)
    keys = {name: value for name, value in before.items() if is_secret_variable(name)}
    secrets = [value for value in keys.values() if len(value) >= _SHORTEST]
    names = [
        name
        for name, value in before.items()
        if name in keys or any(secret in value for secret in secrets)
    ]
    _overwrite(names)
    for name in names:
        if name in keys and not name.startswith(_READ_LATER):
            del os.environ[name]
        else:
            os.putenv(name, before[name])
    if "CLEW_DEBUG" not in before:
        _forbid_tracing()
    return before


def own_environment(arguments: Namespace) -> Mapping[str, str] | None:
    """Return what `take_secrets` returned; None for the environment of the process."""
    taken: Mapping[str, str] | None = getattr(arguments, "environ", None)
    return taken


def _overwrite(names: Iterable[str]) -> None:
    """Overwrite the values of variables where the system shows them to other processes.

    Removing a variable leaves its text in the memory behind `/proc/PID/environ`.
    """
    wanted = {os.fsencode(name) for name in names}
    if not wanted or os.name != "posix":
        return
    import ctypes  # noqa: PLC0415 - few environments have keys

    try:
        library = ctypes.CDLL(None)
        if sys.platform == "darwin":
            find = library["_NSGetEnviron"]
            find.restype = ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p))
            entries = find().contents
        else:
            entries = ctypes.POINTER(ctypes.c_void_p).in_dll(library, "environ")
    except (OSError, ValueError, AttributeError):
        return
    index = 0
    while address := entries[index]:
        name, sign, value = ctypes.string_at(address).partition(b"=")
        if name in wanted:
            ctypes.memset(address + len(name) + len(sign), 0, len(value))
        index += 1


def _forbid_tracing() -> None:
    """Keep other processes of the user from reading the memory of this one, on Linux.

    Programs that it starts are not affected. Debuggers and profilers cannot attach; set
    `CLEW_DEBUG` to use them.
    """
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415

    try:
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    except (OSError, AttributeError):
        return
