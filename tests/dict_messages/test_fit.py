"""`clew.fit` and `clew.count_tokens` on message lists of other agent loops."""

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import clew
from clew.context.render import find_problems
from clew.context.strategies.sliding_window import SlidingWindow
from clew.context.view import fold
from clew.core.entries import Entry
from clew.core.errors import ConfigError, ContextFull
from clew.core.ids import CallId
from clew.core.messages import Message, Role, ToolCall, ToolResult, assistant, user
from clew.dict_messages.formats import MessageSlice, read_slices
from clew.dict_messages.repair import repair_messages
from clew.providers.tokenizers import meter_for
from tests.histories import histories
from tests.histories import problems as independent_problems

BIG = "the quick brown fox jumps over the lazy dog\n" * 60


def openai(steps: int) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [
        {"role": "system", "content": "You are exact."},
        {"role": "user", "content": "Rule: never touch the billing code."},
    ]
    for number in range(steps):
        function = {"name": "Read", "arguments": f'{{"file_path":"src/file_{number}.py"}}'}
        made += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": f"c{number}", "content": BIG},
            {"role": "assistant", "content": f"Read file {number}."},
            {"role": "user", "content": f"Next, file {number + 1}."},
        ]
    return made


def anthropic(steps: int) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{"role": "user", "content": "Look around."}]
    for number in range(steps):
        calls = [
            {
                "type": "tool_use",
                "id": f"t{number}{side}",
                "name": "Bash",
                "input": {"command": "ls"},
            }
            for side in "ab"
        ]
        results = [
            {"type": "tool_result", "tool_use_id": f"t{number}{side}", "content": BIG}
            for side in "ab"
        ]
        thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
        made += [
            {"role": "assistant", "content": [thought, {"type": "text", "text": "ok"}, *calls]},
            {"role": "user", "content": [*results, {"type": "text", "text": f"go on {number}"}]},
        ]
    return made


def in_clew_terms(messages: list[dict[str, Any]]) -> list[Message]:
    pieces = [piece for piece in read_slices(messages) if isinstance(piece, MessageSlice)]
    return [piece.message for piece in pieces if not piece.is_system]


@pytest.mark.req("STR-5")
@pytest.mark.parametrize("style", [openai, anthropic])
@pytest.mark.parametrize("strategy", ["tiered", "sliding_window", "summarize", "compact"])
def test_the_result_fits_is_valid_and_reuses_the_callers_objects(style: Any, strategy: str) -> None:
    messages = style(12)

    fitted = clew.fit(messages, max_tokens=3_000, strategy=strategy)

    report = fitted.report
    assert report.tokens_before > 3_000 >= report.tokens_after
    assert clew.count_tokens(fitted.messages) <= 3_050
    assert find_problems(in_clew_terms(fitted.messages)) == []
    assert independent_problems(in_clew_terms(fitted.messages)) == []
    everywhere = [*report.kept, *report.summarised, *report.cleared, *report.archived]
    assert sorted(everywhere) == list(range(len(messages)))
    assert all(any(one is messages[place] for one in fitted.messages) for place in report.kept)
    assert fitted.messages[-1]["content"][-1:] == messages[-1]["content"][-1:]
    assert in_clew_terms(fitted.messages)[-2].results or style is openai
    assert report.repairs == ()


def test_a_list_that_fits_is_returned_unchanged() -> None:
    messages = openai(1)

    fitted = clew.fit(messages, max_tokens=100_000)

    assert all(a is b for a, b in zip(fitted.messages, messages, strict=True))
    assert fitted.report.tokens_before == fitted.report.tokens_after
    assert fitted.report.why == "it already fits"


def test_system_messages_stay_at_any_position() -> None:
    messages = openai(8)
    messages.insert(6, {"role": "developer", "content": "Answer in French."})

    fitted = clew.fit(messages, max_tokens=1_500, strategy="summarize")

    assert fitted.messages[0] is messages[0]
    assert messages[6] in fitted.messages
    assert fitted.messages[1]["content"].startswith("[Context Summary]")


