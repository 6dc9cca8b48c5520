"""Project instructions: AGENTS.md and CLAUDE.md in the working folder and the folders above.

Files are returned outermost first, so the model reads the nearest ones last. A file appears once,
however many names lead to it. If there is too much text, the nearest files have priority, and
files have priority over their imports.
"""

import os
import stat
from collections import deque
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field

from clew.core.text import replace_surrogates
from clew.extensions.project.imports import find_imports, import_spellings, is_surely_path
from clew.extensions.project.instruction_roots import InstructionRoots, Zone
from clew.extensions.project.system_prompt import escape_line, wrap_in_tag
from clew.extensions.project.text_files import (
    InstructionText,
    UnreadableFile,
    read_text,
    truncate_lines,
)

MAX_FILE = 60_000
"""Bytes of one file."""
MAX_ALL = 200_000
"""Bytes of all files together, with their tags."""
_MIN_ROOM = 1_000
"""Bytes that must be left to include another file."""
MAX_HOPS = 5
"""How deep imports may be nested; Claude Code's manual has said five, and then four."""
MAX_LOOKUPS = 1_000
"""Imports that are followed at most."""
MAX_WARNINGS = 40


class InstructionKind(StrEnum):
    """The two families of instruction files."""

    AGENTS = "AGENTS.md"
    CLAUDE = "CLAUDE.md"


_NAMES = (
    ("AGENTS.md", InstructionKind.AGENTS),
    ("CLAUDE.md", InstructionKind.CLAUDE),
    (".claude/CLAUDE.md", InstructionKind.CLAUDE),
    ("CLAUDE.local.md", InstructionKind.CLAUDE),
)
_Identity = tuple[int, int]


class Instruction(Struct, frozen=True, kw_only=True):
    """One instruction file."""

    path: Path
    """The resolved path."""
    kind: InstructionKind
    text: str
    block: str
    """The text for a prompt, in a tag with the path of the file."""


class Instructions(Struct, frozen=True, kw_only=True):
    """All instructions for a working folder."""

    groups: tuple[tuple[Instruction, ...], ...] = ()
    """A file and its imports; outermost first."""
    warnings: tuple[str, ...] = ()

    def text(self, kind: InstructionKind) -> str:
        """Return the files of one kind for a prompt."""
        return "\n\n".join(
            note.block for group in self.groups for note in group if note.kind is kind
        )


class _Found(Struct, frozen=True, kw_only=True):
    """A file to read, and where it may import from."""

    path: Path
    kind: InstructionKind
    zone: Zone
    chain: tuple[Path, ...] = ()
    """The files that import it, outermost first."""


class _LoadState(Struct):
    """The state of one load: what was read, and what is left of the limits."""

    roots: InstructionRoots
    taken: set[_Identity] = field(default_factory=set)
    warnings: dict[str, None] = field(default_factory=dict)
    room: int = MAX_ALL
    lookups: int = MAX_LOOKUPS


def load_instructions(roots: InstructionRoots) -> Instructions:
    """Read all instruction files for the working folder, and their imports.

    Never raises: a file that cannot be used is skipped, and a warning says why.
    """
    state = _LoadState(roots)
    files = tuple(_find_files(state))
    read = [(root, _read(root, state)) for root in reversed(files)]
    groups = [(note, *_load_imports(note, root, state)) for root, note in read if note is not None]
    return Instructions(
        groups=tuple(reversed(groups)), warnings=_limit_warnings(tuple(state.warnings))
    )


def _find_files(state: _LoadState) -> Iterator[_Found]:
    """Yield the user's own files and those of the folders, outermost first."""
    roots = state.roots
    clew_home, claude_home = roots.own
    user_zone = (roots.user_home, *roots.own)
    for path, kind in (
        (clew_home / "AGENTS.md", InstructionKind.AGENTS),
        (claude_home / "CLAUDE.md", InstructionKind.CLAUDE),
    ):
        real = _real(path)
        if real is not None and _take(real, state):
            yield _Found(path=real, kind=kind, zone=user_zone)
    for folder in roots.folders:
        for name, kind in _NAMES:
            root = _find_instruction(folder / name, kind, state)
            if root is not None:
                yield root


def _find_instruction(path: Path, kind: InstructionKind, state: _LoadState) -> _Found | None:
    roots = state.roots
    real = _real(path)
    if real is None:
        if os.path.lexists(path):
            _warn(state, f"{roots.display_path(path)} is a broken link.")
        return None
    folder = path.parent.parent if path.parent.name == ".claude" else path.parent
    zone = roots.zone(folder / path.name)
    if real != path and (why := roots.refusal(real, zone)):
        _warn(state, f"{roots.display_path(path)} is a link to {real}, {why}.")
        return None
    if _is_from_another_user(folder, real, roots):
        _warn(
            state,
            f"{roots.display_path(path)} belongs to another user, in a folder that all users can"
            " write to; it was refused.",
        )
        return None
    return _Found(path=real, kind=kind, zone=zone) if _take(real, state) else None


