"""Reports of subagents: what each was asked to do, and what it concluded, quoted.

Findings quote the best sentences of all texts together, so a report may be missing among them.
Here each report has its own line, with its verdict first.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice

from msgspec import Struct

from clew.context.cleared_results import DELEGATION_TOOLS
from clew.context.digest.prose.agent_prose import (
    EDGE_WORTH,
    Sentence,
    clean_line,
    cut_middle,
    split_sentences,
    strip_report,
)
from clew.context.digest.sections import cite_entry
from clew.context.digest.steps.tool_steps import ToolStep
from clew.core.ids import EntryId
from clew.core.text import one_line

_HEADING = "Reports of subagents, newest first:"
_TASK_KEYS = ("description", "name", "task", "prompt")
_MOST_REPORTS = 12
_MOST_TASK, _MOST_VERDICT = 100, 160
_LEAST_QUOTE, _MOST_QUOTE = 120, 700
"""Characters of one report."""
_GAP = " … "
_LAUNCHED = re.compile(r"Async agent launched|[^\n]{0,80}\brunning in (?:the )?background\b")
_VERDICT = re.compile(
    r"^[^\w\n]*+(?:\d{1,2}\. *)?"
    r"((?:(?:overall|final|my) +)?(?:(verdict)|recommendation|assessment|conclusion)\b)"
    r"(?=[*_ ]*(?:[:–—-]|$)|\*)(.*)",
    re.IGNORECASE | re.MULTILINE,
)
_TELLS = re.compile(r"\w")
_GRAVE = re.compile(
    r"\b(?:critical|blocking|blockers?|must[ -]fix|severe|high|bugs?|root cause|missing)\b",
    re.IGNORECASE,
)
_PRAISE = re.compile(
    r"\b(?:praise|positives?|strengths?|highlights?|done well|good)\b|✅|👍", re.IGNORECASE
)
_GRAVE_WORTH, _PRAISE_COST = 1.5, 2.0


class AgentReport(Struct, frozen=True, kw_only=True):
    """What a subagent reported."""

    entry_id: EntryId
    task: str
    """What it was asked to do, in a few words."""
    verdict: str
    """Its result in one line; empty if no line says that it has it."""
    sentences: Sequence[Sentence]


def list_reports(steps: Iterable[ToolStep]) -> list[AgentReport]:
    """Return the newest reports of subagents, the last one first."""
    asked = [
        step
        for step in steps
        if step.name in DELEGATION_TOOLS and step.answered and not step.failed
    ]
    texts = ((step, strip_report(step.result).strip()) for step in reversed(asked))
    ended = ((step, text) for step, text in texts if text and not _LAUNCHED.match(text))
    return [_read_report(step, text) for step, text in islice(ended, _MOST_REPORTS)]


def write_reports(reports: Sequence[AgentReport], *, max_chars: int) -> str:
    """Write a line for each report, in at most `max_chars` characters; empty if none fits."""
    lines: list[str] = []
    left = max_chars - len(_HEADING)
    for place, report in enumerate(reports):
        head = f"- {cite_entry(report.entry_id)}{report.task}: "
        fair = left // (len(reports) - place)
        room = min(max(fair, _LEAST_QUOTE + len(head) + 1), left) - len(head) - 1
        if room < _LEAST_QUOTE:
            break
        quoted = _quote(report, min(room, _MOST_QUOTE))
        if quoted:
            lines.append(head + quoted)
            left -= len(lines[-1]) + 1
    return "\n".join([_HEADING, *lines]) if lines else ""


def _read_report(step: ToolStep, text: str) -> AgentReport:
    asked = next((said for key in _TASK_KEYS if (said := step.get_text(key).strip())), "")
    task = one_line(asked, _MOST_TASK) or step.name
    verdict, sentences = _read_text(cut_middle(text))
    return AgentReport(entry_id=step.result_id, task=task, verdict=verdict, sentences=sentences)


@lru_cache(maxsize=4 * _MOST_REPORTS)
def _read_text(text: str) -> tuple[str, Sequence[Sentence]]:
    """Return the verdict and the sentences of a report; the next digest asks again."""
    return _find_verdict(text), split_sentences(text)


def _find_verdict(text: str) -> str:
    """Return the line with the verdict; if it is only a heading, with the line after it.

    It is the only one that calls itself so, or else the last of those that may be one.
    """
    found = list(_VERDICT.finditer(text))
    if not found:
        return ""
    named = [line for line in found if line[2]]
    line = named[0] if len(named) == 1 else found[-1]
    said = clean_line(line[3]).strip(":*_–—- ")
    if not said:
        following = next(filter(_TELLS.search, text[line.end() :].split("\n")), "").strip()
        said = "" if following.startswith(("|", "#")) else clean_line(following)
    return one_line(f"{line[1]}: {said}", _MOST_VERDICT) if said else ""


def _quote(report: AgentReport, room: int) -> str:
    """Quote the verdict and the most telling sentences that fit, in their order."""
    verdict = report.verdict if len(report.verdict) <= room else ""
    room -= len(verdict)
    chosen: dict[int, Sentence] = {}
    leads: set[str] = set()
    best = sorted(enumerate(report.sentences), key=lambda pair: -_score(pair[1]))
    for place, said in best:
        cost = len(said.text) + len(_GAP) + (0 if said.lead in leads else len(said.lead) + 2)
        is_told = verdict and said.text in verdict
        if cost <= room and not is_told:
            chosen[place] = said
            leads.add(said.lead)
            room -= cost
    parts: dict[str, list[str]] = {}
    for place in sorted(chosen):
        said = chosen[place]
        parts.setdefault(said.lead or f"\n{place}", []).append(said.text)
    texts = [
        "; ".join(told) if lead[0] == "\n" else f"{lead}: {'; '.join(told)}"
        for lead, told in parts.items()
    ]
    return _GAP.join([verdict, *texts] if verdict else texts)


def _score(said: Sentence) -> float:
    """Return how much a sentence tells: what is wrong more than what is good."""
    told = f"{said.lead} {said.text}"
    score = said.score + (EDGE_WORTH if said.is_edge else 0.0)
    score += _GRAVE_WORTH if _GRAVE.search(told) else 0.0
    return score - (_PRAISE_COST if _PRAISE.search(told) else 0.0)
