r"""The text of a skill, with the arguments of the call filled in.

| in the text | becomes |
|---|---|
| `$ARGUMENTS` | everything typed after the name, unchanged |
| `$ARGUMENTS[2]`, `$2` | the third word of it; words are split and quoted as in a shell |
| `$branch` | the word at the position of `branch` in the field `arguments` |
| `${CLAUDE_SESSION_ID}`, `${CLEW_SESSION_ID}` | the id of the session |
| `${CLAUDE_SKILL_DIR}`, `${CLEW_SKILL_DIR}` | the folder of the skill |
| `${CLAUDE_PROJECT_DIR}`, `${CLEW_PROJECT_DIR}` | the folder of the project |

A number without a matching word stays in the text; a name without one is removed. A backslash
keeps a placeholder: `\$1`. If no placeholder used an argument, the arguments are appended as
`ARGUMENTS: …`, so that they are not lost.

Words count from 0, as Claude Code documents it. Many commands were written when they counted from
1, so a text with `$1` but without `$0`, `$ARGUMENTS[n]` and named arguments counts from 1.

Placeholders are replaced in one pass. An argument that looks like a placeholder stays unchanged,
and so does a command to be run (an exclamation mark and a command in backticks): reading a skill
executes nothing.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from clew.core.errors import ConfigError
from clew.extensions.discovery import Refused, read_whole
from clew.extensions.frontmatter import read_frontmatter
from clew.extensions.skills import Skill

_ARGUMENT = re.compile(r"[A-Za-z_]\w*")
_COUNTS_FROM_0 = re.compile(r"\$(?:0(?!\w)|ARGUMENTS\[\d)")


def render_skill(skill: Skill, arguments: str, *, session_id: str, project_dir: Path) -> str:
    """Read the text of a skill and fill in the arguments.

    Raises:
        ConfigError: The file does not exist any more or cannot be read.
    """
    text = read_whole(skill.path, tree=skill.tree)
    if isinstance(text, Refused):
        raise ConfigError(f"the skill {skill.name} cannot be called: {text}")
    found = read_frontmatter(text)
    values = {
        "SESSION_ID": session_id,
        "SKILL_DIR": str(skill.folder),
        "PROJECT_DIR": str(project_dir),
    }
    names = [name for name in found.words("arguments") or () if _ARGUMENT.fullmatch(name)]
    return fill_template(found.body.strip(), arguments.strip(), names=names, values=values)


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
    words = split_arguments(arguments)
    known = values or {}
    base = _base(body, names)
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

    filled = _placeholders(names).sub(take, body)
    if not arguments or taken:
        return filled
    return "\n\n".join(part for part in (filled, f"ARGUMENTS: {arguments}") if part)


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
