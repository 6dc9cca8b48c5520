"""The state ledger: where the work stands, computed from tool calls and their results.

It answers the first questions of a new reader: which checks passed and what was edited since,
what is committed and pushed, which tasks are open, what the user refused, what still runs, and
which files were changed and read. Everything is counted or quoted.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from clew.context.digest.edits.net_changes import NetChange, list_changes
from clew.context.digest.sections import TextSection, cite_entry, fill_sections, join_some
from clew.context.digest.state.approved_plan import ApprovedPlan, find_plan
from clew.context.digest.state.check_results import CheckRun, find_checks, keep_latest
from clew.context.digest.state.failures import Failure, list_failures, write_failure
from clew.context.digest.state.git_commands import follow_repository
from clew.context.digest.state.git_state import GitState
from clew.context.digest.state.other_calls import OtherCall, list_other_calls
from clew.context.digest.state.repository_section import write_repository
from clew.context.digest.state.search_results import MOST_SEARCHES, SearchResult, list_searches
from clew.context.digest.state.task_list import TaskItem, list_tasks
from clew.context.digest.steps.file_activity import (
    FileActivity,
    find_root,
    list_files,
    list_paths,
    shorten_path,
)
from clew.context.digest.steps.shell_edits import is_temporary
from clew.context.digest.steps.step_log import StepLog
from clew.context.digest.steps.tool_steps import ToolStep
from clew.context.digest.user_words import is_interruption, is_rejection
from clew.context.items import Item, ItemKind
from clew.context.lazy_list import lazy_property
from clew.context.user_answers import find_words
from clew.core.ids import EntryId
from clew.core.text import one_line, pluralize


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Something that the user, or a permission rule, did not let happen."""

    entry_id: EntryId
    what: str
    """The call that was refused or interrupted."""
    reason: str = ""
    """The user's words."""


@dataclass(frozen=True, kw_only=True)
class StateLedger:
    """The state of the work after a conversation."""

    root: str
    """The folder that contains most of the files; paths are printed relative to it."""
    checks: Sequence[CheckRun]
    """The last run of each check, most relevant first."""
    failures: Sequence[Failure]
    """What failed before, newest first."""
    plan: ApprovedPlan | None
    """The plan that the user approved last."""
    git: GitState
    tasks: Sequence[TaskItem]
    files: Sequence[FileActivity]
    changes: Sequence[NetChange]
    """What the edits left, in order."""
    refusals: Sequence[Refusal]
    """Oldest first."""
    running: Sequence[tuple[EntryId, str]]
    """Background jobs that were not seen to end, with the entry of their start."""
    other_calls: Sequence[OtherCall]
    """Calls of tools that are not known here, newest first."""
    searches: Sequence[SearchResult]
    """The newest ones first; searches in one file come last."""
    commands: Sequence[tuple[EntryId, str]]
    """Successful shell commands that other fields do not tell about, newest first."""
    acts: Sequence[ToolStep]
    """The steps that do more than read a file."""

    @lazy_property
    def work(self) -> list[TextSection]:
        """What was achieved, is open and was refused, as headed lists."""
        return list(_make_work_sections(self))

    @lazy_property
    def changed_files(self) -> TextSection:
        """The changed files with their full paths, last changed first."""
        return TextSection("Files changed:", _write_changed(self, self.root), _SHARES["changed"])

    @lazy_property
    def changed_files_by_root(self) -> TextSection:
        """The changed files with paths relative to `root`, last changed first."""
        heading = f"Files changed{_name_root(self)}:"
        return TextSection(heading, _write_changed(self, ""), _SHARES["changed"])

    @lazy_property
    def looks(self) -> list[TextSection]:
        """What was only read, searched and run, as headed lists."""
        return list(_make_look_sections(self))


_ASSISTANT = ItemKind.ASSISTANT
_NEWEST = 1_000
"""Messages; there is no room for files that were only read before them."""


