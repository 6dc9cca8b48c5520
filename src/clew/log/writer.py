"""`SessionLog`: writes down what a session does, while it does it."""

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path

from clew._version import __version__
from clew.context.render import render
from clew.core.entries import ModeChanged, SetupChanged
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
from clew.log.calls import CallLog
from clew.log.events import (
    FORMAT,
    LogEvent,
    LogLevel,
    PreRun,
    ReasoningPiece,
    SessionInit,
    SessionShutdown,
    TextPiece,
)
from clew.log.file import log_path
from clew.log.history import HistoryLog
from clew.log.lines import Lines
from clew.log.payloads import INLINE_LIMIT
from clew.log.pieces import TextPieces
from clew.log.protocol import LoggedJournal, Opening
from clew.log.requests import Requests
from clew.log.secrets import Redaction
from clew.log.telling import Teller
from clew.providers.protocol import Chunk, Provider, Request, SearchesWeb

_BOUNDARIES = EntryAdded | RunCompleted | RunInterrupted | RunFailed | ToolStarted
"""Events before which buffered text is written."""


class SessionLog:
    """One session's log: a listener to its events that is also shown its model calls.

    The file lies in `folder` under the session's id; a session that is opened again goes on
    with it. Whatever fails here is reported once and breaks no run; the history is made up for
    as soon as writing works again.
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
        self._folder = folder
        self.level = level
        self._lines = Lines(
            redaction=redaction or Redaction.standard(),
            limit=inline_limit,
            clock=clock,
            on_loss=self._lost,
        )
        stream = self._lines.redaction.stream
        self._texts: dict[type[Event], tuple[Callable[..., LogEvent], TextPieces]] = {
            TextDelta: (TextPiece, TextPieces(stream)),
            ReasoningDelta: (ReasoningPiece, TextPieces(stream)),
        }
        self._teller = Teller()
        self._requests = Requests(self._lines, level, self._teller)
        self._history = HistoryLog(self._lines, self._requests.contents)
        self._opening: Opening | None = None
        self._early: list[Event] = []
        self._is_begun = False
        """True from `session_init` to `session_shutdown`."""

    @property
    def path(self) -> Path | None:
        """Where the log lies; None before the session is open."""
        if self._opening is None:
            return None
        return log_path(self._folder, self._opening.journal.record.id)

    def begin(self, opening: Opening) -> None:
        """Take up the log of a session; that of a new one begins with its first word.

        Raises:
            ConfigError: It is the log of another session that is still open.
        """
        if self._is_begun:
            raise ConfigError("a session log is for one session: make another one for the next")
        self._opening = opening
        self._history = HistoryLog(self._lines, self._requests.contents)
        self._teller.max_concurrency = opening.max_concurrency
        if opening.resumed:
            with self._lines.guarded():
                self._ready()

    def __call__(self, event: Event) -> None:
        """Take note of an event."""
        with self._lines.guarded():
            if not self._is_begun and (self._opening is None or _is_quiet(event)):
                self._early.append(event)
            elif self._ready():
                self._take(event)

    def pre_run(self, provider: Provider, prompt: Message) -> None:
        """Take note that a run begins."""
        with self._lines.guarded():
            opening = self._ready()
            if opening is None:
                return
            self._teller.begin()
            web = provider.web_tools if isinstance(provider, SearchesWeb) else frozenset()
            self._lines.write(
                PreRun(
                    run=self._teller.run,
                    provider=provider.name,
                    web_tools=tuple(sorted(web)),
                    input=prompt,
                    messages=len(opening.journal.view.items),
                    entry_id=EntryId(self._history.last_entry),
                )
            )

    async def call(
        self, provider: Provider, request: Request, *, purpose: str = "turn"
    ) -> AsyncGenerator[Chunk, None]:
        """Have `provider` answer `request`, and write both down; raises as `Provider.stream`."""
        call: CallLog | None = None
        with self._lines.guarded():
            call, provider = self._begin_call(provider, request, purpose)
        try:
            async with aclosing(provider.stream(request)) as chunks:
                async for chunk in chunks:
                    if call is not None:
                        call.add(chunk)
                    yield chunk
        except BaseException as error:
            if call is not None:
                call.failed(error)
            raise

    def end(self, reason: str) -> None:
        """Take note that the session is over, and let go of the file."""
        with self._lines.guarded():
            if self._is_begun:
                self._flush(is_over=True)
                self._lines.write(SessionShutdown(reason=reason))
        self._is_begun = False
        self._lines.close()

    def _ready(self) -> Opening | None:
        """Make sure that the log is open, and holds all that came before."""
        opening = self._opening
        if opening is None or self._is_begun:
            return opening
        journal = opening.journal
        tail = self._lines.open(log_path(self._folder, journal.record.id), journal.record.id)
        knows = self._history.go_on(tail, journal.entries)
        self._requests.start_anew()
        self._is_begun = True
        try:
            self._lines.write(_init(opening, self.level, resumed=tail.seq > 0, anew=not knows))
        except OSError:
            self._is_begun = False
            raise
        self._history.catch_up(journal.entries)
        early, self._early = self._early, []
        for event in early:
            if not isinstance(event, EntryAdded):
                self._take(event)
        return opening

    def _take(self, event: Event) -> None:
        if isinstance(event, TextDelta | ReasoningDelta):
            kind, pieces = self._texts[type(event)]
            if text := pieces.add(event.text):
                self._lines.write(kind(text=text), is_clean=True)
            return
        self._flush(is_over=isinstance(event, _BOUNDARIES))
        journal = self._journal
        if isinstance(event, EntryAdded):
            self._history.catch_up(journal.entries)
            told = self._teller.entry(event.entry)
        else:
            one = self._teller.event(event, messages=len(journal.view.items))
            told = [] if one is None else [one]
        for said in told:
            self._lines.write(said)

    def _begin_call(
        self, provider: Provider, request: Request, purpose: str
    ) -> tuple[CallLog | None, Provider]:
        opening = self._ready()
        if opening is None or not self.level.has_requests:
            return None, provider
        journal = opening.journal
        self._flush(is_over=True)
        self._history.catch_up(journal.entries)
        call, provider = self._requests.begin(
            provider,
            request,
            purpose=purpose,
            history=render(journal.view),
            name_of=self._history.name_of,
        )
        self._history.forget_names()
        return call, provider

    def _flush(self, *, is_over: bool) -> None:
        for kind, pieces in self._texts.values():
            if text := pieces.close() if is_over else pieces.take():
                self._lines.write(kind(text=text), is_clean=True)

    @property
    def _journal(self) -> LoggedJournal:
        assert self._opening is not None  # noqa: S101 - only called when the log is ready
        return self._opening.journal

    def _lost(self, text: str | None) -> None:
        self._requests.start_anew()
        if text is not None and self._opening is not None:
            self._opening.warn(text)


def _init(opening: Opening, level: LogLevel, *, resumed: bool, anew: bool) -> SessionInit:
    setup = opening.journal.view.setup
    return SessionInit(
        format=FORMAT,
        clew=__version__,
        level=level,
        cwd=opening.journal.record.cwd,
        provider=opening.provider,
        model=setup.model.name,
        system_prompt=setup.system,
        tool_schemas=setup.tools,
        max_concurrency=opening.max_concurrency,
        resumed=opening.resumed or resumed,
        anew=anew,
    )


def _is_quiet(event: Event) -> bool:
    """Say whether an event alone is no reason to begin a log."""
    match event:
        case EntryAdded(entry=entry):
            return isinstance(entry.body, SetupChanged | ModeChanged)
        case _:
            return isinstance(event, ContextUpdated | Warned)
