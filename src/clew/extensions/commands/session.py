"""Commands about the session as a whole: begin anew, go back, name it, choose another."""

from msgspec.structs import asdict

from clew.checkpoints.values import Summary
from clew.core.errors import ConfigError, SessionError, SessionNotFound
from clew.core.ids import EntryId, SessionId
from clew.core.text import one_line, pluralize
from clew.extensions.commands.parsing import (
    Builtin,
    build_result,
    entry_number,
    fit,
    no_such,
    nothing_more,
    split,
    whole_number,
)
from clew.extensions.commands.protocol import (
    Command,
    CommandHost,
    CommandResult,
    NewSession,
    OpenSession,
    PickSession,
    RenameSession,
)
from clew.session.rewind import Rewind, Wish
from clew.stores.protocol import Store
from clew.stores.record import StoredSession

_NAME = 120
_SHOWN = 60
_PATH = 80


async def _clear(host: CommandHost, arguments: str) -> CommandResult:
    nothing_more(arguments, "clear")
    await host.session.clear_history()
    return build_result(
        ["the conversation begins anew; /undo brings the old one back"], cleared=True
    )


async def _reset(_: CommandHost, arguments: str) -> CommandResult:
    nothing_more(arguments, "reset")
    return build_result(["leaving this session for a new one"], NewSession())


async def _rename(host: CommandHost, arguments: str) -> CommandResult:
    if not arguments:
        now = f"it is called {one_line(host.name, _SHOWN)} now" if host.name else "it has none yet"
        raise SessionError(f"write a name for the session, such as /rename parser work; {now}")
    name = fit_name(arguments)
    return build_result([f"the session is called {name}"], RenameSession(name), name=name)


def fit_name(text: str) -> str:
    """Return `text` if a session can be called so.

    Raises:
        SessionError: It is empty, too long, or more than a line.
    """
    name = fit(text.strip(), _NAME, "a name", lines=False)
    if not name:
        raise SessionError("the name is empty; write a few words")
    return name


async def _resume(host: CommandHost, arguments: str) -> CommandResult:
    if not arguments:
        return build_result(["choose a session to go on with"], PickSession())
    wanted = fit(arguments, _NAME, "what names a session", lines=False)
    found = await matching(host.store, wanted)
    others = [record for record in found if record.id != host.session.session_id]
    if not found:
        raise SessionError(
            f"no session is called {one_line(wanted, _SHOWN)!r} or holds these words;"
            " /resume alone lists them"
        )
    if not others:
        raise SessionError("that is the session that you are in")
    if len(others) > 1:
        lines = [f"{pluralize(len(others), 'session')} match; choose one", *map(_line, others)]
        ids = tuple(record.id for record in others)
        return build_result(lines, PickSession(ids), candidates=list(ids))
    (record,) = others
    said = f"going on with {one_line(record.heading, _SHOWN) or record.id}"
    return build_result([said], OpenSession(record.id), session_id=record.id)


def _line(record: StoredSession) -> str:
    return f"  {one_line(record.id, 40)}  {one_line(record.heading, _SHOWN)}"


async def _rewind(host: CommandHost, arguments: str) -> CommandResult:
    word, rest = split(arguments)
    match word.lower():
        case "" | "list":
            nothing_more(rest, "rewind list")
            return await _checkpoints(host)
        case "restore":
            return await _go_back(host, await _place(host, rest))
        case "code":
            return await _go_back(host, await _place(host, rest), conversation=False)
        case "conversation":
            return await _go_back(host, entry_number(rest), code=False)
        case _ if word.removeprefix("#").isdecimal() and not rest:
            return await _go_back(host, entry_number(word))
        case _:
            raise no_such("rewind", word, REWIND)


async def _checkpoints(host: CommandHost) -> CommandResult:
    found = await host.session.checkpoints()
    return build_result(
        [_checkpoint_line(one) for one in found] or ["there is nothing to go back to yet"],
        checkpoints=[
            {
                "id": one.number,
                "entry": one.entry,
                "cause": one.cause,
                "at": one.at,
                "words": one.words,
                "files": [asdict(file) for file in one.files],
            }
            for one in found
        ],
    )