def test_a_custom_summarizer_is_called_and_may_return_nothing() -> None:
    asked: list[str] = []

    def summarize(prompt: str) -> str:
        asked.append(prompt)
        return "They read files." if len(asked) == 1 else "  "

    first = clew.fit(openai(9), max_tokens=2_000, strategy="summarize", summarize=summarize)
    second = clew.fit(openai(9), max_tokens=2_000, strategy="summarize", summarize=summarize)

    assert "src/file_0.py" in asked[0]
    assert "They read files." in first.messages[1]["content"]
    assert "Files read:" in first.messages[1]["content"]
    assert "were set aside" in second.messages[1]["content"]


def test_clew_messages_are_accepted() -> None:
    messages = [user("begin"), *(m for n in range(9) for m in (assistant(BIG), user(f"go {n}")))]

    fitted = clew.fit(messages, max_tokens=2_000)

    assert fitted.messages[0].text.startswith("[Context Summary]")
    assert fitted.messages[-1] is messages[-1]
    assert find_problems(fitted.messages) == []


def test_a_strategy_object_is_accepted() -> None:
    fitted = clew.fit(openai(9), max_tokens=9_000, strategy=SlidingWindow(max_turns=2))

    assert fitted.report.strategy == "sliding_window"


def test_messages_that_must_stay_and_do_not_fit_raise_an_error_with_numbers() -> None:
    system = {"role": "system", "content": "word " * 500}
    with pytest.raises(ContextFull, match="max_tokens is 100") as caught:
        clew.fit([system, {"role": "user", "content": "word " * 500}], max_tokens=100)

    assert caught.value.state.used_tokens > 100


@pytest.mark.req("STR-7")
def test_long_requests_and_arguments_are_truncated_in_every_format() -> None:
    content = "first line\n" + "x = 1\n" * 3_000 + "last line"
    arguments = {"path": "a.py", "content": content}
    request = {"role": "user", "content": [{"type": "text", "text": f"Do this: {content}"}]}
    openai_call = {
        "role": "assistant",
        "content": "Writing. " * 400,
        "tool_calls": [
            {
                "id": "w",
                "type": "function",
                "function": {"name": "Write", "arguments": json.dumps(arguments)},
            }
        ],
    }
    legacy = {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "Write", "arguments": json.dumps(arguments)},
    }
    use = {"type": "tool_use", "id": "w", "name": "Write", "input": arguments}
    anthropic_call = {"role": "assistant", "content": [{"type": "text", "text": "ok"}, use]}
    result = {"type": "tool_result", "tool_use_id": "w", "content": "done"}
    both = [result, {"type": "text", "text": content}, {"type": "text", "text": content}]
    lists: list[list[dict[str, Any]]] = [
        [request, openai_call, {"role": "tool", "tool_call_id": "w", "content": "done"}],
        [request, legacy, {"role": "function", "name": "Write", "content": "done"}],
        [request, anthropic_call, {"role": "user", "content": both}],
    ]

    for messages in lists:
        fitted = clew.fit(messages, max_tokens=1_500)

        assert fitted.report.tokens_after <= 1_500
        assert clew.fit(fitted.messages, max_tokens=1_500, invalid="refuse").report.repairs == ()
        assert clew.count_tokens(fitted.messages) <= 1_500
        written = json.dumps(fitted.messages)
        assert "first line" in written
        assert "a.py" in written


def test_a_single_huge_result_is_truncated() -> None:
    messages = openai(1)[:4]
    messages[3]["content"] = BIG * 20

    fitted = clew.fit(messages, max_tokens=2_000)

    assert "the middle is left out" in fitted.messages[3]["content"]
    assert fitted.report.cleared == (3,)


BROKEN: list[dict[str, Any]] = [
    {"role": "user", "content": "hi"},
    {"role": "tool", "tool_call_id": "zz", "content": "orphan"},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "function": {"name": "f"}}]},
    {"role": "user", "content": [{"type": "hologram"}, {"type": "text", "text": "hm"}]},
    {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {}}}]},
    {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "fine"}]},
    {"role": "tool", "tool_call_id": "a", "content": "again"},
    {"role": "user", "content": [{"type": "hologram"}]},
]


