"""Restricts its own process with Landlock, then becomes the command that follows.

A program of its own, because a process must restrict itself after the fork and before the command
runs. It uses only the standard library, and it is started without the packages of the user. If any
step fails, the command does not run.
"""

import ctypes
import json
import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_FIRST_RIGHTS = (1 << 13) - 1
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_TCP = 0b11
_SCOPES = 0b11
"""Signals and abstract sockets stay within the sandbox."""
_PATH_BENEATH, _VERSION_FLAG = 1, 1
_NEWNS, _NEWUSER, _NEWNET, _NEWIPC = 0x20000, 0x10000000, 0x40000000, 0x08000000
_RDONLY, _SAFE = 1, 2 | 4 | 8
"""Read-only; without devices, other programs and their privileges."""
_REMOUNT, _BIND, _REC, _PRIVATE = 32, 4096, 16384, 1 << 18
_NO_NEW_PRIVILEGES, _DROP_CAPABILITY = 38, 24
_LAST_CAPABILITY = 63
_LEVEL = {"-": 0, "r": 1, "w": 2}
_FAILED = 126


class _RulesetAttributes(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathAttributes(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


_libc = ctypes.CDLL(None, use_errno=True)


def get_version() -> int:
    """Return the version of Landlock in this kernel, 0 or less if there is none."""
    return int(_libc.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG)))


def can_use_namespaces() -> bool:
    """Can this user make mounts in a namespace of its own? Tries it in another process."""
    import subprocess  # noqa: PLC0415 - slow to import, and most starts do not need it

    trial = [sys.executable, "-I", "-S", __file__, "--try-namespaces"]
    try:
        done = subprocess.run(  # noqa: S603 - this very file
            trial, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def iter_grants(access: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the paths to open and how: `l` lists names, `r` reads, `w` writes.

    Landlock adds up the rights of all folders above a file. So a folder with a forbidden path
    inside is not opened itself, but each of its other entries.

    Args:
        access: The rights by path, `-`, `r` or `w`; the deepest path counts. `/` must be there.
    """
    yield from _iter_grants("/", access["/"], access)


def _iter_grants(path: str, right: str, access: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    start = path.rstrip("/") + "/"
    inside = [each for each in access if each != path and each.startswith(start)]
    if all(_LEVEL[access[each]] >= _LEVEL[right] for each in inside):
        if right != "-":
            yield path, right
        for each in inside:
            if not any(each.startswith(other + "/") for other in inside):
                yield from _iter_grants(each, access[each], access)
        return
    yield path, "l"
    for entry in _entries(path):
        child = start + entry.name
        if not entry.is_symlink():
            yield from _iter_grants(child, access.get(child, right), access)


def _entries(path: str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(path) as found:
            return list(found)
    except OSError:
        return []


def _rights(version: int) -> dict[str, int]:
    everything = _FIRST_RIGHTS
    everything |= _REFER if version >= 2 else 0
    everything |= _TRUNCATE if version >= 3 else 0
    everything |= _IOCTL if version >= 5 else 0
    return {"l": _READ_DIR, "r": _EXECUTE | _READ_FILE | _READ_DIR, "w": everything}


def restrict(access: Mapping[str, str], *, network: bool) -> None:
    """Give up all rights but those in `access`, for this process and its children.

    Raises:
        OSError: The kernel refuses.
    """
    version = get_version()
    rights = _rights(version)
    net = _TCP if version >= 4 and not network else 0
    made = _RulesetAttributes(rights["w"], net, _SCOPES if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = _check(
        _libc.syscall(_CREATE, ctypes.byref(made), ctypes.c_size_t(size), ctypes.c_uint32(0))
    )
    for path, right in iter_grants(access):
        _grant(ruleset, path, rights[right])
    _check(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _check(_libc.syscall(_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0)))
    os.close(ruleset)


def _grant(ruleset: int, path: str, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            rights &= _FILE_RIGHTS
        beneath = _PathAttributes(rights, handle)
        _check(
            _libc.syscall(
                _ADD_RULE,
                ctypes.c_int(ruleset),
                ctypes.c_int(_PATH_BENEATH),
                ctypes.byref(beneath),
                ctypes.c_uint32(0),
            )
        )
    finally:
        os.close(handle)


def enter_namespaces(masks: Sequence[Sequence[str]], *, network: bool) -> None:
    """Move to new namespaces, and mount something over each masked path.

    Raises:
        OSError: The kernel refuses.
    """
    user, group = os.getuid(), os.getgid()
    _check(_libc.unshare(_NEWUSER | _NEWNS | _NEWIPC | (0 if network else _NEWNET)))
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")
    _mount(None, "/", None, _REC | _PRIVATE)
    for path, right in masks:
        if os.path.exists(path):  # noqa: PTH110 - pathlib is slow to import
            _mask(path, right)
    for capability in range(_LAST_CAPABILITY + 1):
        if _libc.prctl(_DROP_CAPABILITY, capability, 0, 0, 0) != 0:
            break


def _mask(path: str, right: str) -> None:
    if right == "r":
        _mount(path, path, None, _BIND | _REC)
        kept = os.statvfs(path).f_flag & _SAFE
        _mount(None, path, None, _REMOUNT | _BIND | _RDONLY | kept)
    elif os.path.isdir(path):  # noqa: PTH112
        _mount("none", path, "tmpfs", _RDONLY | _SAFE, data="mode=0555,size=4k")
    else:
        _mount("/dev/null", path, None, _BIND)
        _mount(None, path, None, _REMOUNT | _BIND | _RDONLY | _SAFE)


def _mount(
    source: str | None, target: str, kind: str | None, flags: int, *, data: str = ""
) -> None:
    words = [os.fsencode(text) if text else None for text in (source, target, kind, data)]
    done = _libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])
    _check(done)


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def main(arguments: Sequence[str]) -> None:
    """Restrict this process as the first argument says, and run the command that follows."""
    if arguments == ["--try-namespaces"]:
        enter_namespaces([("/dev/null", "r")], network=True)
        return
    request, command = json.loads(arguments[0]), list(arguments[1:])
    if request["namespaces"]:
        enter_namespaces(request["masks"], network=request["network"])
    restrict(request["access"], network=request["network"])
    os.chdir(request["cwd"])
    os.execvp(command[0], command)  # noqa: S606


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as error:
        print(f"the sandbox cannot be set up: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(_FAILED)
