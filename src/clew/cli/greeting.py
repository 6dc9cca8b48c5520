"""What the prompt says when a session opens."""

from clew.cli.sanitize import one_line
from clew.cli.screen import Screen
from clew.core.text import pluralize
from clew.sdk.client import HistoryEntry, SessionSnapshot
from clew.sdk.launch import LaunchedSession

_SHOWN = 200


def greet(
    launched: LaunchedSession, now: SessionSnapshot, screen: Screen, *, again: bool = False
) -> None:
    """Show the model and the permission mode; for a resumed session, where it stands.

    Args:
        launched: The session, and how it was chosen.
        now: Its state.
        screen: Where to show it.
        again: True when another session was open before; what has not changed is left out.
    """
    if not again:
        screen.say(f"{launched.choice.model}: {launched.choice.why}", style="dim")
        screen.say(f"permission mode: {now.mode}", style="dim")
        screen.say(launched.sandbox, style="dim")
    if launched.resumed:
        _recap(now, screen)
    if not again:
        words = "/help lists the commands, !ls runs a shell command, Ctrl-D leaves"
        screen.say(words, style="dim")


def _recap(now: SessionSnapshot, screen: Screen) -> None:
    name = now.name or now.session_id
    screen.line(f"session {name}: {pluralize(now.last_entry, 'entry', 'entries')}", "dim")
    for who, role in (("you", "user"), ("answer", "assistant")):
        if text := _newest(now.history, role):
            screen.say(f"  {who}: {one_line(text, _SHOWN)}", style="dim")
    if not screen.live:
        screen.gauge(now.context)


def _newest(history: tuple[HistoryEntry, ...], role: str) -> str:
    for item in reversed(history):
        if item.type == role and item.message is not None and item.message.text.strip():
            return item.message.text
    return ""
