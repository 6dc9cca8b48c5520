"""What becomes of thinking on the way to a provider: the table, row by row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.reasoning import (
    Echoes,
    Fate,
    ReasoningPolicy,
    ReasoningReader,
    adapt_message,
    decide_fate,
    format_reasoning,
    is_private_to,
    strip_reasoning,
)
from clew.core.ids import CallId
from clew.core.messages import Message, Native, Reasoning, Role, Text, ToolCall, assistant, user

ANTHROPIC = ReasoningReader("anthropic", Echoes.OWN_ISSUED)
BEDROCK = ReasoningReader("bedrock", Echoes.OWN_ISSUED)
DEEPSEEK = ReasoningReader("deepseek", Echoes.TOOL_USE_ONLY)
OPENAI = ReasoningReader("openai_chat", Echoes.NEVER)
KEEP = ReasoningPolicy(as_text=True)
KEEP_WITH_TOOLS = ReasoningPolicy(as_text=True, tools_used=True)


def thought(provenance: str, *, signature: str = "", redacted: str = "") -> Reasoning:
    return Reasoning(text="hm", provenance=provenance, signature=signature, redacted=redacted)


@pytest.mark.req("RSN-2", "RSN-3")
@pytest.mark.parametrize(
    ("block", "reader", "policy", "expected"),
    [
        pytest.param(
            thought("anthropic", signature="s"), ANTHROPIC, KEEP, Fate.ECHO, id="own and signed"
        ),
        pytest.param(thought("anthropic"), ANTHROPIC, KEEP, Fate.TEXT, id="own, not signed"),
        pytest.param(
            thought("openai", signature="s"), ANTHROPIC, KEEP, Fate.TEXT, id="foreign to a signer"
        ),
        pytest.param(
            thought("deepseek"), DEEPSEEK, KEEP_WITH_TOOLS, Fate.ECHO, id="own, tools were used"
        ),
        pytest.param(thought("deepseek"), DEEPSEEK, KEEP, Fate.DROP, id="own, no tools anywhere"),
        pytest.param(
            thought("openai"), DEEPSEEK, KEEP_WITH_TOOLS, Fate.TEXT, id="foreign to tool-use-only"
        ),
        pytest.param(
            thought("bedrock", signature="s"), BEDROCK, KEEP, Fate.ECHO, id="bedrock, signed"
        ),
        pytest.param(
            thought("bedrock", redacted="x"), BEDROCK, KEEP, Fate.ECHO, id="bedrock, redacted"
        ),
        pytest.param(
            thought("openai_chat", signature="s"), OPENAI, KEEP, Fate.TEXT, id="never, even own"
        ),
        pytest.param(thought("anthropic"), OPENAI, KEEP, Fate.TEXT, id="never, foreign"),
    ],
)
def test_the_table_of_fates(
    block: Reasoning, reader: ReasoningReader, policy: ReasoningPolicy, expected: Fate
) -> None:
    assert decide_fate(block, reader, policy) is expected


@pytest.mark.req("RSN-3")
@pytest.mark.parametrize("reader", [ANTHROPIC, DEEPSEEK, OPENAI])
def test_unless_asked_for_nothing_is_sent_as_text(reader: ReasoningReader) -> None:
    assert decide_fate(thought("elsewhere"), reader, ReasoningPolicy(tools_used=True)) is Fate.DROP


@pytest.mark.req("RSN-2")
def test_tool_use_only_echoes_without_being_asked_to() -> None:
    assert decide_fate(thought("deepseek"), DEEPSEEK, ReasoningPolicy(tools_used=True)) is Fate.ECHO


@pytest.mark.req("RSN-3")
def test_a_downgraded_block_stands_before_the_next_words_of_the_assistant() -> None:
    message = assistant(thought("openai"), "Done.")

    assert adapt_message(message, ANTHROPIC, KEEP).text == "<thinking>hm</thinking>\nDone."


@pytest.mark.req("RSN-3")
def test_a_redacted_block_leaves_a_placeholder_and_not_its_payload() -> None:
    message = assistant(Reasoning(provenance="anthropic", redacted="SEALED"), "Done.")

    assert adapt_message(message, OPENAI, KEEP).text == "<thinking>[redacted]</thinking>\nDone."


def test_a_block_without_words_leaves_nothing() -> None:
    message = assistant(Reasoning(provenance="openai", signature="sig"), "Done.")

    assert adapt_message(message, ANTHROPIC, KEEP).parts == (Text("Done."),)


@pytest.mark.req("RSN-4")
def test_a_long_text_is_cut_to_head_and_tail() -> None:
    block = Reasoning(text="first " + "x" * 5_000 + " last", provenance="p")

    assert len(format_reasoning(block)) <= 1_200 + len("<thinking></thinking>")
    assert format_reasoning(block).startswith("<thinking>first ")
    assert format_reasoning(block).endswith(" last</thinking>")
    assert len(format_reasoning(block, 4_000)) > 4_000
    assert format_reasoning(block, None) == f"<thinking>{block.text}</thinking>"


@pytest.mark.req("RSN-1")
def test_what_the_reader_may_have_comes_back_as_the_same_object() -> None:
    message = Message(
        role=Role.ASSISTANT,
        parts=(
            thought("anthropic", signature="s"),
            Native(provenance="anthropic", data="{}"),
            Text("a", extra='{"citations":[]}'),
        ),
        provenance="anthropic",
    )

    assert adapt_message(message, ANTHROPIC, ReasoningPolicy()) is message
    assert adapt_message(user("hi"), ANTHROPIC, ReasoningPolicy()) == user("hi")


@pytest.mark.req("RSN-5")
def test_private_fields_and_blocks_reach_no_other_family() -> None:
    call = ToolCall(call_id=CallId("c"), name="Read", extra='{"thoughtSignature":"s"}')
    message = Message(
        role=Role.ASSISTANT,
        parts=(
            Native(provenance="gemini", data='{"executableCode":{}}', note="[ran code]"),
            Native(provenance="gemini", data="{}"),
            call,
        ),
        provenance="gemini",
    )

    sent = adapt_message(message, ANTHROPIC, ReasoningPolicy())

    assert sent.parts == (Text("[ran code]"), ToolCall(call_id=CallId("c"), name="Read"))


@pytest.mark.req("RSN-5")
def test_a_message_can_be_stripped_of_all_that_is_private() -> None:
    message = Message(
        role=Role.ASSISTANT,
        parts=(
            thought("anthropic", signature="s"),
            Native(provenance="anthropic", data="{}", note="[searched]"),
            Native(provenance="anthropic", data="{}"),
            Text("a", extra="{}"),
            Text("b"),
        ),
        provenance="anthropic",
    )

    assert strip_reasoning(message) == assistant("[searched]", "ab")
    assert is_private_to(message, "anthropic")
    assert is_private_to(assistant(thought("anthropic")), "anthropic")
    assert not is_private_to(assistant("a"), "anthropic")


@given(
    text=st.text(max_size=3_000),
    provenance=st.sampled_from(["anthropic", "openai"]),
    signature=st.text(max_size=5),
    preserve=st.booleans(),
)
def test_only_what_is_echoed_keeps_its_signature(
    text: str, provenance: str, signature: str, *, preserve: bool
) -> None:
    block = Reasoning(text=text, provenance=provenance, signature=signature)
    policy = ReasoningPolicy(as_text=preserve)

    sent = adapt_message(assistant(block, "end"), ANTHROPIC, policy)
    thoughts = [part for part in sent.parts if isinstance(part, Reasoning)]

    assert thoughts == ([block] if provenance == "anthropic" and signature else [])
    assert sent.text.endswith("end")