def _checkpoint_line(one: Summary) -> str:
    files = pluralize(len(one.files), "file")
    return f"  {one.number:>3}  #{one.entry}  {one_line(one.words, _SHOWN)}  ({files})"


async def _place(host: CommandHost, text: str) -> EntryId:
    """Return the entry that a checkpoint's number, or the number of an entry, stands for."""
    if text.startswith("#"):
        return entry_number(text)
    number = whole_number(text)
    if number is None:
        raise SessionError("name a checkpoint by its number, as /rewind list shows it, or #12")
    for one in await host.session.checkpoints():
        if one.number == number:
            return one.entry
    raise SessionError(f"there is no checkpoint {number}; /rewind list shows them")


async def _go_back(
    host: CommandHost, entry: EntryId, *, code: bool = True, conversation: bool = True
) -> CommandResult:
    wish = Wish(code=code, conversation=conversation)
    try:
        done = await host.session.rewind(entry, **wish)
    except ConfigError as error:
        raise SessionError(
            "this session keeps no files to go back to;"
            f" /rewind conversation #{entry} takes back the words alone"
        ) from error
    if done.entry is None and not done.files.skipped:
        return build_result(["everything is as it was then already"], **_rewind_facts(done))
    if done.entry is None:
        head = "no file could be restored"
    elif done.before is None:
        head = f"{pluralize(len(done.files.restored), 'file')} restored; /undo takes that back"
    else:
        head = f"back to before #{done.before}; /undo takes that back"
    restored = [f"  restored: {one_line(path, _PATH)}" for path in done.files.restored]
    skipped = [f"  left alone: {one_line(s.path, _PATH)} ({s.why})" for s in done.files.skipped]
    return build_result([head, *restored, *skipped], **_rewind_facts(done))


def _rewind_facts(done: Rewind) -> dict[str, object]:
    return {
        "entry": None if done.entry is None else done.entry.id,
        "before": done.before,
        "restored": list(done.files.restored),
        "skipped": [{"path": skip.path, "why": skip.why} for skip in done.files.skipped],
    }


REWIND = Command(
    name="rewind",
    description="go back to before a message: words, files, or both",
    argument_hint="[list | #entry | restore ID | code ID | conversation #entry]",
    safety="changes-files",
    subcommands=(
        Command(name="list", description="list the checkpoints, one for each prompt"),
        Command(
            name="restore",
            description="go back to a checkpoint, words and files",
            argument_hint="ID",
            safety="changes-files",
        ),
        Command(
            name="code",
            description="restore the files of a checkpoint; what was said stays",
            argument_hint="ID",
            safety="changes-files",
        ),
        Command(
            name="conversation",
            description="take back what was said; files stay",
            argument_hint="#entry",
            safety="changes-session",
        ),
    ),
)
SESSION_COMMANDS: tuple[Builtin, ...] = (
    Builtin(
        Command(name="clear", description="begin the conversation anew", safety="changes-session"),
        _clear,
    ),
    Builtin(
        Command(
            name="reset",
            description="leave this session and begin a new one",
            safety="changes-session",
        ),
        _reset,
    ),
    Builtin(
        Command(
            name="rename",
            description="give the session a name",
            argument_hint="NAME",
            safety="changes-session",
        ),
        _rename,
    ),
    Builtin(
        Command(
            name="resume",
            description="go on with another session",
            argument_hint="[id | name | words]",
            safety="changes-session",
        ),
        _resume,
    ),
    Builtin(REWIND, _rewind),
)


_LEAST_PREFIX = 4
_MOST = 20


async def matching(store: Store, wanted: str) -> list[StoredSession]:
    """Return the sessions that `wanted` may mean, the one used last first.

    An id comes before a name, a name before the beginning of an id, and that before words.
    """
    try:
        return [await store.record(SessionId(wanted))]
    except SessionNotFound:
        known = await store.sessions()
    named = [record for record in known if record.name == wanted]
    if named:
        return named
    if len(wanted) >= _LEAST_PREFIX:
        begun = [record for record in known if record.id.startswith(wanted)]
        if begun:
            return begun
    return [hit.session for hit in await store.search(wanted, limit=_MOST)]
