"""What an answer must look like, whatever way it came: checks for any provider at all."""

from msgspec.structs import replace

from clew.core.ids import CallId
from clew.core.messages import Message, Part, Reasoning, Text, ToolCall
from clew.core.usage import Usage
from clew.providers.protocol import Finished, StopReason, TextChunk
from clew.testing.checks.assertions import ask, expect, folded, needs
from clew.testing.fake_apis.protocol import Reply
from clew.testing.provider_harness import Powers, Stage

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


async def streams_words_in_order(stage: Stage) -> None:
    """Words come in pieces, in order, and lose nothing: no space, no line break, no script."""
    pieces = ("Hel", "lo", ", wörld", "\n\n", " \t猫", "👩‍🚀", "end ")
    async with stage.saying(Reply(words=pieces)) as provider:
        chunks = await ask(stage, provider)

        expect(folded(provider, chunks).text, "".join(pieces), "the joined text")
        texts = [chunk for chunk in chunks if isinstance(chunk, TextChunk)]
        assert len(texts) > 1, f"the words came in one piece: {texts!r}"


async def ends_once(stage: Stage) -> None:
    """There is one `Finished`, nothing follows it, and then the stream is over."""
    for reply in (Reply(words=("a", "b")), Reply(calls=(ODD,)), Reply()):
        async with stage.saying(reply) as provider:
            chunks = await ask(stage, provider)

        ends = [place for place, chunk in enumerate(chunks) if isinstance(chunk, Finished)]
        expect(ends, [len(chunks) - 1], f"the places of Finished among {chunks!r}")


async def keeps_thinking_apart(stage: Stage) -> None:
    """Thinking is a part of its own, with whom it came from, and never among the words."""
    needs(stage.can.thinking, "thinking")
    reply = Reply(thoughts=("Let me ", "see:\n", "猫"), words=("Yes", "."))
    async with stage.saying(reply) as provider:
        message = folded(provider, await ask(stage, provider))

        blocks = [part for part in message.parts if isinstance(part, Reasoning)]
        expect("".join(block.text for block in blocks), "Let me see:\n猫", "the thinking")
        expect({block.provenance for block in blocks}, {provider.name}, "whose thinking it is")
        expect(message.text, "Yes.", "the words beside the thinking")
        assert isinstance(message.parts[0], Reasoning), f"thinking comes first: {message.parts!r}"


async def keeps_signatures(stage: Stage) -> None:
    """What seals the thinking arrives byte for byte, with words after it and with calls."""
    needs(stage.can.signatures, "signatures")
    sealed = Reply(thoughts=("Hm", "m."), signature=SIGNATURE, words=("Yes.",))
    for reply in (sealed, replace(sealed, words=(), calls=(ODD,))):
        async with stage.saying(reply) as provider:
            message = folded(provider, await ask(stage, provider))

        kept = [text for part in message.parts for text in _private(part) if SIGNATURE in text]
        expect(len(kept), 1, f"how many parts hold the signature in {message!r}")


async def brings_one_call(stage: Stage) -> None:
    """A call keeps its id, its name and every byte of its arguments."""
    for call in (ODD, LONG):
        await _brings(stage, Reply(calls=(call,)))


async def brings_parallel_calls(stage: Stage) -> None:
    """Calls made at once stay apart and in order, after the words."""
    reply = Reply(words=("I will ", "look."), calls=(ODD, EMPTY, replace(ODD, call_id=_OTHER)))
    message = await _brings(stage, reply)

    expect(message.text, "I will look.", "the words before the calls")
    kinds = [type(part) for part in message.parts if not isinstance(part, Reasoning)]
    expect(kinds, [Text, ToolCall, ToolCall, ToolCall], "the order of the parts")


async def brings_a_call_without_arguments(stage: Stage) -> None:
    """A call that needs no arguments has an empty object of them."""
    message = await _brings(stage, Reply(calls=(EMPTY,)))

    expect(message.calls[0].arguments, "{}", "the arguments of a call without any")


async def tells_usage(stage: Stage) -> None:
    """The prompt is counted whole; what came from the cache is a part of it."""
    written = 20 if stage.can.cache_writes else 0
    usage = Usage(
        input_tokens=120, output_tokens=7, cache_read_tokens=80, cache_write_tokens=written
    )
    async with stage.saying(Reply(words=("ok",), usage=usage)) as provider:
        end = (await ask(stage, provider))[-1]

    assert isinstance(end, Finished)
    expect(end.usage, usage, "the usage")


