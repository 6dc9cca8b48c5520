"""`SessionLog` writes the log of a session while it runs."""

import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from pathlib import Path

from clew._version import __version__
from clew.context.render import render
from clew.core.entries import Entry, MessageAdded, ModeChanged, SetupChanged
from clew.core.errors import ConfigError
from clew.core.events import (
    ContextUpdated,
    EntryAdded,
    Event,
    ReasoningDelta,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    TextDelta,
    ToolStarted,
    Warned,
)
from clew.core.ids import EntryId
from clew.core.messages import Message
from clew.log.buffer import LogTextBuffer, Redaction
from clew.log.calls import CallLog, CallLogger
from clew.log.content_store import INLINE_LIMIT, ContentIndex, content_hash
from clew.log.events import (
    FORMAT,
    SETUP_CONTENTS,
    LogLevel,
    PreRun,
    SessionInit,
    SessionShutdown,
)
from clew.log.log_file import LogFile, LogTail, log_path
from clew.log.protocol import LoggedJournal, LoggedSession
from clew.log.translate import LogTranslator, to_mutation
from clew.providers.protocol import Chunk, Provider, Request, SearchesWeb

_BOUNDARIES = EntryAdded | RunCompleted | RunInterrupted | RunFailed | ToolStarted
"""Events before which buffered text is written."""


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
        self._file = LogFile(
            redaction=redaction or Redaction(),
            limit=inline_limit,
            clock=clock,
            on_loss=self._recover,
        )
        stream = self._file.redaction.stream
        self._buffers = {kind: LogTextBuffer(stream) for kind in (TextDelta, ReasoningDelta)}
        self._translator = LogTranslator()
        self._calls = CallLogger(self._file, level, self._translator)
        self._history = _HistoryWriter(self._file, self._calls.contents)
        self._session: LoggedSession | None = None
        self._early: list[Event] = []
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
        self._file.redaction.hide(session.secrets)
        self._translator.max_concurrency = session.max_concurrency
        if session.resumed:
            with self._file.guard():
                self._start()

    def hide(self, values: Iterable[str]) -> None:
        """Redact more texts from now on, such as the key of another provider."""
        self._file.redaction.hide(values)

    def __call__(self, event: Event) -> None:
        """Log an event."""
        with self._file.guard():
            if not self._is_started and (self._session is None or _is_quiet(event)):
                self._early.append(event)
            elif journal := self._start():
                self._write_event(event, journal)

    def pre_run(self, provider: Provider, prompt: Message) -> None:
        """Log the start of a run."""
        with self._file.guard():
            if not (journal := self._start()):
                return
            self._translator.start_run()
            web = provider.web_tools if isinstance(provider, SearchesWeb) else frozenset()
            self._file.write(
                PreRun(
                    run=self._translator.run,
                    provider=provider.name,
                    web_tools=tuple(sorted(web)),
                    input=prompt,
                    messages=len(journal.view.items),
                    entry_id=self._history.last_entry,
                )
            )

    async def call(
        self, provider: Provider, request: Request, *, purpose: str = "turn"
    ) -> AsyncGenerator[Chunk, None]:
        """Send `request` to `provider` and log both directions; raises as `Provider.stream`."""
        call: CallLog | None = None
        with self._file.guard():
            if self.level is not LogLevel.EVENTS and (journal := self._start()):
                self._flush(is_over=True)
                self._history.write_new(journal.entries)
                call, provider = self._calls.start(
                    provider, request, purpose=purpose, history=render(journal.view)
                )
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
                self._file.write(SessionShutdown(reason=reason))
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
        continues = self._history.resume(tail, journal.entries)
        self._calls.contents.reset()
        init = _session_init(self._session, self.level, resumed=tail.seq > 0, anew=not continues)
        self._is_started = True
        try:
            self._file.write(init)
        except OSError:
            self._is_started = False
            raise
        self._history.write_new(journal.entries)
        early, self._early = self._early, []
        for event in early:
            if not isinstance(event, EntryAdded):
                self._write_event(event, journal)
        return journal

    def _write_event(self, event: Event, journal: LoggedJournal) -> None:
        if isinstance(event, TextDelta | ReasoningDelta):
            if text := self._buffers[type(event)].add(event.text):
                self._file.write(type(event)(text), redacted=True)
            return
        self._flush(is_over=isinstance(event, _BOUNDARIES))
        if isinstance(event, EntryAdded):
            self._history.write_new(journal.entries)
            for translated in self._translator.translate_entry(event.entry):
                self._file.write(translated)
        elif one := self._translator.translate_event(event, messages=len(journal.view.items)):
            self._file.write(one)

    def _flush(self, *, is_over: bool) -> None:
        for kind, buffer in self._buffers.items():
            if text := buffer.close() if is_over else buffer.take():
                self._file.write(kind(text), redacted=True)

    def _recover(self, warning: str | None) -> None:
        self._calls.contents.reset()
        if warning is not None and self._session is not None:
            self._session.warn(warning)


class _HistoryWriter:
    """Writes every journal entry once, in order."""

    def __init__(self, file: LogFile, contents: ContentIndex) -> None:
        self._file = file
        self._contents = contents
        self.last_entry = EntryId(0)
        """The last journal entry in the log."""

    def resume(self, tail: LogTail, entries: Sequence[Entry]) -> bool:
        """Continue after `tail`; returns False when the log ends with another history."""
        self.last_entry = EntryId(0)
        if not tail.entry_id:
            return True
        last = next((entry for entry in reversed(entries) if entry.id == tail.entry_id), None)
        redact = self._file.redaction.value
        if last is None or to_mutation(last, redact).sha256 != tail.sha256:
            return False
        self.last_entry = last.id
        return True

    def write_new(self, entries: Sequence[Entry]) -> None:
        """Write the entries that the log does not contain yet.

        After an `OSError` the entry is tried again; one that cannot be encoded is skipped.
        """
        start = len(entries)
        while start and entries[start - 1].id > self.last_entry:
            start -= 1
        for entry in entries[start:]:
            before, self.last_entry = self.last_entry, entry.id
            try:
                self._write(entry)
            except OSError:
                self.last_entry = before
                raise

    def _write(self, entry: Entry) -> None:
        mutation = to_mutation(entry, self._file.redaction.value)
        self._file.write(mutation, redacted=True)
        if isinstance(entry.body, MessageAdded):
            self._contents.hold(mutation.sha256, entry.body.message)
        elif isinstance(entry.body, SetupChanged):
            body = mutation.entry["body"]
            for name in SETUP_CONTENTS & body.keys():
                self._contents.hold(content_hash(body[name]))


def _session_init(
    session: LoggedSession, level: LogLevel, *, resumed: bool, anew: bool
) -> SessionInit:
    setup = session.journal.view.setup
    return SessionInit(
        format=FORMAT,
        clew=__version__,
        level=level,
        cwd=session.journal.record.cwd,
        provider=session.provider,
        model=setup.model.name,
        system_prompt=setup.system,
        tool_schemas=setup.tools,
        max_concurrency=session.max_concurrency,
        resumed=session.resumed or resumed,
        anew=anew,
    )


def _is_quiet(event: Event) -> bool:
    """Return True when an event alone does not start a log."""
    if isinstance(event, EntryAdded):
        return isinstance(event.entry.body, SetupChanged | ModeChanged)
    return isinstance(event, ContextUpdated | Warned)
