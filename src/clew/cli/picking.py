"""Choosing a session from a list."""

from anyio.from_thread import BlockingPortal

from clew.cli.input_loop import InputLoop
from clew.cli.replies import NEW
from clew.cli.sanitize import one_line
from clew.cli.screen import Screen
from clew.cli.times import when
from clew.core.text import pluralize
from clew.sdk.launch import LaunchedSession

_MOST = 15
_SHOWN = 60


def pick(
    launched: LaunchedSession,
    candidates: tuple[str, ...],
    *,
    portal: BlockingPortal,
    loop: InputLoop,
    screen: Screen,
) -> str | None:
    """Show sessions and ask which; returns its id, or None to stay."""
    found = portal.call(launched.other_sessions)
    known = [one for one in found if not candidates or one.id in candidates][:_MOST]
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
            typed = loop.ask_line("which one? ")
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
