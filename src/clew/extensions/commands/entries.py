"""Journal entries on one line each, and what a compaction did to them."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import to_builtins

from clew.context.recall.entry_text import entry_text
from clew.core.context_state import LossReport, SummaryAttempt, SummaryCheck
from clew.core.entries import (
    Body,
    CallStarted,
    Charged,
    Cleared,
    Compacted,
    Entry,
    JobGroupChanged,
    MessageAdded,
    ModeChanged,
    Noted,
    PinChanged,
    ReasoningDropped,
    ResultsCleared,
    Rewound,
    SetupChanged,
    TaskChanged,
    Undone,
    UnknownBody,
)
from clew.core.ids import EntryId
from clew.core.messages import Message, Role
from clew.core.text import one_line, pluralize
from clew.extensions.commands.arguments import format_ranges

_WORDS = 100


def entry_author(body: Body) -> str:
    """Return who wrote an entry: you, the model, a tool, or the session."""
    match body:
        case MessageAdded(message=message):
            return _speaker(message)
        case Noted(topic=topic):
            return one_line(topic, 20)
        case _:
            return "session"


def list_entries(entries: Sequence[Entry], most: int) -> list[tuple[EntryId, str, str]]:
    """Return the latest entries, oldest first: number, author and description."""
    first = max(0, len(entries) - most)
    return [
        (entry.id, entry_author(entry.body), said)
        for entry, said in describe_entries(entries, first, len(entries))
    ]


def describe_entries(entries: Sequence[Entry], start: int, stop: int) -> list[tuple[Entry, str]]:
    """Return the entries between two indices, each with its content on one line."""
    listed = entries[start:stop]
    before: SetupChanged | None = None
    if any(isinstance(entry.body, SetupChanged) for entry in listed):
        earlier = (entry.body for entry in reversed(entries[:start]))
        before = next((body for body in earlier if isinstance(body, SetupChanged)), None)
    found: list[tuple[Entry, str]] = []
    for entry in listed:
        found.append((entry, _setup(entry.body, before) or describe_entry(entry)))
        if isinstance(entry.body, SetupChanged):
            before = entry.body
    return found


def describe_entry(entry: Entry) -> str:
    """Return the content of an entry on one line."""
    match entry.body:
        case Noted(text="", data=data) if data:
            return one_line(", ".join(_facts(data)), _WORDS)
        case Charged(why=why, cost=cost):
            return f"{one_line(why, 60)}, {'price unknown' if cost is None else f'${cost:.4f}'}"
        case MessageAdded(display=str(display)):
            return one_line(display, _WORDS)
        case Noted(topic="skill-invocation", data={"display_input": str(typed)}):
            return one_line(typed, _WORDS)
        case MessageAdded() | Noted() | UnknownBody():
            return one_line(entry_text(entry), _WORDS)
        case Compacted(report=report):
            return f"compaction, {report.tokens_before:,} → {report.tokens_after:,} tokens"
        case TaskChanged() | JobGroupChanged() | CallStarted() as body:
            return _describe_background(body)
        case body:
            return _change(body)


def format_loss(report: LossReport) -> list[str]:
    """Return the lines of a loss report: what a compaction kept, summarised and archived."""
    author = "the model" if report.author == "model" else "rules, without a model"
    return [
        f"tokens      {report.tokens_before:,} → {report.tokens_after:,}",
        f"kept        {_ids(report.kept)} word for word",
        f"summarised  {_ids(report.summarised)} (summary written by {author})",
        *([f"shortened   {_ids(report.cleared)}"] if report.cleared else []),
        *([f"archived    {_ids(report.archived)}"] if report.archived else []),
        *format_attempts(report.attempts),
        *_format_check(report.check),
    ]


def format_attempts(attempts: Sequence[SummaryAttempt]) -> list[str]:
    """Return a line for each try of a model to write the summary, with its cost."""
    return [
        f"attempt     {attempt.author}: {attempt.outcome} ({attempt.tokens:,} tokens, {cost})"
        for attempt in attempts
        if attempt.author != "rules"
        for cost in ["price unknown" if attempt.cost is None else f"${attempt.cost:.4f}"]
    ]


def _format_check(check: SummaryCheck | None) -> list[str]:
    """Return what a check of the summary added, and what it cost."""
    if check is None:
        return []
    cost = "" if check.cost is None else f" for ${check.cost:.4f}"
    left = f"; {check.left_out} more did not fit" if check.left_out else ""
    fault = f"; incomplete: {check.fault}" if check.fault else ""
    return [
        f"checked     {pluralize(len(check.added), 'point')} added{cost}{left}{fault}",
        *(f"            + {point}" for point in check.added),
    ]


def format_clearing(count: int, trigger: str) -> str:
    """Return what a clearing did, such as `28 tool results removed from context`."""
    results = pluralize(count, "tool result")
    return f"{results} {'shortened in' if trigger == 'limit' else 'removed from'} context"


def loss_data(done: Compacted) -> dict[str, object]:
    """Return a loss report as facts for JSON."""
    report = done.report
    return {
        "tokens_before": report.tokens_before,
        "tokens_after": report.tokens_after,
        "kept": list(report.kept),
        "summarised": list(report.summarised),
        "cleared": list(report.cleared),
        "archived": list(report.archived),
        "author": report.author,
        "attempts": to_builtins(report.attempts),
        "why": report.why,
        **({"check": to_builtins(report.check)} if report.check is not None else {}),
        "summary": done.summary,
    }


def _setup(body: Body, before: SetupChanged | None) -> str:
    """Describe the change from one setup to the next; empty if the model changed."""
    if not isinstance(body, SetupChanged) or before is None or body.model != before.model:
        return ""
    changed = {
        "system prompt": body.system != before.system,
        "tools": body.tools != before.tools,
    }
    what = " and ".join(name for name, differs in changed.items() if differs)
    return f"{what} changed" if what else ""


def _facts(data: Mapping[str, object]) -> Iterator[str]:
    for name, value in data.items():
        if isinstance(value, str | int) and value not in ("", False):
            yield f"{name.replace('_', ' ')}: {value}"


def _ids(ids: Sequence[int]) -> str:
    return f"{len(ids)} ({format_ranges(ids)})" if ids else "nothing"


def _speaker(message: Message) -> str:
    match message.role:
        case Role.USER:
            return "you"
        case Role.ASSISTANT:
            return "model"
        case Role.TOOL:
            return one_line(", ".join(dict.fromkeys(one.name for one in message.results)), 40)


def _describe_background(body: TaskChanged | JobGroupChanged | CallStarted) -> str:
    match body:
        case TaskChanged(state=task, closed=closed, reported=reported):
            what = "reported to the model" if reported else "closed" if closed else task.status
            return f"task {task.task_id} {one_line(task.label, 60)}: {what}"
        case JobGroupChanged(state=group):
            return f"job group {group.group_id}: {group.status}"
        case CallStarted(call_ids=calls):
            return f"{pluralize(len(calls), 'call')} started"


def _change(
    body: (
        SetupChanged
        | ResultsCleared
        | ReasoningDropped
        | Cleared
        | Undone
        | Rewound
        | PinChanged
        | ModeChanged
    ),
) -> str:
    match body:
        case SetupChanged(model=model):
            return f"model {one_line(model.name, 60)}"
        case ResultsCleared(replaced=replaced, trigger=trigger):
            said = format_clearing(len(replaced), trigger)
            tokens = f", {body.tokens_before:,} → {body.tokens_after:,} tokens"
            return said + (tokens if body.tokens_before else "")
        case ReasoningDropped(targets=targets):
            return f"the reasoning of {pluralize(len(targets), 'message')} is no longer sent"
        case Cleared():
            return "the conversation was cleared"
        case Undone(target=target):
            return f"#{target} was reverted"
        case Rewound(before=None, files=files):
            return _describe_restored(files)
        case Rewound(before=before, files=files):
            restored = f", and {_describe_restored(files)}" if files else ""
            return f"the conversation went back to before #{before}{restored}"
        case PinChanged(target=target, pinned=pinned):
            return f"#{target} was {'pinned' if pinned else 'unpinned'}"
        case ModeChanged(mode=mode):
            return f"permission mode {one_line(mode, 40)}"


def _describe_restored(files: Sequence[str]) -> str:
    return pluralize(len(files), "file was restored", "files were restored")
