"""A project's own instructions: AGENTS.md and CLAUDE.md on the way to the working folder.

Files are given outermost first, so that what is said nearer is read later. Each file is there
once, however many names lead to it. Where there is too much, the nearest files get their room
first, and files of the walk before what they import.
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
from clew.extensions.project.prompt import escape_line, wrap_in_tag
from clew.extensions.project.text_files import TextFile, UnreadableFile, read_text, truncate_lines

MAX_FILE = 60_000
"""Bytes of one file."""
MAX_ALL = 200_000
"""Bytes of all files together, with the marks between them."""
_LEAST_ROOM = 1_000
"""Bytes below which a file is not begun."""
MAX_HOPS = 5
"""How deep imports may lead; Claude Code's manual has said five, and then four."""
MAX_LOOKUPS = 1_000
"""How many imports are looked at."""
MAX_WARNINGS = 40


class InstructionKind(StrEnum):
    """Which of the two families a file belongs to."""

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
    """One file that is part of the instructions."""

    path: Path
    """Where it really is."""
    kind: InstructionKind
    text: str
    block: str
    """The text as a prompt shows it, with the name of its file."""


class Instructions(Struct, frozen=True, kw_only=True):
    """All instructions for one working folder."""

    groups: tuple[tuple[Instruction, ...], ...] = ()
    """A file of the walk and what it imports; outermost first."""
    warnings: tuple[str, ...] = ()

    def text(self, kind: InstructionKind) -> str:
        """Return the files of one kind as a prompt shows them."""
        return "\n\n".join(
            note.block for group in self.groups for note in group if note.kind is kind
        )


class _Found(Struct, frozen=True, kw_only=True):
    """A file that may be read, and what it may import from."""

    path: Path
    kind: InstructionKind
    zone: Zone
    chain: tuple[Path, ...] = ()
    """The files that led to it, first the one of the walk."""


class _LoadState(Struct):
    """Where we are, and what has been used up so far."""

    ground: InstructionRoots
    taken: set[_Identity] = field(default_factory=set)
    warnings: dict[str, None] = field(default_factory=dict)
    room: int = MAX_ALL
    lookups: int = MAX_LOOKUPS


def load_instructions(ground: InstructionRoots) -> Instructions:
    """Read every instruction file that holds for the working folder, and what they import.

    Nothing raises: what cannot be used is left out, and a warning says which and why.
    """
    desk = _LoadState(ground)
    roots = tuple(_roots(desk))
    read = [(root, _read(root, desk)) for root in reversed(roots)]
    groups = [(note, *_imported(note, root, desk)) for root, note in read if note is not None]
    return Instructions(groups=tuple(reversed(groups)), warnings=_few(tuple(desk.warnings)))


def _roots(desk: _LoadState) -> Iterator[_Found]:
    """Yield the user's own files and those of the walk, outermost first."""
    ground = desk.ground
    clew_home, claude_home = ground.own
    user_zone = (ground.user_home, *ground.own)
    for path, kind in (
        (clew_home / "AGENTS.md", InstructionKind.AGENTS),
        (claude_home / "CLAUDE.md", InstructionKind.CLAUDE),
    ):
        real = _real(path)
        if real is not None and _take(real, desk):
            yield _Found(path=real, kind=kind, zone=user_zone)
    for folder in ground.folders:
        for name, kind in _NAMES:
            root = _of_the_walk(folder / name, kind, desk)
            if root is not None:
                yield root


def _of_the_walk(path: Path, kind: InstructionKind, desk: _LoadState) -> _Found | None:
    ground = desk.ground
    real = _real(path)
    if real is None:
        if os.path.lexists(path):
            _warn(desk, f"{ground.shown(path)} leads to no file.")
        return None
    folder = path.parent.parent if path.parent.name == ".claude" else path.parent
    zone = ground.zone(folder / path.name)
    if real != path and (why := ground.refusal(real, zone)):
        _warn(desk, f"{ground.shown(path)} is a link to {real}, {why}.")
        return None
    if _is_planted(folder, real, ground):
        _warn(
            desk,
            f"{ground.shown(path)} belongs to somebody else, in a folder that everybody may"
            " write to; it was refused.",
        )
        return None
    return _Found(path=real, kind=kind, zone=zone) if _take(real, desk) else None


def _is_planted(folder: Path, real: Path, ground: InstructionRoots) -> bool:
    """Could anybody on this machine have put a file on our way, as in `/tmp`?"""
    if folder.is_relative_to(ground.project):
        return False
    try:
        anybody = folder.stat().st_mode & stat.S_IWOTH
        return bool(anybody) and real.stat().st_uid not in (0, os.getuid())
    except OSError:
        return True


