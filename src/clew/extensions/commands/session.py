"""Commands for the session as a whole: /clear, /reset, /rename, /resume, /rewind and /todo."""

from msgspec.structs import asdict

from clew.checkpoints.values import CheckpointSummary, SkippedFile
from clew.core.errors import ConfigError, SessionError, SessionNotFound
from clew.core.ids import EntryId, SessionId
from clew.core.text import one_line, pluralize
from clew.core.todos import format_todos
from clew.extensions.commands.arguments import (
    Builtin,
    build_result,
    check_text,
    parse_entry_id,
    parse_number,
    reject_arguments,
    unknown_subcommand,
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
from clew.session.rewind import Rewind, RewindOptions
from clew.stores.protocol import Store
from clew.stores.record import StoredSession

_NAME = 120
_SHOWN = 60
_PATH = 80
_MIN_PREFIX = 4
_MAX_FOUND = 20
_TODO = 200


async def _clear(host: CommandHost, arguments: str) -> CommandResult:
    reject_arguments(arguments, "clear")
    await host.session.clear_history()
    return build_result(["the conversation is cleared; /undo restores it"], cleared=True)


async def _reset(_: CommandHost, arguments: str) -> CommandResult:
    reject_arguments(arguments, "reset")
    return build_result(["starting a new session; /resume returns to this one"], NewSession())


async def _rename(host: CommandHost, arguments: str) -> CommandResult:
    if not arguments:
        now = f"its name is {one_line(host.name, _SHOWN)}" if host.name else "it has no name yet"
        raise SessionError(f"write a name for the session, such as /rename parser work; {now}")
    name = check_session_name(arguments)
    return build_result([f"the session is now called {name}"], RenameSession(name), name=name)


def check_session_name(text: str) -> str:
    """Return `text` without blanks around it if it can be the name of a session.

    Raises:
        SessionError: It is empty, too long, or has several lines.
    """
    name = check_text(text.strip(), _NAME, "a name", lines=False)
    if not name:
        raise SessionError("the name is empty; write a few words")
    return name


async def _resume(host: CommandHost, arguments: str) -> CommandResult:
    if not arguments:
        return build_result(["choose the session to resume"], PickSession())
    wanted = check_text(arguments, _NAME, "the id, name or text", lines=False)
    found = await find_sessions(host.store, wanted)
    others = [record for record in found if record.id != host.session.session_id]
    if not found:
        raise SessionError(
            f"no session has the id or name {one_line(wanted, _SHOWN)!r} or contains that text;"
            " /resume lists all sessions"
        )
    if not others:
        raise SessionError("that session is already open")
    if len(others) > 1:
        lines = [f"{pluralize(len(others), 'session')} match; choose one", *map(_line, others)]
        ids = tuple(record.id for record in others)
        return build_result(lines, PickSession(ids), candidates=list(ids))
    (record,) = others
    title = one_line(record.heading, _SHOWN) or record.id
    return build_result([f"resuming {title}"], OpenSession(record.id), session_id=record.id)


async def find_sessions(store: Store, wanted: str) -> list[StoredSession]:
    """Return the sessions that `wanted` may mean, the most recently used first.

    An exact id wins over a name, a name over the beginning of an id, and that over text that
    was said in a session.
    """
    try:
        return [await store.record(SessionId(wanted))]
    except SessionNotFound:
        known = await store.sessions()
    named = [record for record in known if record.name == wanted]
    if named:
        return named
    if len(wanted) >= _MIN_PREFIX:
        found = [record for record in known if record.id.startswith(wanted)]
        if found:
            return found
    return [hit.session for hit in await store.search(wanted, kind="", limit=_MAX_FOUND)]


def _line(record: StoredSession) -> str:
    return f"  {one_line(record.id, 40)}  {one_line(record.heading, _SHOWN)}"


async def _rewind(host: CommandHost, arguments: str) -> CommandResult:
    words = [word for word in arguments.split() if word != "--force"]
    word, rest = (words or [""])[0], " ".join(words[1:])
    what = word.lower()
    if what in ("", "list"):
        reject_arguments(rest, "rewind list")
        return await _checkpoints(host)
    if word.removeprefix("#").isdecimal():
        what, rest = "both", " ".join(words)
    if what not in _WHAT:
        raise unknown_subcommand("rewind", word, REWIND)
    wish = RewindOptions(
        code=what != "conversation",
        conversation=what in ("conversation", "both"),
        force="--force" in arguments.split(),
    )
    return await _go_back(host, await _find_entry(host, rest, word=what), wish)


async def _checkpoints(host: CommandHost) -> CommandResult:
    found = await host.session.list_checkpoints()
    return build_result(
        [_checkpoint_line(one) for one in found] or ["there is no checkpoint yet"],
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


def _checkpoint_line(one: CheckpointSummary) -> str:
    files = pluralize(len(one.files), "file")
    return f"  {one.number:>3}  #{one.entry}  {one_line(one.words, _SHOWN)}  ({files})"


async def _find_entry(host: CommandHost, text: str, *, word: str) -> EntryId:
    """Return the entry for the number of a checkpoint or of an entry."""
    if text.startswith("#"):
        return parse_entry_id(text)
    number = parse_number(text)
    if number is None:
        raise SessionError(
            f"give the number of a checkpoint or entry, such as /rewind {word} 3 or"
            f" /rewind {word} #12; /rewind list shows them"
        )
    for one in await host.session.list_checkpoints():
        if one.number == number:
            return one.entry
    raise SessionError(f"there is no checkpoint {number}; /rewind list shows them")


async def _go_back(host: CommandHost, entry: EntryId, wish: RewindOptions) -> CommandResult:
    try:
        done = await host.session.rewind(entry, **wish)
    except ConfigError as error:
        raise SessionError(
            "this session keeps no checkpoints of files;"
            f" /rewind conversation #{entry} rewinds the conversation alone"
        ) from error
    lines = [_describe_rewind(done, wish)]
    lines += (f"  restored: {one_line(path, _PATH)}" for path in done.files.restored)
    lines += map(_format_skipped, done.files.skipped)
    return build_result(
        lines,
        entry=None if done.entry is None else done.entry.id,
        before=done.before,
        restored=list(done.files.restored),
        skipped=[{"path": skip.path, "why": skip.why} for skip in done.files.skipped],
    )


def _describe_rewind(done: Rewind, wish: RewindOptions) -> str:
    """Describe which files and messages a rewind changed or skipped."""
    files = pluralize(len(done.files.restored), "file")
    if done.entry is None:
        if done.files.skipped:
            return "no file was restored; the conversation is unchanged"
        return "the files are already in that state; the conversation is unchanged"
    if done.before is None:
        return f"{files} restored; the conversation is unchanged. /undo reverts this"
    if not wish.get("code"):
        return (
            f"the conversation is back to before #{done.before}; files are unchanged."
            " /undo reverts this"
        )
    return f"back to before #{done.before}: the conversation and {files}. /undo reverts this"


def _format_skipped(skip: SkippedFile) -> str:
    hint = "; --force overwrites it" if skip.forceable else ""
    return f"  unchanged: {one_line(skip.path, _PATH)} ({skip.why}{hint})"


def _rewinds(name: str, description: str) -> Command:
    return Command(
        name=name,
        description=description,
        argument_hint="ID",
        flags=() if name == "conversation" else ("force",),
        safety="changes-session" if name == "conversation" else "changes-files",
    )


_WHAT = ("restore", "code", "conversation", "both")
REWIND = Command(
    name="rewind",
    description="restore files, the conversation, or both to before a prompt",
    argument_hint="[list | restore ID | code ID | conversation ID | both ID | #entry] [--force]",
    flags=("force",),
    safety="changes-files",
    subcommands=(
        Command(name="list", description="list the checkpoints, one per prompt"),
        _rewinds("restore", "restore the files only; the same as code"),
        _rewinds("code", "restore the files only; the conversation is unchanged"),
        _rewinds("conversation", "rewind the conversation only; files are unchanged"),
        _rewinds("both", "restore the files and rewind the conversation; the same as #entry"),
    ),
)


async def _todo(host: CommandHost, arguments: str) -> CommandResult:
    reject_arguments(arguments, "todo")
    todos = host.session.journal.view.todos
    lines = [f"  {one_line(line, _TODO)}" for line in format_todos(todos)]
    facts = [{"content": one.content, "status": str(one.status)} for one in todos]
    return build_result(lines or ["the model keeps no todo list yet"], todos=facts)


SESSION_COMMANDS: tuple[Builtin, ...] = (
    Builtin(
        Command(
            name="clear",
            description="clear the conversation and stay in this session",
            safety="changes-session",
        ),
        _clear,
    ),
    Builtin(
        Command(
            name="reset",
            description="leave this session and start a new one",
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
            description="leave this session and resume another",
            argument_hint="[id | name | text]",
            safety="changes-session",
        ),
        _resume,
    ),
    Builtin(REWIND, _rewind),
    Builtin(Command(name="todo", description="show the todo list of the model"), _todo),
)
