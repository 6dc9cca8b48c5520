"""The context state of a session: what the estimate counts, and what each threshold does."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from clew import (
    ContextPolicy,
    Image,
    Message,
    ModelFacts,
    Reasoning,
    Risk,
    Role,
    Session,
    Text,
    Thresholds,
    ToolOutput,
    Usage,
    tool,
)
from clew.core.errors import ConfigError, ContextFull
from clew.core.messages import assistant, user
from clew.providers.scripted import ScriptedProvider, call_reply, text_reply
from clew.providers.tokenizers import meter_for

pytestmark = pytest.mark.anyio

FACTS = ModelFacts(name="m", window=10_000, summarises=False)
WORDS = "the quick brown fox jumps over the lazy dog " * 20
PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + (900).to_bytes(4, "big") + (900).to_bytes(4, "big")

PICTURE = Image(media_type="image/png", data=PNG)


@tool(risk=Risk.INSPECT)
def search(query: str, folder: str = ".", limit: int = 20) -> str:
    """Search the files of a folder for words, and return the lines that contain them."""
    return query


@tool(risk=Risk.INSPECT)
def screenshot() -> ToolOutput:
    """Take a picture of the screen."""
    return ToolOutput(text="the screen", images=(PICTURE,))


def picture() -> Message:
    return Message(role=Role.USER, parts=(Text("look"), PICTURE))


def thoughts(text: str) -> Message:
    block = Reasoning(text=text, provenance="scripted", signature="sig")
    return Message(role=Role.ASSISTANT, parts=(block, Text("yes")))


async def used(*messages: Message, **options: Any) -> int:
    """Return the tokens that a session with these messages reads before any provider counted."""
    options.setdefault("recall", False)
    async with Session(ScriptedProvider([], FACTS), model="m", **options) as session:
        for message in messages:
            await session.inject_message(message)
        state = session.get_context_state()
    assert state.basis == "estimated"
    breakdown = state.breakdown
    parts = sum(getattr(breakdown, name) for name in breakdown.__struct_fields__)
    assert state.used_tokens == pytest.approx(parts, abs=8)
    return state.used_tokens


@pytest.mark.req("CTX-3")
async def test_the_system_prompt_and_tool_schemas_count() -> None:
    plain = await used(user("hi"))

    assert await used(user("hi"), system_message=WORDS) - plain >= 150
    assert await used(user("hi"), tools=[search]) - plain >= 40


@pytest.mark.req("CTX-3")
async def test_the_hidden_instructions_of_a_provider_count_with_tools_and_only_then() -> None:
    async def size(model: str, **options: Any) -> int:
        provider = ScriptedProvider([], ModelFacts(name=model))
        async with Session(provider, model=model, recall=False, **options) as session:
            await session.inject_message(user("hi"))
            return session.get_context_state().breakdown.tools

    assert await size("claude-sonnet-4-5") == 0
    assert 530 <= await size("claude-sonnet-4-5", tools=[search]) <= 600
    assert await size("gpt-5", tools=[search]) < 60


@pytest.mark.req("CTX-4")
@pytest.mark.parametrize("model", ["gpt-4o", "o3", "qwen2.5:7b", "llama3.1:8b"])
async def test_a_session_uses_the_counts_of_an_exact_tokenizer_as_they_are(model: str) -> None:
    pytest.importorskip("splintr")
    meter = meter_for(model)
    assert meter is not None
    text = "def f(x):\n    return x[0] * 3.14159  # 計算\n" * 200

    async def size(*messages: Message) -> int:
        provider = ScriptedProvider([], ModelFacts(name=model))
        async with Session(provider, model=model, recall=False) as session:
            for message in messages:
                await session.inject_message(message)
            return session.get_context_state().used_tokens

    assert await size(user(text)) - await size() == meter(text) + 4


@pytest.mark.req("CTX-3")
async def test_pictures_and_reasoning_count() -> None:
    asked = await used(user("hi"))
    plain = await used(user("hi"), assistant("yes"))

    assert await used(picture()) - asked >= 900 * 900 // 1_000
    assert await used(user("hi"), thoughts(WORDS)) - plain >= 150


@pytest.mark.req("CTX-3")
async def test_tool_calls_and_results_count() -> None:
    async def after_a_call(name: str, **arguments: str) -> int:
        provider = ScriptedProvider([call_reply((name, arguments)), "done"], FACTS)
        async with Session(provider, model="m", tools=[search, screenshot]) as session:
            await session.run("find it")
            return session.get_context_state().used_tokens

    plain = await after_a_call("search", query="x")

    assert await after_a_call("search", query=WORDS) - plain >= 2 * 150
    assert await after_a_call("screenshot") - plain >= 900 * 900 // 1_000


@pytest.mark.req("CTX-3")
@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("迷宮的線團帶你回到入口", 0.7),
        ("Нить Ариадны ведёт назад ", 0.27),
        ("خيط أريادني يقودك إلى الخارج ", 0.27),
        ("🧵🏛", 1.2),
    ],
    ids=["chinese", "russian", "arabic", "emoji"],
)
async def test_a_letter_of_a_dense_script_counts_for_more_than_a_quarter_of_a_token(
    text: str, least: float
) -> None:
    assert await used(user(text * 40)) >= least * len(text) * 40


@pytest.mark.req("CTX-3")
async def test_a_turn_measures_its_own_text_and_not_the_history() -> None:
    async def measured_in_one_turn(history: int) -> int:
        provider = ScriptedProvider([text_reply("fine")] * 2, ModelFacts(name="m", window=900_000))
        async with Session(provider, model="m") as session:
            for number in range(history):
                await session.inject_message(user(f"question {number}"))
                await session.inject_message(assistant("answer"))
            await session.run("warm up")
            with estimate_calls() as calls:
                await session.run("and now?")
        return calls[0]

    short, long = await measured_in_one_turn(10), await measured_in_one_turn(500)

    assert 0 < long <= short + 20


@contextmanager
def estimate_calls() -> Iterator[list[int]]:
    """Count the calls into the module that measures texts."""
    count = [0]

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.endswith("context/estimate.py"):
            count[0] += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield count
    finally:
        sys.setprofile(before)


def session_at(
    tokens: int, *, then: str = "fine", **options: Any
) -> tuple[Session, ScriptedProvider]:
    """Return a session whose first run fills the window with this many tokens."""
    usage = Usage(input_tokens=tokens - 500, output_tokens=500)
    provider = ScriptedProvider([text_reply(WORDS, usage=usage), *[text_reply(then)] * 9], FACTS)
    return Session(provider, model="m", **options), provider


@pytest.mark.req("CTX-6")
@pytest.mark.parametrize(
    ("tokens", "status"),
    [(6_990, "ok"), (7_010, "warning"), (8_340, "warning"), (8_360, "critical")],
)
async def test_the_status_changes_at_70_and_at_83_5_percent(tokens: int, status: str) -> None:
    session, _ = session_at(tokens)
    async with session:
        await session.run("fill")

        assert session.get_context_state().status == status


@pytest.mark.req("CTX-6")
async def test_compaction_starts_at_83_5_percent_and_not_before() -> None:
    for tokens, compacts in ((8_200, False), (8_360, True)):
        session, _ = session_at(tokens)
        async with session:
            for number in range(6):
                await session.inject_message(user(f"{number} {WORDS}"))
                await session.inject_message(assistant(WORDS))
            await session.run("fill")
            await session.run("next")

            first = session.get_history()[0].text
            assert first.startswith("[Context Summary]") is compacts


@pytest.mark.req("CTX-6")
async def test_nothing_is_sent_above_95_percent() -> None:
    never = ContextPolicy(thresholds=Thresholds(compact=False))
    for tokens, refused in ((9_300, False), (9_510, True)):
        session, provider = session_at(tokens, policy=never)
        async with session:
            await session.run("fill")
            if refused:
                with pytest.raises(ContextFull):
                    await session.run("next")
            else:
                await session.run("next")

        assert len(provider.requests) == (1 if refused else 2)


@pytest.mark.req("CTX-6")
@pytest.mark.parametrize("share", [0, -0.1, 1.01, True])
@pytest.mark.parametrize("name", ["warn", "compact", "block"])
def test_a_threshold_outside_of_0_to_1_is_refused(name: str, share: float) -> None:
    with pytest.raises(ConfigError, match=name):
        Thresholds(**{name: share})


@pytest.mark.req("CTX-6")
async def test_the_compaction_threshold_of_a_live_session_applies_to_the_next_run() -> None:
    session, _ = session_at(5_000)
    async with session:
        for number in range(6):
            await session.inject_message(user(f"{number} {WORDS}"))
            await session.inject_message(assistant(WORDS))
        await session.run("fill")
        assert session.get_auto_compact_threshold() == 0.835
        with pytest.raises(ConfigError):
            session.set_auto_compact_threshold(1.5)
        await session.run("still whole")
        assert not session.get_history()[0].text.startswith("[Context Summary]")

        session.set_auto_compact_threshold(0.2)
        await session.run("now")

        assert session.get_history()[0].text.startswith("[Context Summary]")
        session.set_auto_compact_threshold(False)
        assert session.get_auto_compact_threshold() is False
