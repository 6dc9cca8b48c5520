"""Read Gemini CLI sessions: one JSON document, or in newer versions a line for each change.

A line is the header, a message, `$set` with new fields of the header, or `$rewindTo` with the
message from which on all are gone. A message that is written again replaces its earlier version.
Calls contain their results. Thought signatures are not recorded.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from clew.core.json_text import JsonDecoder
from clew.core.messages import Image, Part, Reasoning, Role, Text
from clew.core.usage import Usage
from clew.importers.import_notes import ImportNotes, read_lines
from clew.importers.recorded_session import (
    Draft,
    RecordedSession,
    decode_image,
    image_from_url,
    make_call,
    parse_time,
    result_draft,
    usage_or_none,
)
from clew.importers.repair import last_model, repair_conversation

_SILENT = frozenset({"info", "error", "warning"})
_IMAGES = "image/"


class _Data(Struct, frozen=True, rename="camel"):
    mime_type: str = ""
    data: str = ""
    file_uri: str = ""


class _Response(Struct, frozen=True):
    response: dict[str, Any] | None = None


class _Piece(Struct, frozen=True, rename="camel"):
    """A part of the Gemini API."""

    text: str | None = None
    thought: bool = False
    inline_data: _Data | None = None
    file_data: _Data | None = None
    function_response: _Response | None = None


class _Call(Struct, frozen=True, rename="camel"):
    id: str = ""
    name: str = ""
    args: dict[str, Any] | None = None
    result: Any = None
    result_display: Any = None
    status: str = ""
    timestamp: str = ""


class _Thought(Struct, frozen=True):
    subject: str = ""
    description: str = ""


class _Tokens(Struct, frozen=True):
    input: int = 0
    output: int = 0
    cached: int = 0
    thoughts: int | None = None
    tool: int | None = None


class _Message(Struct, frozen=True, rename="camel"):
    id: str = ""
    timestamp: str = ""
    type: str = ""
    content: Any = None
    model: str = ""
    tool_calls: list[_Call] | None = None
    thoughts: list[_Thought] | None = None
    tokens: _Tokens | None = None


class _Header(Struct, frozen=True, rename="camel"):
    session_id: str = ""
    summary: str | None = None
    directories: list[str] | None = None
    kind: str | None = None
    messages: list[_Message] | None = None


class _Line(_Message, frozen=True, rename="camel"):
    session_id: str = ""
    project_hash: str = ""
    messages: list[_Message] | None = None
    change: Raw = field(default=Raw(b""), name="$set")
    rewind_to: str | None = field(default=None, name="$rewindTo")


_document = JsonDecoder(_Header)
_line = JsonDecoder(_Line)


def parse(lines: Iterable[bytes]) -> RecordedSession:
    """Read a session; damage never raises."""
    notes = ImportNotes()
    reader = _Reader(notes)
    lines = list(lines)
    try:
        reader.update(b"\n".join(lines))
    except (msgspec.DecodeError, UnicodeDecodeError):
        for number, line in read_lines(lines, _line, notes):
            reader.add(number, line, lines[number - 1])
    header = reader.header
    steps = repair_conversation(reader.drafts(), notes)
    if header.kind == "subagent":
        notes.add("this is the recording of a sub-agent")
    if not steps:
        notes.add("the recording contains no message")
    return RecordedSession(
        source="gemini_cli",
        id=header.session_id,
        cwd=next(iter(header.directories or ()), ""),
        name=header.summary or "",
        model=last_model(steps),
        steps=steps,
        problems=notes.to_list(),
    )


class _Reader:
    """Collects the messages that are left after all changes."""

    def __init__(self, notes: ImportNotes) -> None:
        self.header = _Header()
        self._notes = notes
        self._messages: dict[str, _Message] = {}
        self._rewound = 0

    def update(self, data: bytes) -> None:
        """Merge fields of the header, possibly with all messages."""
        change = _document.decode(data)
        fields = {name: getattr(change, name) for name in _Header.__struct_fields__}
        given = {name: value for name, value in fields.items() if value}
        self.header = msgspec.structs.replace(self.header, **given)
        if change.messages is not None:
            self._messages = {each.id or str(at): each for at, each in enumerate(change.messages)}

    def add(self, number: int, line: _Line, data: bytes) -> None:
        """Add one line."""
        try:
            if bytes(line.change):
                self.update(line.change)
            elif line.session_id or line.messages is not None:
                self.update(data)
            elif line.rewind_to is not None:
                self._rewind(line.rewind_to)
            else:
                self._messages[line.id or str(number)] = line
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._notes.add_damage(number, error)

    def _rewind(self, first: str) -> None:
        ids = list(self._messages)
        gone = ids[ids.index(first) :] if first in ids else ids
        for each in gone:
            del self._messages[each]
        self._rewound += len(gone)

    def drafts(self) -> Iterator[Draft]:
        """Return the messages of the conversation."""
        self._notes.add_count(
            self._rewound,
            "skipped 1 message that was rewound",
            "skipped {} messages that were rewound",
        )
        for message in self._messages.values():
            if message.type == "user":
                at = parse_time(message.timestamp)
                yield Draft(role=Role.USER, parts=_parts(message.content), at=at)
            elif message.type == "gemini":
                yield from _answer(message)
            elif message.type in _SILENT:
                self._notes.count_silent(message.type)
            else:
                self._notes.count_unknown(message.type)


def _answer(message: _Message) -> Iterator[Draft]:
    """Return a response and the results of its calls."""
    at = parse_time(message.timestamp)
    calls = message.tool_calls or []
    thoughts = [_reasoning(thought) for thought in message.thoughts or ()]
    made = [make_call(call.id, call.name, _encode_args(call)) for call in calls]
    yield Draft(
        role=Role.ASSISTANT,
        parts=[*filter(None, thoughts), *_parts(message.content), *made],
        usage=_usage(message.tokens) if message.tokens else None,
        model=message.model,
        at=at,
    )
    for call in calls:
        result = _result(call, parse_time(call.timestamp) or at)
        if result is not None:
            yield result


def _encode_args(call: _Call) -> str:
    return msgspec.json.encode(call.args or {}).decode()


def _reasoning(thought: _Thought) -> Reasoning | None:
    head = f"**{thought.subject.strip()}**" if thought.subject.strip() else ""
    text = "\n\n".join(filter(None, (head, thought.description.strip())))
    return Reasoning(text=text, provenance="gemini") if text else None


def _result(call: _Call, at: float) -> Draft | None:
    """Return the result of a call; None if there is none."""
    texts: list[str] = []
    images: list[Image] = []
    failed = call.status in {"error", "cancelled"}
    for piece in _pieces(call.result):
        if piece.function_response is not None:
            response = piece.function_response.response or {}
            failed = failed or "error" in response
            texts.append(_describe_response(response))
        elif (part := _part(piece)) is not None:
            texts += [part.text] if isinstance(part, Text) else []
            images += [part] if isinstance(part, Image) else []
    if not texts and not images:
        if not isinstance(call.result_display, str):
            return None
        texts = [call.result_display]
    text = "\n".join(filter(None, texts))
    return result_draft(call.id, text, failed=failed, at=at, images=tuple(images))


def _describe_response(response: dict[str, Any]) -> str:
    """Return the text of a response; as JSON where it has more than an output or an error."""
    if len(response) == 1:
        (value,) = response.values()
        if isinstance(value, str):
            return value
    return msgspec.json.encode(response).decode() if response else ""


def _parts(content: Any) -> list[Part]:
    return [part for piece in _pieces(content) if (part := _part(piece)) is not None]


def _pieces(content: Any) -> list[_Piece]:
    """Return content, which is a text, a part or a list of both, as parts."""
    given = content if isinstance(content, list) else [content]
    found = []
    for each in given:
        if isinstance(each, str):
            found.append(_Piece(text=each))
        elif isinstance(each, dict):
            try:
                found.append(msgspec.convert(each, _Piece))
            except msgspec.ValidationError:
                continue
    return found


def _part(piece: _Piece) -> Part | None:
    if piece.text:
        if piece.thought:
            return Reasoning(text=piece.text, provenance="gemini")
        return Text(piece.text)
    if piece.inline_data is not None and piece.inline_data.mime_type.startswith(_IMAGES):
        return decode_image(piece.inline_data.data, piece.inline_data.mime_type)
    if piece.file_data is not None and piece.file_data.mime_type.startswith(_IMAGES):
        return image_from_url(piece.file_data.file_uri)
    return None


def _usage(tokens: _Tokens) -> Usage | None:
    return usage_or_none(
        Usage(
            input_tokens=tokens.input + (tokens.tool or 0),
            output_tokens=tokens.output + (tokens.thoughts or 0),
            cache_read_tokens=tokens.cached,
        )
    )
