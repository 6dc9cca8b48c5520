"""Checks of responses, for any provider."""

from msgspec.structs import replace

from clew.core.ids import CallId
from clew.core.messages import Message, Part, Reasoning, Text, ToolCall
from clew.core.usage import Usage
from clew.providers.protocol import Finished, StopReason, TextChunk
from clew.testing.fake_apis.protocol import ModelReply
from clew.testing.provider_checks.assertions import (
    assert_equal,
    build_message,
    collect_chunks,
    require_capability,
)
from clew.testing.provider_harness import ApiCapabilities, ProviderHarness

SIGNATURE = "EqQBCkgIARABGAIiQL+9/aZ3bW0k7Jx1cGhlcg=="
ODD = ToolCall(
    call_id=CallId("call_odd-1"),
    name="write_file",
    arguments='{"path" :"\\u00e9 \\ud83d\\ude00 猫", "n": 1.50e3 ,"deep":{"b":[1, 2],"a":null}}',
)
LONG = ToolCall(
    call_id=CallId("call_long-2"), name="note", arguments='{"text":"' + "tabs\\t" * 4000 + '"}'
)
EMPTY = ToolCall(call_id=CallId("call_empty-3"), name="list_files", arguments="{}")


async def streams_text_in_order(harness: ProviderHarness) -> None:
    """Text arrives in several chunks, in order, and keeps all of its whitespace."""
    pieces = ("Hel", "lo", ", wörld", "\n\n", " \t猫", "👩‍🚀", "end ")
    async with harness.provider(ModelReply(words=pieces)) as provider:
        chunks = await collect_chunks(harness, provider)

        assert_equal(build_message(provider, chunks).text, "".join(pieces), "the joined text")
        texts = [chunk for chunk in chunks if isinstance(chunk, TextChunk)]
        assert len(texts) > 1, f"the words came in one piece: {texts!r}"


async def ends_with_one_finished(harness: ProviderHarness) -> None:
    """The stream ends with exactly one `Finished`."""
    for reply in (ModelReply(words=("a", "b")), ModelReply(calls=(ODD,)), ModelReply()):
        async with harness.provider(reply) as provider:
            chunks = await collect_chunks(harness, provider)

        ends = [place for place, chunk in enumerate(chunks) if isinstance(chunk, Finished)]
        assert_equal(ends, [len(chunks) - 1], f"the places of Finished among {chunks!r}")


async def separates_reasoning(harness: ProviderHarness) -> None:
    """Reasoning is a part of its own, with its provenance, and never in the text."""
    require_capability(harness.capabilities.thinking, "thinking")
    reply = ModelReply(thoughts=("Let me ", "see:\n", "猫"), words=("Yes", "."))
    async with harness.provider(reply) as provider:
        message = build_message(provider, await collect_chunks(harness, provider))

        blocks = [part for part in message.parts if isinstance(part, Reasoning)]
        assert_equal("".join(block.text for block in blocks), "Let me see:\n猫", "the thinking")
        assert_equal(
            {block.provenance for block in blocks}, {provider.name}, "whose thinking it is"
        )
        assert_equal(message.text, "Yes.", "the words beside the thinking")
        assert isinstance(message.parts[0], Reasoning), f"thinking comes first: {message.parts!r}"


async def preserves_signatures(harness: ProviderHarness) -> None:
    """The signature of reasoning arrives byte for byte, before text and before calls."""
    require_capability(harness.capabilities.signatures, "signatures")
    sealed = ModelReply(thoughts=("Hm", "m."), signature=SIGNATURE, words=("Yes.",))
    for reply in (sealed, replace(sealed, words=(), calls=(ODD,))):
        async with harness.provider(reply) as provider:
            message = build_message(provider, await collect_chunks(harness, provider))

        kept = [text for part in message.parts for text in _private(part) if SIGNATURE in text]
        assert_equal(len(kept), 1, f"how many parts hold the signature in {message!r}")


async def delivers_one_tool_call(harness: ProviderHarness) -> None:
    """A tool call keeps its id, its name and every byte of its arguments."""
    require_capability(harness.capabilities.tool_calls, "tool calls")
    for call in (ODD, LONG):
        await _brings(harness, ModelReply(calls=(call,)))


async def delivers_parallel_tool_calls(harness: ProviderHarness) -> None:
    """Parallel tool calls stay separate and in order, after the text."""
    require_capability(harness.capabilities.tool_calls, "tool calls")
    reply = ModelReply(words=("I will ", "look."), calls=(ODD, EMPTY, replace(ODD, call_id=_OTHER)))
    message = await _brings(harness, reply)

    assert_equal(message.text, "I will look.", "the words before the calls")
    kinds = [type(part) for part in message.parts if not isinstance(part, Reasoning)]
    assert_equal(kinds, [Text, ToolCall, ToolCall, ToolCall], "the order of the parts")


async def delivers_empty_arguments(harness: ProviderHarness) -> None:
    """A call without arguments has an empty object as arguments."""
    require_capability(harness.capabilities.tool_calls, "tool calls")
    message = await _brings(harness, ModelReply(calls=(EMPTY,)))

    assert_equal(message.calls[0].arguments, "{}", "the arguments of a call without any")


