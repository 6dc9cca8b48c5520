"""The cases of a blind test: compactions of a recording, with the conversation before each."""

from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct

from clew.context.economy import Economy
from clew.core.entries import Entry, MessageAdded, SetupChanged
from clew.core.ids import EntryId
from clew.core.messages import Message
from clew.core.models import ModelFacts
from clew.core.redaction import redact
from clew.importers.recorded_session import RecordedSession, RecordedStep
from clew.simulation.blind_test.transcript import readable, redact_message
from clew.simulation.scenario import make_scenario
from clew.simulation.simulator import replayable_steps, simulate

FIRST_ENTRY = 2
"""The number of the first message; the setup of a session comes before it."""
_T = TypeVar("_T")


class Case(Struct, frozen=True, kw_only=True):
    """One compaction, and what it is about to reduce."""

    at: int
    """How many steps of the recording come before it."""
    entries: tuple[Entry, ...]
    """The conversation before it, without secrets; numbered from `FIRST_ENTRY`."""
    text: str
    """The same as a text to read."""
    summary: str = ""
    """What the recorded agent continued from; empty where Clew would compact."""

    @property
    def messages(self) -> list[Message]:
        """The conversation before it."""
        bodies = (entry.body for entry in self.entries)
        return [body.message for body in bodies if isinstance(body, MessageAdded)]

    def with_setup(self, model: ModelFacts) -> tuple[Entry, ...]:
        """Return the journal of a session with this conversation and that model."""
        setup = Entry(id=EntryId(1), at=0.0, body=SetupChanged(model=model))
        return (setup, *self.entries)


def find_cases(session: RecordedSession, model: ModelFacts, *, most: int) -> list[Case]:
    """Return up to `most` compactions of a recording, evenly spread.

    Where the recording has compactions, the conversation of a case is what the recorded agent
    had: the summary before, and everything since. Otherwise the cases are where Clew would compact
    in the window of `model`, or clear tool results if that is enough, each with the whole
    conversation up to there; none if that never fills the window.
    """
    ends = [index for index, step in enumerate(session.steps) if step.compacts and index > 0]
    if ends:
        starts = [0, *ends[:-1]]
        return [
            _make_case(session.steps[start:end], at=end, summary=session.steps[end].message.text)
            for start, end in _spread(list(zip(starts, ends, strict=True)), most)
        ]
    steps = replayable_steps(session)
    return [
        _make_case(steps[:end], at=end)
        for end in _spread(_simulate_compactions(session, model), most)
    ]


def _make_case(steps: Sequence[RecordedStep], *, at: int, summary: str = "") -> Case:
    clean = [(redact_message(step.message), step.at) for step in steps]
    told = [(message, when) for message, when in clean if message.parts]
    return Case(
        at=at,
        entries=tuple(
            Entry(id=EntryId(number), at=when, body=MessageAdded(message=message))
            for number, (message, when) in enumerate(told, start=FIRST_ENTRY)
        ),
        text=readable([message for message, _ in told]),
        summary=redact(summary),
    )


def _simulate_compactions(session: RecordedSession, model: ModelFacts) -> list[int]:
    """Return the indexes of the messages before which Clew would compact.

    Where clearing tool results is always enough, those before which it would clear them.
    """
    answers: list[int] = []
    scenario = make_scenario(Economy.BALANCED)
    (run,) = simulate(
        session,
        [scenario],
        model,
        lookups=False,
        observe=lambda _name, _view, index: answers.append(index),
    )
    calls = list(zip(answers, run.timeline, strict=True))
    compacted = [index for index, point in calls if point.compacted]
    return compacted or [index for index, point in calls if point.cleared]


def _spread(found: Sequence[_T], most: int) -> list[_T]:
    """Return at most `most` of `found`, at even distances."""
    count = min(most, len(found))
    return [found[(2 * place + 1) * len(found) // (2 * count)] for place in range(count)]
