r"""The text of a skill, with the arguments of the call filled in.

| in the text | becomes |
|---|---|
| `$ARGUMENTS` | everything typed after the name, unchanged |
| `$ARGUMENTS[2]`, `$2` | the third word of it; words are split and quoted as in a shell |
| `$branch` | the word at the position of `branch` in the field `arguments` |
| `${CLAUDE_SESSION_ID}`, `${CLEW_SESSION_ID}` | the id of the session |
| `${CLAUDE_SKILL_DIR}`, `${CLEW_SKILL_DIR}` | the folder of the skill |
| `${CLAUDE_PROJECT_DIR}`, `${CLEW_PROJECT_DIR}` | the folder of the project |
| `${CLAUDE_PLUGIN_ROOT}`, `${CLEW_PLUGIN_ROOT}` | the folder of the plugin, in a plugin |

A number without a matching word stays in the text; a name without one is removed. A backslash
keeps a placeholder: `\$1`. If no placeholder used an argument, the arguments are appended as
`ARGUMENTS: …`, so that they are not lost.

Words count from 0, as Claude Code documents it. Many commands were written when they counted from
1, so a text with `$1` but without `$0`, `$ARGUMENTS[n]` and named arguments counts from 1.

Placeholders are replaced in one pass. An argument that looks like a placeholder stays unchanged.

An exclamation mark and a command in backticks, at the start of a line or after a blank, stands for
the output of the command; so does a fenced block that is opened with an exclamation mark after
the backticks. Only the text of the file can contain commands, never an argument, and other fenced
blocks are examples. Reading a skill executes nothing: `read_skill` returns the commands as pieces
between the texts, for a session to run after permission.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from clew.core.errors import ConfigError
from clew.extensions.discovery import Refused, read_whole
from clew.extensions.frontmatter import Frontmatter, read_frontmatter
from clew.extensions.skills import Skill

_ARGUMENT = re.compile(r"[A-Za-z_]\w*")
_COUNTS_FROM_0 = re.compile(r"\$(?:0(?!\w)|ARGUMENTS\[\d)")
_COMMAND = re.compile(
    r"^(?P<fence>`{3,}|~{3,})(?P<mark>!?)(?P<rest>[^\n]*)\n"
    r"(?P<block>.*?)(?:^(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?:^|(?<=\s))!`(?P<inline>[^`\n]+)`",
    re.MULTILINE | re.DOTALL,
)


class EmbeddedCommand(Struct, frozen=True):
    """A shell command in a skill, whose output takes its place."""

    command: str


SkillPiece: TypeAlias = str | EmbeddedCommand


def render_skill(skill: Skill, arguments: str, *, session_id: str, project_dir: Path) -> str:
    """Read the text of a skill and fill in the arguments; its commands stay as they are written.

    Raises:
        ConfigError: The file no longer exists, or cannot be read.
    """
    found, values = _open_skill(skill, session_id, project_dir)
    names = _list_names(found)
    return fill_template(found.body.strip(), arguments.strip(), names=names, values=values)


def read_skill(
    skill: Skill, arguments: str, *, session_id: str, project_dir: Path
) -> tuple[SkillPiece, ...]:
    """Read a skill and fill in the arguments; returns its texts and the commands between them.

    Raises:
        ConfigError: The file no longer exists, or cannot be read.
    """
    found, values = _open_skill(skill, session_id, project_dir)
    pieces = tuple(split_commands(found.body.strip()))
    return fill_pieces(pieces, arguments.strip(), names=_list_names(found), values=values)


def _open_skill(
    skill: Skill, session_id: str, project_dir: Path
) -> tuple[Frontmatter, dict[str, str]]:
    text = read_whole(skill.path, tree=skill.tree)
    if isinstance(text, Refused):
        raise ConfigError(f"the skill {skill.name} cannot be called: {text}")
    values = {
        "SESSION_ID": session_id,
        "SKILL_DIR": str(skill.folder),
        "PROJECT_DIR": str(project_dir),
    }
    if skill.plugin_root is not None:
        values["PLUGIN_ROOT"] = str(skill.plugin_root)
    return read_frontmatter(text), values


def _list_names(found: Frontmatter) -> list[str]:
    return [name for name in found.words("arguments") or () if _ARGUMENT.fullmatch(name)]


def split_commands(body: str) -> Iterator[SkillPiece]:
    """Yield the texts of a body and the commands between them."""
    end = 0
    for found in _COMMAND.finditer(body):
        command = found["inline"] or (found["block"] if found["mark"] else None)
        if command is None or not command.strip():
            continue
        if found.start() > end:
            yield body[end : found.start()]
        yield EmbeddedCommand(command.strip())
        end = found.end()
    if body[end:]:
        yield body[end:]


def fill_template(
    body: str, arguments: str, *, names: Sequence[str] = (), values: Mapping[str, str] | None = None
) -> str:
    """Replace the placeholders in `body`.

    Args:
        body: A text with placeholders.
        arguments: What was typed.
        names: The names of the words, in their order.
        values: The values of `${CLEW_…}` and `${CLAUDE_…}`, by the name without that prefix.
    """
    (filled,) = fill_pieces((body,), arguments, names=names, values=values)
    assert isinstance(filled, str)  # noqa: S101 - a text stays a text
    return filled


def fill_pieces(
    pieces: Sequence[SkillPiece],
    arguments: str,
    *,
    names: Sequence[str] = (),
    values: Mapping[str, str] | None = None,
) -> tuple[SkillPiece, ...]:
    """Replace the placeholders in texts and commands; see `fill_template`."""
    words = split_arguments(arguments)
    known = values or {}
    base = _base("\n".join(map(_get_text, pieces)), names)
    taken = False

    def take(found: re.Match[str]) -> str:
        nonlocal taken
        escape, token = found["escape"] or "", found["token"]
        if found["value"]:
            return escape + known.get(found["value"], token)
        if escape:
            return token
        text = _argument(found, arguments, words, names=names, base=base)
        taken = taken or text is not None
        missing = "" if found["name"] else token
        return missing if text is None else text

    pattern = _placeholders(names)
    filled: list[SkillPiece] = []
    for piece in pieces:
        text = pattern.sub(take, _get_text(piece))
        filled.append(text if isinstance(piece, str) else EmbeddedCommand(text))
    if arguments and not taken:
        filled.append(f"{_break(filled)}ARGUMENTS: {arguments}")
    return _join_texts(filled)


def _get_text(piece: SkillPiece) -> str:
    return piece if isinstance(piece, str) else piece.command


def _break(pieces: Sequence[SkillPiece]) -> str:
    return "\n\n" if any(map(_get_text, pieces)) else ""


def _join_texts(pieces: Sequence[SkillPiece]) -> tuple[SkillPiece, ...]:
    """Join texts that follow one another; there is at least one piece."""
    joined: list[SkillPiece] = []
    for piece in pieces:
        if joined and isinstance(piece, str) and isinstance(joined[-1], str):
            joined[-1] += piece
        else:
            joined.append(piece)
    return tuple(joined) or ("",)


def split_arguments(arguments: str) -> list[str]:
    """Split `arguments` into words as a shell does, or at blanks if a quote is not closed."""
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()


def _placeholders(names: Sequence[str]) -> re.Pattern[str]:
    named = "|".join(re.escape(name) for name in names) or r"(?!)"
    return re.compile(
        # Only a single backslash escapes.
        r"(?P<escape>(?<!\\)\\)?(?P<token>\$(?:"
        r"ARGUMENTS\[(?P<index>\d{1,9})\]|(?P<all>ARGUMENTS)(?!\w)|(?P<number>\d{1,9})(?!\w)"
        rf"|(?P<name>{named})(?!\w)|\{{(?:CLEW|CLAUDE)_(?P<value>\w+)\}}))",
        re.ASCII,
    )


def _base(body: str, names: Sequence[str]) -> int:
    """Return the number of the first word in `body`."""
    from_1 = re.search(r"\$1(?!\w)", body) and not names and not _COUNTS_FROM_0.search(body)
    return 1 if from_1 else 0


def _argument(
    found: re.Match[str], arguments: str, words: Sequence[str], *, names: Sequence[str], base: int
) -> str | None:
    """Return the value of a placeholder, or None if there is no such word."""
    if found["all"]:
        return arguments
    if found["index"]:
        place = int(found["index"])
    elif found["number"]:
        place = int(found["number"]) - base
    else:
        place = names.index(found["name"])
    return words[place] if 0 <= place < len(words) else None
