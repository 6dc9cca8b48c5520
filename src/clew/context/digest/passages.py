"""Passages: the quotable text of messages, with its source, its lines and its names."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain

import msgspec
from msgspec import Struct

from clew.context.items import Item, ItemKind
from clew.context.tool_arguments import CHANGE_TOOLS, SEARCH_TOOLS, SHELL_TOOLS, find_replacements
from clew.core.ids import NO_ENTRY, CallId, EntryId
from clew.core.json_text import JsonDecoder
from clew.core.messages import Text, ToolCall, ToolResult
from clew.core.text import truncate

_FINDING_TOOLS = SEARCH_TOOLS | CHANGE_TOOLS | {"apply_patch"}
_LINE_NUMBER = re.compile(r"\d+[→\t|:]")
_MOST_SUBJECT = 120
LEAST_LINE = 24
"""Shorter lines mean little without their neighbours."""
_PATH_PARTS = 2
_NOT_IN_PATH = re.compile(r"[\s\"'`(<>={},;]")
_any_json = JsonDecoder()
_SUMMARY = ItemKind.SUMMARY

SPOKEN, CALLED, SHOWN, PRINTED, FOUND = range(5)
"""Sources of text: a message; a call's arguments; a file or page that a tool read; the output
of a command; the result of a search, or the receipt of an edit."""


class Line(Struct, gc=False):
    """A line that is long enough to be quoted alone."""

    text: str
    """As `strip_line_number` returns it."""
    row: int
    distance: int
    """Characters from its beginning to the end of the passage."""
    weight: tuple[float, float] | None = None
    """What a reader of excerpts computes from the text, once."""


class Passage(Struct, kw_only=True, gc=False):
    """Text of one part of a message; its lines and names are read on first access, and once."""

    entry_id: EntryId
    label: str
    source: int
    text: str
    call_id: CallId = CallId("")
    """The call that it is a part of, if any."""
    replaced: frozenset[str] = frozenset()
    """Lines that an edit replaced, as `strip_line_number` returns them."""
    known_lines: Sequence[Line] | None = None
    """`lines` once they are read; quicker to ask for many passages."""
    known_texts: Sequence[str] = ()
    """`line_texts` once they, or the lines, are read."""
    known_names: Mapping[str, int] | None = None
    """`names` once they are read."""

    @property
    def subject(self) -> str:
        """The file that a call read or changed, or else the label."""
        _, _, subject = self.label.partition(" ")
        return subject if is_path(subject) else self.label

    @property
    def lines(self) -> Sequence[Line]:
        """The lines that can be quoted, last first."""
        if self.known_lines is None:
            self.known_lines = _split_lines(self.text) if len(self.text) >= LEAST_LINE else ()
            self.known_texts = [line.text for line in self.known_lines] or ()
        return self.known_lines

    @property
    def line_texts(self) -> Sequence[str]:
        """The texts of `lines`, in another order; faster while the lines are not needed."""
        if not self.known_texts and self.known_lines is None and len(self.text) >= LEAST_LINE:
            self.known_texts = _split_line_texts(self.text)
        return self.known_texts

    def is_within(self, known: frozenset[str]) -> bool:
        """Return True if `known` has all of `lines`, as of a file that was read again.

        Where the lines are not read yet, False may mean that the last line is not in `known`.
        """
        if self.known_lines is None and not self.known_texts:
            last = self.text[self.text.rfind("\n", 0, -1) + 1 :]
            if strip_line_number(last) not in known:
                return False
        return known.issuperset(self.known_texts or self.line_texts)

    @property
    def names(self) -> Mapping[str, int]:
        """The names in the text, in order, and how often each occurs."""
        if self.known_names is None:
            self.known_names = count_names(self.text) or _NO_NAMES
        return self.known_names


_NO_NAMES: Mapping[str, int] = {}
"""Shared, as most passages have none."""


def _split_line_texts(text: str) -> list[str]:
    least = LEAST_LINE
    rows = text.split("\n")
    lines = [line for raw in rows if len(raw) >= least and len(line := raw.strip()) >= least]
    numbered = [line for line in lines if line[0].isdigit()]
    if not numbered:
        return lines
    return [line for line in map(strip_line_number, lines) if len(line) >= least]


def _split_lines(text: str) -> list[Line]:
    found: list[Line] = []
    distance = 0
    rows = text.split("\n")
    row = len(rows)
    for raw in reversed(rows):
        row -= 1
        distance += len(raw) + 1
        if len(raw) >= LEAST_LINE:
            line = raw.strip()
            if line[:1].isdigit():
                line = strip_line_number(line)
            if len(line) >= LEAST_LINE:
                found.append(Line(line, row, distance))
    return found


def make_passage(text: str) -> Passage:
    """Return a text as a passage, to read its lines and names."""
    return Passage(entry_id=NO_ENTRY, label="", source=SPOKEN, text=text)


def split_passages(items: Iterable[Item]) -> Iterator[Passage]:
    """Yield the quotable text of `items` in order. Reasoning is private and not quoted."""
    shown_by: dict[CallId, str] = {}
    for item in items:
        yield from read_passages(item, shown_by)


def read_passages(item: Item, shown_by: dict[CallId, str]) -> list[Passage]:
    """Return the passages of one item.

    `shown_by` has the labels of the calls before it; those of its own calls are added.
    """
    entry_id = item.entry_id
    found: list[Passage] = []
    for part in item.message.parts:
        if type(part) is ToolResult:
            name, call_id = part.name, part.call_id
            label = shown_by.get(call_id, name)
            source = _classify_tool(name)
            found.append(
                Passage(
                    entry_id=entry_id,
                    label=label,
                    source=source,
                    text=strip_wrapping(part.text),
                    call_id=call_id,
                )
            )
        elif type(part) is ToolCall:
            found.append(_read_call(entry_id, part, shown_by))
        elif type(part) is Text and item.kind is not _SUMMARY:
            role = str(item.message.role)
            found.append(Passage(entry_id=entry_id, label=role, source=SPOKEN, text=part.text))
    return found


_OUTPUT_HEADING = re.compile(
    r"\A(?:Command: [^\n]*\n)?Chunk ID:.*?^Output:\n", re.DOTALL | re.MULTILINE
)
_REMINDER, _REMINDER_END = "<system-reminder>", "</system-reminder>"


def strip_wrapping(result: str) -> str:
    """Return a tool result without the header and the reminders that a program puts around it."""
    if result.startswith(("Chunk ID:", "Command: ")):
        result = _OUTPUT_HEADING.sub("", result, count=1)
    return _drop_reminders(result) if _REMINDER in result else result


def _drop_reminders(text: str) -> str:
    kept: list[str] = []
    start = 0
    while (begin := text.find(_REMINDER, start)) >= 0:
        end = text.find(_REMINDER_END, begin)
        if end < 0:
            break
        kept.append(text[start:begin].rstrip())
        start = end + len(_REMINDER_END)
    return "".join([*kept, text[start:]])


def _read_call(entry_id: EntryId, call: ToolCall, shown_by: dict[CallId, str]) -> Passage:
    values = _decode(call.arguments)
    if isinstance(values, dict) and _classify_tool(call.name) == PRINTED:
        values.pop("description", None)  # says the command again, in other words
    strings = _list_strings(values)
    label = shown_by[call.call_id] = f"{call.name} {_name_subject(strings)}".rstrip()
    return Passage(
        entry_id=entry_id,
        label=label,
        source=CALLED,
        text="\n".join(strings),
        call_id=call.call_id,
        replaced=_find_replaced(values) if '"old' in call.arguments else frozenset(),
    )


def _name_subject(strings: Sequence[str]) -> str:
    """Return what a call is about: the end of a path, or the first line of its first string."""
    line = strings[0].strip().partition("\n")[0] if strings else ""
    if is_path(line):
        return "/".join(line.rsplit("/", _PATH_PARTS)[-_PATH_PARTS:])
    return truncate(line, _MOST_SUBJECT)


def is_path(line: str) -> bool:
    """Return whether a line is nothing but a path."""
    return "/" in line and not _NOT_IN_PATH.search(line) and not line.startswith("//")


def strip_line_number(line: str) -> str:
    """Return a line without indentation and without the line number of a file reader."""
    line = line.strip()
    number = _LINE_NUMBER.match(line) if line[:1].isdigit() else None
    return line[number.end() :].strip() if number else line


@lru_cache(maxsize=256)
def _classify_tool(tool: str) -> int:
    name = tool.lower()
    if name in _FINDING_TOOLS:
        return FOUND
    return PRINTED if name in SHELL_TOOLS else SHOWN


def _decode(arguments: str) -> object:
    try:
        return _any_json.decode(arguments)
    except msgspec.DecodeError:
        return arguments


def _list_strings(value: object) -> list[str]:
    """Return the strings in a JSON value, in order."""
    if isinstance(value, str):
        return [value]
    found: list[str] = []
    held = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for inner in held:
        if isinstance(inner, str):
            found.append(inner)
        else:
            found += _list_strings(inner)
    return found


def _find_replaced(arguments: object) -> frozenset[str]:
    """Return the lines that a call replaces by others."""
    old: set[str] = set()
    new: set[str] = set()
    for before, after, _ in find_replacements(arguments) if isinstance(arguments, dict) else ():
        old.update(map(strip_line_number, before.split("\n")))
        new.update(map(strip_line_number, after.split("\n")))
    return frozenset(old - new)


def render_text(items: Iterable[Item]) -> str:
    """Return the quotable text of `items` as one text, for searching and measuring."""
    return "\n".join(passage.text for passage in split_passages(items))


_NAME = re.compile(
    r"(?<=/)[\w@.-]+\.\w{1,6}\b"  # a file, from the last part of its path
    r"|\b[0-9a-f]{7,40}\b"  # a hash
    r"|\b[A-Za-z_][A-Za-z0-9_]{11,}\b"  # a long identifier
)
_SEPARATED = bytes(
    byte if byte >= 128 or chr(byte).isalnum() or chr(byte) in "_@./-" else 32
    for byte in range(256)
)
"""Replaces ASCII characters that no name has by a space, much faster than an expression."""
_WINDOWS_PATH = re.compile(r"\b[A-Za-z]:\\\w")
_LEAST_NAME, _LEAST_IDENTIFIER = 7, 12
_HASH = re.compile(r"[0-9a-f]{7,40}")


def find_names(text: str) -> list[str]:
    """Return the names in a text: files, hashes and long identifiers."""
    return _NAME.findall(_blank_escapes(text))


def count_names(text: str) -> dict[str, int]:
    """Return what `find_names` finds, in order, and how often each occurs; much faster."""
    names: dict[str, int] = {}
    for found in filter(None, map(_names_of, _split_tokens(text))):
        for name in found:
            names[name] = names.get(name, 0) + 1
    return names


def collect_names(text: str) -> set[str]:
    """Return the names that `count_names` finds; faster where a text repeats its words."""
    return set(chain.from_iterable(map(_names_of, set(_split_tokens(text)))))


def _blank_escapes(text: str) -> str:
    """Return `text` with spaces for the escapes of JSON and source code, which begin no name.

    Where a path of Windows has single backslashes, they are not escapes.
    """
    if "\\" not in text or has_windows_path(text):
        return text
    for escape in ("\\\\", "\\n", "\\t", "\\r"):
        text = text.replace(escape, "  ")
    return text


def has_windows_path(text: str) -> bool:
    """Return whether a text has a path of Windows with single backslashes."""
    return ":\\" in text and _WINDOWS_PATH.search(text) is not None


def _split_tokens(text: str) -> list[bytes]:
    return _blank_escapes(text).encode("utf-8", "surrogatepass").translate(_SEPARATED).split()


class _TokenNames(dict[bytes, Sequence[str]]):
    """The names in each token, read once. Twice as fast as `lru_cache`, it forgets all at once."""

    def __missing__(self, token: bytes) -> Sequence[str]:
        if len(self) >= _MOST_TOKENS:
            self.clear()
        self[token] = found = _read_token(token.decode("utf-8", "surrogatepass"))
        return found


_MOST_TOKENS = 1 << 15
_names_of = _TokenNames().__getitem__


def _read_token(token: str) -> Sequence[str]:
    """Return the names in one token: what `_NAME` finds, which takes longer."""
    if len(token) < _LEAST_NAME and "/" not in token:
        return ()
    if token.isascii() and token.isidentifier():
        return (token,) if len(token) >= _LEAST_IDENTIFIER or _HASH.fullmatch(token) else ()
    return tuple(find_names(token))
