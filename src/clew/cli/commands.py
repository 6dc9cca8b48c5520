"""What a line at the prompt means when it begins with `/` or `!`."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

from clew.cli.harmless import one_line
from clew.cli.history import listed
from clew.cli.paint import breakdown, cost_lines, loss_report
from clew.cli.switching import Switchboard
from clew.core.entries import Cleared, Compacted, Rewound
from clew.core.errors import SessionError
from clew.core.ids import EntryId
from clew.session.recall import entry_text
from clew.session.session import Session


@dataclass(frozen=True, slots=True)
class _Ask:
    """A command as it was typed, and what it may use."""

    session: Session
    board: Switchboard
    rest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a line at the prompt brought."""

    lines: tuple[str, ...] = ()
    gauge: bool = False
    """True when the context may have changed, and was not drawn yet."""


Handler = Callable[[_Ask], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True)
class Command:
    """A row of the table below."""

    text: str
    handler: Handler
    gauge: bool = False


_SHOWN_CHARS = 160
_UNDONE = {Compacted: "the compaction", Cleared: "the clear", Rewound: "the rewind"}
_SHOWN_LINES = 40
_SHOWN_LINE = 2_000
_HISTORY = 20
_MOST_DIGITS = 9


def leaves(line: str) -> bool:
    """Is this line a wish to leave?"""
    return line.lower().split(maxsplit=1)[:1] in (["/quit"], ["/exit"])


async def run_line(session: Session, board: Switchboard, line: str) -> Reply | None:
    """Carry out a command or a shell line; None when `line` is meant for the model.

    Raises:
        SessionError: There is no such command, or it cannot be done now.
    """
    if line.startswith("!"):
        return Reply(lines=(await _shell(session, line),), gauge=True)
    if not line.startswith("/"):
        return None
    name, _, rest = " ".join(line[1:].split(maxsplit=1)).partition(" ")
    command = COMMANDS.get(name.lower())
    if command is None:
        raise SessionError(f"there is no command /{one_line(name, 40)}; /help lists them")
    lines = await command.handler(_Ask(session, board, rest.strip()))
    return Reply(lines=tuple(lines), gauge=command.gauge)


async def _shell(session: Session, line: str) -> str:
    command = line[1:].strip()
    if not command:
        raise SessionError("write a command after the exclamation mark, such as !ls")
    arguments = msgspec.json.encode({"command": command}).decode()
    output = await session.run_tool("Bash", arguments, said=line)
    return shortened(output.display or output.text, entry=session.journal.entries[-1].id)


def shortened(text: str, *, entry: int) -> str:
    """Return the first and the last lines of a long output, and say where all of it is."""
    lines = text.split("\n")
    half = _SHOWN_LINES // 2
    if len(lines) > _SHOWN_LINES:
        hidden = f"… {len(lines) - 2 * half:,} lines are hidden; /recall #{entry} shows all …"
        lines = [*lines[:half], hidden, *lines[-half:]]
    return "\n".join(
        line
        if len(line) <= _SHOWN_LINE
        else f"{line[:_SHOWN_LINE]} … {len(line) - _SHOWN_LINE:,} characters are hidden; "
        f"/recall #{entry} shows all"
        for line in lines
    )


async def _help(_: _Ask) -> list[str]:
    lines = [f"  /{name:<10} {command.text}" for name, command in COMMANDS.items()]
    return [*lines, "  !command    run a command; its output joins the conversation"]


async def _context(ask: _Ask) -> list[str]:
    return breakdown(ask.session.get_context_state())


async def _compact(ask: _Ask) -> list[str]:
    if ask.rest.removeprefix("--") == "preview":
        would = ask.session.preview_compaction()
        told = loss_report(would.report)[:-1]
        return ["a compaction now would do this; nothing is changed:", *told, "", would.summary]
    if ask.rest == "undo":
        return await _undo(ask)
    await ask.session.compact(ask.rest)
    return []