@pytest.mark.req("CMP-4")
def test_a_single_huge_request_fills_the_limit() -> None:
    log = "".join(f"ERROR in handler {n}, value {n * 37 % 9973}\n" for n in range(11_000))
    asked = f"Find the root cause in this log.\n{log}Answer in German only."

    fitted = clew.fit([{"role": "user", "content": asked}], max_tokens=4_000)

    text = fitted.messages[0]["content"]
    assert text.startswith("Find the root cause in this log.")
    assert text.endswith("Answer in German only.")
    assert 3_600 <= fitted.report.tokens_after <= 4_000


def test_thousands_of_tiny_messages_fill_the_limit() -> None:
    talk = [
        {"role": role, "content": content}
        for n in range(2_000)
        for role, content in (("user", f"n{n}?"), ("assistant", str(n * n)))
    ]

    fitted = clew.fit([*talk, {"role": "user", "content": "And now?"}], max_tokens=2_000)

    assert 1_800 <= fitted.report.tokens_after <= 2_000


@pytest.mark.parametrize("words", [30, 100, 300, 1_000])
@pytest.mark.parametrize("limit", [400, 600, 800, 1_000, 1_500, 2_000, 3_000])
def test_a_long_tool_loop_fills_a_small_limit(limit: int, words: int) -> None:
    """Results of one line each: the rest of the limit takes a part of one."""
    loop: list[dict[str, Any]] = [{"role": "user", "content": "do it"}]
    for number in range(60):
        function = {"name": "Bash", "arguments": f'{{"command":"ls {number}"}}'}
        calls = [{"id": f"c{number}", "type": "function", "function": function}]
        result = " ".join(f"r{number}_{word}" for word in range(words))
        loop += [
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": f"c{number}", "content": result},
        ]

    fitted = clew.fit(loop, max_tokens=limit)

    assert 0.9 * limit <= clew.count_tokens(fitted.messages) <= limit


def test_an_invalid_list_is_repaired_and_the_repairs_are_reported() -> None:
    fitted = clew.fit(BROKEN, max_tokens=1_000)

    assert find_problems(in_clew_terms(fitted.messages)) == []
    assert [message["role"] for message in fitted.messages] == [
        *("user", "assistant", "tool", "user", "assistant", "tool"),
    ]
    assert fitted.messages[4]["tool_calls"][0]["id"] == "a-2" == fitted.messages[5]["tool_call_id"]
    said = " ".join(fitted.report.repairs)
    for expected in ("hologram", "zz, which no message calls", "uses the call id a again"):
        assert expected in said
    assert "the call a has no result" in said


@pytest.mark.req("CMP-4")
def test_an_invalid_list_can_be_refused_with_every_reason() -> None:
    with pytest.raises(ConfigError, match=r"unknown type 'hologram'.*no message calls"):
        clew.fit(BROKEN, max_tokens=1_000, invalid="refuse")
    with pytest.raises(ConfigError, match="'repair' or 'refuse'"):
        clew.fit(BROKEN, max_tokens=1_000, invalid="ignore")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="first message"):
        clew.fit([assistant("hi")], max_tokens=100, invalid="refuse")


