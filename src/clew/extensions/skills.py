"""Skills: instructions in files, which are read only when they are called.

`discover_skills` searches these folders in order. The first skill of a name wins and shadows the
others:

1. `<cwd>/.claude/skills/*/SKILL.md`
2. `<cwd>/.claude/commands/**/*.md`
3. `<cwd>/.clew/skills/*/SKILL.md`
4. `<clew_home>/skills/*/SKILL.md`
5. `<user_home>/.claude/skills/*/SKILL.md`
6. `<user_home>/.claude/commands/**/*.md`
7. `<cwd>/.agents/skills/*/SKILL.md`

In the project, the folders shared with Claude Code come before Clew's own; in the user's folders
Clew's own comes first. `.agents` is last, because many programs write to it.

Discovery reads only the frontmatter of each file. In a project a link may not lead out of the
project; in the user's own folders it may lead anywhere. A limit on the characters read from a
project keeps any folder from delaying the start of a session.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from clew.core.text import one_line
from clew.extensions.discovery import (
    Folder,
    ReadLimit,
    Refused,
    choose_name,
    deduplicate_by_name,
    folders_in,
    make_word,
    markdown_in,
    read_head,
    unique_folders,
)
from clew.extensions.frontmatter import read_frontmatter
from clew.extensions.text_lists import format_list

SkillSource: TypeAlias = Literal["project", "user", "plugin"]

MAX_HEADS = 2_000_000
"""Characters that the frontmatter of all skills in a project may have."""

_IGNORED = ("hooks", "paths", "shell", "disallowed-tools", "effort")
"""Fields of Claude Code that would change what a skill does, and have no effect here."""
_SKILL_DIR = "${CLAUDE_SKILL_DIR}"


class Skill(Struct, frozen=True, kw_only=True):
    """Instructions in a file that a user or a model may call by name.

    It holds what is known before the call: everything but the text.
    """

    name: str
    """What follows the slash. A command in a subfolder includes the folder: `db:migrate`."""
    description: str
    """One line."""
    path: Path
    source: SkillSource
    when_to_use: str = ""
    """More about when a model should call it."""
    argument_hint: str = ""
    model_invocable: bool = True
    """False: the model does not see it."""
    user_invocable: bool = True
    """False: users cannot call it with a slash."""
    fork: bool = False
    """It runs in a session of its own, and only its answer comes back."""
    agent: str = ""
    """The agent that runs a forked skill; empty for the general-purpose agent."""
    allowed_tools: tuple[str, ...] = ()
    """Names or patterns such as `Bash(git *)`; empty for all tools."""
    model: str = ""
    """A model or an alias such as `haiku`; empty for the session's model."""
    tree: Path | None = None
    """The folder that the file must be in after following links; None for anywhere."""
    plugin_root: Path | None = None
    """The folder of the plugin that it belongs to; None for a skill of the project or the user."""
    problems: tuple[str, ...] = ()
    """Mistakes in the file and fields that Clew ignores; the skill can be called anyway."""

    @property
    def folder(self) -> Path:
        """The folder with the files that come with the skill."""
        return self.path.parent


class FoundSkills(Struct, frozen=True):
    """The result of a search for skills."""

    skills: tuple[Skill, ...] = ()
    refused: tuple[Refused, ...] = ()
    shadowed: tuple[Skill, ...] = ()
    """Skills that cannot be called, because another skill has the same name."""


_Scan: TypeAlias = Callable[[Folder], Iterator[Skill | Refused]]


def discover_skills(cwd: Path, *, user_home: Path, clew_home: Path) -> FoundSkills:
    """Return the skills that can be called in `cwd`, in the order of the folders above."""
    user, claude = Folder(clew_home), Folder(user_home / ".claude")
    limit = ReadLimit(MAX_HEADS)
    own, shared, agents = (
        Folder(cwd / name, cwd, limit) for name in (".clew", ".claude", ".agents")
    )
    places: tuple[tuple[Folder, _Scan], ...] = (
        (shared / "skills", lambda folder: scan_skills(folder, source="project")),
        (shared / "commands", lambda folder: scan_commands(folder, source="project")),
        (own / "skills", lambda folder: scan_skills(folder, source="project")),
        (user / "skills", lambda folder: scan_skills(folder, source="user")),
        (claude / "skills", lambda folder: scan_skills(folder, source="user")),
        (claude / "commands", lambda folder: scan_commands(folder, source="user")),
        (agents / "skills", lambda folder: scan_skills(folder, source="project")),
    )
    return collect_skills(one for folder, scan in unique_folders(places) for one in scan(folder))


