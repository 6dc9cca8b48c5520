"""What is kept of encoded messages, and what is let go."""

from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from clew.context.reasoning import ReasoningPolicy, ReasoningReader
from clew.core.messages import Message, user
from clew.core.models import ToolSpec
from clew.providers.protocol import Request
from clew.providers.wire.message_cache import OVERHEAD, MessageCache

READER = ReasoningReader("host")


class Counting:
    """Encodes a message as its words, and counts how often."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()

    def __call__(self, message: Message) -> tuple[str, int]:
        self.made[message.text] += 1
        return message.text, len(message.text)


def ask(*messages: Message) -> Request:
    return Request(model="m", messages=messages)


def conversation(name: str, count: int) -> tuple[Message, ...]:
    return tuple(user(f"{name} {number}") for number in range(count))


def test_what_was_encoded_once_is_not_encoded_again() -> None:
    make = Counting()
    kept = MessageCache(READER, make)
    history = conversation("a", 5)

    for end in range(1, 6):
        assert kept.encode(ask(*history[:end])) == [each.text for each in history[:end]]

    assert set(make.made.values()) == {1}


def test_the_same_tools_are_encoded_once_and_a_new_tool_is_sent() -> None:
    made: list[int] = []

    def make(tools: Sequence[ToolSpec]) -> bytes:
        made.append(len(tools))
        return ",".join(tool.name for tool in tools).encode()

    kept = MessageCache(READER, Counting())
    read, write = (ToolSpec(name=name, description="", schema={}) for name in ("Read", "Write"))

    for _ in range(3):
        assert bytes(kept.encode_tools((read,), make)) == b"Read"
        assert bytes(kept.encode_tools((read, write), make)) == b"Read,Write"
    assert made == [1, 2]


def test_lists_of_tools_that_are_gone_are_not_mistaken_for_new_ones() -> None:
    kept = MessageCache(READER, Counting())

    for number in range(1_000):
        tool = ToolSpec(name=f"tool {number}", description="", schema={})
        found = kept.encode_tools((tool,), lambda tools: tools[0].name.encode())
        assert bytes(found).decode() == tool.name


def test_another_policy_and_another_sight_are_kept_apart() -> None:
    make = Counting()
    kept = MessageCache(READER, make)
    message = user("a")
    requests = [
        Request(model="m", messages=(message,), reasoning=ReasoningPolicy(as_text=as_text), sees=s)
        for as_text in (False, True)
        for s in (False, True)
    ]

    for request in requests * 2:
        kept.encode(request)

    assert make.made["a"] == 4


def test_short_messages_count_for_what_they_take_in_memory() -> None:
    make = Counting()
    kept = MessageCache(READER, make, limit=20 * OVERHEAD)
    first = conversation("old", 5)
    kept.encode(ask(*first))

    for number in range(10):
        kept.encode(ask(*conversation(f"new {number}", 5)))
    kept.encode(ask(*first))

    assert make.made["old 0"] == 2


def test_several_long_sessions_that_fit_do_not_push_each_other_out() -> None:
    make = Counting()
    sessions = [conversation(name, 100) for name in "abc"]
    kept = MessageCache(READER, make, limit=350 * (OVERHEAD + 6))

    for _ in range(6):
        for history in sessions:
            kept.encode(ask(*history))

    assert set(make.made.values()) == {1}


def test_beyond_the_limit_the_older_half_goes_and_the_newer_stays() -> None:
    make = Counting()
    kept = MessageCache(READER, make, limit=100 * (OVERHEAD + 10))
    older, newer, last = (conversation(name, 45) for name in ("older", "newer", "last"))

    for history in (older, newer, last, last, newer):
        kept.encode(ask(*history))

    assert {make.made[message.text] for message in last} == {1}
    assert make.made[newer[-1].text] == 1
    kept.encode(ask(*older))
    assert make.made[older[0].text] == 2


@given(
    st.lists(st.lists(st.integers(0, 12), max_size=12), max_size=12), st.integers(0, 20 * OVERHEAD)
)
def test_whatever_is_let_go_the_fragments_are_right(asked: list[list[int]], limit: int) -> None:
    kept = MessageCache(READER, Counting(), limit=limit)
    known = conversation("m", 13)

    for places in asked:
        chosen = [known[place] for place in places]
        assert kept.encode(ask(*chosen)) == [message.text for message in chosen]