def test_anthropic_results_move_to_the_front_and_missing_ones_are_added() -> None:
    use = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
    other = {"type": "tool_use", "id": "t2", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "image"}]}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [use, other]},
        {"role": "user", "content": [{"type": "text", "text": "so?"}, result, result]},
        {"role": "assistant", "content": [{**use, "id": "t9"}]},
    ]

    mended, notes = repair_messages(messages)

    assert find_problems(in_clew_terms(list(map(dict, mended)))) == []
    assert "the call t2 has no result" in notes
    assert mended[-1]["content"][0]["tool_use_id"] == "t9"


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        (["hello"], "message 0 is not a dictionary with a role"),
        ([{"content": "x"}], "message 0 is not a dictionary with a role"),
        ([{"role": "narrator", "content": "x"}], "unknown role"),
        ([user("x"), {"role": "user", "content": "y"}], "mixes Clew messages"),
    ],
)
def test_a_list_without_messages_is_refused(messages: list[Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        clew.fit(messages, max_tokens=100)


def test_every_kind_of_part_is_counted() -> None:
    blocks = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:"}},
        {"type": "document", "source": {}},
        {"type": "server_tool_use", "name": "web_search", "input": {"query": "x"}},
        {"type": "refusal", "refusal": "no"},
        {"type": "redacted_thinking", "data": "xxxx"},
    ]
    plain = clew.count_tokens([{"role": "assistant", "content": "see"}])

    assert clew.count_tokens([{"role": "assistant", "content": blocks}]) > plain + 500
    assert clew.count_tokens([]) == 0


def test_the_system_prompt_and_the_tools_are_counted() -> None:
    messages = [{"role": "user", "content": "hello there, how are you?"}]
    tools = [
        {"type": "function", "function": {"name": "f", "description": "d" * 400, "parameters": {}}}
    ]
    own = [{"name": "f", "description": "d" * 400, "input_schema": {"type": "object"}}]

    base = clew.count_tokens(messages)
    assert clew.count_tokens(messages, system="s " * 100) > base
    assert clew.count_tokens(messages, tools=tools) > base + 20
    assert clew.count_tokens(messages, tools=own) > base + 20
    assert clew.count_tokens(messages * 50, model="claude-opus-4-5") > base


@given(histories(min_turns=1), st.integers(600, 4_000))
def test_any_history_fits_or_the_error_says_why(entries: list[Entry], limit: int) -> None:
    messages = [item.message for item in fold(entries).items]
    try:
        fitted = clew.fit(messages, max_tokens=limit)
    except ContextFull:
        return

    assert fitted.report.tokens_after <= limit
    assert independent_problems(fitted.messages) == []


@pytest.mark.req("CMP-7")
def test_fitting_a_list_again_does_not_stack_summaries() -> None:
    messages = openai(9)
    for number in range(6):
        messages = list(clew.fit(messages, max_tokens=2_000, strategy="compact").messages)
        messages += openai(4)[2:]
        messages[-1] = {"role": "user", "content": f"And then? {number}"}

    final = clew.fit(messages, max_tokens=2_000, strategy="compact").messages

    summaries = [m for m in final if str(m["content"]).startswith("[Context Summary]")]
    assert len(summaries) == 1
    assert "file_8.py" in summaries[0]["content"]
    assert "entry #" not in str(final)
    assert "read back by its number" not in str(final)
    again = clew.fit(final, max_tokens=2_000).messages
    assert all(a is b for a, b in zip(final, again, strict=True))


def parallel(*contents: object) -> list[dict[str, Any]]:
    calls = [
        {"id": f"p{n}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        for n in range(len(contents))
    ]
    results = [
        {"role": "tool", "tool_call_id": f"p{n}", "content": one} for n, one in enumerate(contents)
    ]
    return [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        *results,
        {"role": "user", "content": "next"},
    ]


def test_results_with_content_blocks_are_supported() -> None:
    messages = parallel([{"type": "text", "text": "A"}], "THE REAL RESULT")

    fitted = clew.fit(messages, max_tokens=100_000, invalid="refuse")

    assert all(a is b for a, b in zip(fitted.messages, messages, strict=True))


@pytest.mark.parametrize("limit", [400, 900, 2_000])
def test_truncation_inside_blocks_reduces_the_size(limit: int) -> None:
    block = [{"type": "text", "text": BIG}]
    messages = [*parallel(block, block), {"role": "assistant", "content": block}]
    messages += [*parallel(block), {"role": "user", "content": "And now?"}]
    before = str(messages)

    for strategy in ("tiered", "compact"):
        fitted = clew.fit(messages, max_tokens=limit, strategy=strategy)
        assert clew.count_tokens(fitted.messages) <= limit + 30
        assert find_problems(in_clew_terms(fitted.messages)) == []
    assert str(messages) == before


def test_old_text_in_blocks_is_truncated_in_place() -> None:
    plain = [{"type": "text", "text": "word " * 900}, {"type": "text", "text": ""}]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "begin"}]
    messages += [{"role": "assistant", "content": plain[:1]}]
    messages += [{"role": "assistant", "content": ["word " * 900]}]
    messages += [{"role": "user", "content": f"{n}"} for n in range(5)]

    fitted = clew.fit(messages, max_tokens=900, strategy="compact")

    assert "shortened from" in fitted.messages[1]["content"][0]["text"]
    assert fitted.messages[1]["content"][0]["type"] == "text"
    assert "shortened from" in fitted.messages[2]["content"][0]


