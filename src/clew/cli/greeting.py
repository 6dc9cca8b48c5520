"""What is said when the prompt opens."""

from clew.cli.harmless import one_line
from clew.cli.history import newest
from clew.cli.opening import Opened
from clew.cli.screen import Screen
from clew.core.entries import MessageAdded
from clew.core.messages import Role
from clew.core.text import pluralize

_SHOWN = 200


def greet(opened: Opened, screen: Screen, *, again: bool = False) -> None:
    """Say who answers and what may run; on resume, where the conversation stands.

    Args:
        opened: The session.
        screen: Where to say it.
        again: True when another session was open before, and only what is new is said.
    """
    choice = opened.choice
    if not again:
        screen.say(f"{choice.model}: {choice.why}", style="dim")
        screen.say(f"permission mode: {opened.mode}", style="dim")
        screen.say(opened.sandbox, style="dim")
    if opened.resumed:
        _recap(opened, screen)
    if not again:
        words = "/help lists the commands, !ls runs one of the shell, Ctrl-D leaves"
        screen.say(words, style="dim")


def _recap(opened: Opened, screen: Screen) -> None:
    session = opened.session.session
    record, entries = session.journal.record, session.journal.entries
    count = sum(isinstance(entry.body, MessageAdded) for entry in entries)
    screen.line(f"session {record.name or record.id}: {pluralize(count, 'message')}", "dim")
    for who, role in (("you", Role.USER), ("answer", Role.ASSISTANT)):
        if words := newest(entries, role):
            screen.say(f"  {who}: {one_line(words, _SHOWN)}", style="dim")
    if not screen.live:
        screen.gauge(session.get_context_state())