def gather_state(items: Sequence[Item]) -> StateLedger:
    """Compute the state of the work from a whole conversation.

    Of a very long one, files that were only read long ago are left out.
    """
    log = StateLog()
    log.extend(items)
    return log.gather_state()


class StateLog:
    """What the state follows from, in a conversation that grows: each message is read once."""

    def __init__(self) -> None:
        self.steps = StepLog()
        self._length = 0
        self._last: tuple[int, Item] | None = None
        """The last answer of the model, with its place."""
        self._interruptions: list[_Interruption] = []

    def extend(self, items: Sequence[Item]) -> None:
        """Continue the conversation."""
        self.steps.extend(items)
        for place, item in enumerate(items):
            if item.kind is _ASSISTANT or 0 < len(item.answers) == len(item.message.parts):
                continue
            if is_interruption(item.message.text):
                answer = self._find_answer(items[:place])
                if answer is not None:
                    interruption = self._length + place, item.entry_id, *answer
                    self._interruptions.append(interruption)
        self._last = self._find_answer(items)
        self._length += len(items)

    def _find_answer(self, items: Sequence[Item]) -> tuple[int, Item] | None:
        """Return the last answer of the model after `items`, with its place."""
        for place in range(len(items) - 1, -1, -1):
            if items[place].kind is _ASSISTANT:
                return self._length + place, items[place]
        return self._last

    def gather_state(self) -> StateLedger:
        """Compute the state so far; see the function of that name."""
        steps = self.steps.list_steps(newest=_NEWEST)
        root = find_root(list_paths(steps))
        acts = [step for step in steps if not step.only_reads]
        ran = [(step, find_checks(step)) for step in acts if step.command and step.ran]
        checks = keep_latest(run for _, runs in ran for run in runs)
        git = follow_repository(acts)
        return StateLedger(
            root=root,
            checks=checks,
            failures=list_failures(steps, ran, checks),
            plan=find_plan(reversed(acts)),
            git=git,
            tasks=list_tasks(acts),
            files=list_files(steps, root=root),
            changes=list_changes(acts, root=root, undone=git.list_undone(root)),
            refusals=_list_refusals(self._interruptions, steps),
            running=_list_running(steps),
            other_calls=list_other_calls(acts),
            searches=list_searches(acts),
            commands=_list_commands(step for step, runs in reversed(ran) if not runs),
            acts=acts,
        )


_Interruption: TypeAlias = tuple[int, EntryId, int, Item]
"""The place and the entry of the interruption; the place of the last answer before it, and it."""


def _list_refusals(
    interruptions: Iterable[_Interruption], steps: Sequence[ToolStep]
) -> list[Refusal]:
    found = [
        (
            step.place,
            Refusal(
                entry_id=step.result_id, what=_describe_step(step), reason=find_words(step.result)
            ),
        )
        for step in steps
        if step.failed and is_rejection(step.result)
    ]
    refused = {place for place, _ in found}
    for place, entry_id, last, answer in interruptions:
        if last in refused:
            continue
        told = one_line(answer.message.text, 200)
        told = told or next((_describe_step(s) for s in reversed(steps) if s.place == last), "")
        if told:
            refusal = Refusal(entry_id=entry_id, what=f"interrupted: {told}")
            found.append((place, refusal))
    return [refusal for _, refusal in sorted(found, key=lambda pair: pair[0])]


def _describe_step(step: ToolStep) -> str:
    subject = step.command or step.path or next(iter(_iter_texts(step)), "")
    return f"{step.name}: {one_line(subject, 200)}" if subject else step.name


def _iter_texts(step: ToolStep) -> Iterator[str]:
    return (value for value in step.arguments.values() if isinstance(value, str))


def _list_running(steps: Iterable[ToolStep]) -> list[tuple[EntryId, str]]:
    return [
        (step.entry_id, f"{_describe_step(step)} (id {step.background_id})")
        for step in steps
        if step.background_id and step.ran and not step.is_poll and step.exit_code is None
    ]


