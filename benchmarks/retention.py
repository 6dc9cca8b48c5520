"""How much of the user's own words is still in the view after many compactions.

Every recorded session is replayed through a `Session` with default options in a small window:
before every recorded answer the session fits its view, as before a call. After each compaction
the view is searched for everything that the user has said so far, word for word.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from statistics import fmean

import anyio
from msgspec.structs import replace

from benchmarks.compacted_views import make_session
from benchmarks.conversations import normalize
from benchmarks.recordings import find_user_text, session_files
from benchmarks.results import Section, judge, publish
from clew.context.calibration import estimate_tokens
from clew.context.digest.user_words import is_rule
from clew.context.estimate import message_units, text_units
from clew.core.entries import Compacted, MessageAdded
from clew.core.errors import ContextFull
from clew.core.messages import Message, Role, ToolResult
from clew.core.text import truncate_middle
from clew.core.usage import Usage
from clew.importers.reader import read_session
from clew.importers.recorded_session import RecordedStep
from clew.session.session import Session
from clew.session.window_fit import fit
from clew.simulation.blind_test.transcript import readable
from clew.simulation.simulator import replayable_steps

WINDOWS = (32_000, 60_000)
AUTHORS = {"rules": None, "a model that omits everything": "The work continued."}
"""Who writes the summaries, and what."""
STAGES = ((1, 1), (2, 3), (4, 9), (10, 10**6))
"""Compactions so far, from and to."""
QUARTER = 0.25
TARGET = 1.0
LEAST_CHARS = 20
"""A shorter message, such as "yes", may stand in any text by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the user wrote, and the recorded message around it."""

    words: str
    message: str

    def is_in(self, text: str) -> bool:
        """Return whether a normalized text contains the words, alone or in their message.

        The message can hold them in another form, such as a command and its arguments apart.
        """
        return normalize(self.words) in text or normalize(self.message) in text


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What one view contained right after a compaction."""

    compactions: int
    """So far, with this one."""
    messages: float
    """Share of the user's messages."""
    rules: float | None
    """Share of those that read like rules; None if there are none."""
    first_task: bool
    fits: bool
    """True when all of the user's messages together fit into a quarter of the window."""


def main() -> None:
    """Measure, print and write the section."""
    files = session_files()
    if not files:
        print("retention: there are no recordings; nothing was measured")
        return
    sessions = [replayable_steps(read_session(path)) for path in files]
    publish(measure(sessions))


def measure(sessions: Sequence[Sequence[RecordedStep]]) -> Section:
    """Replay `sessions` in every window, with each author of summaries."""
    rows: list[tuple[str, ...]] = []
    for window in WINDOWS:
        for author, summary in AUTHORS.items():
            found = [
                kept for steps in sessions for kept in anyio.run(replay, steps, window, summary)
            ]
            rows += _rows(f"{window // 1_000}k, {author}", found)
    return Section(
        title="Retention of the user's words",
        command="python -m benchmarks retention",
        columns=(
            *("window, summary by", "compactions so far", "views", "messages", "rules"),
            *("first task", "target", "without room"),
        ),
        rows=rows,
        notes=[
            f"{len(sessions)} recorded sessions, replayed with default options; every view right "
            "after a compaction; means of the shares that the view contains word for word, "
            "spacing aside",
            f"target: {TARGET:.2f} of each, in views with room: all of the user's messages so far "
            "fit into a quarter of the window; views without are only counted",
            "rules: messages with words such as never, always, must, instead, prefer; texts that "
            "the recorded program added are not counted, nor are messages under "
            f"{LEAST_CHARS} characters, which any text may contain",
        ],
    )


async def replay(steps: Sequence[RecordedStep], window: int, summary: str | None) -> list[Kept]:
    """Replay one session, and look at the view after each compaction."""
    found: list[Kept] = []
    said: list[Said] = []
    compactions = count(1)
    async with make_session(window=window, summary=summary) as session:
        limit = session.state.policy.output_limit(window)
        for step in steps:
            message = _truncate(step.message, limit)
            if len(text := find_user_text(message)) >= LEAST_CHARS:
                said.append(Said(words=text, message=message.text))
            if message.role is Role.ASSISTANT:
                if await _fit(session):
                    found.append(_look(session, said, next(compactions)))
                await session.journal.append(
                    MessageAdded(message=message, usage=_count(session, message))
                )
            else:
                await session.journal.append(MessageAdded(message=message))
    return found


async def _fit(session: Session) -> bool:
    """Fit the view as before a call; returns whether it was compacted."""
    before = len(session.journal.entries)
    # The recorded agent had a larger window, and went on where this one would be full.
    with suppress(ContextFull):
        await fit(session.state)
    return any(isinstance(one.body, Compacted) for one in session.journal.entries[before:])


def _count(session: Session, answer: Message) -> Usage:
    """Return what a provider would report for the call that gave `answer`."""
    view = session.journal.view
    return Usage(
        input_tokens=estimate_tokens(view.calibration, view.units),
        output_tokens=estimate_tokens(view.calibration, message_units(answer)),
    )


def _truncate(message: Message, limit: int) -> Message:
    """Truncate tool results as a session in this window does when the tool returns."""
    if message.role is not Role.TOOL:
        return message
    parts = tuple(
        replace(part, text=truncate_middle(part.text, limit))
        if isinstance(part, ToolResult)
        else part
        for part in message.parts
    )
    return replace(message, parts=parts)


def _look(session: Session, said: Sequence[Said], compactions: int) -> Kept:
    view = session.journal.view
    text = normalize(readable([item.message for item in view.items]))
    kept = [one.is_in(text) for one in said]
    rules = [is_kept for is_kept, one in zip(kept, said, strict=True) if is_rule(one.words)]
    tokens = estimate_tokens(view.calibration, sum(text_units(one.words) for one in said))
    return Kept(
        compactions=compactions,
        messages=fmean(kept) if kept else 1.0,
        rules=fmean(rules) if rules else None,
        first_task=kept[0] if kept else True,
        fits=tokens <= QUARTER * view.setup.model.window,
    )


def _rows(name: str, found: Sequence[Kept]) -> Iterator[tuple[str, ...]]:
    for first, last in STAGES:
        stage = [kept for kept in found if first <= kept.compactions <= last]
        roomy = [kept for kept in stage if kept.fits]
        if not roomy:
            continue
        until = "" if last == first else f"–{last}" if last < STAGES[-1][1] else " and more"
        shares = _shares(roomy)
        yield (
            name,
            f"{first}{until}",
            str(len(roomy)),
            *(f"{share:.2f}" for share in shares),
            judge(min(shares) >= TARGET),
            str(len(stage) - len(roomy)),
        )


def _shares(views: Sequence[Kept]) -> tuple[float, float, float]:
    rules = [kept.rules for kept in views if kept.rules is not None]
    return (
        fmean([kept.messages for kept in views] or [1.0]),
        fmean(rules or [1.0]),
        fmean([kept.first_task for kept in views] or [1.0]),
    )


if __name__ == "__main__":
    main()