def _is_from_another_user(folder: Path, real: Path, roots: InstructionRoots) -> bool:
    """Return whether another user may have put the file there, as in `/tmp`."""
    if folder.is_relative_to(roots.project):
        return False
    try:
        writable = folder.stat().st_mode & stat.S_IWOTH
        return bool(writable) and real.stat().st_uid not in (0, os.getuid())
    except OSError:
        return True


def _load_imports(note: Instruction, root: _Found, state: _LoadState) -> Iterator[Instruction]:
    """Yield the imports of `note` and their imports, breadth first."""
    waiting = deque([(note, root)])
    while waiting:
        importer, found = waiting.popleft()
        chain = (*found.chain, importer.path)
        for written in find_imports(importer.text):
            if state.lookups <= 0:
                _warn(state, f"There are more than {MAX_LOOKUPS:,} imports; the rest was skipped.")
                return
            state.lookups -= 1
            target = _target(written, found, chain, state)
            read = _read(target, state) if target is not None else None
            if target is not None and read is not None:
                yield read
                waiting.append((read, target))


def _target(
    written: str, importer: _Found, chain: tuple[Path, ...], state: _LoadState
) -> _Found | None:
    """Return the file that an import names, if it may be read and was not read yet."""
    roots = state.roots
    saying = f"{roots.display_path(importer.path)} imports @{escape_line(written, 200)},"
    real = _resolve_import(written, importer.path, roots)
    if real is None:
        if is_surely_path(written):
            _warn(state, f"{saying} which does not exist.")
        return None
    if why := roots.refusal(real, importer.zone):
        _warn(state, f"{saying} {why}.")
        return None
    if real in chain:
        circle = " → ".join(
            roots.display_path(path) for path in (*chain[chain.index(real) :], real)
        )
        _warn(state, f"{saying} which is a circle: {circle}. Each file is included once.")
        return None
    if len(chain) > MAX_HOPS:
        _warn(state, f"{saying} which is more than {MAX_HOPS} imports deep; it was skipped.")
        return None
    if not real.is_file():
        if is_surely_path(written):
            _warn(state, f"{saying} which is not a file.")
        return None
    if not _take(real, state):
        return None
    zone = roots.zone(real, importer.zone)
    return _Found(path=real, kind=importer.kind, zone=zone, chain=chain)


def _resolve_import(written: str, importer: Path, roots: InstructionRoots) -> Path | None:
    for spelling in import_spellings(written):
        if spelling.startswith("~/"):
            path = roots.user_home / spelling[2:]
        else:
            path = importer.parent / spelling
        real = _real(path)
        if real is not None:
            return real
    return None


def _real(path: Path) -> Path | None:
    try:
        return Path(os.path.realpath(path, strict=True))
    except (OSError, ValueError):
        return None


def _take(real: Path, state: _LoadState) -> bool:
    """Mark a file as read; False if it was read before."""
    try:
        found = real.stat()
    except OSError:
        return False
    identity = (found.st_dev, found.st_ino)
    if identity in state.taken:
        return False
    state.taken.add(identity)
    return True


def _read(found: _Found, state: _LoadState) -> Instruction | None:
    shown = state.roots.display_path(found.path)
    if state.room < _MIN_ROOM:
        _warn(state, f"{shown} was skipped: all instructions together may have {MAX_ALL:,} bytes.")
        return None
    try:
        read = read_text(found.path, MAX_FILE)
    except UnreadableFile as error:
        _warn(state, f"{shown} {error}; it was skipped.")
        return None
    if read.damaged:
        _warn(state, f"{shown} is not valid UTF-8; invalid bytes were replaced.")
    if not read.text.strip():
        return None
    return _truncate(found, read, shown, state)


def _truncate(
    found: _Found, read: InstructionText, shown: str, state: _LoadState
) -> Instruction | None:
    """Return the file, truncated if the limits require it."""
    text, end = read.text.strip("\n"), ""
    if not read.whole:
        end = f"\n[Truncated: only the first {MAX_FILE:,} bytes of the file are shown.]"
        _warn(state, f"{shown} is longer than {MAX_FILE:,} bytes; the rest was skipped.")
    made = wrap_in_tag("file", text + end, path=shown)
    size = len(made.encode()) + 2
    if size > state.room:
        end = f"\n[Truncated: all instructions together may have {MAX_ALL:,} bytes.]"
        around = len(wrap_in_tag("file", text + end, path=shown).encode()) - len(text.encode())
        text = truncate_lines(text.encode(), state.room - around - 2).decode()
        _warn(
            state, f"{shown} was truncated: all instructions together may have {MAX_ALL:,} bytes."
        )
        if not text.strip():
            return None
        made = wrap_in_tag("file", text + end, path=shown)
        size = len(made.encode()) + 2
    state.room -= size
    return Instruction(path=found.path, kind=found.kind, text=text, block=made)


def _warn(state: _LoadState, warning: str) -> None:
    state.warnings[replace_surrogates(warning)] = None


def _limit_warnings(warnings: tuple[str, ...]) -> tuple[str, ...]:
    if len(warnings) <= MAX_WARNINGS:
        return warnings
    rest = len(warnings) - MAX_WARNINGS
    return (*warnings[:MAX_WARNINGS], f"There are {rest} more warnings about instruction files.")