def test_counts_are_exact_where_the_tokenizer_is_known() -> None:
    meter = meter_for("gpt-5")
    if meter is None:
        pytest.skip("the extra 'tokenizers' is not installed")
    text = "The quick brown fox jumps over naïve 12345678 tokens; " * 50

    counted = clew.count_tokens([{"role": "user", "content": text}], model="gpt-5")

    assert meter(text) <= counted <= meter(text) + 10


def test_an_empty_or_too_long_summary_is_not_used() -> None:
    long = clew.fit(openai(9), max_tokens=2_000, strategy="summarize", summarize=lambda _: BIG * 9)
    assert "were set aside" in long.messages[1]["content"]
    odd = clew.fit(openai(9), max_tokens=2_000, strategy="summarize", summarize=lambda _: "\ud800!")
    assert "\ufffd!" in odd.messages[1]["content"]
    wrong: Any = 7
    with pytest.raises(ConfigError, match="must return text"):
        clew.fit(openai(9), max_tokens=2_000, strategy="summarize", summarize=lambda _: wrong)


def test_a_summary_that_is_longer_than_asked_for_loses_its_code() -> None:
    code = "\n".join(f"value_{number} = {number}" for number in range(120))

    fitted = clew.fit(
        openai(9),
        max_tokens=2_500,
        strategy="summarize",
        summarize=lambda _: f"They read files.\n```\n{code}\n```\nNext: write one.",
    )

    assert "They read files.\nNext: write one." in fitted.messages[1]["content"]
    assert "value_7 = 7" not in fitted.messages[1]["content"]


@pytest.mark.parametrize("max_tokens", [80, 90, 120, 200, 250, 300, 400, 600])
def test_a_summarizer_never_makes_the_messages_too_long(max_tokens: int) -> None:
    talk = [user(f"Question {n}: {'what then? ' * 12}") for n in range(30)]
    talk[-1] = user("And then?")
    notes = "\n".join(f"- The answer to question {n} was no." for n in range(15))

    assert clew.fit(talk, max_tokens=max_tokens).report.tokens_after <= max_tokens
    for summarize in (lambda _: notes, lambda _: "No. " * 5):
        fitted = clew.fit(talk, max_tokens=max_tokens, summarize=summarize)
        assert fitted.report.tokens_after <= max_tokens


def test_several_results_in_one_clew_message_keep_their_texts() -> None:
    calls = [ToolCall(call_id=CallId(k), name="read") for k in "ab"]
    results = [
        ToolResult(call_id=c.call_id, name="read", text=f"RESULT-{c.call_id}") for c in calls
    ]
    both = Message(role=Role.TOOL, parts=tuple(results))
    messages = [user(BIG), assistant(BIG), user("q"), assistant(*calls), both]

    fitted = clew.fit(messages, max_tokens=700)

    assert fitted.messages[-1] is both


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": 5}],
        [{"role": "assistant", "content": "x", "tool_calls": ["x"]}],
    ],
)
def test_an_unknown_message_format_is_refused(messages: list[Any]) -> None:
    with pytest.raises(ConfigError, match="unknown format"):
        clew.fit(messages, max_tokens=100)


def test_documents_reasoning_and_legacy_function_calls_are_counted() -> None:
    many = "word " * 1_200
    document = {"type": "document", "source": {"type": "text", "data": many}}
    inner = {"type": "tool_result", "tool_use_id": "t", "content": [document]}
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    legacy = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "function_call": {"name": "f", "arguments": many}},
        {"role": "function", "name": "f", "content": "result"},
    ]
    pair = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [inner]}]
    thought = {"role": "assistant", "content": "x", "reasoning_content": many}

    assert clew.count_tokens([{"role": "user", "content": [document]}]) > 900
    assert clew.count_tokens(pair) > 900
    assert clew.count_tokens([thought]) > 900
    assert clew.count_tokens(legacy) > 900
    assert clew.fit(legacy, max_tokens=9_000).report.repairs == ()


