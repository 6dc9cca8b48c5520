"""Conversations as hypothesis sees them: every shape a provider accepts, and odd contents."""

from collections.abc import Sequence
from itertools import count

from hypothesis import strategies as st

from clew.core.entries import Body, Entry, MessageAdded, SetupChanged
from clew.core.ids import CallId, EntryId
from clew.core.messages import (
    Image,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    user,
)
from clew.core.models import ModelFacts
from clew.core.usage import Usage

SETUP = SetupChanged(model=ModelFacts(name="m", window=4_000), system="Be exact.")

texts = st.one_of(
    st.text(min_size=1, max_size=60),
    st.sampled_from(
        ["計算機科学は楽しい。" * 9, "안녕하세요 여러분", "word " * 400, "x" * 9_000, "🙂🙃"]
    ),
)
images = st.builds(Image, data=st.binary(min_size=1, max_size=20))
thoughts = st.builds(
    Reasoning,
    text=texts,
    provenance=st.sampled_from(["anthropic", "openai_chat"]),
    signature=st.sampled_from(["", "c2lnbmVk"]),
    redacted=st.sampled_from(["", "b3BhcXVl"]),
)
usages = st.none() | st.builds(
    Usage, input_tokens=st.integers(1, 3_000), output_tokens=st.integers(0, 300)
)
# Made once: hypothesis inspects each strategy anew that is made inside a draw.
_booleans = st.booleans()
_few = st.integers(0, 3)
_at_least_one = st.integers(1, 3)
_ids = st.uuids()
_names = st.sampled_from(["Read", "Write", "Bash", "Nope"])
_arguments = st.sampled_from(
    ['{"file_path":"a.py"}', '{"command":"ls -la"}', "{}", "not json", '{"n":1}']
)


@st.composite
def turns(draw: st.DrawFn) -> list[MessageAdded]:
    """One user message, some tool rounds with parallel calls, and an answer."""
    opening = user(draw(texts))
    if draw(_booleans):
        opening = Message(role=Role.USER, parts=(*opening.parts, draw(images)))
    bodies = [MessageAdded(message=opening)]
    for _ in range(draw(_few)):
        bodies += draw(_rounds)
    if draw(_booleans):
        answer: list[Part] = [draw(thoughts)] if draw(_booleans) else []
        answer.append(Text(draw(texts)))
        message = Message(role=Role.ASSISTANT, parts=tuple(answer), interrupted=draw(_booleans))
        bodies.append(MessageAdded(message=message, usage=draw(usages)))
    return bodies


@st.composite
def rounds(draw: st.DrawFn) -> list[MessageAdded]:
    """An answer with calls, and their results in order."""
    parts: list[Part] = [draw(thoughts)] if draw(_booleans) else []
    if draw(_booleans):
        parts.append(Text(draw(texts)))
    calls = [
        ToolCall(
            call_id=CallId(f"c{draw(_ids).hex[:12]}"),
            name=draw(_names),
            arguments=draw(_arguments),
        )
        for _ in range(draw(_at_least_one))
    ]
    message = Message(role=Role.ASSISTANT, parts=(*parts, *calls))
    bodies = [MessageAdded(message=message, usage=draw(usages))]
    for call in calls:
        result = ToolResult(
            call_id=call.call_id,
            name=call.name,
            text=draw(texts),
            failed=draw(_booleans),
            images=(draw(images),) if draw(_booleans) else (),
        )
        bodies.append(MessageAdded(message=Message(role=Role.TOOL, parts=(result,))))
    return bodies


_rounds, _turns = rounds(), turns()


def entries_of(bodies: Sequence[Body], *, start: int = 1) -> list[Entry]:
    """Number bodies as a journal would."""
    numbers = count(start)
    return [Entry(id=EntryId(next(numbers)), at=0.0, body=body) for body in bodies]


@st.composite
def histories(draw: st.DrawFn, *, min_turns: int = 0, max_turns: int = 6) -> list[Entry]:
    """A setup and several turns."""
    bodies: list[Body] = [SETUP]
    for turn in draw(st.lists(_turns, min_size=min_turns, max_size=max_turns)):
        bodies += turn
    return entries_of(bodies)


def problems(messages: Sequence[Message]) -> list[str]:
    """Say why a provider would reject `messages`; nothing when none would."""
    found: list[str] = []
    waiting: set[CallId] = set()
    for place, message in enumerate(messages):
        if waiting and message.role is not Role.TOOL:
            found.append(f"message {place} comes before the results of {sorted(waiting)}")
            waiting = set()
        for result in message.results:
            if result.call_id not in waiting:
                found.append(f"message {place} answers {result.call_id}, which nobody asked")
            waiting.discard(result.call_id)
        waiting |= {call.call_id for call in message.calls}
        if not message.parts:
            found.append(f"message {place} is empty")
    if waiting:
        found.append(f"no results for {sorted(waiting)}")
    if messages and messages[0].role is not Role.USER:
        found.append("the first message is not the user's")
    return found
