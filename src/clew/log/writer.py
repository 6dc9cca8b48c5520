"""`SessionLog` writes the log of a session while it runs."""

import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from functools import partial
from pathlib import Path

from clew._version import __version__
from clew.context.render import render
from clew.core import events as core
from clew.core.entries import ModeChanged, SetupChanged
from clew.core.errors import ConfigError
from clew.core.messages import Message
from clew.log import events as log
from clew.log.buffer import LogTextBuffer, Redaction
from clew.log.calls import CallLog, ShowsWire
from clew.log.content_store import INLINE_LIMIT
from clew.log.event_writer import EventWriter
from clew.log.events import LogLevel
from clew.log.log_file import LogFile, log_path
from clew.log.protocol import LoggedJournal, LoggedSession
from clew.providers.protocol import Chunk, Provider, Request

_BOUNDARIES = (
    core.EntryAdded | core.RunCompleted | core.RunInterrupted | core.RunFailed | core.ToolStarted
)
"""Events before which all buffered text is written."""


class SessionLog:
    """Writes one session's log to `folder`, in a file named after the session's id.

    A resumed session continues its file. Failures are reported once and break no run; when
    writing works again, the log first adds the entries that it missed.
    """

    def __init__(
        self,
        folder: Path,
        *,
        level: LogLevel = LogLevel.REQUESTS,
        inline_limit: int = INLINE_LIMIT,
        redaction: Redaction | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create a log; its file appears with the first message.

        Args:
            folder: Created when it is missing; only its owner can read it.
            level: How much to write.
            inline_limit: Fields with more bytes go to files of their own.
            redaction: How secrets are removed.
            clock: Returns seconds since the epoch.
        """
        self._folder = folder
        self.level = level
        self._redaction = redaction or Redaction()
        self._file = LogFile(redaction=self._redaction, limit=inline_limit, clock=clock)
        self._events = EventWriter(self._file)
        self._buffers = {
            kind: LogTextBuffer(self._redaction, partial(self._write_text, kind))
            for kind in (core.TextDelta, core.ReasoningDelta)
        }
        self._session: LoggedSession | None = None
        self._early: list[core.Event] = []
        self._is_started = False
        """True from `session_init` to `session_shutdown`."""

    @property
    def path(self) -> Path | None:
        """The file of the log; None before the session is open."""
        if self._session is None:
            return None
        return log_path(self._folder, self._session.journal.record.id)

    def begin(self, session: LoggedSession) -> None:
        """Open the log of `session`; the log of a new session starts with its first message.

        Raises:
            ConfigError: The log still belongs to another open session.
        """
        if self._is_started:
            raise ConfigError(
                "a SessionLog is for one session at a time: create another one for this session"
            )
        self._session = session
        self._file.warn = session.warn
        self.hide(session.secrets)
        self._events.max_concurrency = session.max_concurrency
        if session.resumed:
            with self._file.guard():
                self._start()

    def hide(self, values: Iterable[str]) -> None:
        """Redact more texts from now on, such as the key of another provider."""
        self._redaction.hide(values)

    def __call__(self, event: core.Event) -> None:
        """Log an event."""
        with self._file.guard():
            if not self._is_started and (self._session is None or _is_quiet(event)):
                self._early.append(event)
            elif journal := self._start():
                self._write_event(event, journal)

    def pre_run(self, provider: Provider, prompt: Message) -> None:
        """Log the start of a run."""
        with self._file.guard():
            if journal := self._start():
                self._events.write_run(provider, prompt, journal)

    async def call(
        self, provider: Provider, request: Request, *, purpose: str = "turn"
    ) -> AsyncGenerator[Chunk, None]:
        """Send `request` to `provider` and log both directions; raises as `Provider.stream`."""
        call: CallLog | None = None
        with self._file.guard():
            if self.level is not LogLevel.EVENTS and (journal := self._start()):
                call, provider = self._start_call(provider, request, purpose, journal)
        try:
            async with aclosing(provider.stream(request)) as chunks:
                async for chunk in chunks:
                    if call is not None:
                        call.add(chunk)
                    yield chunk
        except BaseException as error:
            if call is not None:
                call.fail(error)
            raise

    def end(self, reason: str) -> None:
        """Log the end of the session and close the file."""
        with self._file.guard():
            if self._is_started:
                self._flush(is_over=True)
                self._file.write(log.SessionShutdown(reason=reason))
        self._is_started = False
        self._file.close()

    def _start(self) -> LoggedJournal | None:
        """Open the file if it is not open, and write everything that came before."""
        if self._session is None:
            return None
        journal = self._session.journal
        if self._is_started:
            return journal
        tail = self._file.open(log_path(self._folder, journal.record.id), journal.record.id)
        continues = self._events.resume(tail, journal.entries)
        setup = journal.view.setup
        init = log.SessionInit(
            format=log.FORMAT,
            clew=__version__,
            level=self.level,
            cwd=journal.record.cwd,
            provider=self._session.provider,
            model=setup.model.name,
            system_prompt=setup.system,
            tool_schemas=setup.tools,
            max_concurrency=self._session.max_concurrency,
            resumed=self._session.resumed or tail.seq > 0,
            anew=not continues,
        )
        self._is_started = True
        try:
            self._file.write(init)
        except OSError:
            self._is_started = False
            raise
        self._events.write_entries(journal.entries)
        early, self._early = self._early, []
        for event in early:
            if not isinstance(event, core.EntryAdded):
                self._write_event(event, journal)
        return journal

    def _start_call(
        self, provider: Provider, request: Request, purpose: str, journal: LoggedJournal
    ) -> tuple[CallLog, Provider]:
        """Write a request; returns the log of its response, and the provider to call."""
        self._flush(is_over=True)
        self._events.write_entries(journal.entries)
        is_raw = self.level is LogLevel.RAW
        call = CallLog(self._file, provider.name, is_raw=is_raw)
        tapped = provider.with_tap(call) if is_raw and isinstance(provider, ShowsWire) else None
        self._events.write_request(
            call,
            request,
            purpose=purpose,
            history=render(journal.view),
            native=tapped is not None,
        )
        return call, tapped or provider

    def _write_event(self, event: core.Event, journal: LoggedJournal) -> None:
        if isinstance(event, core.TextDelta | core.ReasoningDelta):
            self._buffers[type(event)].add(event.text)
            return
        self._flush(is_over=isinstance(event, _BOUNDARIES))
        self._events.write_event(event, journal)

    def _flush(self, *, is_over: bool) -> None:
        for buffer in self._buffers.values():
            buffer.flush(is_over=is_over)

    def _write_text(self, kind: type[core.TextDelta | core.ReasoningDelta], text: str) -> None:
        self._file.write(kind(text), redacted=True)


def _is_quiet(event: core.Event) -> bool:
    """Return True when an event alone does not start a log."""
    if isinstance(event, core.EntryAdded):
        return isinstance(event.entry.body, SetupChanged | ModeChanged)
    return isinstance(event, core.ContextUpdated | core.Warned)
