"""What the name of a model tells about its counts, before the first one."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.calibration import default_for, estimate_tokens
from clew.context.estimate import part_units, text_units, tool_units
from clew.context.model_family import ModelFamily, family_of
from clew.context.view import View, fold
from clew.core.entries import Body, MessageAdded, SetupChanged
from clew.core.ids import CallId
from clew.core.messages import Message, Reasoning, Role, ToolCall, ToolResult, assistant, user
from clew.core.models import ModelFacts, ToolSpec
from tests.histories import entries_of
from tests.rows import each_row

DATA = Path(__file__).parents[3] / "shared" / "data"
READ = ToolSpec(
    name="read_file",
    description="Reads a file of the project.",
    schema={
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where the file is."},
            "limit": {"type": "integer"},
            "modes": {"type": "array", "items": {"enum": ["text", "bytes"]}},
            "range": {"type": "object", "properties": {"from": {"type": ["number", "null"]}}},
            "other": {"anyOf": [{"type": "object"}, {"type": "boolean"}]},
            "any": True,
        },
        "required": ["path"],
    },
)
PING = ToolSpec(name="ping", description="", schema={"type": "object"})
CLAUDE = "claude-sonnet-4-5"


def view_of(
    model: str, *messages: Message, tools: tuple[ToolSpec, ...] = (), system: str = ""
) -> View:
    setup = SetupChanged(model=ModelFacts(name=model), tools=tools, system=system)
    bodies: list[Body] = [setup, *(MessageAdded(message=message) for message in messages)]
    return fold(entries_of(bodies))


def cost(model: str, *messages: Message, tools: tuple[ToolSpec, ...] = ()) -> int:
    view = view_of(model, *messages, tools=tools)
    return estimate_tokens(view.calibration, view.units)


@pytest.mark.req("CTX-4")
@each_row(
    ("names", "like", "keeps"),
    [
        ("claude-opus-4-5-20251101 anthropic/claude-opus-4.6 claude-4-6-sonnet", None, True),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0 anthropic/claude-4.5-haiku", CLAUDE, False),
        (
            "claude-sonnet-4-20250514 anthropic/claude-sonnet-4 claude-3-7-sonnet claude-2",
            None,
            False,
        ),
        (
            "claude-opus-4-7 claude-opus-4.8 claude-fable-5 claude-5-5-opus claude-latest",
            None,
            True,
        ),
        (
            "gpt-5.4 openai/gpt-4o o1 o3 o4-mini-2025-04-16 openai/o3 us.o3-mini codex-mini",
            "gpt-4.1",
            False,
        ),
        ("ollama_chat/qwen2.5:7b Qwen/Qwen3-32B deepseek-r1-distill-qwen-7b", "qwen3", False),
        ("meta-llama/Llama-3.3-70B deepseek-r1-distill-llama-70b", "llama3.1:8b", False),
        ("something-else foo3 solo1 command-a", "", True),
    ],
)
def test_a_family_is_known_by_the_models_name(names: str, like: str | None, *, keeps: bool) -> None:
    families = [family_of(name) for name in names.split()]

    assert {family.keeps_reasoning for family in families} == {keeps}
    assert len({family.rate for family in families}) == 1
    if like is not None:
        assert {family.rate for family in families} == {family_of(like).rate}


@pytest.mark.req("CTX-5")
def test_an_unknown_model_gets_a_default_that_is_rather_too_high() -> None:
    unknown, called = (
        family_of("something-else"),
        ToolCall(call_id=CallId("c"), name="a", arguments=""),
    )

    assert unknown == ModelFamily()
    for name in ("gpt-5", "qwen3", "gemini-3", "mistral-large"):
        assert part_units(called, framing=unknown.framing) > part_units(
            called, framing=family_of(name).framing
        )


@pytest.mark.req("CTX-4")
def test_a_newer_tokenizer_counts_about_a_third_more() -> None:
    words = user("The quick brown fox jumps over the lazy dog. " * 200)

    assert 1.3 <= cost("claude-opus-4-8", words) / cost("claude-opus-4-6", words) <= 1.4


@pytest.mark.req("CTX-3")
@pytest.mark.parametrize(
    ("model", "preamble"),
    [
        ("claude-sonnet-4-20250514", 313),
        ("claude-sonnet-4-5", 496),
        ("claude-opus-4-6", 496),
        ("claude-opus-4-7", 675),
        ("claude-opus-4-8", 290),
        ("claude-sonnet-5", 354),
    ],
)
def test_the_hidden_instructions_for_tools_count_once_and_only_with_tools(
    model: str, preamble: int
) -> None:
    asked = user("What is in a.py?")
    plain, one, two = (cost(model, asked, tools=tools) for tools in ((), (PING,), (PING, PING)))

    declared = two - one
    assert 10 <= declared <= 40
    assert one - plain == pytest.approx(preamble + declared, abs=3)


@pytest.mark.req("CTX-3")
@pytest.mark.parametrize(
    ("model", "frame"),
    [("gpt-5", 3), ("gpt-oss-120b", 6), ("qwen3", 5), ("kimi-k2", 4), (CLAUDE, 0), ("nova-pro", 0)],
)
def test_a_system_prompt_has_the_frame_of_a_message_where_the_format_gives_it_one(
    model: str, frame: int
) -> None:
    words = "Answer in one word."
    bare, prompted = (view_of(model, user("Hi."), system=text) for text in ("", words))

    rate = prompted.calibration.rate
    assert (prompted.units - bare.units - text_units(words)) * rate == pytest.approx(frame, abs=1)


@pytest.mark.req("CTX-3")
@pytest.mark.parametrize("model", ["gemini-3-pro", "amazon.nova-micro-v1:0"])
def test_a_request_without_tools_is_its_text_where_messages_have_no_frame(model: str) -> None:
    assert view_of(model, user("What is in a.py?")).units == text_units("What is in a.py?")


@pytest.mark.req("CTX-3")
def test_a_model_that_calls_no_tools_gets_no_instructions_for_them() -> None:
    setup = SetupChanged(model=ModelFacts(name=CLAUDE, calls_tools=False), tools=(READ,))

    assert fold(entries_of([setup])).tool_units == 0


@pytest.mark.req("CTX-3")
def test_tools_that_become_types_cost_less_than_their_schemas() -> None:
    as_types, as_json = family_of("gpt-5").framing, family_of(CLAUDE).framing
    tools = [READ] * 20

    assert tool_units(tools, framing=as_types) < 0.7 * tool_units(tools, framing=as_json)
    assert tool_units([], framing=as_json) == 0
    # A recorded request with 19 such tools has 348 tokens for them, the schemas have 713.
    assert tool_units([PING], framing=as_types) < 30


@pytest.mark.req("CTX-3")
def test_a_call_and_its_result_cost_what_the_format_of_the_model_adds() -> None:
    call = assistant(ToolCall(call_id=CallId("c"), name="ping", arguments="{}"))
    result = Message(role=Role.TOOL, parts=(ToolResult(call_id=CallId("c"), name="", text="ok"),))

    # Recorded: 66 to 75 tokens on Claude, 14 to 22 on GPT.
    assert 70 <= cost(CLAUDE, call, result) <= 90
    assert 15 <= cost("gpt-4o", call, result) <= 30


@pytest.mark.req("CTX-3")
def test_encrypted_thinking_is_judged_by_its_length_not_by_its_letters() -> None:
    sealed = "q7Zp0xTkBv3mNfL9" * 480
    gpt = family_of("gpt-5").framing

    # Of a recorded answer: 1,024 tokens of thinking in 7,672 characters.
    assert 1_000 <= part_units(Reasoning(signature=sealed), framing=gpt) <= 1_250
    assert part_units(Reasoning(signature="abc")) == part_units(Reasoning(redacted="abc")) == 1
    summary = Reasoning(text="I looked at it.", signature=sealed)
    assert part_units(summary) == part_units(Reasoning(signature=sealed)) > 1_000
    open_text = Reasoning(text="hm " * 5_000, signature=sealed)
    assert part_units(open_text) == text_units("hm " * 5_000)


@pytest.mark.req("CTX-4")
def test_another_model_measures_the_whole_view_again() -> None:
    call = assistant(ToolCall(call_id=CallId("c"), name="ping", arguments="{}"))
    result = Message(role=Role.TOOL, parts=(ToolResult(call_id=CallId("c"), name="", text="ok"),))
    said = [MessageAdded(message=message) for message in (user("go"), call, result)]
    bodies: list[Body] = [SetupChanged(model=ModelFacts(name="gpt-4o")), *said]

    changed = fold(entries_of([*bodies, SetupChanged(model=ModelFacts(name=CLAUDE))]))

    assert changed.units == view_of(CLAUDE, user("go"), call, result).units
    assert changed.units > fold(entries_of(bodies)).units
    assert changed.calibration == default_for(CLAUDE)


@pytest.mark.req("CTX-4")
@given(st.sampled_from(["gpt-4o", "o3", "qwen3", "llama3.1:8b", CLAUDE]), st.text(max_size=200))
def test_no_rate_of_a_family_applies_to_an_exact_tokenizer(model: str, text: str) -> None:
    setup = SetupChanged(model=ModelFacts(name=model))
    entries = entries_of([setup, MessageAdded(message=user(text))])

    exact = fold(entries, meter=len)

    assert exact.calibration.rate == 1.0
    fixed = exact.units - len(text)
    assert estimate_tokens(exact.calibration, exact.units) == len(text) + fixed


@pytest.mark.skipif(not DATA.is_dir(), reason="no recordings here")
@pytest.mark.req("CTX-3")
def test_recorded_growth_is_estimated_within_a_tenth_without_learning() -> None:
    found: dict[str, list[tuple[int, int]]] = {}
    with gzip.open(DATA / "estimator_pairs.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in list(lines)[::6]:
            pair = json.loads(line)
            if pair["harness"] == "tau2":
                found.setdefault(pair["model"], []).append(judge(pair["model"], pair))

    for model, pairs in found.items():
        ratio = sum(guess for guess, _ in pairs) / sum(truth for _, truth in pairs)
        assert ratio == pytest.approx(1.0, abs=0.1), model


def judge(model: str, pair: dict[str, object]) -> tuple[int, int]:
    messages: list[Message] = []
    items, truth = pair["items"], pair["true_tokens"]
    assert isinstance(items, list)
    assert isinstance(truth, int)
    for item in items:
        if item["role"] == "tool":
            result = ToolResult(call_id=CallId("c"), name="", text=item["content"] or "")
            messages.append(Message(role=Role.TOOL, parts=(result,)))
            continue
        calls = [
            ToolCall(call_id=CallId("c"), name=one["name"], arguments=json.dumps(one["arguments"]))
            for one in item["tool_calls"] or ()
        ]
        said = [item["content"]] if item["content"] else []
        messages.append(assistant(*said, *calls))
    view = view_of(model, *messages)
    return estimate_tokens(view.calibration, view.items.units()), truth
