"""What a stored session has beside its messages: setup, tasks, memory, and what was attached.

All of it is read from the journal, where it was written as it happened; only the snapshot of an
agent's worktree is in the row of its task.
"""

from collections.abc import Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from clew.core.entries import ContextReference, Entry, MessageAdded, Noted, SetupChanged
from clew.core.ids import EntryId
from clew.core.models import ToolSpec
from clew.core.tasks import JobGroupState, TaskState
from clew.extensions.memory.events import MemoryEvent, MemoryReference
from clew.sdk.session_store import ProjectStore
from clew.session.history import MEMORY
from clew.session.task_records import read_task_records
from clew.stores.record import StoredSession
from clew.stores.stored_entries import select_entries


class AttachedReference(Struct, frozen=True, kw_only=True):
    """Something that the user attached, and the prompt that it was attached to."""

    entry_id: EntryId
    reference: ContextReference


class SessionDetails(Struct, frozen=True, kw_only=True):
    """A session as its record and its journal describe it, without the conversation."""

    system_prompt: str = ""
    """The latest one."""
    tool_schemas: tuple[ToolSpec, ...] = ()
    """The latest ones."""
    background_tasks: tuple[TaskState, ...] = ()
    """The last known state of each, closed ones included."""
    background_task_events: tuple[Entry, ...] = ()
    background_job_groups: tuple[JobGroupState, ...] = ()
    background_job_group_events: tuple[Entry, ...] = ()
    memory_events: tuple[MemoryEvent, ...] = ()
    used_memory_references: tuple[MemoryReference, ...] = ()
    """The parts of the memory that the session used, each once."""
    context_references: tuple[AttachedReference, ...] = ()
    """What the user attached with `@`, oldest first."""
    sandbox_snapshot_id: str = ""
    """The newest snapshot of the worktree of an agent; empty for other sessions."""


async def read_details(
    place: ProjectStore, record: StoredSession, entries: Sequence[Entry]
) -> SessionDetails:
    """Return what the journal and the task of a session say about it."""
    setups = [one.body for one in entries if isinstance(one.body, SetupChanged)]
    records = read_task_records(entries)
    tasks = place.tasks
    row = await tasks.task(record.id) if tasks is not None else None
    return SessionDetails(
        system_prompt=setups[-1].system if setups else "",
        tool_schemas=setups[-1].tools if setups else (),
        background_tasks=(*records.tasks, *records.closed),
        background_task_events=records.task_changes,
        background_job_groups=records.groups,
        background_job_group_events=records.group_changes,
        memory_events=tuple(memory_events(entries)),
        used_memory_references=tuple(memory_references(entries)),
        context_references=tuple(
            AttachedReference(entry_id=entry.id, reference=one)
            for entry in entries
            if isinstance(entry.body, MessageAdded)
            for one in entry.body.references
        ),
        sandbox_snapshot_id=row.snapshot if row is not None else "",
    )


def memory_events(entries: Sequence[Entry]) -> list[MemoryEvent]:
    """Return the audit trail of the memory in a journal, oldest first."""
    found = []
    for entry in select_entries(entries, "note"):
        match entry.body:
            case Noted(topic=topic, data=data) if topic == MEMORY:
                # A journal may come from elsewhere, and from another release.
                with suppress(msgspec.ValidationError):
                    found.append(msgspec.convert(data, MemoryEvent))
            case _:
                pass
    return found


def memory_references(entries: Sequence[Entry]) -> list[MemoryReference]:
    """Return the parts of the memory that a session used, each once, the latest last."""
    found: dict[str, MemoryReference] = {}
    for event in memory_events(entries):
        if event.kind == "retrieved":
            found.pop(event.why, None)
            found[event.why] = MemoryReference(topic=event.topic, path=event.why)
    return list(found.values())
