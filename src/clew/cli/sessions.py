"""`clew sessions`: list, search, rename, fork, delete, export and import stored sessions."""

import sys
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import anyio
import msgspec

from clew.cli.paint import format_time
from clew.cli.streams import OutputLost, discard_output, print_json, write_err, write_out
from clew.core.errors import SessionNotFound
from clew.core.sanitize import sanitize, sanitize_json, sanitize_line
from clew.core.text import format_ago, pluralize
from clew.sdk import session_admin as admin
from clew.sdk.entries import format_entries
from clew.sdk.folders import store_path, working_folder
from clew.sdk.session_admin import (
    AGENT_KIND,
    ProjectStore,
    SearchHit,
    StoredSession,
    StoredTranscript,
)
from clew.sdk.session_details import SessionDetails, read_details

_MAX_HEADING = 60
_MAX_EXCERPT = 100
_NO_SESSIONS = "there are no sessions in this folder"


@dataclass(frozen=True, slots=True)
class _Request:
    place: ProjectStore
    arguments: Namespace


def run_sessions(arguments: Namespace) -> int:
    """Run one action of `clew sessions`; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    place = admin.project_store(working_folder())
    action = _ACTIONS[arguments.action or "list"]
    try:
        if place.is_empty and action is not _import:
            return _report_empty(action)
        return await action(_Request(place, arguments))
    finally:
        await place.store.aclose()


def _report_empty(action: "_Action") -> int:
    if action not in (_list, _search):
        raise SessionNotFound(_NO_SESSIONS)
    write_err(_NO_SESSIONS)
    return 0


async def _list(request: _Request) -> int:
    limit = request.arguments.limit
    found = await admin.list_sessions(
        request.place,
        limit=limit + 1,
        all_folders=request.arguments.all,
        agents=request.arguments.agents,
    )
    if not found:
        write_err(_NO_SESSIONS)
    for record in found[:limit]:
        _write(request, record, _format_record(record))
    if len(found) > limit:
        write_err(f"there are older sessions; --limit {limit * 5} shows more")
    return 0


async def _search(request: _Request) -> int:
    query = " ".join(request.arguments.words)
    hits = await admin.search_sessions(
        request.place, query, limit=request.arguments.limit, agents=request.arguments.agents
    )
    for hit in hits:
        _write(request, hit, *_format_hit(hit))
    if not hits:
        write_err(f"no session contains {sanitize_line(query, _MAX_HEADING)!r}")
    return 0 if hits else 1


async def _show(request: _Request) -> int:
    found = await admin.load_transcript(request.place, request.arguments.id)
    details = await read_details(request.place, found.record, found.entries)
    _report_damage(found)
    if request.arguments.json:
        print_json({**msgspec.to_builtins(found.record), **msgspec.to_builtins(details)})
    else:
        write_out("".join(f"{line}\n" for line in _format_facts(found.record, details)))
        entries = format_entries(found.entries, request.arguments.limit) or ["no messages yet"]
        write_out("".join(f"{sanitize(line)}\n" for line in ("", *entries)))
    return 0


async def _recall(request: _Request) -> int:
    arguments = request.arguments
    answer = await admin.recall_entries(
        request.place,
        "" if arguments.id == "all" else arguments.id,
        " ".join(arguments.words),
        limit=arguments.limit,
        offset=arguments.offset,
    )
    if arguments.json:
        for hit in answer.found.hits:
            _write(request, hit)
        if not answer.found.hits:
            _write(request, answer)
    else:
        write_out(sanitize(answer.text) + "\n")
    return 0 if answer.is_found else 1


async def _rename(request: _Request) -> int:
    name = " ".join(request.arguments.name)
    record = await admin.rename_session(request.place, request.arguments.id, name)
    write_err(f"{record.id} is now called {record.name}")
    return 0


async def _delete(request: _Request) -> int:
    checkpoints = store_path(working_folder()).parent / "checkpoints"
    ids = request.arguments.ids
    count = await admin.delete_sessions(request.place, ids, checkpoints=checkpoints)
    write_err(f"deleted {pluralize(count, 'session')} with all data")
    return 0


async def _fork(request: _Request) -> int:
    arguments = request.arguments
    original, fork = await admin.fork_session(
        request.place, arguments.id, upto=arguments.upto, name=arguments.name
    )
    write_out(f"{fork.id}\n")
    entries = pluralize(original.entries, "entry", "entries")
    write_err(f"copied {fork.entries:,} of {entries}; resume with: clew --resume {fork.id}")
    return 0


async def _export(request: _Request) -> int:
    if request.arguments.salvage:
        found = await admin.salvage_transcript(request.place, request.arguments.id)
        if found.missing:
            write_err(f"{found.missing:,} of {found.record.entries:,} entries could not be read")
    else:
        found = await admin.load_transcript(request.place, request.arguments.id)
    _report_damage(found)
    _write_bytes(found.export())
    return 0


async def _import(request: _Request) -> int:
    for name in request.arguments.files:
        data = sys.stdin.buffer.read() if name == "-" else None
        made = await admin.import_file(
            request.place.store, name, cwd=str(working_folder()), data=data
        )
        label = "standard input" if name == "-" else Path(name).name
        for problem in made.problems:
            write_err(f"{label}: {problem}")
        write_out(f"{made.record.id}\n")
        entries = pluralize(made.record.entries, "entry", "entries")
        heading = sanitize_line(made.record.heading, 40)
        write_err(f"{label}: {entries}, {heading}")
    return 0


def _write_bytes(lines: Iterable[bytes]) -> None:
    """Write to standard output byte for byte; sanitized if it is a terminal."""
    if sys.stdout.isatty():
        for line in lines:
            write_out(sanitize_json(line.decode(errors="replace")))
        return
    try:
        sys.stdout.buffer.writelines(lines)
        sys.stdout.buffer.flush()
    except OSError as error:
        discard_output()
        raise OutputLost(error) from error


def _write(request: _Request, value: msgspec.Struct, *lines: str) -> None:
    if request.arguments.json:
        print_json(value)
    else:
        write_out("".join(f"{line}\n" for line in lines))


def _format_record(record: StoredSession) -> str:
    origin = "  (fork)" if record.parent else ""
    if record.kind == AGENT_KIND:
        origin = f"  (agent of {sanitize_line(record.parent or '?', 40)})"
    age = format_ago(record.updated_at, time.time())
    return (
        f"{sanitize_line(record.id, 40)}  {age:<14}  {_messages(record)}"
        f"  {_size(record.size):>8}  {sanitize_line(record.heading, _MAX_HEADING)}{origin}"
    )


def _messages(record: StoredSession) -> str:
    """Return the number of messages, aligned as a column."""
    noun = "message" if record.messages == 1 else "messages"
    return f"{record.messages:>6,} {noun:<8}"


def _format_hit(hit: SearchHit) -> list[str]:
    if hit.entry_id is None:
        return [_format_record(hit.session)]
    more = f" (and {hit.matches - 1:,} more)" if hit.matches > 1 else ""
    return [
        _format_record(hit.session),
        f"    #{hit.entry_id}{more}  {sanitize_line(hit.excerpt, _MAX_EXCERPT)}",
    ]


def _format_facts(record: StoredSession, details: SessionDetails) -> list[str]:
    is_agent = record.kind == AGENT_KIND
    origin = f"{record.parent}, after #{record.forked_at or 0}" if record.parent else ""
    facts = {
        "id": record.id,
        "name": record.name,
        "title": record.title,
        "folder": record.cwd,
        "model": record.model,
        "created": format_time(record.created_at),
        "last used": f"{format_time(record.updated_at)}"
        f" ({format_ago(record.updated_at, time.time())})",
        "agent of": (record.parent or "") if is_agent else "",
        "forked from": "" if is_agent else origin,
        "size": f"{pluralize(record.messages, 'message')} in"
        f" {pluralize(record.entries, 'entry', 'entries')}, "
        f"{_size(record.size)}",
        "last words": record.last_words,
        "attached": ", ".join(_format_attached(details)),
        "memory used": ", ".join(one.path for one in details.used_memory_references),
        "background": ", ".join(f"{one.task_id} {one.status}" for one in details.background_tasks),
        "snapshot": details.sandbox_snapshot_id,
    }
    return [
        f"{name:<12} {sanitize_line(value, _MAX_EXCERPT)}" for name, value in facts.items() if value
    ]


def _format_attached(details: SessionDetails) -> Iterator[str]:
    for one in details.context_references:
        lines = f"#{one.reference.lines}" if one.reference.lines else ""
        yield f"{one.reference.target}{lines} (#{one.entry_id})"


def _report_damage(found: StoredTranscript) -> None:
    damaged = found.damaged
    if damaged:
        numbers = ", ".join(f"#{number}" for number in damaged[:10])
        verb = "is" if len(damaged) == 1 else "are"
        count = pluralize(len(damaged), "entry", "entries")
        write_err(f"{count} {verb} damaged and cannot be read: {numbers}")


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1_000
    return f"{count:.3g} GB"


_Action = Callable[[_Request], Awaitable[int]]
_ACTIONS: Mapping[str, _Action] = MappingProxyType(
    {
        "list": _list,
        "show": _show,
        "search": _search,
        "recall": _recall,
        "rename": _rename,
        "delete": _delete,
        "fork": _fork,
        "export": _export,
        "import": _import,
    }
)
