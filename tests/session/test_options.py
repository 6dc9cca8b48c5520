"""The options of a session: what each one does, and how they travel to another process."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from clew import Session, tool
from clew.context.policy import ContextPolicy, Thresholds
from clew.context.strategies.sliding_window import SlidingWindow
from clew.core.context_state import ContextState, Status
from clew.core.errors import ConfigError, ContextFull, SessionError
from clew.core.events import CompactionEnded, ServerToolStarted, ToolEnded, ToolStarted
from clew.core.messages import Role, user
from clew.core.models import ModelFacts
from clew.core.permissions import Access, Approval, Decision, PermissionMode, Risk
from clew.providers.prices import Price
from clew.providers.protocol import Finished, ServerToolChunk, StopReason, TextChunk
from clew.providers.scripted import ScriptedProvider, ScriptedReply, call_reply
from clew.sdk.session_spec import SessionSpec
from clew.session.config import DataOptions, SessionRef
from clew.session.gate import Gate
from clew.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

FACTS = ModelFacts(name="m", window=2_000, max_output=200, summarises=False)
LONG = "a long answer with many words in it. " * 12


@tool(risk=Risk.EXECUTE, target="what")
def launch(what: str) -> str:
    """Launch something."""
    return f"{what} launched"


@tool(risk=Risk.INSPECT)
def show(size: int) -> str:
    """Return a long text."""
    return "x" * size


def session(*replies: ScriptedReply, **options: Any) -> tuple[Session, ScriptedProvider]:
    provider = ScriptedProvider(replies, FACTS)
    return Session(provider, model="m", tools=[launch, show], **options), provider


# --- thresholds and limits -----------------------------------------------------------------


@pytest.mark.req("CTX-6", "SES-1")
async def test_the_compaction_threshold_is_an_option_and_can_be_disabled() -> None:
    low, _ = session(auto_compact_threshold=0.5)
    never, _ = session(auto_compact_threshold=False)

    assert low.get_auto_compact_threshold() == 0.5
    assert never.get_auto_compact_threshold() is False
    with pytest.raises(ConfigError, match="threshold"):
        session(auto_compact_threshold=1.5)


@pytest.mark.req("CTX-6")
async def test_an_option_counts_before_the_field_of_the_policy() -> None:
    policy = ContextPolicy(thresholds=Thresholds(warn=0.3, compact=0.4), max_tool_output_chars=999)
    chat, _ = session(
        policy=policy,
        auto_compact_threshold=0.6,
        compress_tool_results=800,
        max_tool_output_chars=400,
    )

    assert chat.state.policy.thresholds == Thresholds(warn=0.3, compact=0.6)
    assert chat.state.policy.compress_tool_results == 800
    assert chat.state.policy.max_tool_output_chars == 400


@pytest.mark.req("CTX-6")
async def test_all_thresholds_can_be_changed_while_a_session_is_live() -> None:
    chat, provider = session("fine", "again", auto_compact_threshold=False)
    async with chat:
        await chat.run(LONG)
        before = chat.get_context_state().status
        chat.set_thresholds(warn=0.01)
        warned = chat.get_context_state().status
        chat.set_thresholds(block=0.02)
        with pytest.raises(ContextFull):
            await chat.run(LONG)
        chat.set_thresholds(block=0.95)
        await chat.run("short")

    assert (before, warned) == (Status.OK, Status.WARNING)
    assert len(provider.requests) == 2


@pytest.mark.req("CTX-6")
async def test_a_threshold_out_of_range_changes_nothing() -> None:
    chat, _ = session()

    with pytest.raises(ConfigError, match="block"):
        chat.set_thresholds(warn=0.2, block=2)

    assert chat.state.policy.thresholds == Thresholds()


@pytest.mark.req("CTX-2")
async def test_the_context_never_reads_below_the_floor_of_the_policy() -> None:
    chat, _ = session("hello", policy=ContextPolicy(usage_floor=1_500))
    async with chat:
        before = chat.get_context_state().used_tokens
        await chat.run("hi")

        assert before == 1_500
        assert chat.get_context_state().used_tokens == 1_500


async def test_a_limit_on_tool_output_applies_to_every_tool() -> None:
    chat, provider = session(call_reply(("show", {"size": 5_000})), "ok", max_tool_output_chars=300)
    async with chat:
        await chat.run("show")

    (result,) = provider.requests[1].messages[-1].results
    assert len(result.text) < 500


@pytest.mark.req("TOL-3")
@pytest.mark.parametrize(("limit", "most"), [(1, 1), (3, 3), (None, 5)])
async def test_tools_run_as_many_at_a_time_as_the_option_says(limit: int | None, most: int) -> None:
    running = highest = 0

    @tool(risk=Risk.INSPECT)
    async def wait(number: int) -> str:
        """Take a few steps of the event loop."""
        nonlocal running, highest
        running += 1
        highest = max(highest, running)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        running -= 1
        return str(number)

    calls = call_reply(*[("wait", {"number": number}) for number in range(8)])
    provider = ScriptedProvider([calls, "done"], FACTS)
    options: dict[str, Any] = {} if limit is None else {"max_parallel_tools": limit}
    async with Session(provider, model="m", tools=[wait], **options) as chat:
        await chat.run("wait")

    assert highest == most


async def test_at_least_one_tool_must_be_able_to_run() -> None:
    with pytest.raises(ConfigError, match="max_parallel_tools"):
        session(max_parallel_tools=0)


@pytest.mark.parametrize("name", ["sliding-window", "sliding_window"])
async def test_a_strategy_can_be_chosen_by_name(name: str) -> None:
    chat, _ = session(context_strategy=name)

    assert isinstance(chat.state.strategy, SlidingWindow)


async def test_an_unknown_strategy_and_two_strategies_are_errors() -> None:
    with pytest.raises(ConfigError, match="no context strategy 'clever'"):
        session(context_strategy="clever")
    with pytest.raises(ConfigError, match="not both"):
        session(context_strategy="compact", strategy=SlidingWindow())


async def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(TypeError, match="no option auto_compact"):
        session(auto_compact=True)


# --- permissions ---------------------------------------------------------------------------


@pytest.mark.req("SES-1")
async def test_a_permission_handler_answers_questions_without_a_gate() -> None:
    asked: list[str] = []

    async def allow(access: Access, decision: Decision) -> Approval:
        asked.append(access.tool)
        return Approval.ONCE

    chat, provider = session(
        call_reply(("launch", {"what": "kite"})), "up", permission_handler=allow
    )
    async with chat:
        await chat.run("launch")

    assert asked == ["launch"]
    assert provider.requests[1].messages[-1].results[0].text == "kite launched"


async def test_a_permission_mode_counts_before_that_of_the_gate_and_of_the_store(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    first, _ = session("hi", store=store, session_id="s", permission_mode=PermissionMode.PLAN)
    async with first:
        await first.run("hi")
        await first.set_permission_mode(PermissionMode.ACCEPT_EDITS)
    stored, _ = session(store=store, session_id="s")
    async with stored:
        kept = stored.get_permission_mode()
    gate = Gate(cwd=tmp_path)
    given, _ = session(store=store, session_id="s", gate=gate, permission_mode=PermissionMode.PLAN)
    async with given:
        chosen = given.get_permission_mode()

    assert kept is PermissionMode.ACCEPT_EDITS
    assert chosen is PermissionMode.PLAN


@pytest.mark.req("PRM-1")
async def test_a_mode_that_the_settings_forbid_cannot_be_chosen_as_an_option(
    tmp_path: Path,
) -> None:
    gate = Gate(cwd=tmp_path, bypass_disabled=True)

    with pytest.raises(ConfigError, match="bypassPermissions"):
        session(gate=gate, permission_mode=PermissionMode.BYPASS)

    assert gate.mode is PermissionMode.DEFAULT


# --- callbacks -----------------------------------------------------------------------------


@pytest.mark.req("SES-2")
async def test_callbacks_are_called_with_what_happens() -> None:
    texts: list[str] = []
    tools: list[ToolStarted | ToolEnded] = []
    searches: list[ServerToolStarted] = []
    states: list[ContextState] = []
    compactions: list[CompactionEnded] = []
    searching: ScriptedReply = [
        ServerToolChunk(call_id="1", name="web_search", text="clew"),
        TextChunk(LONG),
        Finished(reason=StopReason.DONE),
    ]
    chat, _ = session(
        call_reply(("show", {"size": 3})),
        searching,
        *[LONG] * 4,
        on_text_delta=texts.append,
        on_tool_execution=tools.append,
        on_server_tool_use=searches.append,
        on_context_update=states.append,
        on_compact=compactions.append,
    )
    async with chat:
        await chat.run("show")
        for number in range(4):
            await chat.run(f"question {number}")
        await chat.compact()

    assert "".join(texts).startswith(LONG)
    assert [type(event) for event in tools] == [ToolStarted, ToolEnded]
    assert [event.name for event in searches] == ["web_search"]
    assert states[-1] == chat.get_context_state()
    assert compactions[-1].trigger == "manual"
    assert compactions[-1].before.used_tokens > compactions[-1].after.used_tokens


# --- messages ------------------------------------------------------------------------------


@pytest.mark.req("SES-1")
async def test_a_message_is_added_by_role_and_text() -> None:
    chat, provider = session("yes")
    async with chat:
        await chat.inject_message("user", "we spoke of threads")
        await chat.inject_message(Role.ASSISTANT, "so we did")
        await chat.inject_message("system", "the user is called Ann")
        await chat.inject_message(user("and of yarn"))
        await chat.run("remember?")

    sent = provider.requests[0].messages
    assert [(message.role, message.text) for message in sent] == [
        (Role.USER, "we spoke of threads"),
        (Role.ASSISTANT, "so we did"),
        (
            Role.USER,
            "<system-reminder>\nthe user is called Ann\n</system-reminder>\n",
        ),
        (Role.USER, "and of yarn"),
        (Role.USER, "remember?"),
    ]


async def test_a_message_needs_a_known_role() -> None:
    chat, _ = session()
    async with chat:
        with pytest.raises(SessionError, match="user, assistant or system"):
            await chat.inject_message(Role.TOOL, "3")


@pytest.mark.req("SES-1")
async def test_the_full_history_has_events_between_the_messages() -> None:
    chat, _ = session(call_reply(("show", {"size": 3})), "done")
    async with chat:
        await chat.run("show")
        await chat.add_history_entry("note", "for people", number=1)
        await chat.clear_history()

        found = chat.get_full_history()

    kinds = [entry.type for entry in found if entry.category == "event"]
    assert [entry.type for entry in found if entry.category == "chat"] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert {"tool-start", "tool-end", "tool-summary", "note", "clear"} <= set(kinds)
    note = next(entry for entry in found if entry.type == "note")
    assert note.data == {"summary": "for people", "number": 1}


# --- another process -----------------------------------------------------------------------


@pytest.mark.req("INT-8")
async def test_options_that_are_data_open_the_same_session_in_another_process() -> None:
    store = MemoryStore()
    given: DataOptions = {
        "session_id": "s",
        "permission_mode": PermissionMode.PLAN,
        "max_context_tokens": 1_500,
        "budget_usd": 2.5,
        "prices": {"m": Price(input=0, output=0)},
        "policy": ContextPolicy(preserve_recent_turns=2),
        "auto_compact_threshold": False,
        "request_options": {"seed": [1, 2]},
    }
    first = Session(ScriptedProvider(["hello"], FACTS), model="m", store=store, **given)
    async with first:
        await first.run("hi")

    sent = msgspec.json.decode(msgspec.json.encode(given), type=DataOptions)
    second = Session(ScriptedProvider([], FACTS), model="m", store=store, **sent)
    async with second:
        prompt, answer = second.get_history()
        assert prompt.text.endswith("hi")
        assert answer.text == "hello"
        assert second.get_permission_mode() is PermissionMode.PLAN
        assert second.get_context_state().max_tokens == 1_500
        assert second.state.budget_left == 2.5
        assert second.get_auto_compact_threshold() is False
        assert second.state.policy.preserve_recent_turns == 2
    assert sent == given


@pytest.mark.req("INT-8")
async def test_a_spec_carries_the_options_of_a_session() -> None:
    spec = SessionSpec(cwd="/work", model="m", options={"max_parallel_tools": 2, "recall": False})

    assert msgspec.json.decode(msgspec.json.encode(spec), type=SessionSpec) == spec
    with pytest.raises(msgspec.ValidationError, match="max_turns"):
        msgspec.json.decode(b'{"cwd": "/w", "options": {"max_turns": "many"}}', type=SessionSpec)


async def test_a_session_is_known_by_its_id_alone() -> None:
    def name(ref: SessionRef) -> str:
        return ref.session_id

    chat, _ = session(session_id="s")

    assert name(chat) == "s"
