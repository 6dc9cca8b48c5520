"""Read pi sessions: a header, then one entry for each line; newer files are trees.

A compaction of pi keeps the newest messages. The importer puts the summary before the first of
them, so that it replaces all steps before it and no others.
"""

from collections.abc import Iterable, Sequence

from msgspec import Raw, Struct

from clew.core.json_text import JsonDecoder
from clew.core.messages import Image, Part, Reasoning, Role, Text
from clew.core.usage import Usage
from clew.importers.import_notes import ImportNotes, read_lines
from clew.importers.recorded_session import (
    Draft,
    RecordedSession,
    decode_image,
    make_call,
    parse_time,
    result_draft,
    summary_draft,
    text_draft,
    usage_or_none,
)
from clew.importers.repair import TreeNode, find_branch, last_model, repair_conversation

_CUT_SHORT = frozenset({"aborted", "error"})
_SILENT = frozenset(
    {"custom", "label", "model_change", "session", "session_info", "thinking_level_change"}
)
_NO_SUMMARY = "(The conversation was compacted here; its summary was not recorded.)"


class _Block(Struct, frozen=True, rename="camel"):
    type: str = ""
    text: str = ""
    thinking: str = ""
    thinking_signature: str | None = None
    id: str = ""
    name: str = ""
    arguments: Raw = Raw(b"{}")
    data: str = ""
    mime_type: str = ""


class _Usage(Struct, frozen=True, rename="camel"):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class _Message(Struct, frozen=True, rename="camel"):
    role: str = ""
    content: str | list[_Block] | None = None
    api: str = ""
    model: str = ""
    usage: _Usage | None = None
    stop_reason: str = ""
    tool_call_id: str = ""
    is_error: bool = False
    command: str = ""
    output: str = ""


class _Line(Struct, frozen=True, rename="camel"):
    type: str = ""
    id: str = ""
    parent_id: str | None = None
    timestamp: str | int = ""
    cwd: str = ""
    model_id: str = ""
    name: str | None = None
    message: _Message | None = None
    content: str | list[_Block] | None = None
    summary: str = ""
    first_kept_entry_id: str | None = None


_decoder = JsonDecoder(_Line)


def parse(lines: Iterable[bytes]) -> RecordedSession:
    """Read a session; damage never raises."""
    notes = ImportNotes()
    read = [line for _, line in read_lines(lines, _decoder, notes)]
    header = next((line for line in read if line.type == "session"), _Line())
    builder = _Builder(notes)
    for line in _select_branch(read, notes):
        builder.add(line)
    steps = repair_conversation(builder.drafts, notes)
    models = [line.model_id for line in read if line.model_id]
    return RecordedSession(
        source="pi",
        id=header.id,
        cwd=header.cwd,
        name=next((line.name or "" for line in reversed(read) if line.type == "session_info"), ""),
        model=last_model(steps) or (models[-1] if models else ""),
        steps=steps,
        problems=notes.to_list(),
    )


def _select_branch(lines: Sequence[_Line], notes: ImportNotes) -> list[_Line]:
    """Return the lines of the last entry's branch; all lines of a file without a tree."""
    nodes = [
        TreeNode("" if line.type == "session" else line.id, line.parent_id or "") for line in lines
    ]
    last = next((i for i in range(len(nodes) - 1, -1, -1) if nodes[i].id), None)
    if last is None:
        return list(lines)
    branch = find_branch(nodes, last)
    off = sum(line.message is not None and i not in branch.members for i, line in enumerate(lines))
    branch.describe(notes, off)
    return [line for i, line in enumerate(lines) if i in branch.members or not nodes[i].id]


