"""Choosing a session from a list."""

from anyio.from_thread import BlockingPortal

from clew.cli.desk import Desk
from clew.cli.harmless import one_line
from clew.cli.lines import NEW
from clew.cli.opening import Opened
from clew.cli.screen import Screen
from clew.cli.times import when
from clew.core.text import pluralize
from clew.stores.record import StoredSession

_MOST = 15
_SHOWN = 60


def pick(
    made: Opened,
    candidates: tuple[str, ...],
    *,
    portal: BlockingPortal,
    desk: Desk,
    screen: Screen,
) -> str | None:
    """Show sessions and ask which; returns its id, or None to stay."""
    known = [one for one in portal.call(_sessions, made) if not candidates or one.id in candidates]
    known = [one for one in known if one.id != made.session.get_session_id()][:_MOST]
    if not known:
        screen.line("there is no other session in this folder")
        return None
    for number, record in enumerate(known, start=1):
        title = one_line(record.heading, _SHOWN) or record.id
        facts = f"{pluralize(record.messages, 'message')}, {when(record.updated_at)}"
        screen.say(f"  {number:>2}  {title}  ({facts})")
    screen.say("a number, n for a new session, Enter to stay")
    while True:
        try:
            typed = desk.ask_line("which one? ")
        except (EOFError, KeyboardInterrupt):
            return None
        match typed.strip().lower():
            case "":
                return None
            case "n":
                return NEW
            case text if text.isdecimal() and 1 <= int(text[:4]) <= len(known):
                return known[int(text[:4]) - 1].id
            case _:
                screen.line(f"please write a number from 1 to {len(known)}")


async def _sessions(made: Opened) -> list[StoredSession]:
    store = made.session.store
    return list(await store.sessions(cwd=str(made.session.cwd), limit=200))
