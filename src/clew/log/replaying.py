"""Rebuilding a history from a log."""

from pathlib import Path

from msgspec import Struct

from clew.context.render import render
from clew.context.view import View
from clew.core.entries import Entry
from clew.core.messages import Message
from clew.log.events import SessionInit
from clew.log.faults import Fault
from clew.log.reading import LogReader
from clew.log.walking import Walk


class Replayed(Struct, frozen=True, kw_only=True):
    """A session as its log tells it."""

    session_id: str = ""
    cwd: str = ""
    entries: tuple[Entry, ...] = ()
    view: View = View()
    faults: tuple[Fault, ...] = ()

    @property
    def history(self) -> list[Message]:
        """The conversation, as `Session.get_history` returns it."""
        return [item.message for item in self.view.items]

    @property
    def request(self) -> tuple[Message, ...]:
        """The messages that the next request would hold."""
        return render(self.view)


def replay(path: Path, *, until: int | None = None) -> Replayed:
    """Rebuild the history from the log at `path`, up to the line numbered `until`.

    Raises:
        ConfigError: There is no such log.
    """
    reader = LogReader(path)
    walk = Walk(reader.fault)
    session_id = cwd = ""
    for line in reader:
        if until is not None and line.seq > until:
            break
        session_id = session_id or line.session_id
        if isinstance(line.event, SessionInit):
            cwd = line.event.cwd
        if line.event is not None:
            walk.take(line.event, is_whole=line.is_whole)
    return Replayed(
        session_id=session_id,
        cwd=cwd,
        entries=tuple(walk.entries),
        view=walk.view,
        faults=tuple(reader.faults),
    )