def collect_skills(found: Iterable[Skill | Refused]) -> FoundSkills:
    """Sort what a search found; the first skill of a name shadows later ones."""
    chosen, refused, shadowed = deduplicate_by_name(found)
    return FoundSkills(tuple(chosen.values()), tuple(refused), tuple(shadowed))


def scan_skills(
    folder: Folder, *, source: SkillSource, prefix: str = ""
) -> Iterator[Skill | Refused]:
    """Yield the skills in a folder: each subfolder that has a `SKILL.md`.

    Args:
        folder: The folder to search.
        source: Where the skills come from.
        prefix: Put before each name, such as the name of a plugin: `tools:`.
    """
    for place in folders_in(folder):
        if isinstance(place, Refused):
            yield place
        elif found := load_skill(place, folder, source=source, prefix=prefix):
            yield found


def load_skill(
    place: Path, folder: Folder, *, source: SkillSource, prefix: str = "", name: str = ""
) -> Skill | Refused | None:
    """Return the skill in the folder `place`, whose links may not leave the tree of `folder`.

    Args:
        place: The folder; None is returned if it has no `SKILL.md`.
        folder: The tree, and the limit on what is read.
        source: Where the skill comes from.
        prefix: Put before its name.
        name: Its name if the file has none; by default that of the folder.
    """
    found = _load(place / "SKILL.md", folder, source)
    return _rename(found, prefix, name or place.name) if isinstance(found, Skill) else found


def scan_commands(
    folder: Folder, *, source: SkillSource, prefix: str = ""
) -> Iterator[Skill | Refused]:
    """Yield the commands in a folder: each Markdown file in it and in its subfolders.

    A command is named after its file, whatever its frontmatter says.
    """
    for path in markdown_in(folder):
        if isinstance(path, Refused):
            yield path
        elif found := load_command(path, folder, source=source, prefix=prefix):
            yield found


def load_command(
    path: Path, folder: Folder, *, source: SkillSource, prefix: str = ""
) -> Skill | Refused | None:
    """Return the command in a file below the path of `folder`; None if there is no such file."""
    found = _load(path, folder, source)
    if not isinstance(found, Skill):
        return found
    words = path.relative_to(folder.path).with_suffix("").parts
    return replace(found, name=prefix + ":".join(make_word(word) for word in words))


def format_skill_list(skills: Iterable[Skill], *, max_chars: int = 8_000) -> str:
    """Return the list of skills for the model: names and descriptions.

    Descriptions are truncated so that all names fit. If even the names do not fit, the last
    line says how many skills are not listed.
    """
    entries = [
        (skill.name, f"{skill.description} {skill.when_to_use}")
        for skill in skills
        if skill.model_invocable
    ]
    return format_list(entries, max_chars=max_chars, things="skills")


def _load(path: Path, folder: Folder, source: SkillSource) -> Skill | Refused | None:
    head = (folder.limit and folder.limit.refusal(path)) or read_head(path, tree=folder.tree)
    if not isinstance(head, str):
        return head
    found = read_frontmatter(head)
    if folder.limit:
        folder.limit.take(len(head) - len(found.body))
    if found.problems and not found.fields:
        return Refused(path, f"cannot be used: {found.problems[0]}")
    tools = found.words("allowed-tools") or ()
    hidden = found.flag("disable-model-invocation", default=False)
    ignored = [name for name in _IGNORED if found.value(name) is not None]
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
        allowed_tools=tuple(word.replace(_SKILL_DIR, str(path.parent)) for word in tools),
        model=found.text("model"),
        tree=folder.tree,
        problems=(*found.problems, *(f"`{name}` has no effect in Clew" for name in ignored)),
    )


def _rename(skill: Skill, prefix: str, folder: str) -> Skill:
    name, problems = choose_name(skill.name, folder)
    return replace(skill, name=prefix + name, problems=(*skill.problems, *problems))


def _first_paragraph(body: str) -> str:
    """Return the first paragraph that is not a heading, or else the first heading."""
    paragraphs = [one_line(part) for part in body.split("\n\n") if part.strip()]
    plain = (part for part in paragraphs if not part.startswith(("#", "<!--", "```")))
    return next(plain, paragraphs[0].lstrip("# ") if paragraphs else "")
