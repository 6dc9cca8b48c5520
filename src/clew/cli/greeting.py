"""What is said when the prompt opens."""

from clew.cli.harmless import one_line
from clew.cli.history import newest
from clew.cli.opening import Opened
from clew.cli.screen import Screen
from clew.core.entries import MessageAdded
from clew.core.messages import Role

_SHOWN = 200


def greet(opened: Opened, screen: Screen) -> None:
    """Say who answers and what may run; on resume, where the conversation stands."""
    choice = opened.choice
    screen.line(f"{choice.model}: {choice.why}", "dim")
    screen.line(f"permission mode: {opened.mode}", "dim")
    screen.line(opened.sandbox, "dim")
    if opened.resumed:
        _recap(opened, screen)
    screen.line("/help lists the commands, !cmd runs one, Ctrl-D leaves", "dim")


def _recap(opened: Opened, screen: Screen) -> None:
    session = opened.session
    record, entries = session.journal.record, session.journal.entries
    count = sum(isinstance(entry.body, MessageAdded) for entry in entries)
    screen.line(f"session {record.name or record.id}: {count:,} messages", "dim")
    for who, role in (("you", Role.USER), ("answer", Role.ASSISTANT)):
        if words := newest(entries, role):
            screen.line(f"  {who}: {one_line(words, _SHOWN)}", "dim")
    screen.gauge(session.get_context_state())
