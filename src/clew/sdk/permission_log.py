"""The permission log: every decision about a tool call of a session and of its subagents."""

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from clew.core.entries import Entry, MessageAdded, TaskChanged
from clew.core.ids import EntryId
from clew.core.messages import Message
from clew.core.permissions import DecidedBy, Verdict
from clew.core.tool_states import ToolReport, first_argument
from clew.sdk.session_admin import AGENT_KIND, ProjectStore, list_sessions, load_transcript

_VERBS = {Verdict.ALLOW: "allowed", Verdict.DENY: "denied"}


class LoggedDecision(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One decision about a tool call."""

    entry_id: EntryId
    """The entry with the result of the call."""
    at: float
    """When the result was stored, in seconds since the epoch."""
    tool: str
    argument: str
    """The first argument of the call in one line, such as the command."""
    verdict: Verdict
    by: DecidedBy
    reason: str
    question: str = ""
    """Why the user was asked; empty if the user was not."""
    sandboxed: bool | None = None
    """Whether its command ran in a sandbox; None if it ran no command, or an earlier version ran
    it."""
    agent: str = ""
    """The subagent that made the call; empty for the session itself."""
    session_id: str = ""
    """The session of that subagent."""


async def load_decisions(place: ProjectStore, wanted: str = "") -> list[LoggedDecision]:
    """Return the decisions of a session and of its subagents, oldest first.

    Args:
        place: The store.
        wanted: The session: its id, the start of it, or its name; empty for the most recent one
            of the folder.

    Raises:
        SessionNotFound: No session matches, or more than one does.
    """
    if not wanted:
        recent = await list_sessions(place, limit=1)
        wanted = recent[0].id if recent else ""
    transcript = await load_transcript(place, wanted)
    found = list(list_decisions(transcript.entries))
    waiting = [transcript]
    while waiting:
        above = waiting.pop()
        names = _find_agent_names(above.entries)
        for record in await place.store.sessions(parent=above.record.id, kind=AGENT_KIND):
            agent = await load_transcript(place, record.id)
            waiting.append(agent)
            name = names.get(record.id, "") or "agent"
            decisions = list_decisions(agent.entries)
            found += (replace(one, agent=name, session_id=record.id) for one in decisions)
    return sorted(found, key=lambda one: one.at)


def _find_agent_names(entries: Iterable[Entry]) -> dict[str, str]:
    """Return the names of the subagents that a session started, by their ids."""
    states = (entry.body.state for entry in entries if isinstance(entry.body, TaskChanged))
    return {state.task_id: state.agent for state in states if state.agent}


def list_decisions(entries: Iterable[Entry]) -> Iterator[LoggedDecision]:
    """Yield the decisions that entries record, in order."""
    arguments: dict[str, str] = {}
    for entry in entries:
        match entry.body:
            case MessageAdded(message=Message(calls=calls)) if calls:
                arguments.update((call.call_id, call.arguments) for call in calls)
            case MessageAdded(message=message, report=ToolReport(permission=record)) if record:
                for result in message.results:
                    yield LoggedDecision(
                        entry_id=entry.id,
                        at=entry.at,
                        tool=result.name,
                        argument=first_argument(arguments.get(result.call_id, "")),
                        verdict=record.verdict,
                        by=record.by,
                        reason=record.reason,
                        question=record.question,
                        sandboxed=record.sandboxed,
                    )
            case _:
                pass


def format_decision(decision: LoggedDecision) -> str:
    """Return a decision in one line, such as `#4 Bash ls: allowed (mode): …`."""
    asked = ""
    if decision.question and not decision.reason.startswith(decision.question):
        asked = f"; asked because: {decision.question}"
    call = f"{decision.tool} {decision.argument}".rstrip()
    verb = _VERBS[decision.verdict] + (" in the sandbox" if decision.sandboxed else "")
    by = f"{decision.agent}: " if decision.agent else ""
    return f"#{decision.entry_id} {by}{call}: {verb} ({decision.by}): {decision.reason}{asked}"
