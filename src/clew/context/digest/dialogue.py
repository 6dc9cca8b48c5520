"""The dialogue in a digest: what was asked, concluded, approved and reported.

It has the user's requests and how each turn ended, the plan that was approved, the reports of
subagents, and the summary with which another program began the conversation.
"""

import re
from collections.abc import Container, Iterable, Sequence

from msgspec import Struct

from clew.context.digest.history import History
from clew.context.digest.prose.agent_reports import AgentReport, list_reports, write_reports
from clew.context.digest.state.approved_plan import ApprovedPlan, quote_plan
from clew.context.digest.state.state_ledger import StateLedger
from clew.context.digest.turns.earlier_summary import EarlierSummary, quote_summary
from clew.context.digest.turns.turn_ledger import write_turns
from clew.context.digest.turns.turn_log import Turn
from clew.core.ids import EntryId

_EARLIER, _MOST_EARLIER = 0.2, 8_000
_PLAN, _MOST_PLAN = 0.14, 4_000
_LATER_REQUESTS = 2
"""After more of them an approved plan is taken to be done."""
_REPORTS, _MOST_REPORTS = 0.12, 3_000
_TURNS = 0.34
_FAIR_WORDS, _MOST_WORDS, _TRUNCATED_WORDS = 0.50, 0.80, 0.40
"""Requests that need more of the room than the first are truncated to the third; where words are
to be kept, only those that need more than the second."""
_CONCLUSIONS, _MOST_CONCLUSIONS = 0.24, 9_000
"""Share of what the requests leave, if they take more than that of turns."""
_REQUEST_FRAME = 16
"""Characters that a request needs beside its words: its number and the user's name."""
_TURNS_HEADING = "Requests of the user, word for word, and how each turn ended:"
_EARLIER_HEADING = "Summary of what was before"
_PLAN_HEADING = "Plan that the user approved"


class Dialogue(Struct, frozen=True, kw_only=True):
    """What was said, without the messages that stay; it is written in any size."""

    summary: EarlierSummary | None
    turns: Sequence[Turn]
    plan: ApprovedPlan | None
    reports: Sequence[AgentReport]
    earlier: str = ""
    """Requests that an earlier digest quotes, if their messages are gone."""
    notes: str = ""
    """The notes of a model, which the summary need not repeat."""
    keep_words: bool = False
    """True if the user's words may take most of the room."""

    def write(self, head: str, max_chars: int) -> list[str]:
        """Write the sections after `head`; together they have at most `max_chars` characters."""
        lines = [head[: max(0, max_chars)]]
        lines += _write_earlier(self.summary, max_chars - len(lines[0]), notes=self.notes)
        room = max_chars - measure_lines(lines)
        lines += _write_turns(self.turns, self.earlier, room, keep_words=self.keep_words)
        lines += _write_plan(self.plan, max_chars - measure_lines(lines))
        lines += _write_reports(self.reports, max_chars - measure_lines(lines))
        return lines


def gather_dialogue(
    history: History,
    state: StateLedger,
    visible: Container[EntryId],
    *,
    earlier: str = "",
    notes: str = "",
    keep_words: bool = False,
) -> Dialogue:
    """Return what was said in a conversation, except for what is `visible` anyway."""
    turns = [turn for turn in history.turns.list_turns() if turn.entry_id not in visible]
    reports = list_reports(state.acts)
    summary = history.turns.summary
    return Dialogue(
        summary=None if summary is not None and summary.entry_id in visible else summary,
        turns=turns,
        plan=_find_current_plan(state.plan, turns, visible),
        reports=[report for report in reports if report.entry_id not in visible],
        earlier=earlier,
        notes=notes,
        keep_words=keep_words,
    )


def _write_earlier(summary: EarlierSummary | None, room: int, *, notes: str) -> list[str]:
    """Write the summary with which another program began the conversation."""
    if summary is None:
        return []
    cited = f" (#{summary.entry_id})" if summary.entry_id > 0 else ""
    heading = f"\n{_EARLIER_HEADING}{cited}, by the agent:"
    most = min(int((room - len(heading)) * _EARLIER), _MOST_EARLIER)
    text = quote_summary(summary.text, max_chars=most, told=notes) if most > 0 else ""
    return [heading, text] if text else []


def _find_current_plan(
    plan: ApprovedPlan | None, turns: Sequence[Turn], visible: Container[EntryId]
) -> ApprovedPlan | None:
    """Return the plan, unless it can be seen or the user has asked for other things since."""
    if plan is None or plan.entry_id in visible:
        return None
    later = sum(turn.entry_id > plan.entry_id for turn in turns)
    return plan if later <= _LATER_REQUESTS else None


def _write_plan(plan: ApprovedPlan | None, room: int) -> list[str]:
    if plan is None:
        return []
    cited = f" (#{plan.entry_id})" if plan.entry_id > 0 else ""
    heading = f"\n{_PLAN_HEADING}{cited}:"
    most = min(int((room - len(heading)) * _PLAN), _MOST_PLAN)
    text = quote_plan(plan.text, max_chars=most) if most > 0 else ""
    return [heading, text] if text else []


def _write_reports(reports: Sequence[AgentReport], room: int) -> list[str]:
    text = write_reports(reports, max_chars=min(int(room * _REPORTS), _MOST_REPORTS))
    return [f"\n{text}"] if text else []


def _write_turns(turns: Sequence[Turn], earlier: str, room: int, *, keep_words: bool) -> list[str]:
    """Write the user's requests: all of them if they fit, and conclusions with what is left.

    With `keep_words` they may take most of the room without being truncated.
    """
    if not turns and not earlier:
        return []
    room -= len(_TURNS_HEADING) + 3
    said = sum([len(turn.request) for turn in turns])
    need = said + _REQUEST_FRAME * len(turns) + len(earlier)
    if need <= room * (_MOST_WORDS if keep_words else _FAIR_WORDS):
        wanted = max(int(room * _TURNS) - need, int((room - need) * _CONCLUSIONS))
        limit = need + min(wanted, _MOST_CONCLUSIONS)
    else:
        limit = max(0, int(room * _TRUNCATED_WORDS))
        earlier = earlier[: limit // 2]
    texts = write_turns(turns, max_chars=max(0, limit - len(earlier)))
    written = [earlier, *texts] if earlier else texts
    return [f"\n{_TURNS_HEADING}", *written] if written else []


_SECTION_END = re.compile(r"\n\n(?=[A-Z][^\n]{3,80}:)")


def find_requests(digest: str) -> str:
    """Return the requests that an earlier digest quotes."""
    quoted = digest.partition(_TURNS_HEADING)[2].strip("\n")
    return _SECTION_END.split(quoted, maxsplit=1)[0]


def measure_lines(lines: Iterable[str]) -> int:
    """Return the characters of lines that are joined, and of a newline after them."""
    return sum(len(line) + 1 for line in lines)