_TOLD_ELSEWHERE = re.compile(
    r"\s*(?:cd \S+ && )?(?:git (?:add|commit|push|status|diff|log|show|branch|checkout)\b"
    r"|(?:cat|nl|head|tail|ls|pwd|sed -n|rg|grep|git grep)\b)"
)


def _list_commands(newest_first: Iterable[ToolStep]) -> list[tuple[EntryId, str]]:
    seen: dict[str, EntryId] = {}
    for step in newest_first:
        if not step.failed and not _TOLD_ELSEWHERE.match(step.command):
            seen.setdefault(" ".join(step.command.split()), step.entry_id)
    return [(entry_id, command) for command, entry_id in seen.items()]


_MOST_COMMAND = 400
_SHOWN_FILES, _SHOWN_LINES = 6, 4
_EDITED_SINCE, _FIXED = 3, 4
_SHARES = {
    "git": 4.0, "checks": 3.0, "failures": 3.0, "tasks": 4.0, "refusals": 2.0, "calls": 3.0,
    "running": 0.5, "changed": 5.0, "read": 1.0, "searches": 1.0, "commands": 0.5,
}  # fmt: skip
_FULL_PATHS = 0.4
"""Part of the room that changed files may take with their full paths."""
_LEAST_LOOKS = 300
"""In less room, what was only read and searched is not listed."""


def render_state(state: StateLedger, *, max_chars: int) -> str:
    """Write the state under headings, in at most `max_chars` characters.

    Each topic has a share of the room; what one does not need, others get. Of each topic the
    newest and most relevant lines are kept, and omitted ones are counted. What was only read,
    searched and run gets the room that is left.
    """
    changed = state.changed_files
    if sum(map(len, changed.lines)) > _FULL_PATHS * max_chars:
        changed = state.changed_files_by_root
    text = fill_sections([*state.work, changed], max_chars=max_chars)
    room = max_chars - len(text) - 1
    looks = fill_sections(state.looks, max_chars=room) if room >= _LEAST_LOOKS else ""
    return "\n".join(part for part in (text, looks) if part)


def _make_work_sections(state: StateLedger) -> Iterator[TextSection]:
    yield TextSection("Repository:", list(write_repository(state.git, state.root)), _SHARES["git"])
    yield TextSection("Last result of each check:", _write_checks(state), _SHARES["checks"])
    failures = [write_failure(failure) for failure in state.failures]
    yield TextSection("Failed before, and what settled it:", failures, _SHARES["failures"])
    yield TextSection("Tasks:", _write_tasks(state.tasks), _SHARES["tasks"])
    yield TextSection(
        "Refused or interrupted by the user:",
        [_write_refusal(refusal) for refusal in reversed(state.refusals)],
        _SHARES["refusals"],
    )
    calls = [f"- {cite_entry(call.entry_id)}{call.text}" for call in state.other_calls]
    yield TextSection("Calls of other tools, newest first:", calls, _SHARES["calls"])
    running = [f"- {cite_entry(entry)}{text}" for entry, text in reversed(state.running)]
    yield TextSection("Still running when last seen:", running, _SHARES["running"])


def _make_look_sections(state: StateLedger) -> Iterator[TextSection]:
    heading = f"Files read{_name_root(state)}:"
    yield TextSection(heading, _write_read(state), _SHARES["read"])
    wide = [search for search in state.searches if not search.is_local]
    useful = sorted(wide, key=lambda search: not search.files)[:MOST_SEARCHES]
    searches = [_write_search(search, state.root) for search in useful]
    yield TextSection("Searches:", searches, _SHARES["searches"])
    commands = [f"- {one_line(text, _MOST_COMMAND)}" for _, text in state.commands]
    yield TextSection("Commands run, newest first:", commands, _SHARES["commands"])


def _name_root(state: StateLedger) -> str:
    return f" (relative to {state.root})" if state.root else ""


