"""Read Claude Code sessions: a JSON line for each content block, in a tree of `uuid`s.

A response spans several lines with one `message.id`. The results of parallel calls have different
lines of that response as parents, so the branch of the last message misses some of them. Lines
that complete a response on the branch therefore belong to it, whatever their parent is.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import UNSET

from clew.core.json_text import JsonDecoder
from clew.core.messages import Image, Part, Reasoning, Role, Text
from clew.core.usage import Usage
from clew.importers.claude_code_lines import (
    LineBlock,
    LineMessage,
    LineUsage,
    SessionLine,
    join_text,
)
from clew.importers.claude_code_queue import deliver_prompts
from clew.importers.import_notes import ImportNotes, read_lines
from clew.importers.recorded_session import (
    Draft,
    RecordedSession,
    decode_image,
    image_from_url,
    make_call,
    parse_time,
    result_draft,
    summary_draft,
    usage_or_none,
)
from clew.importers.repair import TreeNode, find_branch, last_model, repair_conversation

_SYNTHETIC = "<synthetic>"
"""The model name of responses that Claude Code wrote itself."""
_NO_SUMMARY = "(The conversation was compacted here; its summary was not recorded.)"
_SILENT = frozenset(
    {
        "ai-title", "custom-title", "file-history-snapshot", "last-prompt", "pr-link",
        "progress", "queue-operation", "summary", "system",
    }
)  # fmt: skip
_NOWHERE = "(file order)"
"""A parent that never exists, so that the previous line in the file takes its place."""


_decoder = JsonDecoder(SessionLine)


def parse(lines: Iterable[bytes]) -> RecordedSession:
    """Read a session; damage never raises."""
    notes = ImportNotes()
    read = _own([line for _, line in read_lines(lines, _decoder, notes)], notes)
    read = deliver_prompts(read)
    chosen = _select_branch(read, notes)
    steps = repair_conversation(_Builder(notes).build(chosen), notes)
    return RecordedSession(
        source="claude_code",
        id=next((line.session_id for line in reversed(read) if line.session_id), ""),
        cwd=next((line.cwd for line in read if line.cwd), ""),
        name=_name(read),
        model=last_model(steps),
        steps=steps,
        problems=notes.to_list(),
    )


def _own(lines: list[SessionLine], notes: ImportNotes) -> list[SessionLine]:
    """Skip the lines of sub-agents, unless the file belongs to a sub-agent."""
    own = [line for line in lines if not line.is_sidechain]
    others = len(lines) - len(own)
    if others and not any(line.speaks for line in own):
        notes.add("this is the recording of a sub-agent")
        return lines
    notes.add_count(others, "skipped 1 line of a sub-agent", "skipped {} lines of sub-agents")
    return own


def _select_branch(lines: Sequence[SessionLine], notes: ImportNotes) -> list[SessionLine]:
    """Return the lines that led to the last message, in file order."""
    spoken = [i for i, line in enumerate(lines) if line.speaks]
    last = next((i for i in reversed(spoken) if lines[i].uuid), spoken[-1] if spoken else None)
    if last is None:
        notes.add("the recording contains no message")
        return list(lines)
    branch = find_branch([TreeNode(line.uuid, _parent(line)) for line in lines], last)
    on_chain = [line for i, line in enumerate(lines) if i in branch.members or not line.uuid]
    ids = {line.message.id for line in on_chain if line.type == "assistant" and line.message}
    calls = {
        block.id
        for line in lines
        if line.type == "assistant" and line.message and line.message.id in ids
        for block in line.blocks
        if block.type == "tool_use"
    }
    chosen, off, kept = [], 0, True
    for i, line in enumerate(lines):
        if line.speaks and line.uuid:
            kept = i in branch.members or _completes(line, ids, calls)
        # A message outside the tree belongs to the one before it.
        if kept or not line.speaks:
            chosen.append(line)
        else:
            off += 1
    branch.describe(notes, off)
    return chosen


def _parent(line: SessionLine) -> str:
    parent = line.parent_uuid or line.logical_parent_uuid
    if parent:
        return parent
    compaction = line.is_compact_summary or line.subtype == "compact_boundary"
    return _NOWHERE if compaction else ""


def _completes(line: SessionLine, ids: set[str | None], calls: set[str]) -> bool:
    """Return True for the rest of a response on the branch, and for results of its calls."""
    if line.type == "assistant":
        return line.message is not None and bool(line.message.id) and line.message.id in ids
    answered = [block.tool_use_id for block in line.blocks if block.type == "tool_result"]
    return bool(answered) and calls.issuperset(answered)


def _name(lines: Sequence[SessionLine]) -> str:
    given = [line.custom_title for line in lines if line.custom_title]
    guessed = [line.ai_title for line in lines if line.ai_title]
    own = {line.uuid for line in lines if line.uuid}
    titles = [line.summary for line in lines if line.type == "summary" and line.leaf_uuid in own]
    return next((names[-1] for names in (given, guessed, titles) if names), "")


class _Builder:
    """Builds messages from lines."""

    def __init__(self, notes: ImportNotes) -> None:
        self._notes = notes
        self._drafts: list[Draft] = []
        self._answers: dict[str, Draft] = {}
        self._unfinished: set[str] = set()
        self._left_out: Counter[str] = Counter()
        self._boundary: float | None = None
        """The time of a compaction whose summary has not appeared yet."""

    def build(self, lines: Iterable[SessionLine]) -> list[Draft]:
        """Return the messages in the order of their first lines."""
        for line in lines:
            self._left_out["cleared"] += line.subtype == "microcompact_boundary"
            if not line.speaks:
                self._skip(line)
            elif line.type == "user":
                self._user(line)
            else:
                self._assistant(line)
        self._describe()
        return self._drafts

    def _describe(self) -> None:
        self._notes.add_count(
            self._left_out["meta"],
            "skipped 1 text that Claude Code added itself (a skill, a caveat)",
            "skipped {} texts that Claude Code added itself (skills, caveats)",
        )
        self._notes.add_count(
            self._left_out["error"], "skipped 1 error message", "skipped {} error messages"
        )
        self._notes.add_count(
            self._left_out["cleared"],
            "1 microcompaction cleared tool results; they are complete here",
            "{} microcompactions cleared tool results; they are complete here",
        )
        self._notes.add_count(
            len(self._unfinished),
            "1 response recorded its usage before its end: the output count is too low",
            "{} responses recorded their usage before their end: the output counts are too low",
        )

    def _skip(self, line: SessionLine) -> None:
        if line.subtype == "compact_boundary":
            self._boundary = parse_time(line.timestamp)
        if line.type in {"user", "assistant"}:
            self._left_out["meta" if line.is_meta else "error"] += 1
        elif line.type == "attachment":
            self._notes.count_silent(f"attachment {line.read_attachment().type}".rstrip())
        elif line.type in _SILENT:
            self._notes.count_silent(f"{line.type} {line.subtype}".rstrip())
        else:
            self._notes.count_unknown(line.type)

    def _user(self, line: SessionLine) -> None:
        at = parse_time(line.timestamp)
        if line.is_compact_summary:
            self._boundary = None
            self._drafts.append(summary_draft(join_text(line.blocks) or _NO_SUMMARY, at=at))
            return
        self._add_missing_summary()
        parts: list[Part] = []
        for block in line.blocks:
            if block.type == "tool_result":
                self._drafts.append(self._result(block, at))
            else:
                parts += self._part(block)
        if parts or not line.blocks:
            self._drafts.append(Draft(role=Role.USER, parts=parts, at=at))

    def _add_missing_summary(self) -> None:
        if self._boundary is not None:
            self._notes.add("a compaction has no summary in the file")
            self._drafts.append(summary_draft(_NO_SUMMARY, at=self._boundary))
            self._boundary = None

    def _assistant(self, line: SessionLine) -> None:
        self._add_missing_summary()
        message = line.message or LineMessage()
        key = message.id or line.uuid
        draft = self._answers.get(key)
        if draft is None:
            model = message.model or ""
            draft = Draft(
                role=Role.ASSISTANT,
                model="" if model == _SYNTHETIC else model,
                at=parse_time(line.timestamp),
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

    def _part(self, block: LineBlock) -> list[Part]:
        match block.type:
            case "text":
                return [Text(block.text)] if block.text else []
            case "thinking":
                return [_reasoning(text=block.thinking, signature=block.signature)]
            case "redacted_thinking":
                return [_reasoning(redacted=block.data)]
            case "tool_use":
                return [make_call(block.id, block.name, block.input)]
            case "image" if (picture := _image(block)) is not None:
                return [picture]
            case _:
                self._notes.count_unknown(f"block {block.type}")
                return []

    def _result(self, block: LineBlock, at: float) -> Draft:
        inner = block.content if isinstance(block.content, list) else []
        images = [picture for inside in inner if (picture := _image(inside)) is not None]
        for inside in inner:
            if inside.type not in {"text", "image"}:
                self._notes.count_unknown(f"block {inside.type} in a result")
        text = block.content if isinstance(block.content, str) else join_text(inner)
        return result_draft(
            block.tool_use_id, text, failed=bool(block.is_error), at=at, images=tuple(images)
        )


def _reasoning(*, text: str = "", signature: str = "", redacted: str = "") -> Reasoning:
    return Reasoning(text=text, provenance="anthropic", signature=signature, redacted=redacted)


def _image(block: LineBlock) -> Image | None:
    if block.type != "image" or block.source is None:
        return None
    if block.source.type == "url":
        return image_from_url(block.source.url)
    return decode_image(block.source.data, block.source.media_type)


def _usage(usage: LineUsage) -> Usage | None:
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    hourly = usage.cache_creation.ephemeral_1h_input_tokens if usage.cache_creation else None
    return usage_or_none(
        Usage(
            input_tokens=(usage.input_tokens or 0) + read + written,
            output_tokens=usage.output_tokens or 0,
            cache_read_tokens=read,
            cache_write_tokens=written,
            cache_write_1h_tokens=hourly or UNSET,
        )
    )