async def _undo(ask: _Ask) -> list[str]:
    undone = await ask.session.undo()
    what = _UNDONE.get(type(undone.body), "the change")
    return [f"{what} #{undone.id} is taken back"]


async def _rewind(ask: _Ask) -> list[str]:
    if not ask.rest:
        found = await ask.session.checkpoints()
        return [
            f"  #{one.entry}  {one_line(one.words, 60)}  ({len(one.files)} files)" for one in found
        ] or ["there is nothing to go back to yet"]
    done = await ask.session.rewind(_entry_id(ask.rest))
    if done.entry is None:
        return ["everything is as it was then already"]
    skipped = [f"  left alone: {one_line(s.path, 80)} ({s.why})" for s in done.files.skipped]
    restored = [f"  restored: {one_line(path, 80)}" for path in done.files.restored]
    return [f"back to before #{done.before}; /undo takes that back", *restored, *skipped]


async def _pin(ask: _Ask) -> list[str]:
    await ask.session.pin(_entry_id(ask.rest))
    return [f"#{_entry_id(ask.rest)} will survive every compaction word for word"]


async def _unpin(ask: _Ask) -> list[str]:
    await ask.session.pin(_entry_id(ask.rest), pinned=False)
    return [f"#{_entry_id(ask.rest)} is no longer pinned"]


async def _recall(ask: _Ask) -> list[str]:
    if not ask.rest:
        raise SessionError("write words to find, such as /recall marigold, or a number: #12")
    if ask.rest.removeprefix("#").isdecimal():
        entry = ask.session.journal.entry(EntryId(_entry_id(ask.rest)))
        return [entry_text(entry)] if entry else [f"there is no entry {one_line(ask.rest, 20)}"]
    found = ask.session.search(ask.rest)
    return [f"#{entry.id}  {one_line(entry_text(entry), _SHOWN_CHARS)}" for entry in found] or [
        f"nothing in this session contains {ask.rest!r}"
    ]


async def _history(ask: _Ask) -> list[str]:
    if ask.rest and not (ask.rest.isdecimal() and len(ask.rest) <= _MOST_DIGITS):
        raise SessionError("say how many entries to list, such as /history 50")
    return listed(ask.session.journal.entries, max(1, int(ask.rest or _HISTORY)))


async def _model(ask: _Ask) -> list[str]:
    if not ask.rest:
        return ask.board.overview(ask.session)
    return [await ask.board.switch(ask.session, ask.rest)]


async def _cost(ask: _Ask) -> list[str]:
    return cost_lines(ask.session.get_cost())


async def _clear(ask: _Ask) -> list[str]:
    await ask.session.clear_history()
    return ["the conversation begins anew; /undo brings the old one back"]


def _entry_id(text: str) -> int:
    number = text.strip().removeprefix("#")
    if not number.isdecimal() or len(number) > _MOST_DIGITS:
        raise SessionError("name an entry by its number, such as #12; /recall finds it")
    return int(number)


COMMANDS: Mapping[str, Command] = MappingProxyType(
    {
        "help": Command("list the commands", _help),
        "context": Command("show what fills the window", _context, gauge=True),
        "compact": Command(
            "make the view smaller now: words that say what matters, or preview, or undo", _compact
        ),
        "model": Command("show the model, or go on with another: /model NAME", _model, gauge=True),
        "cost": Command("show what the session has cost", _cost),
        "undo": Command("take back the last compaction or clear", _undo, gauge=True),
        "rewind": Command(
            "go back to before a message, words and files: /rewind #12", _rewind, gauge=True
        ),
        "history": Command("list the last entries with their numbers: /history 50", _history),
        "pin": Command("keep a message word for word: /pin #12", _pin),
        "unpin": Command("no longer keep it", _unpin),
        "recall": Command("find words in the session, or show one entry: /recall #12", _recall),
        "clear": Command("begin the conversation anew", _clear, gauge=True),
        "quit": Command("leave; the session can be resumed", _help),
    }
)