class _Builder:
    """Builds messages from entries."""

    def __init__(self, notes: ImportNotes) -> None:
        self.drafts: list[Draft] = []
        self._notes = notes
        self._firsts: dict[str, Draft | None] = {}
        """The last message before each entry: a summary that keeps the entry goes after it."""

    def add(self, line: _Line) -> None:
        """Add one entry."""
        self._firsts[line.id] = self.drafts[-1] if self.drafts else None
        at = parse_time(line.timestamp)
        if line.type == "message" and line.message is not None:
            self._message(line.message, at)
        elif line.type == "compaction":
            self._compaction(line, at)
        elif line.type == "custom_message":
            self._user(line.content, at)
        elif line.type == "branch_summary":
            draft = text_draft(line.summary, at=at)
            draft.is_summary = True
            self.drafts.append(draft)
        elif line.type in _SILENT:
            self._notes.count_silent(line.type)
        else:
            self._notes.count_unknown(line.type)

    def _message(self, message: _Message, at: float) -> None:
        match message.role:
            case "assistant":
                self._assistant(message, at)
            case "toolResult":
                text, images = self._read(message.content)
                self.drafts.append(
                    result_draft(
                        message.tool_call_id, text, failed=message.is_error, at=at, images=images
                    )
                )
            case "user" | "custom":
                self._user(message.content, at)
            case "bashExecution":
                self.drafts.append(
                    text_draft(f"Ran `{message.command}`\n\n{message.output}", at=at)
                )
            case _:
                self._notes.count_unknown(f"message of {message.role}")

    def _assistant(self, message: _Message, at: float) -> None:
        draft = Draft(
            role=Role.ASSISTANT,
            model=message.model,
            at=at,
            usage=_usage(message.usage) if message.usage else None,
            interrupted=message.stop_reason in _CUT_SHORT,
        )
        for block in _blocks(message.content):
            draft.parts += self._part(block, message.api.partition("-")[0])
        self.drafts.append(draft)

    def _user(self, content: str | list[_Block] | None, at: float) -> None:
        parts: list[Part] = []
        for block in _blocks(content):
            parts += self._part(block, "")
        self.drafts.append(Draft(role=Role.USER, parts=parts, at=at))

    def _compaction(self, line: _Line, at: float) -> None:
        place = len(self.drafts)
        kept = line.first_kept_entry_id or ""
        if kept in self._firsts:
            before = self._firsts[kept]
            place = 0 if before is None else self._place(before) + 1
        elif kept:
            self._notes.add("the first message that a compaction kept is missing")
        newest = max((i for i, draft in enumerate(self.drafts) if draft.compacts), default=-1)
        place = max(place, newest + 1)
        for draft in self.drafts[place:]:
            # The provider counted these while the dropped messages were still sent.
            draft.usage = None
        self.drafts.insert(place, summary_draft(line.summary or _NO_SUMMARY, at=at))

    def _place(self, wanted: Draft) -> int:
        return next(i for i, draft in enumerate(self.drafts) if draft is wanted)

    def _part(self, block: _Block, family: str) -> list[Part]:
        match block.type:
            case "text":
                return [Text(block.text)] if block.text else []
            case "thinking":
                return [
                    Reasoning(
                        text=block.thinking,
                        provenance=family,
                        signature=block.thinking_signature or "",
                    )
                ]
            case "toolCall":
                return [make_call(block.id, block.name, block.arguments)]
            case "image" if (picture := decode_image(block.data, block.mime_type)) is not None:
                return [picture]
            case _:
                self._notes.count_unknown(f"block {block.type}")
                return []

    def _read(self, content: str | list[_Block] | None) -> tuple[str, tuple[Image, ...]]:
        parts = [part for block in _blocks(content) for part in self._part(block, "")]
        text = "\n".join(part.text for part in parts if isinstance(part, Text))
        return text, tuple(part for part in parts if isinstance(part, Image))


def _blocks(content: str | list[_Block] | None) -> list[_Block]:
    if isinstance(content, str):
        return [_Block(type="text", text=content)]
    return content or []


def _usage(usage: _Usage) -> Usage | None:
    return usage_or_none(
        Usage(
            input_tokens=usage.input + usage.cache_read + usage.cache_write,
            output_tokens=usage.output,
            cache_read_tokens=usage.cache_read,
            cache_write_tokens=usage.cache_write,
        )
    )
