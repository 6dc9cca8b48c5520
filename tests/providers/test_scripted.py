import anyio
import pytest

from clew.core.errors import ProviderBusy, ProviderError, StreamBroken
from clew.core.messages import user
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.providers.protocol import (
    CallChunk,
    Chunk,
    Finished,
    Provider,
    Request,
    StopReason,
    TextChunk,
)
from clew.providers.scripted import Pause, ScriptedProvider, call_reply, text_reply

pytestmark = pytest.mark.anyio

HELLO = Request(model="m", messages=(user("hi"),))


async def ask(provider: Provider) -> list[Chunk]:
    return [chunk async for chunk in provider.stream(HELLO)]


@pytest.mark.req("PRV-1")
async def test_a_string_is_streamed_word_by_word() -> None:
    model = ScriptedProvider(["one  two\n"])

    assert await ask(model) == [
        TextChunk("one  "),
        TextChunk("two\n"),
        Finished(reason=StopReason.DONE),
    ]
    assert model.requests == [HELLO]


async def test_replies_are_given_in_order_and_run_out() -> None:
    model = ScriptedProvider([ProviderBusy("later", provider="scripted"), "ok"])

    with pytest.raises(ProviderBusy):
        await ask(model)
    assert (await ask(model))[0] == TextChunk("ok")
    with pytest.raises(ProviderError, match="no more replies"):
        await ask(model)


async def test_a_call_reply_carries_arguments_and_usage() -> None:
    usage = Usage(input_tokens=5)
    model = ScriptedProvider([call_reply(("Read", {"p": 1}), ("List", {}), text="I", usage=usage)])

    found = await ask(model)

    pieces = [chunk for chunk in found if isinstance(chunk, CallChunk)]
    assert [piece.name for piece in pieces if piece.name] == ["Read", "List"]
    assert len({piece.call_id for piece in pieces if piece.call_id}) == 2
    assert "".join(piece.arguments for piece in pieces if piece.index == 0) == '{"p":1}'
    assert found[-1] == Finished(reason=StopReason.TOOL_CALLS, usage=usage)


async def test_an_error_may_come_in_mid_reply() -> None:
    broken = StreamBroken("gone", provider="scripted")
    chunks = ScriptedProvider([[TextChunk("a"), broken]]).stream(HELLO)

    assert await anext(chunks) == TextChunk("a")
    with pytest.raises(StreamBroken):
        await anext(chunks)


@pytest.mark.req("PRV-3")
async def test_a_pause_holds_the_stream_until_it_is_released() -> None:
    pause = Pause()
    model = ScriptedProvider([[TextChunk("a"), pause, *text_reply("b")]])
    seen: list[Chunk] = []

    async def listen() -> None:
        seen.extend([chunk async for chunk in model.stream(HELLO)])

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            await pause.reached.wait()
            assert seen == []
            pause.release()

    assert seen[:2] == [TextChunk("a"), TextChunk("b")]


async def test_an_abort_lands_at_a_pause() -> None:
    pause = Pause()
    model = ScriptedProvider([[pause]])

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, model)
            await pause.reached.wait()
            tasks.cancel_scope.cancel()


async def test_the_script_may_say_what_the_model_is() -> None:
    small = ModelFacts(name="small", window=10)

    assert ScriptedProvider([], facts=small).facts("m") == small
    assert ScriptedProvider([]).facts("m") == ModelFacts(name="m")
