"""Frontmatter: the YAML fields at the top of a Markdown file, and the text below them.

    ---
    name: review
    allowed-tools: Bash(git *), Read
    ---
    The text.

Files that people write are often not valid YAML: a colon in a description, a bracket that is
never closed, a tab. Such a head is read line by line, and `problems` says so. A reader gets the
fields that can be recovered, and never an exception.

Only mappings, lists and scalars of YAML are understood. Tags create no objects, aliases are not
followed (a few lines of them can expand to gigabytes), and only `true`, `false`, `null` and whole
numbers are more than text: no `yes`, no dates, no octals. Values are built from the parser's
events, so a limit stops a hostile file early.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from textwrap import dedent
from typing import Any

from msgspec import Struct

MAX_HEAD = 16 * 1024
"""Characters; a longer head is not read."""
MAX_FIELDS = 200
"""A head with more fields is not used."""
MAX_DEPTH = 16
"""How deep lists and mappings may be nested."""

_FENCE = re.compile(r"^---[ \t]*$", re.MULTILINE)
_PAIR = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*))?")
_BLOCK = re.compile(r"[|>][+-]?\d?")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
_NUMBER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_FLAGS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(
    ("false", "no", "off", "0"), False
)


class Frontmatter(Struct, frozen=True):
    """The fields of a file and its text.

    Fields are found under any spelling of their name: `allowed-tools`, `allowed_tools` and
    `allowedTools` are one.
    """

    fields: dict[str, Any]
    """Text, true and false, whole numbers, lists, mappings and None, by the name as written."""
    body: str
    """The text below the fields, or the whole text if there are none; lines end in `\\n`."""
    problems: tuple[str, ...] = ()
    """Mistakes in the frontmatter, one sentence each."""

    def value(self, name: str) -> Any:
        """Return the value of a field, or None."""
        wanted = _plain(name)
        return next((value for key, value in self.fields.items() if _plain(key) == wanted), None)

    def text(self, name: str) -> str:
        """Return a field as text; empty if there is none.

        A list becomes the text as written: in `argument-hint`, `[issue]` is YAML for a list,
        but its author meant a hint.
        """
        return _as_text(self.value(name))

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a field as true or false; `yes`, `on` and `1` mean true as well."""
        return _FLAGS.get(self.text(name).lower(), default)

    def words(self, name: str) -> tuple[str, ...] | None:
        """Return a field as a list, or None if it is absent or has no value.

        The field is a list, or words separated by commas or blanks.
        """
        value = self.value(name)
        if value is None:
            return None
        items = value if isinstance(value, list) else [value]
        return tuple(word for item in items for word in split_words(_as_text(item)))

    def number(self, name: str) -> int | None:
        """Return a field as a whole number above 0, or None."""
        value = self.value(name)
        return value if isinstance(value, int) and value is not True and value > 0 else None


def read_frontmatter(text: str) -> Frontmatter:
    """Parse `text`. Never raises: the result lists what could not be read under `problems`."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    opening = _FENCE.match(text)
    if not opening:
        return Frontmatter({}, text)
    closing = _FENCE.search(text, opening.end())
    if not closing:
        far = f" within {MAX_HEAD:,} characters" if len(text) > MAX_HEAD else ""
        return Frontmatter(
            {}, text, (f"the frontmatter starts with --- but has no closing ---{far}",)
        )
    head, body = text[opening.end() : closing.start()], text[closing.end() + 1 :]
    if len(head) > MAX_HEAD:
        why = f"the frontmatter has {len(head):,} characters; the limit is {MAX_HEAD:,}"
        return Frontmatter({}, body, (why,))
    fields, problems = _read_head(head)
    if len(fields) > MAX_FIELDS:
        why = f"the frontmatter has {len(fields):,} fields; the limit is {MAX_FIELDS}"
        return Frontmatter({}, body, (why,))
    return Frontmatter(fields, body, problems)


def split_words(text: str, *, at_blanks: bool = True) -> list[str]:
    """Split `text` into words at commas and blanks.

    Text in parentheses stays together: `Bash(git add, git commit)` is one word.
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
    try:
        fields, repeated = _read_yaml(head)
    except _NotPlain as error:
        why = f"the frontmatter is not plain YAML ({error}), so it was read line by line"
        return _line_by_line(head), (why,)
    return fields, tuple(f"`{name}` appears twice: the last one counts" for name in repeated)


