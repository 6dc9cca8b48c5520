"""Claude Code sessions: one JSON line a content block, in a tree of `uuid` and `parentUuid`.

An answer spans several lines with one `message.id`. Parallel calls hang their results on
different lines of that answer, so the way back from the last message misses some: lines
that complete an answer on the chain belong to it, wherever they hang.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Raw, Struct

from clew.core.messages import Image, Part, Reasoning, Role, Text
from clew.core.usage import Usage
from clew.importers.chain import Node, follow
from clew.importers.findings import Findings, read_lines
from clew.importers.parts import (
    Draft,
    call,
    image,
    image_at,
    moment,
    result,
    summary,
    usage_or_none,
)
from clew.importers.recorded import RecordedSession
from clew.importers.tidy import last_model, tidy

_SYNTHETIC = "<synthetic>"
"""The name Claude Code gives to answers that it wrote itself."""
_NO_SUMMARY = "(The conversation was compacted here; its summary was not recorded.)"
_SILENT = frozenset(
    {
        "ai-title", "custom-title", "file-history-snapshot", "last-prompt", "pr-link",
        "progress", "queue-operation", "summary", "system",
    }
)  # fmt: skip
_NOWHERE = "(file order)"
"""A parent that is in no file, so that the chain goes on with the line before."""


class _Source(Struct, frozen=True):
    type: str = ""
    media_type: str = ""
    data: str = ""
    url: str = ""


class _Block(Struct, frozen=True):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"{}")
    tool_use_id: str = ""
    content: "str | list[_Block] | None" = None
    is_error: bool | None = None
    source: _Source | None = None


class _Usage(Struct, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Message(Struct, frozen=True):
    id: str | None = None
    model: str | None = None
    content: str | list[_Block] | None = None
    usage: _Usage | None = None
    stop_reason: str | None = None


class _Line(Struct, frozen=True, rename="camel"):
    type: str = ""
    subtype: str = ""
    uuid: str = ""
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    is_sidechain: bool = False
    is_meta: bool = False
    is_compact_summary: bool = False
    is_api_error_message: bool = False
    session_id: str = ""
    cwd: str = ""
    timestamp: str = ""
    summary: str = ""
    leaf_uuid: str = ""
    custom_title: str = ""
    ai_title: str = ""
    message: _Message | None = None

    @property
    def speaks(self) -> bool:
        """True for a line with a message of the conversation."""
        return (
            self.type in {"user", "assistant"}
            and self.message is not None
            and not self.is_meta
            and not self.is_api_error_message
        )

    @property
    def blocks(self) -> list[_Block]:
        """The content, a plain string as one block."""
        content = self.message.content if self.message else None
        if isinstance(content, str):
            return [_Block(type="text", text=content)]
        return content or []


_decoder = msgspec.json.Decoder(_Line)


def parse(lines: Iterable[bytes]) -> RecordedSession:
    """Read a session; nothing in it is fatal."""
    findings = Findings()
    read = _own([line for _, line in read_lines(lines, _decoder, findings)], findings)
    chosen = _chosen(read, findings)
    steps = tidy(_Builder(findings).build(chosen), findings)
    return RecordedSession(
        source="claude_code",
        id=next((line.session_id for line in reversed(read) if line.session_id), ""),
        cwd=next((line.cwd for line in read if line.cwd), ""),
        name=_name(read),
        model=last_model(steps),
        steps=steps,
        problems=findings.report(),
    )


def _own(lines: list[_Line], findings: Findings) -> list[_Line]:
    """Leave out what sub-agents said, unless the file is a sub-agent's own."""
    own = [line for line in lines if not line.is_sidechain]
    others = len(lines) - len(own)
    if others and not any(line.speaks for line in own):
        findings.note("this is the recording of a sub-agent")
        return lines
    findings.count(others, "1 line of a sub-agent left out", "{} lines of sub-agents left out")
    return own


def _chosen(lines: Sequence[_Line], findings: Findings) -> list[_Line]:
    """Return the lines that led to the last message, in file order."""
    last = next((i for i in range(len(lines) - 1, -1, -1) if lines[i].speaks), None)
    if last is None:
        findings.note("the recording holds no message")
        return list(lines)
    chain = follow([Node(line.uuid, _parent(line)) for line in lines], last)
    on_chain = [line for i, line in enumerate(lines) if i in chain.members or not line.uuid]
    ids = {line.message.id for line in on_chain if line.type == "assistant" and line.message}
    calls = {
        block.id
        for line in lines
        if line.type == "assistant" and line.message and line.message.id in ids
        for block in line.blocks
        if block.type == "tool_use"
    }
    chosen, off = [], 0
    for i, line in enumerate(lines):
        if i in chain.members or not line.speaks or _completes(line, ids, calls):
            chosen.append(line)
        else:
            off += 1
    chain.describe(findings, off)
    return chosen


def _parent(line: _Line) -> str:
    parent = line.parent_uuid or line.logical_parent_uuid
    if parent:
        return parent
    compaction = line.is_compact_summary or line.subtype == "compact_boundary"
    return _NOWHERE if compaction else ""


def _completes(line: _Line, ids: set[str | None], calls: set[str]) -> bool:
    """True for the rest of an answer on the chain, or the results of its calls."""
    if line.type == "assistant":
        return line.message is not None and bool(line.message.id) and line.message.id in ids
    answered = [block.tool_use_id for block in line.blocks if block.type == "tool_result"]
    return bool(answered) and calls.issuperset(answered)


