"""`clew sessions`: what is kept, and what can be done with it."""

from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import anyio
import msgspec

from clew.checkpoints.file_checkpoints import delete_checkpoints
from clew.cli.history import listed
from clew.cli.sanitize import one_line, sanitize_json
from clew.cli.session_files import read_file, write_lines
from clew.cli.streams import tell, write_out
from clew.cli.times import when
from clew.core.entries import Entry
from clew.core.errors import ConfigError, SessionNotFound
from clew.core.ids import EntryId, SessionId
from clew.core.text import pluralize
from clew.extensions.commands.session import check_session_name
from clew.sdk.folders import store_path, working_folder
from clew.sdk.session_store import ProjectStore, find_session, project_store
from clew.stores.protocol import Store
from clew.stores.record import SearchHit, StoredSession
from clew.stores.sqlite import SqliteStore
from clew.stores.stored_entries import find_damaged_ids
from clew.stores.transfer import export_lines

_SHOWN = 60
_EXCERPT = 100


@dataclass(frozen=True, slots=True)
class _Ask:
    """What was asked for, and where."""

    place: ProjectStore
    arguments: Namespace

    @property
    def store(self) -> Store:
        return self.place.store


def run_sessions(arguments: Namespace) -> int:
    """Carry out one of the actions below."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    place = project_store(working_folder())
    action = _ACTIONS[arguments.action or "list"]
    try:
        if place.is_empty and action is not _import:
            return _nothing(action)
        return await action(_Ask(place, arguments))
    finally:
        await place.store.aclose()


def _nothing(action: "_Action") -> int:
    if action not in (_list, _search):
        raise SessionNotFound("there is no session in this folder yet")
    tell("there is no session in this folder yet")
    return 0


async def _list(ask: _Ask) -> int:
    limit = ask.arguments.limit
    folder = None if ask.arguments.all else ask.place.folder
    known = await ask.store.sessions(cwd=folder, limit=limit + 1)
    if not known:
        tell("there is no session in this folder yet")
    for record in known[:limit]:
        _write(ask, record, _line(record))
    if len(known) > limit:
        tell(f"there are older ones; --limit {limit * 5} shows more")
    return 0


async def _search(ask: _Ask) -> int:
    query = " ".join(ask.arguments.words)
    hits = await ask.store.search(query, limit=ask.arguments.limit)
    for hit in hits:
        _write(ask, hit, *_hit_lines(hit))
    if not hits:
        tell(f"no session contains {one_line(query, _SHOWN)!r}")
    return 0 if hits else 1


async def _show(ask: _Ask) -> int:
    session_id = (await find_session(ask.place, ask.arguments.id)).id
    record, entries = await ask.store.load(session_id)
    _tell_damaged(entries)
    _write(ask, record, *_facts(record))
    if not ask.arguments.json:
        write_out("".join(f"{line}\n" for line in ("", *listed(entries, ask.arguments.limit))))
    return 0


async def _rename(ask: _Ask) -> int:
    name = check_session_name(" ".join(ask.arguments.name))
    record = await find_session(ask.place, ask.arguments.id)
    await ask.store.rename(record.id, name)
    tell(f"{record.id} is called {name}")
    return 0


async def _delete(ask: _Ask) -> int:
    for session_id in ask.arguments.ids:
        await _make_sure(ask, session_id)
    kept = store_path(working_folder()).parent / "checkpoints"
    for session_id in ask.arguments.ids:
        await ask.store.delete(SessionId(session_id))
        delete_checkpoints(kept, SessionId(session_id))
    tell(f"{pluralize(len(set(ask.arguments.ids)), 'session')} deleted, with all traces")
    return 0


async def _make_sure(ask: _Ask, session_id: str) -> None:
    """Make sure that this is the whole id of a session; raises `SessionNotFound` if it is not."""
    try:
        await ask.store.record(SessionId(session_id))
    except SessionNotFound as error:
        try:
            meant = await find_session(ask.place, session_id)
        except SessionNotFound:
            raise error from None
        raise SessionNotFound(
            f"{one_line(session_id, _SHOWN)} is not a whole id, and only that deletes;"
            f" did you mean {meant.id}?"
        ) from None


async def _fork(ask: _Ask) -> int:
    record = await find_session(ask.place, ask.arguments.id)
    upto = None if ask.arguments.upto is None else EntryId(ask.arguments.upto)
    made = await ask.store.fork(record.id, upto=upto, name=ask.arguments.name)
    write_out(f"{made.id}\n")
    entries = pluralize(record.entries, "entry", "entries")
    tell(f"{made.entries:,} of {entries}; go on with: clew --resume {made.id}")
    return 0


async def _export(ask: _Ask) -> int:
    if ask.arguments.salvage:
        if not isinstance(ask.store, SqliteStore):
            raise ConfigError("--salvage is for damaged SQLite files")
        record, entries = await ask.store.salvage(SessionId(ask.arguments.id))
        if len(entries) < record.entries:
            lost = record.entries - len(entries)
            tell(f"{lost:,} of {record.entries:,} entries could not be read")
    else:
        record, entries = await ask.store.load((await find_session(ask.place, ask.arguments.id)).id)
    _tell_damaged(entries)
    write_lines(export_lines(record, entries))
    return 0


async def _import(ask: _Ask) -> int:
    for name in ask.arguments.files:
        made = await read_file(name, ask.store, cwd=str(working_folder()))
        write_out(f"{made.id}\n")
        entries = pluralize(made.entries, "entry", "entries")
        tell(f"{one_line(name, _SHOWN)}: {entries}, {one_line(made.heading, 40)}")
    return 0


def _write(ask: _Ask, value: msgspec.Struct, *lines: str) -> None:
    if ask.arguments.json:
        write_out(sanitize_json(msgspec.json.encode(value).decode()) + "\n")
    else:
        write_out("".join(f"{line}\n" for line in lines))


def _line(record: StoredSession) -> str:
    fork = "  (fork)" if record.parent else ""
    return (
        f"{one_line(record.id, 40)}  {when(record.updated_at)}  {_messages(record)}"
        f"  {_size(record.size):>8}  {one_line(record.heading, _SHOWN)}{fork}"
    )


def _messages(record: StoredSession) -> str:
    """Return how many messages a session has, in a column of its own."""
    noun = "message" if record.messages == 1 else "messages"
    return f"{record.messages:>6,} {noun:<8}"


def _hit_lines(hit: SearchHit) -> list[str]:
    if hit.entry_id is None:
        return [_line(hit.session)]
    more = f" (and {hit.matches - 1:,} more)" if hit.matches > 1 else ""
    return [_line(hit.session), f"    #{hit.entry_id}{more}  {one_line(hit.excerpt, _EXCERPT)}"]


def _facts(record: StoredSession) -> list[str]:
    parent = f"{record.parent}, after #{record.forked_at or 0}" if record.parent else ""
    facts = {
        "id": record.id,
        "name": record.name,
        "title": record.title,
        "folder": record.cwd,
        "model": record.model,
        "begun": when(record.created_at),
        "last used": when(record.updated_at),
        "forked from": parent,
        "holds": f"{pluralize(record.messages, 'message')} in"
        f" {pluralize(record.entries, 'entry', 'entries')}, "
        f"{_size(record.size)}",
        "last words": record.last_words,
    }
    return [f"{name:<12} {one_line(value, _EXCERPT)}" for name, value in facts.items() if value]


def _tell_damaged(entries: Sequence[Entry]) -> None:
    lost = find_damaged_ids(entries)
    if lost:
        numbers = ", ".join(f"#{number}" for number in lost[:10])
        tell(f"{len(lost):,} entries are damaged and cannot be read: {numbers}")


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1_000
    return f"{count:.3g} GB"


_Action = Callable[[_Ask], Awaitable[int]]
_ACTIONS: Mapping[str, _Action] = MappingProxyType(
    {
        "list": _list,
        "show": _show,
        "search": _search,
        "rename": _rename,
        "delete": _delete,
        "fork": _fork,
        "export": _export,
        "import": _import,
    }
)
