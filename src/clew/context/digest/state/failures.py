"""Failures on the way: commands and look-ups that failed, with their error and what settled it.

A reader who takes over wants to know what was tried and did not work. The state ledger tells the
last result of each check; this module tells of the failures before: the quoted error, the files
that were edited until the check passed, or the command that worked instead.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from clew.context.digest.state.check_results import CheckRun, Outcome, quote_failure
from clew.context.digest.state.other_calls import is_lookup
from clew.context.digest.steps.tool_steps import ToolStep
from clew.context.tool_arguments import CHANGE_TOOLS, READ_TOOLS, SEARCH_TOOLS, SHELL_TOOLS
from clew.core.ids import NO_ENTRY, EntryId
from clew.core.text import one_line

_MOST_FAILURES = 24
"""The newest are looked at."""
_LEAST_ERROR = 12
"""An error text that is shorter tells nothing, such as `Exit code 1`."""
_MOST_ERROR, _MOST_COMMAND, _MOST_EDITED = 400, 100, 3
_LOOKS = frozenset({"grep", "rg", "find", "ls", "cat", "test", "[", "diff", "which", "head"})
"""Their failure means only that nothing was found."""
_WEB = frozenset({"webfetch", "web_fetch", "websearch", "web_search", "google_web_search"})
_LOCAL = READ_TOOLS | SEARCH_TOOLS | CHANGE_TOOLS | SHELL_TOOLS
_ASKED_KEYS = ("url", "query", "id", "issue", "name")
_HOST = re.compile(r"https?://([^/\s?#]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A command or a look-up that failed, and what followed."""

    entry_id: EntryId
    command: str
    error: str
    """Quoted output."""
    edited: Sequence[str] = ()
    """Names of the files that were changed until the check passed."""
    settled: str = ""
    """The command that worked afterwards; empty if none was seen."""
    settled_id: EntryId = NO_ENTRY


@dataclass(frozen=True, slots=True)
class _Run:
    """A command with its result."""

    step: ToolStep
    place: int
    """The index of `step` among all steps."""
    command: str
    family: str
    failed: bool
    error: str


_Ran: TypeAlias = tuple[ToolStep, Sequence[CheckRun]]
"""A step, and the checks that it ran."""


def list_failures(
    steps: Sequence[ToolStep],
    ran: Iterable[_Ran],
    latest: Iterable[CheckRun],
) -> list[Failure]:
    """Return failures, newest first; those that `latest` tells as results of checks are left out.

    Of several failures with the same error only the newest is listed.
    """
    looked_up: list[_Ran] = [(step, ()) for step in steps if _looks_up(step)]
    ran = [*ran, *looked_up]
    if not ran:
        return []
    if looked_up:
        ran.sort(key=lambda pair: pair[0].place)
    told = {(run.entry_id, run.place, run.command) for run in latest}
    places = {id(step): place for place, step in enumerate(steps)}
    worked: dict[str, _Run] = {}
    seen: set[str] = set()
    found: list[Failure] = []
    for step, checks in reversed(ran):
        for run in _list_runs(step, checks, places[id(step)]):
            if not run.failed:
                worked[run.family] = run
                continue
            is_told = (step.result_id, step.place, run.command) in told
            if is_told or len(run.error) < _LEAST_ERROR or run.error in seen:
                continue
            seen.add(run.error)
            found.append(_describe(run, worked.get(run.family), steps))
        if len(found) >= _MOST_FAILURES:
            break
    return found


def _looks_up(step: ToolStep) -> bool:
    """Return whether a step asked the web or a service, rather than the files of the project."""
    return _may_look_up(step.name) and step.ran and not step.path


@lru_cache(maxsize=256)
def _may_look_up(tool: str) -> bool:
    return tool in _WEB or (tool not in _LOCAL and is_lookup(tool))


def _list_runs(step: ToolStep, checks: Sequence[CheckRun], place: int) -> list[_Run]:
    if not step.command:
        keys = (*_ASKED_KEYS, *step.arguments)
        asked = next((text for key in keys if (text := step.get_text(key).strip())), "")
        host = _HOST.match(asked)
        family = f"{step.name} {host[1] if host else asked}"
        error = quote_failure(step.output[:4_000]) if step.failed else ""
        run = _Run(step, place, f"{step.name} {asked}".rstrip(), family, step.failed, error)
        return [run]
    if checks:
        return [
            _Run(step, place, run.command, run.family, run.outcome is Outcome.FAILED, run.detail)
            for run in checks
            if run.outcome in {Outcome.FAILED, Outcome.PASSED}
        ]
    simple = [part for part, _ in step.simple_commands if not part.startswith(("cd ", "echo "))]
    words = [word for word in simple[0].split() if word[0] not in "-/~"] if simple else []
    if not words or words[0] in _LOOKS:
        return []
    family = " ".join(words[:2])
    # Any of several may be the one that failed.
    command = one_line("; ".join(simple) if step.failed else simple[0], _MOST_COMMAND)
    error = quote_failure(step.output[:4_000]) if step.failed else ""
    return [_Run(step, place, command, family, step.failed, error)]


def _describe(run: _Run, later: _Run | None, steps: Sequence[ToolStep]) -> Failure:
    error = one_line(run.error, _MOST_ERROR)
    command = one_line(run.command, _MOST_COMMAND)
    if later is None:
        return Failure(entry_id=run.step.result_id, command=command, error=error)
    tried = steps[run.place : later.place] if run.step.command else ()
    between = (edit.path for step in tried for edit in step.edits)
    return Failure(
        entry_id=run.step.result_id,
        command=command,
        error=error,
        edited=list(dict.fromkeys(path.rpartition("/")[2] for path in between)),
        settled="passed" if later.command == run.command else later.command,
        settled_id=later.step.result_id,
    )


def write_failure(failure: Failure) -> str:
    """Return a failure on one line: command, error, and what settled it."""
    cited = f"#{failure.entry_id} " if failure.entry_id > 0 else ""
    text = f"- {cited}{failure.command}: {failure.error}"
    if not failure.settled:
        return text
    names = ", ".join(failure.edited[:_MOST_EDITED])
    more = " …" if len(failure.edited) > _MOST_EDITED else ""
    after = f" after edits to {names}{more}" if names else ""
    where = f" #{failure.settled_id}" if failure.settled_id > 0 else ""
    return f"{text} → {one_line(failure.settled, _MOST_COMMAND)}{where}{after}"
