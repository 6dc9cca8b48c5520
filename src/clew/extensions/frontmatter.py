"""The fields at the head of a Markdown file, and the text below them.

    ---
    name: review
    allowed-tools: Bash(git *), Read
    ---
    The text.

Files that people write are often not valid YAML: a colon in a description, a bracket that is
never closed, a tab. Such a head is read line by line, and `problems` says so: a reader gets
the fields that can be made out, and never an exception. What of YAML is understood is said in
`plain_yaml`.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from textwrap import dedent
from typing import Any

from msgspec import Struct

MAX_HEAD = 16 * 1024
"""Characters that the fields may take; a longer head is not read."""
MAX_FIELDS = 200
"""How many fields there may be; of a head with more, none is taken."""

_FENCE = re.compile(r"^---[ \t]*$", re.MULTILINE)
_PAIR = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*))?")
_BLOCK = re.compile(r"[|>][+-]?\d?")
_FLAGS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(
    ("false", "no", "off", "0"), False
)


class Frontmatter(Struct, frozen=True):
    """What a file says about itself, and its text.

    Fields are found under any spelling of their name: `allowed-tools`, `allowed_tools` and
    `allowedTools` are one.
    """

    fields: dict[str, Any]
    """Texts, true and false, whole numbers, lists, mappings and None, under the names as
    they are written."""
    body: str
    """The text below the fields, or the whole text where there are none; a line ends in `\\n`."""
    problems: tuple[str, ...] = ()
    """What was wrong with the head, for a person to read."""

    def value(self, name: str) -> Any:
        """Return the field as it is, or None."""
        wanted = _plain(name)
        return next((value for key, value in self.fields.items() if _plain(key) == wanted), None)

    def text(self, name: str) -> str:
        """Return the field as one text; empty when there is none.

        A list becomes what was written: `[issue]` is a list in YAML, but to the one who
        wrote it a hint.
        """
        return _as_text(self.value(name))

    def flag(self, name: str, *, default: bool) -> bool:
        """Return the field as true or false; `yes`, `on` and `1` will do as well."""
        return _FLAGS.get(self.text(name).lower(), default)

    def words(self, name: str) -> tuple[str, ...] | None:
        """Return the field as a list, or None where it is absent or has no value.

        It may be a list, or a text of words with commas or blanks between them.
        """
        value = self.value(name)
        if value is None:
            return None
        items = value if isinstance(value, list) else [value]
        return tuple(word for item in items for word in split_words(_as_text(item)))

    def number(self, name: str) -> int | None:
        """Return the field as a whole number above 0, or None."""
        value = self.value(name)
        return value if isinstance(value, int) and value is not True and value > 0 else None


def read_frontmatter(text: str) -> Frontmatter:
    """Take `text` apart. Never raises: what cannot be read is a problem of the result."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    opening = _FENCE.match(text)
    if not opening:
        return Frontmatter({}, text)
    closing = _FENCE.search(text, opening.end())
    if not closing:
        far = f" within {MAX_HEAD:,} characters" if len(text) > MAX_HEAD else ""
        return Frontmatter({}, text, (f"the head is opened with --- but not closed{far}",))
    head, body = text[opening.end() : closing.start()], text[closing.end() + 1 :]
    if len(head) > MAX_HEAD:
        why = f"the head has {len(head):,} characters; at most {MAX_HEAD:,} are read"
        return Frontmatter({}, body, (why,))
    fields, problems = _read_head(head)
    if len(fields) > MAX_FIELDS:
        why = f"the head has {len(fields):,} fields; at most {MAX_FIELDS} are read"
        return Frontmatter({}, body, (why,))
    return Frontmatter(fields, body, problems)


def split_words(text: str, *, at_blanks: bool = True) -> list[str]:
    """Return the words of `text`, split at commas and blanks.

    What stands in parentheses stays together: `Bash(git add, git commit)` is one word.
    """
    words = []
    start = depth = 0
    for index, character in enumerate(text):
        if character in "()":
            depth = max(0, depth + (1 if character == "(" else -1))
        elif depth == 0 and (character == "," or (at_blanks and character.isspace())):
            words.append(text[start:index])
            start = index + 1
    words.append(text[start:])
    return [word.strip() for word in words if word.strip()]


@lru_cache(maxsize=1_024)
def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _as_text(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str() | int():
            return str(value).strip()
        case list():
            return f"[{', '.join(_as_text(item) for item in value)}]"
        case _:
            return ""


def _read_head(head: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    from clew.extensions import plain_yaml  # noqa: PLC0415 - only who reads a head pays for YAML

    try:
        fields, repeated = plain_yaml.read_fields(head)
    except plain_yaml.NotPlain as unfit:
        why = f"the head is not plain YAML ({unfit}), so it was read line by line"
        return _line_by_line(head, plain_yaml.read_scalar), (why,)
    return fields, tuple(f"`{name}` is given twice: the last one counts" for name in repeated)


def _line_by_line(head: str, read_scalar: Callable[[str], Any]) -> dict[str, Any]:
    """Read `name: value` lines; a line that is none belongs to the field above it."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in dedent(head.expandtabs(2)).splitlines():
        if pair := _PAIR.fullmatch(line):
            name = pair[1]
            found[name] = [(pair[2] or "").strip()]
        elif name and line.strip() and not line.startswith("#"):
            found[name].append(line.strip())
    return {name: _meant(lines[0], lines[1:], read_scalar) for name, lines in found.items()}


def _meant(first: str, rest: list[str], read_scalar: Callable[[str], Any]) -> Any:
    """Return the value that the writer of these lines will have meant."""
    if not first and rest and all(line.startswith("- ") for line in rest):
        return [_unquoted(line[2:].strip()) for line in rest]
    if _BLOCK.fullmatch(first):
        return ("\n" if first[0] == "|" else " ").join(rest)
    text = " ".join([first, *rest]).strip()
    if re.fullmatch(r"\[[^\[\]]*\]", text):
        return [_unquoted(word) for word in split_words(text[1:-1], at_blanks=False)]
    return _unquoted(text) if _unquoted(text) != text else read_scalar(text)


def _unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if quoted else text