def _imported(note: Instruction, root: _Found, desk: _LoadState) -> Iterator[Instruction]:
    """Yield what `note` imports, and what that imports in turn: the nearest first."""
    waiting = deque([(note, root)])
    while waiting:
        importer, found = waiting.popleft()
        chain = (*found.chain, importer.path)
        for written in find_imports(importer.text):
            if desk.lookups <= 0:
                _warn(desk, f"There are more than {MAX_LOOKUPS:,} imports; the rest is left out.")
                return
            desk.lookups -= 1
            target = _target(written, found, chain, desk)
            read = _read(target, desk) if target is not None else None
            if target is not None and read is not None:
                yield read
                waiting.append((read, target))


def _target(
    written: str, importer: _Found, chain: tuple[Path, ...], desk: _LoadState
) -> _Found | None:
    """Return the file that an import names, if it may and need be read."""
    ground = desk.ground
    saying = f"{ground.shown(importer.path)} imports @{escape_line(written, 200)},"
    real = _resolved(written, importer.path, ground)
    if real is None:
        if is_surely_path(written):
            _warn(desk, f"{saying} which is not there.")
        return None
    if why := ground.refusal(real, importer.zone):
        _warn(desk, f"{saying} {why}.")
        return None
    if real in chain:
        circle = " → ".join(ground.shown(path) for path in (*chain[chain.index(real) :], real))
        _warn(desk, f"{saying} but that is a circle: {circle}. Each is included once.")
        return None
    if len(chain) > MAX_HOPS:
        _warn(desk, f"{saying} which is more than {MAX_HOPS} imports deep; it was left out.")
        return None
    if not real.is_file():
        if is_surely_path(written):
            _warn(desk, f"{saying} which is not a file.")
        return None
    if not _take(real, desk):
        return None
    zone = ground.zone(real, importer.zone)
    return _Found(path=real, kind=importer.kind, zone=zone, chain=chain)


def _resolved(written: str, importer: Path, ground: InstructionRoots) -> Path | None:
    for spelling in import_spellings(written):
        if spelling.startswith("~/"):
            path = ground.user_home / spelling[2:]
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


def _take(real: Path, desk: _LoadState) -> bool:
    """Claim a file for the instructions; False if it is in them already."""
    try:
        found = real.stat()
    except OSError:
        return False
    identity = (found.st_dev, found.st_ino)
    if identity in desk.taken:
        return False
    desk.taken.add(identity)
    return True


def _read(found: _Found, desk: _LoadState) -> Instruction | None:
    shown = desk.ground.shown(found.path)
    if desk.room < _LEAST_ROOM:
        _warn(desk, f"{shown} was left out: instructions may hold {MAX_ALL:,} bytes in all.")
        return None
    try:
        read = read_text(found.path, MAX_FILE)
    except UnreadableFile as error:
        _warn(desk, f"{shown} {error}; it was left out.")
        return None
    if read.damaged:
        _warn(desk, f"{shown} is not UTF-8 throughout; what could not be read was replaced.")
    if not read.text.strip():
        return None
    return _fitted(found, read, shown, desk)


def _fitted(found: _Found, read: TextFile, shown: str, desk: _LoadState) -> Instruction | None:
    """Return the note as far as there is room for it."""
    text, end = read.text.strip("\n"), ""
    if not read.whole:
        end = f"\n[The file goes on. Only its first {MAX_FILE:,} bytes are shown.]"
        _warn(desk, f"{shown} is longer than {MAX_FILE:,} bytes; the rest was left out.")
    made = wrap_in_tag("file", text + end, path=shown)
    size = len(made.encode()) + 2
    if size > desk.room:
        end = f"\n[Cut here: instructions may hold {MAX_ALL:,} bytes in all.]"
        around = len(wrap_in_tag("file", text + end, path=shown).encode()) - len(text.encode())
        text = truncate_lines(text.encode(), desk.room - around - 2).decode()
        _warn(desk, f"{shown} was cut: instructions may hold {MAX_ALL:,} bytes in all.")
        if not text.strip():
            return None
        made = wrap_in_tag("file", text + end, path=shown)
        size = len(made.encode()) + 2
    desk.room -= size
    return Instruction(path=found.path, kind=found.kind, text=text, block=made)


def _warn(desk: _LoadState, warning: str) -> None:
    desk.warnings[replace_surrogates(warning)] = None


def _few(warnings: tuple[str, ...]) -> tuple[str, ...]:
    if len(warnings) <= MAX_WARNINGS:
        return warnings
    rest = len(warnings) - MAX_WARNINGS
    return (*warnings[:MAX_WARNINGS], f"There are {rest} more warnings about instruction files.")