async def reports_usage(harness: ProviderHarness) -> None:
    """Input tokens include the whole prompt; cached tokens are a part of it."""
    written = 20 if harness.capabilities.cache_writes else 0
    read = 80 if harness.capabilities.cache_reads else 0
    usage = Usage(
        input_tokens=120, output_tokens=7, cache_read_tokens=read, cache_write_tokens=written
    )
    async with harness.provider(ModelReply(words=("ok",), usage=usage)) as provider:
        end = (await collect_chunks(harness, provider))[-1]

    assert isinstance(end, Finished)
    assert_equal(end.usage, usage, "the usage")


async def reports_stop_reason(harness: ProviderHarness) -> None:
    """The stop reason is that of the API; tool calls imply `TOOL_CALLS`."""
    replies = {
        StopReason.DONE: ModelReply(words=("ok",)),
        StopReason.TOOL_CALLS: ModelReply(words=("ok",), calls=(ODD,)),
        StopReason.LENGTH: ModelReply(words=("and then",), reason=StopReason.LENGTH),
        StopReason.REFUSED: ModelReply(words=("I will not",), reason=StopReason.REFUSED),
    }
    if not harness.capabilities.tool_calls:
        del replies[StopReason.TOOL_CALLS]
    for reason in replies.keys() & harness.capabilities.reasons:
        async with harness.provider(replies[reason]) as provider:
            end = (await collect_chunks(harness, provider))[-1]

        assert isinstance(end, Finished)
        assert_equal(end.reason, reason, "the stop reason")


async def accepts_empty_response(harness: ProviderHarness) -> None:
    """An empty response is valid."""
    async with harness.provider(ModelReply()) as provider:
        message = build_message(provider, await collect_chunks(harness, provider))

    assert_equal((message.parts, message.interrupted), ((), False), "the parts of an empty answer")


async def keeps_no_state_between_calls(harness: ProviderHarness) -> None:
    """One provider serves many calls and keeps no state between them."""
    calls = (ODD,) if harness.capabilities.tool_calls else ()
    replies = (
        ModelReply(words=("one",), calls=calls, usage=Usage(input_tokens=3, output_tokens=2)),
        ModelReply(words=("two",), usage=Usage(input_tokens=5, output_tokens=4)),
        ModelReply(),
    )
    async with harness.provider(*replies) as provider:
        answers = [await collect_chunks(harness, provider) for _ in replies]

    messages = [build_message(provider, answer) for answer in answers]
    assert_equal(
        [message.text for message in messages], ["one", "two", ""], "the words of each answer"
    )
    assert_equal(
        [len(message.calls) for message in messages], [len(calls), 0, 0], "the calls of each answer"
    )
    ends = [answer[-1] for answer in answers]
    first = StopReason.TOOL_CALLS if calls else StopReason.DONE
    reasons = (first, StopReason.DONE, StopReason.DONE)
    wanted = [(reason, reply.usage) for reason, reply in zip(reasons, replies, strict=True)]
    found = [(end.reason, end.usage) for end in ends if isinstance(end, Finished)]
    assert_equal(found, wanted, "the end of each answer")


async def closes_repeatedly(harness: ProviderHarness) -> None:
    """Closing is safe before the first call, after the last, and twice."""
    async with harness.provider(ModelReply(words=("ok",))) as provider:
        await provider.aclose()
    async with harness.provider(ModelReply(words=("ok",))) as provider:
        await collect_chunks(harness, provider)
        await provider.aclose()
        await provider.aclose()


async def has_facts_for_unknown_models(harness: ProviderHarness) -> None:
    """An unknown model gets usable defaults."""
    async with harness.provider() as provider:
        facts = provider.facts("no-such-model-2b7e")

    assert_equal(facts.name, "no-such-model-2b7e", "the name in the facts of an unknown model")
    assert 0 < facts.max_output <= facts.window, f"facts that cannot be: {facts!r}"


_OTHER = CallId("call_odd-4")


async def _brings(harness: ProviderHarness, reply: ModelReply) -> Message:
    async with harness.provider(reply) as provider:
        message = build_message(provider, await collect_chunks(harness, provider))
    found = [comparable_call(call, harness.capabilities) for call in message.calls]
    assert_equal(
        found, [comparable_call(call, harness.capabilities) for call in reply.calls], "the calls"
    )
    assert_equal(len({call.call_id for call in message.calls}), len(reply.calls), "how many ids")
    return message


def comparable_call(call: ToolCall, capabilities: ApiCapabilities) -> tuple[str, str, object]:
    """Return the fields of a call that do not depend on how the API spells it."""
    arguments = call.arguments if capabilities.exact_arguments else call.decode_arguments()
    return call.call_id if capabilities.call_ids else "", call.name, arguments


def _private(part: Part) -> tuple[str, ...]:
    if isinstance(part, Reasoning):
        return part.signature, part.redacted, part.extra
    return (part.extra,) if isinstance(part, Text | ToolCall) else ()


ANSWER_CHECKS = (
    streams_text_in_order,
    ends_with_one_finished,
    separates_reasoning,
    preserves_signatures,
    delivers_one_tool_call,
    delivers_parallel_tool_calls,
    delivers_empty_arguments,
    reports_usage,
    reports_stop_reason,
    accepts_empty_response,
    keeps_no_state_between_calls,
    closes_repeatedly,
    has_facts_for_unknown_models,
)