def _write_checks(state: StateLedger) -> list[str]:
    lines = []
    changed = sorted(
        (
            file
            for file in state.files
            if file.changed_at >= 0 and _is_inside(file.path, state.root)
        ),
        key=lambda file: -file.changed_at,
    )
    for run in state.checks:
        fixed = f"; fixed: {join_some(run.fixed, _FIXED)}" if run.fixed else ""
        detail = f" ({run.detail}{fixed})" if run.detail else ""
        edited = [file.path for file in changed if file.changed_at > run.place]
        since = "; no edits since" if changed else ""
        if edited:
            names = [path.rpartition("/")[2] for path in edited]
            since = f"; edited since: {join_some(names, _EDITED_SINCE)}"
        name = f"{run.command} (runs {run.runs})" if run.runs else run.command
        lines.append(f"- {cite_entry(run.entry_id)}{name}: {run.outcome}{detail}{since}")
    return lines


def _is_inside(path: str, root: str) -> bool:
    """Return whether a file belongs to the work: not a plan or scratch file elsewhere."""
    return not path.startswith(("/", "~")) if root else not is_temporary(path)


def _write_tasks(tasks: Sequence[TaskItem]) -> list[str]:
    opened = [f"- [{task.status}] {one_line(task.text, 300)}" for task in tasks if task.is_open]
    finished = [one_line(task.text, 120) for task in tasks if not task.is_open]
    opened.sort(key=lambda line: not line.startswith("- [in_progress]"))
    return opened + ([f"- completed: {'; '.join(finished)}"] if finished else [])


def _write_refusal(refusal: Refusal) -> str:
    reason = f" — the user said: {one_line(refusal.reason, 400)}" if refusal.reason else ""
    return f"- {cite_entry(refusal.entry_id)}{refusal.what}{reason}"


def _write_changed(state: StateLedger, root: str) -> list[str]:
    changed = [file for file in state.files if file.changed_at >= 0]
    changed = [file for file in changed if not (file.deleted and is_temporary(file.path))]
    changed.sort(key=lambda file: -file.changed_at)
    undone = state.git.list_undone(state.root)
    lines = []
    for file in changed:
        facts = [pluralize(file.edits, "edit")] if file.edits else []
        facts += ["created"] * (file.created and not file.deleted) + ["deleted"] * file.deleted
        facts += [f"renamed from {file.renamed_from}"] if file.renamed_from else []
        facts += _tell_undone(undone.get(file.path, ()), file.changed_at)
        facts += [f"last #{file.entry_id}"] if file.entry_id > 0 else []
        path = f"{root}/{file.path}" if root and _is_inside(file.path, root) else file.path
        lines.append(f"- {path} ({', '.join(facts)})")
    return lines


def _tell_undone(undone: Iterable[range], changed_at: int) -> list[str]:
    """Tell whether the last change of a file was discarded, and all before it."""
    spans = [span for span in undone if span.start <= changed_at < span.stop - 1]
    if not spans:
        return []
    return ["undone with git" if spans[-1].start == 0 else "undone with git since the last commit"]


def _write_read(state: StateLedger) -> list[str]:
    """Return files that were only read: those read again and again and lately come first."""
    read = [file for file in state.files if file.reads and file.changed_at < 0]
    last = max((file.read_at for file in read), default=1) or 1
    read.sort(key=lambda file: -(min(file.reads, 4) / 4 + file.read_at / last))
    return [f"- {file.path}{f' lines {file.lines}' if file.lines else ''}" for file in read]


def _write_search(search: SearchResult, root: str) -> str:
    is_named = search.where not in {"", ".", root}
    where = f" in {shorten_path(search.where, root)}" if is_named else ""
    files = []
    for path, lines in search.files:
        numbers = ",".join(lines[:_SHOWN_LINES]) + (",…" if len(lines) > _SHOWN_LINES else "")
        name = shorten_path(path, root)
        files.append(f"{name}:{numbers}" if numbers else name)
    found = join_some(files, _SHOWN_FILES) if files else "no matches"
    return f"- {cite_entry(search.entry_id)}{one_line(search.pattern, 120)}{where}: {found}"