def _name(lines: Sequence[_Line]) -> str:
    given = [line.custom_title for line in lines if line.custom_title]
    guessed = [line.ai_title for line in lines if line.ai_title]
    own = {line.uuid for line in lines if line.uuid}
    titles = [line.summary for line in lines if line.type == "summary" and line.leaf_uuid in own]
    return next((names[-1] for names in (given, guessed, titles) if names), "")


class _Builder:
    """Puts the messages of a session together from its lines."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._drafts: list[Draft] = []
        self._answers: dict[str, Draft] = {}
        self._unfinished: set[str] = set()
        self._left_out: Counter[str] = Counter()
        self._boundary: float | None = None
        """When a compaction was announced whose summary has not come yet."""

    def build(self, lines: Iterable[_Line]) -> list[Draft]:
        """Return the messages in the order in which they began."""
        for line in lines:
            self._left_out["cleared"] += line.subtype == "microcompact_boundary"
            if not line.speaks:
                self._pass_over(line)
            elif line.type == "user":
                self._user(line)
            else:
                self._assistant(line)
        self._describe()
        return self._drafts

    def _describe(self) -> None:
        self._findings.count(
            self._left_out["meta"],
            "1 text that Claude Code itself added (a skill, a caveat) left out",
            "{} texts that Claude Code itself added (skills, caveats) left out",
        )
        self._findings.count(
            self._left_out["error"], "1 error message left out", "{} error messages left out"
        )
        self._findings.count(
            self._left_out["cleared"],
            "1 microcompaction cleared tool results that are shown in full here",
            "{} microcompactions cleared tool results that are shown in full here",
        )
        self._findings.count(
            len(self._unfinished),
            "1 answer's usage was written before its end: its output count is too low",
            "{} answers' usage was written before their end: their output counts are too low",
        )

    def _pass_over(self, line: _Line) -> None:
        if line.subtype == "compact_boundary":
            self._boundary = moment(line.timestamp)
        if line.type in {"user", "assistant"}:
            self._left_out["meta" if line.is_meta else "error"] += 1
        elif line.type in _SILENT:
            self._findings.silent(f"{line.type} {line.subtype}".rstrip())
        else:
            self._findings.unknown(line.type)

    def _user(self, line: _Line) -> None:
        at = moment(line.timestamp)
        if line.is_compact_summary:
            self._boundary = None
            self._drafts.append(summary(_text(line.blocks) or _NO_SUMMARY, at=at))
            return
        self._lost_summary()
        parts: list[Part] = []
        for block in line.blocks:
            if block.type == "tool_result":
                self._drafts.append(self._result(block, at))
            else:
                parts += self._part(block)
        if parts or not line.blocks:
            self._drafts.append(Draft(role=Role.USER, parts=parts, at=at))

    def _lost_summary(self) -> None:
        if self._boundary is not None:
            self._findings.note("a compaction has no summary in the file")
            self._drafts.append(summary(_NO_SUMMARY, at=self._boundary))
            self._boundary = None

    def _assistant(self, line: _Line) -> None:
        self._lost_summary()
        message = line.message or _Message()
        key = message.id or line.uuid
        draft = self._answers.get(key)
        if draft is None:
            model = message.model or ""
            draft = Draft(
                role=Role.ASSISTANT,
                model="" if model == _SYNTHETIC else model,
                at=moment(line.timestamp),
            )
            self._answers[key] = draft
            self._drafts.append(draft)
        for block in line.blocks:
            draft.parts += self._part(block)
        if message.usage is not None:
            draft.usage = _usage(message.usage)
            self._unfinished.discard(key)
            if draft.usage is not None and message.stop_reason is None:
                self._unfinished.add(key)

    def _part(self, block: _Block) -> list[Part]:
        match block.type:
            case "text":
                return [Text(block.text)] if block.text else []
            case "thinking":
                return [_reasoning(text=block.thinking, signature=block.signature)]
            case "redacted_thinking":
                return [_reasoning(redacted=block.data)]
            case "tool_use":
                return [call(block.id, block.name, block.input)]
            case "image" if (picture := _image(block)) is not None:
                return [picture]
            case _:
                self._findings.unknown(f"block {block.type}")
                return []

    def _result(self, block: _Block, at: float) -> Draft:
        inner = block.content if isinstance(block.content, list) else []
        images = [picture for inside in inner if (picture := _image(inside)) is not None]
        for inside in inner:
            if inside.type not in {"text", "image"}:
                self._findings.unknown(f"block {inside.type} in a result")
        text = block.content if isinstance(block.content, str) else _text(inner)
        return result(
            block.tool_use_id, text, failed=bool(block.is_error), at=at, images=tuple(images)
        )


def _text(blocks: Iterable[_Block]) -> str:
    return "\n".join(block.text for block in blocks if block.type == "text")


def _reasoning(*, text: str = "", signature: str = "", redacted: str = "") -> Reasoning:
    return Reasoning(text=text, provenance="anthropic", signature=signature, redacted=redacted)


def _image(block: _Block) -> Image | None:
    if block.type != "image" or block.source is None:
        return None
    if block.source.type == "url":
        return image_at(block.source.url)
    return image(block.source.data, block.source.media_type)


def _usage(usage: _Usage) -> Usage | None:
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    return usage_or_none(
        Usage(
            input_tokens=(usage.input_tokens or 0) + read + written,
            output_tokens=usage.output_tokens or 0,
            cache_read_tokens=read,
            cache_write_tokens=written,
        )
    )