def _line_by_line(head: str) -> dict[str, Any]:
    """Read `name: value` lines; other lines belong to the field above them."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in dedent(head.expandtabs(2)).splitlines():
        if pair := _PAIR.fullmatch(line):
            name = pair[1]
            found[name] = [(pair[2] or "").strip()]
        elif name and line.strip() and not line.startswith("#"):
            found[name].append(line.strip())
    return {name: _guess_value(lines[0], lines[1:]) for name, lines in found.items()}


def _guess_value(first: str, rest: list[str]) -> Any:
    """Return the value that the author of these lines most likely meant."""
    if not first and rest and all(line.startswith("- ") for line in rest):
        return [_unquote(line[2:].strip()) for line in rest]
    if _BLOCK.fullmatch(first):
        return ("\n" if first[0] == "|" else " ").join(rest)
    text = " ".join([first, *rest]).strip()
    if re.fullmatch(r"\[[^\[\]]*\]", text):
        return [_unquote(word) for word in split_words(text[1:-1], at_blanks=False)]
    return _unquote(text) if _unquote(text) != text else _read_scalar(text)


def _unquote(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if quoted else text


class _NotPlain(Exception):
    """A text is not YAML, or uses more of YAML than is read; the message says where and why."""


def _read_yaml(text: str) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of `text`, and the names that appear more than once.

    Raises:
        _NotPlain: It contains something else.
    """
    import yaml  # noqa: PLC0415 - a heavy import, needed only if there is frontmatter

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        builder = _YamlBuilder(yaml, iter(yaml.parse(text, Loader=loader)))
        value = builder.build_document()
    except yaml.MarkedYAMLError as error:
        place = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise _NotPlain(f"{place}{error.problem or error.context}") from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise _NotPlain("it has characters that YAML does not allow") from error
    if not isinstance(value, dict):
        raise _NotPlain("it has no fields")
    return value, builder.repeated


def _read_scalar(text: str) -> Any:
    """Return the value of a word without quotes: a constant, a number, or the text itself."""
    lowered = text.lower()
    if lowered in _WORDS:
        return _WORDS[lowered]
    return int(text) if _NUMBER.fullmatch(text) else text


class _YamlBuilder:
    """Builds values from the events of the YAML parser."""

    def __init__(self, yaml: Any, events: Iterator[Any]) -> None:
        self.repeated: list[str] = []
        self._yaml = yaml
        self._events = events

    def build_document(self) -> Any:
        nodes = (event for event in self._events if isinstance(event, self._yaml.NodeEvent))
        first = next(nodes, None)
        return {} if first is None else self._build(first, 0)

    def _build(self, event: Any, depth: int) -> Any:
        yaml = self._yaml
        if depth > MAX_DEPTH:
            raise _NotPlain(f"it is nested more than {MAX_DEPTH} deep")
        if isinstance(event, yaml.ScalarEvent):
            return _read_scalar(event.value) if event.implicit[0] else event.value
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(item := next(self._events), yaml.SequenceEndEvent):
                items.append(self._build(item, depth + 1))
            return items
        if isinstance(event, yaml.MappingStartEvent):
            return self._build_mapping(depth)
        raise _NotPlain("it has aliases")

    def _build_mapping(self, depth: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        while not isinstance(key := next(self._events), self._yaml.MappingEndEvent):
            if not isinstance(key, self._yaml.ScalarEvent):
                raise _NotPlain("the name of a field is not text")
            if key.value in fields:
                self.repeated.append(key.value)
            fields[key.value] = self._build(next(self._events), depth + 1)
        return fields