async def says_why_it_ended(stage: Stage) -> None:
    """The stop reason is the API's own, and calls are one where nothing else is said."""
    replies = {
        StopReason.DONE: Reply(words=("ok",)),
        StopReason.TOOL_CALLS: Reply(words=("ok",), calls=(ODD,)),
        StopReason.LENGTH: Reply(words=("and then",), reason=StopReason.LENGTH),
        StopReason.REFUSED: Reply(words=("I will not",), reason=StopReason.REFUSED),
    }
    for reason in replies.keys() & stage.can.reasons:
        async with stage.saying(replies[reason]) as provider:
            end = (await ask(stage, provider))[-1]

        assert isinstance(end, Finished)
        expect(end.reason, reason, "the stop reason")


async def says_nothing_when_nothing_comes(stage: Stage) -> None:
    """An empty answer is an answer."""
    async with stage.saying(Reply()) as provider:
        message = folded(provider, await ask(stage, provider))

    expect((message.parts, message.interrupted), ((), False), "the parts of an empty answer")


async def answers_call_after_call(stage: Stage) -> None:
    """One provider serves many calls, and keeps nothing of one for the next."""
    replies = (
        Reply(words=("one",), calls=(ODD,), usage=Usage(input_tokens=3, output_tokens=2)),
        Reply(words=("two",), usage=Usage(input_tokens=5, output_tokens=4)),
        Reply(),
    )
    async with stage.saying(*replies) as provider:
        answers = [await ask(stage, provider) for _ in replies]

    messages = [folded(provider, answer) for answer in answers]
    expect([message.text for message in messages], ["one", "two", ""], "the words of each answer")
    expect([len(message.calls) for message in messages], [1, 0, 0], "the calls of each answer")
    ends = [answer[-1] for answer in answers]
    reasons = (StopReason.TOOL_CALLS, StopReason.DONE, StopReason.DONE)
    wanted = [(reason, reply.usage) for reason, reply in zip(reasons, replies, strict=True)]
    found = [(end.reason, end.usage) for end in ends if isinstance(end, Finished)]
    expect(found, wanted, "the end of each answer")


async def closes_more_than_once(stage: Stage) -> None:
    """Closing is harmless before the first call, after the last, and again."""
    async with stage.saying(Reply(words=("ok",))) as provider:
        await provider.aclose()
    async with stage.saying(Reply(words=("ok",))) as provider:
        await ask(stage, provider)
        await provider.aclose()
        await provider.aclose()


async def has_facts_of_any_model(stage: Stage) -> None:
    """A name nobody knows gets defaults that a session can work with."""
    async with stage.saying() as provider:
        facts = provider.facts("no-such-model-2b7e")

    expect(facts.name, "no-such-model-2b7e", "the name in the facts of an unknown model")
    assert 0 < facts.max_output <= facts.window, f"facts that cannot be: {facts!r}"


_OTHER = CallId("call_odd-4")


async def _brings(stage: Stage, reply: Reply) -> Message:
    async with stage.saying(reply) as provider:
        message = folded(provider, await ask(stage, provider))
    found = [comparable(call, stage.can) for call in message.calls]
    expect(found, [comparable(call, stage.can) for call in reply.calls], "the calls")
    expect(len({call.call_id for call in message.calls}), len(reply.calls), "how many ids")
    return message


def comparable(call: ToolCall, can: Powers) -> tuple[str, str, object]:
    """Return what of a call is the same however this API spells it."""
    arguments = call.arguments if can.exact_arguments else call.decoded()
    return call.call_id if can.call_ids else "", call.name, arguments


def _private(part: Part) -> tuple[str, ...]:
    if isinstance(part, Reasoning):
        return part.signature, part.redacted, part.extra
    return (part.extra,) if isinstance(part, Text | ToolCall) else ()


ANSWER_CHECKS = (
    streams_words_in_order,
    ends_once,
    keeps_thinking_apart,
    keeps_signatures,
    brings_one_call,
    brings_parallel_calls,
    brings_a_call_without_arguments,
    tells_usage,
    says_why_it_ended,
    says_nothing_when_nothing_comes,
    answers_call_after_call,
    closes_more_than_once,
    has_facts_of_any_model,
)
