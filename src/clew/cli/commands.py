"""What a line at the prompt means when it begins with `/` or `!`."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

from clew.cli.paint import breakdown
from clew.core.entries import Compacted
from clew.core.errors import SessionError
from clew.core.ids import EntryId
from clew.session.recall import entry_text
from clew.session.session import Session


@dataclass(frozen=True, slots=True)
class _Ask:
    """A command as it was typed, and what it may use."""

    session: Session
    rest: str


Handler = Callable[[_Ask], Awaitable[list[str]]]
_SHOWN_CHARS = 160


async def run_line(session: Session, line: str) -> list[str] | None:
    """Carry out a command or a shell line; None when `line` is meant for the model.

    Raises:
        SessionError: There is no such command, or it cannot be done now.
    """
    if line.startswith("!"):
        return await _shell(session, line)
    if not line.startswith("/"):
        return None
    name, _, rest = line[1:].partition(" ")
    if name not in COMMANDS:
        raise SessionError(f"there is no command /{name}; /help lists them")
    return await COMMANDS[name][1](_Ask(session, rest.strip()))


async def _shell(session: Session, line: str) -> list[str]:
    command = line[1:].strip()
    if not command:
        raise SessionError("write a command after the exclamation mark, such as !ls")
    arguments = msgspec.json.encode({"command": command}).decode()
    output = await session.run_tool("Bash", arguments, said=line)
    return [output.display or output.text]


async def _help(_: _Ask) -> list[str]:
    lines = [f"  /{name:<10} {text}" for name, (text, _handler) in COMMANDS.items()]
    return [*lines, "  !command    run a command; its output joins the conversation"]


async def _context(ask: _Ask) -> list[str]:
    return breakdown(ask.session.get_context_state())


async def _compact(ask: _Ask) -> list[str]:
    await ask.session.compact(ask.rest)
    return []


async def _undo(ask: _Ask) -> list[str]:
    undone = await ask.session.undo()
    what = "the compaction" if isinstance(undone.body, Compacted) else "the clear"
    return [f"{what} #{undone.id} is taken back"]


async def _pin(ask: _Ask) -> list[str]:
    await ask.session.pin(_entry_id(ask.rest))
    return [f"#{_entry_id(ask.rest)} will survive every compaction word for word"]


async def _unpin(ask: _Ask) -> list[str]:
    await ask.session.pin(_entry_id(ask.rest), pinned=False)
    return [f"#{_entry_id(ask.rest)} is no longer pinned"]


async def _recall(ask: _Ask) -> list[str]:
    if ask.rest.removeprefix("#").isdigit():
        entry = ask.session.journal.entry(EntryId(_entry_id(ask.rest)))
        return [entry_text(entry)] if entry else [f"there is no entry {ask.rest}"]
    found = ask.session.search(ask.rest)
    return [
        f"#{entry.id}  {' '.join(entry_text(entry).split())[:_SHOWN_CHARS]}" for entry in found
    ] or [f"nothing in this session contains {ask.rest!r}"]


async def _clear(ask: _Ask) -> list[str]:
    await ask.session.clear_history()
    return ["the conversation begins anew; /undo brings the old one back"]


def _entry_id(text: str) -> int:
    number = text.strip().removeprefix("#")
    if not number.isdigit():
        raise SessionError("name an entry by its number, such as #12; /recall finds it")
    return int(number)


COMMANDS: Mapping[str, tuple[str, Handler]] = MappingProxyType(
    {
        "help": ("list the commands", _help),
        "context": ("show what fills the window", _context),
        "compact": ("make the view smaller now; words after it say what matters", _compact),
        "undo": ("take back the last compaction or clear", _undo),
        "pin": ("keep a message word for word: /pin #12", _pin),
        "unpin": ("no longer keep it", _unpin),
        "recall": ("find words in all of the session, or show one entry: /recall #12", _recall),
        "clear": ("begin the conversation anew", _clear),
        "quit": ("leave; the session can be resumed", _help),
    }
)
