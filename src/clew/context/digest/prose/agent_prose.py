"""Agent prose: what agents wrote for a reader, split into sentences and list items.

It comes from the answers of the model, its thinking, the reports of subagents and approved plans.
Causes and reasons are often found only in the thinking. Of a very long conversation only the
newest prose and the final answers are read.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.context.cleared_results import DELEGATION_TOOLS
from clew.context.digest.prose.sentence_cues import Topic, classify_sentence, is_narration
from clew.context.digest.state.approved_plan import find_quoted_plan
from clew.context.digest.user_words import find_request
from clew.context.items import Item, ItemKind
from clew.core.ids import EntryId
from clew.core.json_text import JsonDecoder
from clew.core.messages import Reasoning, ToolResult
from clew.core.text import one_line, shorten_links

EDGE_WORTH = 0.8
"""What the first and the last sentences of a text are worth more."""


class Sentence(Struct, frozen=True, gc=False, kw_only=True):
    """A sentence or a list item."""

    lead: str
    """The line that introduces the list it belongs to."""
    text: str
    topic: Topic
    score: float
    """How much it says."""
    is_edge: bool
    """True for the first and the last ones of a text."""


class Prose(Struct, gc=False):
    """A text that an agent wrote for a reader; it is split into sentences once."""

    entry_id: EntryId
    text: str
    weight: float
    """How much it says: a final answer more than a remark between two calls."""
    is_for_user: bool = True
    """False for thinking, the report of a subagent and an approved plan."""
    _sentences: Sequence[Sentence] | None = None

    @property
    def is_thought(self) -> bool:
        """True if the model wrote it for itself."""
        return self.weight == _THOUGHT

    @property
    def sentences(self) -> Sequence[Sentence]:
        """Its sentences and list items that say something."""
        if self._sentences is None:
            self._sentences = split_sentences(self.text) if _is_long(self.text) else ()
        return self._sentences


def split_sentences(text: str) -> list[Sentence]:
    """Return the sentences and list items of a text that say something, in order."""
    units = list(split_units(text))
    found: list[Sentence] = []
    for place, (lead, said) in enumerate(units):
        classified = classify_sentence(said, lead=lead)
        if classified is not None:
            topic, score = classified
            edge = place < 2 or place >= len(units) - 3
            found.append(Sentence(lead=lead, text=said, topic=topic, score=score, is_edge=edge))
    return found


_USER, _ASSISTANT, _TOOL_RESULT = ItemKind.USER, ItemKind.ASSISTANT, ItemKind.TOOL_RESULT
_FINAL_ANSWER, _REPORT, _THOUGHT = 1.5, 0.5, -0.5


class ItemProse(Struct, frozen=True, gc=False, kw_only=True):
    """What one message has for a reader."""

    pieces: Sequence[Prose] = ()
    is_request: bool = False
    """True if the user asks something in it."""


def select_prose(messages: Iterable[ItemProse]) -> list[tuple[Prose, int]]:
    """Return the prose that is read: all of the newest, and of the rest the final answers.

    With each is the number of requests before it.
    """
    pieces: list[tuple[Prose, int]] = []
    turn = 0
    for said in messages:
        if said is _NO_PROSE:
            continue
        turn += said.is_request
        for piece in said.pieces:
            pieces.append((piece, turn))  # noqa: PERF401 - faster for one piece
    selected: list[tuple[Prose, int]] = []
    room = _NEWEST_CHARS
    for piece, turn in reversed(pieces):
        room -= len(piece.text)
        if room >= 0:
            selected.append((piece, turn))
        elif piece.weight > 0:
            shorter = cut_middle(piece.text, _OLD_ANSWER_CHARS)
            selected.append((replace(piece, text=shorter, _sentences=None), turn))
    return selected[::-1]


def read_prose(item: Item) -> ItemProse:
    """Read the prose of a message, and whether it is a request of the user."""
    is_request = item.kind is _USER and bool(find_request(item.message.text))
    pieces = tuple(_list_pieces(item))
    return ItemProse(pieces=pieces, is_request=is_request) if pieces or is_request else _NO_PROSE


_NO_PROSE = ItemProse()


def _list_pieces(item: Item) -> Iterator[Prose]:
    """Yield prose with its weight: final answers and reports say more than narration."""
    if item.kind is _ASSISTANT:
        for thought in _find_thoughts(item):
            yield Prose(
                item.entry_id, cut_middle(thought, _THOUGHT_CHARS), _THOUGHT, is_for_user=False
            )
        text = item.message.text
        if text.strip():
            yield Prose(item.entry_id, cut_middle(text), 0.0 if item.asks else _FINAL_ANSWER)
    elif item.kind is _TOOL_RESULT:
        for result in item.message.parts:
            if type(result) is ToolResult and (report := _find_report(result)):
                yield Prose(item.entry_id, cut_middle(report), _REPORT, is_for_user=False)
    elif item.kind is _USER:
        for report in _find_reports(item.message.text):
            yield Prose(item.entry_id, cut_middle(report), _REPORT, is_for_user=False)


def _find_thoughts(item: Item) -> Iterator[str]:
    """Yield the readable thinking of an answer."""
    if item.reasoning_units:
        for part in item.message.parts:
            if isinstance(part, Reasoning) and part.text.strip():
                yield part.text


_REPORT_END = re.compile(r"^(?:agentId: |<usage>)", re.MULTILINE)
"""Begins what a program adds to a report."""
_AGENT_OUTPUT = "<task_type>local_agent</task_type>"
_WRAPPED = (("<result>", "</result>"), ("<output>", "</output>"))
_WRAPPERS = ("<retrieval_status>", "<task_id>", "<task-id>", "<status>", "<output>", "<result>")
_WRAPPER_HEAD = 400


def strip_report(result: str) -> str:
    """Return the report of a subagent, without what a program puts around it."""
    for begin, end in _WRAPPED if result.lstrip().startswith(_WRAPPERS) else ():
        start = result.find(begin, 0, _WRAPPER_HEAD)
        if start >= 0:
            report, ended, rest = result[start + len(begin) :].rpartition(end)
            return report if ended else rest
    return _REPORT_END.split(result, maxsplit=1)[0]


def _find_report(result: ToolResult) -> str:
    """Return the report of a subagent, or a plan that the user approved, in a tool result."""
    if result.failed:
        return ""
    is_output = result.text.find(_AGENT_OUTPUT, 0, _WRAPPER_HEAD) >= 0
    if is_output or result.name.lower() in DELEGATION_TOOLS:
        return strip_report(result.text)
    return find_quoted_plan(result.text) if result.name == "ExitPlanMode" else ""


_NOTIFIED, _NOTIFIED_END = "<task-notification>", "</task-notification>"
_RESULT, _RESULT_END = "<result>", "</result>"
_SUBAGENT = re.compile(
    r"<subagent_notification>((?:[^<]|<(?!/?subagent_notification>))*+)</subagent_notification>"
)


class _Status(msgspec.Struct, frozen=True):
    completed: str | None = None


class _Notification(msgspec.Struct, frozen=True):
    status: _Status | str = ""


_notification = JsonDecoder(_Notification)


def _find_reports(text: str) -> Iterator[str]:
    """Yield the reports of subagents that a program put into a user message."""
    if "notification>" not in text:
        return
    for told in text.split(_NOTIFIED)[1:]:
        _, begin, report = told.partition(_NOTIFIED_END)[0].partition(_RESULT)
        report, end, _ = report.rpartition(_RESULT_END)
        if begin and end:
            yield report
    for data in _SUBAGENT.findall(text):
        try:
            status = _notification.decode(data).status
        except msgspec.DecodeError:
            continue
        if isinstance(status, _Status) and status.completed:
            yield status.completed


_READ_CHARS = 12_000
"""Characters of one message that are read."""
_NEWEST_CHARS = 200_000
_OLD_ANSWER_CHARS = 3_000
_THOUGHT_CHARS = 4_000
_FENCE = re.compile(r"^[ \t]*(?:```|~~~).*?^[ \t]*(?:```|~~~)[ \t]*$", re.DOTALL | re.MULTILINE)
_BULLET = re.compile(r"^\s*(?:[-*•+]|\d{1,2}[.)])\s+")
_SENTENCE = re.compile(
    r"(?<=[.!?])[\"'”)*`]*\s+(?=[\"'“(*`A-Z0-9À-Ý])|(?<=[\u3002\uff01\uff1f])"  # also in CJK
)
_DEPENDENT = re.compile(
    r"^(?:this|that|these|those|it|they|so|but|and|which|however|therefore|thus|because)\b",
    re.IGNORECASE,
)
_MACHINE_TEXT = re.compile(r"\[\w+: \w+\] ?\{|[\[{] *[\"{\[]")
"""Begins a line that is no prose: a logged tool call, or JSON."""
_TABLE_RULE = re.compile(r"^[\s|:+-]+$")
_LEAST, _MOST, _MOST_LEAD = 25, 420, 120


def cut_middle(text: str, most: int = _READ_CHARS) -> str:
    """Return the beginning and the end of a long text."""
    return text if len(text) <= most else f"{text[: most // 2]}\n\n{text[-most // 2 :]}"


def split_units(text: str) -> Iterator[tuple[str, str]]:
    """Yield sentences and list items, each with the line that introduces it."""
    lead, listed = "", ""
    lines = _FENCE.sub("\n", text).splitlines()
    for raw, following in zip_longest(lines, lines[1:], fillvalue=""):
        line = raw.strip()
        is_header = line.startswith("|") and following and _TABLE_RULE.match(following)
        if not line or is_header or _TABLE_RULE.match(line) or _MACHINE_TEXT.match(line):
            continue
        bullet = _BULLET.match(raw)
        plain = clean_line(raw[bullet.end() :] if bullet else line)
        if not bullet and (line.startswith("#") or plain.endswith(":")):
            lead, listed = _make_lead(plain), ""
        elif bullet or line.startswith("|"):
            mark = "-" if bullet else "|"
            lead = lead if listed in {"", mark} else ""
            listed = mark
            if _is_long(plain):
                yield lead, one_line(plain, _MOST)
        else:
            yield from (("", sentence) for sentence in _split_sentences(plain))
            lead, listed = "", ""


def _make_lead(line: str) -> str:
    """Return the last sentence of a line that introduces a list; empty if it says nothing."""
    lead = one_line(_SENTENCE.split(line)[-1]).rstrip(": ")
    return "" if is_narration(lead) or len(lead) > _MOST_LEAD else lead


def _split_sentences(paragraph: str) -> Iterator[str]:
    """Yield the sentences of a paragraph; one that depends on the previous is joined to it."""
    previous = ""
    for sentence in _SENTENCE.split(paragraph):
        joins = previous and _DEPENDENT.match(sentence) and len(previous) < _MOST // 2
        if not joins and _is_long(previous):
            yield one_line(previous, _MOST)
        previous = f"{previous} {sentence}" if joins else sentence
    if _is_long(previous):
        yield one_line(previous, _MOST)


def _is_long(text: str) -> bool:
    """Return whether a text is long enough to say something alone: in CJK, few characters are."""
    return len(text) >= _LEAST or len(text.encode(errors="replace")) >= _LEAST + len(text)


def clean_line(line: str) -> str:
    """Return a line without markup."""
    return shorten_links(line).replace("**", "").strip().strip("|").lstrip("#>").strip()