def test_repeated_call_ids_in_one_message_get_new_ids() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call, call]},
        {"role": "tool", "tool_call_id": "a", "content": "first"},
        {"role": "tool", "tool_call_id": "a", "content": "second"},
    ]

    fitted = clew.fit(messages, max_tokens=1_000)

    assert [c["id"] for c in fitted.messages[1]["tool_calls"]] == ["a", "a-2"]
    assert [m["tool_call_id"] for m in fitted.messages[2:]] == ["a", "a-2"]
    assert [m["content"] for m in fitted.messages[2:]] == ["first", "second"]
    assert clew.fit(fitted.messages, max_tokens=1_000).report.repairs == ()


# --- mistakes, and what the libraries of providers return -----------------------------------


class _Returned:
    """An object as the libraries of OpenAI and Anthropic return it."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def model_dump(self, *, exclude_none: bool = False) -> dict[str, Any]:
        return {name: value for name, value in self.fields.items() if value or not exclude_none}


def test_messages_that_a_library_returned_are_read_and_stay_the_same_objects() -> None:
    function = {"name": "Read", "arguments": "{}"}
    call = {"id": "call_1", "type": "function", "function": function}
    returned = _Returned(role="assistant", content=None, refusal=None, tool_calls=[call])
    messages: list[Any] = [
        {"role": "user", "content": "Read it."},
        returned,
        {"role": "tool", "tool_call_id": "call_1", "content": "text"},
    ]

    fitted = clew.fit(messages, max_tokens=1_000)

    assert fitted.messages[1] is returned
    assert fitted.report.repairs == ()


def test_content_blocks_and_calls_that_a_library_returned_are_no_unknown_blocks() -> None:
    use = _Returned(type="tool_use", id="call_1", name="Read", input={"path": "a"})
    answer = {"role": "assistant", "content": [_Returned(type="text", text="Look."), use]}
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": "text"}
    function = {"name": "Read", "arguments": "{}"}
    calls = [_Returned(id="call_2", type="function", function=function)]
    messages: list[Any] = [
        {"role": "user", "content": "Read it."},
        answer,
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_2", "content": "text"},
    ]

    fitted = clew.fit(messages, max_tokens=1_000)

    assert fitted.report.repairs == ()
    assert [one is own for one, own in zip(fitted.messages, messages, strict=True)] == [True] * 5


@pytest.mark.parametrize("max_tokens", [0, -1, "4000", 1.5, True])
def test_a_limit_that_is_none_is_refused(max_tokens: Any) -> None:
    with pytest.raises(ConfigError, match="max_tokens must be a positive whole number"):
        clew.fit([{"role": "user", "content": "x"}], max_tokens=max_tokens)


@pytest.mark.parametrize("messages", ["hello", {"role": "user", "content": "x"}, iter(())])
def test_what_is_no_list_of_messages_is_refused(messages: Any) -> None:
    with pytest.raises(ConfigError, match="pass a list of messages, not"):
        clew.fit(messages, max_tokens=1_000)


def test_a_strategy_may_be_named_as_in_the_settings() -> None:
    messages = [{"role": "user", "content": "x"}]

    assert clew.fit(messages, max_tokens=90, strategy="sliding-window").messages == messages


@pytest.mark.filterwarnings("error")
def test_a_coroutine_function_cannot_summarize() -> None:
    async def summarize(prompt: str) -> str:
        return prompt

    messages = [{"role": "user", "content": "Go on."}]
    for number in range(40):
        messages.append({"role": "assistant", "content": f"File {number}: " + "words " * 100})
        messages.append({"role": "user", "content": "Go on."})

    with pytest.raises(ConfigError, match="plain function, not a coroutine function"):
        clew.fit(messages, max_tokens=1_000, summarize=cast("Any", summarize))


def test_the_tokens_of_a_text_are_those_of_a_prompt() -> None:
    prompt = {"role": "user", "content": "How many tokens are this?"}

    assert clew.count_tokens("How many tokens are this?") == clew.count_tokens([prompt])
