"""What a session must be able to do with a provider: tools, an abort, a way out of overflow."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from clew.context.render import find_problems
from clew.core.access import Risk
from clew.core.errors import AbortError
from clew.core.ids import CallId
from clew.core.messages import Message, Role, ToolCall, assistant, user
from clew.providers.protocol import CallChunk, Chunk, Provider, Request
from clew.session.session import Session
from clew.testing.checks.answers import SIGNATURE, comparable
from clew.testing.checks.assertions import Watched, at_once, expect, needs, within
from clew.testing.checks.streams import holding
from clew.testing.fake_apis.protocol import Reply
from clew.testing.provider_harness import HttpStage
from clew.testing.server import Answer, Stall
from clew.tools.function import tool

FIRST = ToolCall(call_id=CallId("call_first-1"), name="shout", arguments='{"word":"alpha"}')
SECOND = ToolCall(call_id=CallId("call_second-2"), name="whisper", arguments='{"word":"BETA"}')
DONE = Reply(words=("All ", "done."))


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


async def runs_tools(stage: HttpStage) -> None:
    """Calls are run, their results go back behind them, and the model has the last word."""
    reply = Reply(words=("Let me see.",), calls=(FIRST, SECOND))
    async with stage.playing(reply, DONE) as (provider, server):
        watched = Watched(provider)
        session = _session(stage, watched)
        with within("a run with tools"):
            expect(await session.run("please"), "All done.", "the last words of the run")

        history = session.get_history()
        roles = [Role.USER, Role.ASSISTANT, Role.TOOL, Role.TOOL, Role.ASSISTANT]
        expect([message.role for message in history], roles, "the history")
        expect(len(server.bodies), 2, "requests")
        _follow_each_other(server.bodies[1], "please", "Let me see.", "alpha", "ALPHA!", "beta...")
        _is_accepted(stage, watched.requests[1], server.bodies[1])


async def sends_thinking_back_where_wanted(stage: HttpStage) -> None:
    """Thinking goes back with the results of calls to an API that asks for it, and to no other."""
    can = stage.can
    needs(can.thinking, "thinking")
    seal = SIGNATURE if can.signatures else ""
    reply = Reply(thoughts=("Let me think.",), signature=seal, calls=(FIRST,))
    async with stage.playing(reply, DONE) as (provider, server):
        with within("a run with thinking and tools"):
            await _session(stage, provider).run("please")

    body = server.bodies[1]
    if can.signatures or can.echoes:
        _follow_each_other(body, "please", seal or "Let me think.", "ALPHA!")
    else:
        assert b"Let me think." not in body, f"thinking was sent to who wants none: {body!r}"


async def goes_on_after_an_abort(stage: HttpStage) -> None:
    """What had arrived is kept, every call that stays is answered, and the next run works."""
    frames = stage.voice.stream(Reply(words=("Let me ", "see."), calls=(FIRST, SECOND)))
    begun = frames[: holding(frames, SECOND.name) + 1]
    held = stage.streamed(*begun, Stall())
    async with stage.playing(held, DONE) as (provider, server):
        watched = Watched(provider)
        session = _session(stage, watched)
        await _abort_when(session, watched, _is_second)
        with within("the server, for the aborted client to leave"):
            await server.client_left.wait()

        history = session.get_history()
        answer = history[1]
        expect((answer.text, answer.interrupted), ("Let me see.", True), "what was kept")
        # An API that sends calls in one piece has sent the second one too.
        kept = [comparable(call, stage.can) for call in answer.calls]
        both = [comparable(call, stage.can) for call in (FIRST, SECOND)]
        expect(kept, both[: max(1, len(kept))], "the calls that were complete")
        results = [result for message in history for result in message.results]
        ids = [call.call_id for call in answer.calls]
        expect([result.call_id for result in results], ids, "the calls that are answered")
        assert all(result.failed for result in results), f"nothing was run: {results!r}"

        with within("the run after an abort"):
            expect(await session.run("go on"), "All done.", "the run after an abort")
        _follow_each_other(server.bodies[1], "Let me see.", "alpha", "interrupted", "go on")
        _is_accepted(stage, watched.requests[1], server.bodies[1])


async def compacts_when_told_to(stage: HttpStage) -> None:
    """A server that finds the conversation too long gets a shorter one, and answers it."""
    limit = 20_000

    def answer(body: bytes) -> Answer:
        if len(body) > limit:
            return stage.failure(400, stage.overflow)
        return stage.answer(DONE)

    async with stage.playing(answer) as (provider, server):
        watched = Watched(provider)
        session = _session(stage, watched)
        await session.open()
        for number in range(12):
            await session.inject_message(user(f"question {number}"))
            await session.inject_message(assistant(f"answer {number}: {'lorem ipsum ' * 250}"))
        with within("a run that must compact"):
            expect(await session.run("and now?"), "All done.", "the answer after a compaction")

        assert len(server.bodies[0]) > limit, "the conversation was not too long at first"
        _is_accepted(stage, watched.requests[-1], server.bodies[-1])


async def _abort_when(session: Session, watched: Watched, seen: Callable[[Chunk], bool]) -> None:
    async def run() -> None:
        try:
            await session.run("please")
        except AbortError:
            return
        raise AssertionError("an aborted run did not raise AbortError")

    async def abort() -> None:
        await watched.until(seen)
        session.abort()

    with within("a run that is aborted as soon as the second call begins"):
        await at_once(run, abort)


def _session(stage: HttpStage, provider: Provider) -> Session:
    return Session(provider, model=stage.model, tools=[shout, whisper], recall=False)


def _is_second(chunk: Chunk) -> bool:
    return isinstance(chunk, CallChunk) and chunk.name == SECOND.name


def _follow_each_other(body: bytes, *texts: str) -> None:
    """Fail unless the request has each text, behind the one before it."""
    place = 0
    for text in texts:
        found = body.find(text.encode(), place)
        assert found >= 0, f"{text!r} is not where it should be in the request: {body!r}"
        place = found + len(text)


def _is_accepted(stage: HttpStage, asked: Request, body: bytes) -> None:
    """Fail if a provider would reject the conversation, as asked for and as sent."""
    expect(find_problems(asked.messages), [], "what is wrong with the messages")
    if stage.reads is None:
        return
    # Some APIs have no role for results: the user brings them.
    sent = [
        replace(message, role=Role.TOOL) if message.results else message
        for message in stage.reads(body).messages
    ]
    expect(find_problems(sent), [], f"what is wrong with the request {body!r}")
    expect(_uses(sent), _uses(asked.messages), f"calls and results in the request {body!r}")


def _uses(messages: Sequence[Message]) -> list[str]:
    """Return the calls, by name, and the results, which not every API names, as they stand."""
    found: list[str] = []
    for message in messages:
        found += ["result"] * len(message.results)
        found += [call.name for call in message.calls]
    return found


SESSION_CHECKS = (
    runs_tools,
    sends_thinking_back_where_wanted,
    goes_on_after_an_abort,
    compacts_when_told_to,
)
