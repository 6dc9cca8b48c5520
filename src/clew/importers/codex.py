"""Read Codex rollouts: items of the Responses API and events, one for each line.

The items between two token counts are one response. A `compacted` line replaces the history by
the items that it lists. The summary of the model is encrypted, so only kept messages are readable.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from clew.core.json_text import JsonDecoder, decode_json
from clew.core.messages import Image, Native, Part, Reasoning, Role, Text
from clew.core.usage import Usage
from clew.importers.import_notes import ImportNotes, read_lines
from clew.importers.recorded_session import (
    Draft,
    RecordedSession,
    image_from_url,
    make_call,
    parse_time,
    result_draft,
    summary_draft,
    usage_or_none,
)
from clew.importers.repair import last_model, repair_conversation
from clew.providers.wire.responses.output_items import summarize_item

_NO_SUMMARY = "(The conversation was compacted here; its summary was not recorded.)"
_SEALED = "(The rest of the summary is encrypted.)"
_EXIT = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)$", re.MULTILINE)
_HEAD = 400
"""The exit code appears within this many characters of a result."""


class _Content(Struct, frozen=True):
    type: str = ""
    text: str | None = None
    image_url: str | None = None


class _Output(Struct, frozen=True):
    content: str | list[_Content] | None = None
    success: bool | None = None


class _Item(Struct, frozen=True):
    type: str = ""
    role: str = ""
    content: str | list[_Content] | None = None
    summary: list[_Content] | None = None
    encrypted_content: str | None = None
    id: str | None = None
    call_id: str | None = None
    name: str = ""
    arguments: str = ""
    input: str = ""
    action: Raw = Raw(b"{}")
    output: str | list[_Content] | _Output | None = None

    @property
    def key(self) -> str:
        return self.call_id or self.id or ""


class _Count(Struct, frozen=True):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0


class _Counts(Struct, frozen=True):
    last_token_usage: _Count | None = None
    total_token_usage: _Count | None = None


class _Event(Struct, frozen=True):
    type: str = ""
    info: _Counts | None = None
    query: Any = None


class _Instructions(Struct, frozen=True):
    text: str = ""


class _Meta(Struct, frozen=True):
    id: str = ""
    cwd: str = ""
    instructions: str | None = None
    base_instructions: _Instructions | None = None
    forked_from_id: str | None = None
    source: Raw = Raw(b"")


class _Turn(Struct, frozen=True):
    model: str = ""


class _Compaction(Struct, frozen=True):
    message: str | None = None
    replacement_history: list[_Item] | None = None


class _Line(Struct, frozen=True):
    type: str = ""
    timestamp: str = ""
    payload: Raw = Raw(b"{}")


class _Metadata(Struct, frozen=True):
    exit_code: int = 0


class _Wrapped(Struct, frozen=True):
    metadata: _Metadata


_line = JsonDecoder(_Line)
_item = JsonDecoder(_Item)
_event = JsonDecoder(_Event)
_meta = JsonDecoder(_Meta)
_turn = JsonDecoder(_Turn)
_compaction = JsonDecoder(_Compaction)
_wrapped = JsonDecoder(_Wrapped)


def parse(lines: Iterable[bytes]) -> RecordedSession:
    """Read a rollout; damage never raises."""
    notes = ImportNotes()
    reader = _Reader(notes)
    for number, line in read_lines(lines, _line, notes):
        try:
            reader.add(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            notes.add_damage(number, error)
    steps = repair_conversation(reader.drafts, notes)
    return RecordedSession(
        source="codex",
        id=reader.meta.id,
        cwd=reader.meta.cwd,
        model=last_model(steps) or reader.model,
        system="\n\n".join(filter(None, reader.system)),
        steps=steps,
        problems=notes.to_list(),
    )


class _Reader:
    """Builds drafts from the lines of a rollout."""

    def __init__(self, notes: ImportNotes) -> None:
        self.drafts: list[Draft] = []
        self.meta = _Meta()
        self.model = ""
        self.system: list[str] = []
        self._notes = notes
        self._answer: Draft | None = None
        self._uncounted: Draft | None = None
        """The last response, until its token count arrives."""
        self._total: _Count | None = None
        self._query = ""
        """What the next web search looks for, if an event said so."""

    def add(self, line: _Line) -> None:
        """Add one line."""
        at = parse_time(line.timestamp)
        match line.type:
            case "response_item":
                self._item(_item.decode(line.payload), at, line.payload)
            case "event_msg":
                self._event(_event.decode(line.payload))
            case "turn_context":
                self.model = _turn.decode(line.payload).model or self.model
                self._notes.count_silent(line.type)
            case "session_meta":
                self._header(_meta.decode(line.payload))
            case "compacted":
                self._add_compaction(_compaction.decode(line.payload), at)
            case _:
                self._notes.count_unknown(line.type)

    def _header(self, meta: _Meta) -> None:
        self._notes.count_silent("session_meta")
        if self.meta.id:
            return
        self.meta = meta
        base = meta.base_instructions.text if meta.base_instructions else meta.instructions
        self.system.insert(0, base or "")
        if meta.forked_from_id:
            self._notes.add(f"a fork: it starts with a copy of {meta.forked_from_id}")
        if b'"subagent"' in bytes(meta.source):
            self._notes.add("this is the recording of a sub-agent")

    def _item(self, item: _Item, at: float, payload: Raw) -> None:
        match item.type:
            case "message":
                self._message(item, at)
            case "reasoning":
                self._say(self._reasoning(item), at)
            case "function_call":
                self._say([make_call(item.key, item.name, item.arguments)], at)
            case "custom_tool_call":
                arguments = msgspec.json.encode({"input": item.input}).decode()
                self._say([make_call(item.key, item.name, arguments)], at)
            case "local_shell_call":
                self._say([make_call(item.key, "local_shell", item.action)], at)
            case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
                self._add(_result(item, at))
            case "web_search_call":
                self._say([self._search(payload)], at)
            case _:
                self._notes.count_unknown(f"response_item {item.type}")

    def _message(self, item: _Item, at: float) -> None:
        if item.role == "assistant":
            self._say(_parts(item.content), at)
        elif item.role == "developer" and not self.drafts:
            self.system.append(_text(item.content))
        else:
            self._add(Draft(role=Role.USER, parts=_parts(item.content), at=at))

    def _reasoning(self, item: _Item) -> list[Part]:
        text = "\n\n".join(filter(None, (_text(item.summary), _text(item.content))))
        sealed = item.encrypted_content or ""
        if not text and not sealed:
            self._notes.count_silent("reasoning without content")
            return []
        return [Reasoning(text=text, provenance="openai", signature=sealed)]

    def _search(self, payload: Raw) -> Native:
        """Return a web search; older versions record the query only in an event."""
        item = decode_json(payload, type=dict[str, Any])
        query, self._query = self._query, ""
        if not item.get("action") and query:
            item["action"] = {"type": "search", "query": query}
        return Native(
            # The API does not take back a search without its action.
            provenance="openai" if item.get("action") else "codex",
            data=msgspec.json.encode(item).decode(),
            note=summarize_item(item),
        )

    def _say(self, parts: Sequence[Part], at: float) -> None:
        if not parts:
            return
        if self._answer is None:
            self._answer = Draft(role=Role.ASSISTANT, model=self.model, at=at)
            self._uncounted = self._answer
            self.drafts.append(self._answer)
        self._answer.parts += parts

    def _add(self, draft: Draft) -> None:
        self._answer = None
        self.drafts.append(draft)

    def _event(self, event: _Event) -> None:
        self._notes.count_silent(f"event_msg {event.type}".rstrip())
        if event.type == "web_search_end":
            self._query = event.query if isinstance(event.query, str) else ""
        counts = event.info
        if event.type != "token_count" or counts is None or counts.last_token_usage is None:
            return
        repeated = counts.total_token_usage is not None and counts.total_token_usage == self._total
        self._total = counts.total_token_usage
        if not repeated and self._uncounted is not None:
            self._uncounted.usage = _usage(counts.last_token_usage)
            self._answer = self._uncounted = None

    def _add_compaction(self, compaction: _Compaction, at: float) -> None:
        text = _join_kept_text(compaction)
        if not text:
            self._notes.add("a compaction has no readable summary in the file")
        self._uncounted = None
        self._add(summary_draft(text or _NO_SUMMARY, at=at))


def _join_kept_text(compaction: _Compaction) -> str:
    """Return the text that the compaction kept: messages with their roles, then the summary."""
    history = compaction.replacement_history or []
    texts = [f"[{item.role}]\n{text}" for item in history if (text := _text(item.content))]
    message = compaction.message or ""
    if message and not any(message in text for text in texts):
        texts.append(message)
    if any(item.encrypted_content for item in history):
        texts.append(_SEALED)
    return "\n\n".join(texts)


def _parts(content: str | list[_Content] | None) -> list[Part]:
    if isinstance(content, str):
        return [Text(content)] if content else []
    parts: list[Part] = []
    for piece in content or []:
        if piece.text:
            parts.append(Text(piece.text))
        elif piece.image_url and (picture := image_from_url(piece.image_url)) is not None:
            parts.append(picture)
    return parts


def _text(content: str | list[_Content] | None) -> str:
    return "\n".join(part.text for part in _parts(content) if isinstance(part, Text))


def _result(item: _Item, at: float) -> Draft:
    output = item.output
    content = output.content if isinstance(output, _Output) else output
    images = tuple(part for part in _parts(content) if isinstance(part, Image))
    text = content if isinstance(content, str) else _text(content)
    said = output.success is False if isinstance(output, _Output) else False
    return result_draft(item.key, text, failed=said or _exit_code(text) != 0, at=at, images=images)


def _exit_code(text: str) -> int:
    if text.startswith("{") and '"exit_code"' in text:
        try:
            return _wrapped.decode(text).metadata.exit_code
        except msgspec.DecodeError:
            return 0
    found = _EXIT.search(text[:_HEAD])
    return int(found.group(1)) if found else 0


def _usage(count: _Count) -> Usage | None:
    return usage_or_none(
        Usage(
            input_tokens=count.input_tokens,
            output_tokens=count.output_tokens,
            cache_read_tokens=count.cached_input_tokens,
        )
    )
