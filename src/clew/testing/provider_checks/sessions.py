"""Checks of a whole session on a provider: tools, an abort, recovery from overflow."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from clew.context.render import find_problems
from clew.core.errors import AbortError
from clew.core.ids import CallId
from clew.core.messages import Message, Role, ToolCall, assistant, user
from clew.core.permissions import Risk
from clew.providers.protocol import CallChunk, Chunk, Provider, Request
from clew.session.session import Session
from clew.testing.fake_apis.protocol import ModelReply
from clew.testing.provider_checks.answers import SIGNATURE, comparable_call
from clew.testing.provider_checks.assertions import (
    ProviderSpy,
    assert_equal,
    fail_after,
    require_capability,
    run_concurrently,
)
from clew.testing.provider_checks.streams import find_frame
from clew.testing.provider_harness import HttpHarness
from clew.testing.server import ScriptedResponse, Stall
from clew.tools.function import tool

FIRST = ToolCall(call_id=CallId("call_first-1"), name="shout", arguments='{"word":"alpha"}')
SECOND = ToolCall(call_id=CallId("call_second-2"), name="whisper", arguments='{"word":"BETA"}')
DONE = ModelReply(words=("All ", "done."))


@tool(risk=Risk.INSPECT)
def shout(word: str) -> str:
    """Say a word loudly.

    Args:
        word: What to say.
    """
    return f"{word.upper()}!"


@tool(risk=Risk.INSPECT)
def whisper(word: str) -> str:
    """Say a word quietly.

    Args:
        word: What to say.
    """
    return f"{word.lower()}..."


async def runs_tools(harness: HttpHarness) -> None:
    """Calls are run, their results are sent after them, and the model gives the last answer."""
    require_capability(harness.capabilities.tool_calls, "tool calls")
    reply = ModelReply(words=("Let me see.",), calls=(FIRST, SECOND))
    async with harness.serve(reply, DONE) as (provider, server):
        watched = ProviderSpy(provider)
        session = _session(harness, watched)
        with fail_after("a run with tools"):
            assert_equal(await session.run("please"), "All done.", "the last words of the run")

        history = session.get_history()
        roles = [Role.USER, Role.ASSISTANT, Role.TOOL, Role.TOOL, Role.ASSISTANT]
        assert_equal([message.role for message in history], roles, "the history")
        assert_equal(len(server.bodies), 2, "requests")
        _follow_each_other(server.bodies[1], "please", "Let me see.", "alpha", "ALPHA!", "beta...")
        _is_accepted(harness, watched.requests[1], server.bodies[1])


async def echoes_reasoning(harness: HttpHarness) -> None:
    """Thinking is sent back with tool results only to an API that asks for it."""
    capabilities = harness.capabilities
    require_capability(capabilities.thinking, "thinking")
    require_capability(capabilities.tool_calls, "tool calls")
    seal = SIGNATURE if capabilities.signatures else ""
    reply = ModelReply(thoughts=("Let me think.",), signature=seal, calls=(FIRST,))
    async with harness.serve(reply, DONE) as (provider, server):
        with fail_after("a run with thinking and tools"):
            await _session(harness, provider).run("please")

    body = server.bodies[1]
    if capabilities.signatures or capabilities.echoes:
        _follow_each_other(body, "please", seal or "Let me think.", "ALPHA!")
    else:
        assert b"Let me think." not in body, (
            f"thinking was sent to an API that does not want it: {body!r}"
        )


async def continues_after_abort(harness: HttpHarness) -> None:
    """An abort keeps what has arrived and answers each kept call; the next run works."""
    require_capability(harness.capabilities.tool_calls, "tool calls")
    frames = harness.api.stream(ModelReply(words=("Let me ", "see."), calls=(FIRST, SECOND)))
    begun = frames[: find_frame(frames, SECOND.name) + 1]
    held = harness.stream_response(*begun, Stall())
    async with harness.serve(held, DONE) as (provider, server):
        watched = ProviderSpy(provider)
        session = _session(harness, watched)
        await _abort_when(session, watched, _is_second)
        with fail_after("the server, for the aborted client to leave"):
            await server.client_left.wait()

        history = session.get_history()
        answer = history[1]
        assert_equal((answer.text, answer.interrupted), ("Let me see.", True), "what was kept")
        # An API that sends calls in one piece has sent the second one too.
        kept = [comparable_call(call, harness.capabilities) for call in answer.calls]
        both = [comparable_call(call, harness.capabilities) for call in (FIRST, SECOND)]
        assert_equal(kept, both[: max(1, len(kept))], "the calls that were complete")
        results = [result for message in history for result in message.results]
        ids = [call.call_id for call in answer.calls]
        assert_equal([result.call_id for result in results], ids, "the calls that are answered")
        assert all(result.failed for result in results), f"nothing was run: {results!r}"

        with fail_after("the run after an abort"):
            assert_equal(await session.run("go on"), "All done.", "the run after an abort")
        _follow_each_other(server.bodies[1], "Let me see.", "alpha", "interrupted", "go on")
        _is_accepted(harness, watched.requests[1], server.bodies[1])


async def compacts_after_overflow(harness: HttpHarness) -> None:
    """A server that rejects the conversation as too long gets a shorter one and answers it."""
    limit = 20_000

    def answer(body: bytes) -> ScriptedResponse:
        if len(body) > limit:
            return harness.error_response(400, harness.overflow)
        return harness.response(DONE)

    async with harness.serve(answer) as (provider, server):
        watched = ProviderSpy(provider)
        session = _session(harness, watched)
        await session.open()
        for number in range(12):
            await session.inject_message(user(f"question {number}"))
            await session.inject_message(assistant(f"answer {number}: {'lorem ipsum ' * 250}"))
        with fail_after("a run that must compact"):
            assert_equal(
                await session.run("and now?"), "All done.", "the answer after a compaction"
            )

        assert len(server.bodies[0]) > limit, "the conversation was not too long at first"
        _is_accepted(harness, watched.requests[-1], server.bodies[-1])


async def _abort_when(
    session: Session, watched: ProviderSpy, seen: Callable[[Chunk], bool]
) -> None:
    async def run() -> None:
        try:
            await session.run("please")
        except AbortError:
            return
        raise AssertionError("an aborted run did not raise AbortError")

    async def abort() -> None:
        await watched.until(seen)
        session.abort()

    with fail_after("a run that is aborted as soon as the second call begins"):
        await run_concurrently(run, abort)


def _session(harness: HttpHarness, provider: Provider) -> Session:
    return Session(provider, model=harness.model, tools=[shout, whisper], recall=False)


def _is_second(chunk: Chunk) -> bool:
    return isinstance(chunk, CallChunk) and chunk.name == SECOND.name


def _follow_each_other(body: bytes, *texts: str) -> None:
    """Fail unless the request contains all texts in this order."""
    place = 0
    for text in texts:
        found = body.find(text.encode(), place)
        assert found >= 0, f"{text!r} is not where it should be in the request: {body!r}"
        place = found + len(text)


def _is_accepted(harness: HttpHarness, asked: Request, body: bytes) -> None:
    """Fail if a provider would reject the conversation, as requested or as sent."""
    assert_equal(find_problems(asked.messages), [], "what is wrong with the messages")
    if harness.parse_request is None:
        return
    # Some APIs have no role for results: the user brings them.
    sent = [
        replace(message, role=Role.TOOL) if message.results else message
        for message in harness.parse_request(body).messages
    ]
    assert_equal(find_problems(sent), [], f"what is wrong with the request {body!r}")
    assert_equal(_uses(sent), _uses(asked.messages), f"calls and results in the request {body!r}")


def _uses(messages: Sequence[Message]) -> list[str]:
    """Return the names of the calls and the results in order; not every API names results."""
    found: list[str] = []
    for message in messages:
        found += ["result"] * len(message.results)
        found += [call.name for call in message.calls]
    return found


SESSION_CHECKS = (
    runs_tools,
    echoes_reasoning,
    continues_after_abort,
    compacts_after_overflow,
)
