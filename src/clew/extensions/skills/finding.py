"""Which skills there are.

Looked for in this order; the first of a name wins, and the others are shadowed by it:

1. `<cwd>/.claude/skills/*/SKILL.md`
2. `<cwd>/.claude/commands/**/*.md`
3. `<cwd>/.clew/skills/*/SKILL.md`
4. `<clew_home>/skills/*/SKILL.md`
5. `<user_home>/.claude/skills/*/SKILL.md`
6. `<user_home>/.claude/commands/**/*.md`
7. `<cwd>/.agents/skills/*/SKILL.md`

So Clew's own folder in the project stands below the ones it shares with Claude Code, and Clew's
own folder of the user above those. `.agents` is last, as a place that many programs write to.

Only the head of each file is read here. A link may not lead out of the project; in the user's
own folders it may lead anywhere, since it is the user's. A project's skills are read up to a
total length, so that no folder keeps a session from opening.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from clew.core.text import one_line
from clew.extensions.frontmatter import read_frontmatter
from clew.extensions.names import as_word, choose_name
from clew.extensions.reading import (
    Folder,
    Refused,
    Room,
    first_of_each,
    folders_in,
    markdown_in,
    read_head,
)
from clew.extensions.skills.skill import Skill, Source

_Scan: TypeAlias = Callable[..., "Iterator[Skill | Refused]"]

_NOT_READ = ("hooks", "paths", "shell", "disallowed-tools", "effort")
"""Fields of Claude Code that would change what a skill does, and do nothing here."""

MAX_HEADS = 2_000_000
"""Characters that the fields of all skills in a project may take."""

_HERE = "${CLAUDE_SKILL_DIR}"


class Found(Struct, frozen=True):
    """What a search came upon."""

    skills: tuple[Skill, ...] = ()
    refused: tuple[Refused, ...] = ()
    shadowed: tuple[Skill, ...] = ()
    """Those that another skill of the same name keeps from being called."""


def discover(cwd: Path, *, user_home: Path, clew_home: Path) -> Found:
    """Return the skills that can be called in `cwd`, those of the strongest folder first."""
    mine, claude = Folder(clew_home), Folder(user_home / ".claude")
    room = Room(MAX_HEADS)
    own, shared, agents = (
        Folder(cwd / name, cwd, room) for name in (".clew", ".claude", ".agents")
    )
    places: tuple[tuple[_Scan, Folder, Source], ...] = (
        (scan_skills, shared / "skills", "project"),
        (scan_commands, shared / "commands", "project"),
        (scan_skills, own / "skills", "project"),
        (scan_skills, mine / "skills", "user"),
        (scan_skills, claude / "skills", "user"),
        (scan_commands, claude / "commands", "user"),
        (scan_skills, agents / "skills", "project"),
    )
    seen: set[str] = set()
    found: list[Skill | Refused] = []
    for scan, folder, source in places:
        real = os.path.realpath(folder.path)
        if real not in seen:
            found.extend(scan(folder, source=source))
        seen.add(real)
    return sort_out(found)


def sort_out(found: Iterable[Skill | Refused]) -> Found:
    """Return what was found, with the first of each name as the one that counts."""
    chosen, refused, shadowed = first_of_each(found)
    return Found(tuple(chosen.values()), tuple(refused), tuple(shadowed))


def scan_skills(folder: Folder, *, source: Source, prefix: str = "") -> Iterator[Skill | Refused]:
    """Yield the skills in a folder of skills: each folder in it that holds a `SKILL.md`.

    Args:
        folder: Where to look.
        source: Whose skills they are.
        prefix: Stands before each name, as a plugin's does: `tools:`.
    """
    for place in folders_in(folder):
        if isinstance(place, Refused):
            yield place
        elif found := _load(place / "SKILL.md", folder, source):
            yield found if isinstance(found, Refused) else _named(found, prefix, place.name)


def scan_commands(folder: Folder, *, source: Source, prefix: str = "") -> Iterator[Skill | Refused]:
    """Yield the commands in a folder of commands: each Markdown file in it or below it.

    A command is called what its file is called, whatever its head says.
    """
    for path in markdown_in(folder):
        if isinstance(path, Refused):
            yield path
        elif found := _load(path, folder, source):
            words = path.relative_to(folder.path).with_suffix("").parts
            called = ":".join(as_word(word) for word in words)
            yield found if isinstance(found, Refused) else replace(found, name=prefix + called)


def _load(path: Path, folder: Folder, source: Source) -> Skill | Refused | None:
    head = (folder.room and folder.room.refusal(path)) or read_head(path, tree=folder.tree)
    if not isinstance(head, str):
        return head
    found = read_frontmatter(head)
    if folder.room:
        folder.room.take(len(head) - len(found.body))
    if found.problems and not found.fields:
        return Refused(path, f"cannot be used: {found.problems[0]}")
    tools = found.words("allowed-tools") or ()
    hidden = found.flag("disable-model-invocation", default=False)
    unread = [name for name in _NOT_READ if found.value(name) is not None]
    return Skill(
        name=found.text("name"),
        description=one_line(found.text("description")) or _first_paragraph(found.body),
        path=path,
        source=source,
        when_to_use=one_line(found.text("when_to_use")),
        argument_hint=one_line(found.text("argument-hint")),
        model_invocable=not (hidden or found.flag("hide-from-slash-command-tool", default=False)),
        user_invocable=found.flag("user-invocable", default=True),
        fork=found.text("context").lower() == "fork",
        agent=found.text("agent"),
        allowed_tools=tuple(word.replace(_HERE, str(path.parent)) for word in tools),
        model=found.text("model"),
        tree=folder.tree,
        problems=(*found.problems, *(f"`{name}` has no effect in Clew" for name in unread)),
    )


def _named(skill: Skill, prefix: str, folder: str) -> Skill:
    name, problems = choose_name(skill.name, folder)
    return replace(skill, name=prefix + name, problems=(*skill.problems, *problems))


def _first_paragraph(body: str) -> str:
    """Return the first paragraph that is no heading, or the first heading, as one line."""
    paragraphs = [one_line(part) for part in body.split("\n\n") if part.strip()]
    plain = (part for part in paragraphs if not part.startswith(("#", "<!--", "```")))
    return next(plain, paragraphs[0].lstrip("# ") if paragraphs else "")
