"""When an answer is complete, and what cannot spoil it any more."""

import pytest

from clew.core.errors import ProviderError, StreamBroken
from clew.core.ids import CallId
from clew.core.messages import ToolCall
from clew.core.usage import Usage
from clew.providers.protocol import CallChunk, StopReason
from clew.providers.sse import ServerEvent
from tests.providers.formats import FORMATS, Format, name_of
from tests.providers.streams import STREAMS, Said, read

SAID = Said(thoughts=("hm",), words=("Hel", "lo"), arguments=("pa", "th"))

every_format = pytest.mark.parametrize("wire", FORMATS, ids=name_of)


@every_format
@pytest.mark.req("PRV-2")
def test_an_answer_is_complete_when_the_server_says_why_it_ended(wire: Format) -> None:
    decoder, stream = wire.decoder("host"), STREAMS[wire.name](SAID)

    for event in stream.pieces:
        decoder.feed(event)
        assert not decoder.complete
    decoder.feed(stream.ending)

    assert decoder.complete


@every_format
@pytest.mark.req("PRV-2")
def test_a_complete_answer_needs_nothing_more(wire: Format) -> None:
    stream = STREAMS[wire.name](SAID)

    cut = read(wire.decoder("host"), [*stream.pieces, stream.ending])
    whole = read(wire.decoder("host"), stream.events)

    assert cut[0] == whole[0]
    assert not cut[0].interrupted
    assert cut[1].reason is whole[1].reason


@every_format
def test_usage_that_comes_behind_a_complete_answer_is_read(wire: Format) -> None:
    _, finished = read(wire.decoder("host"), STREAMS[wire.name](SAID).events)

    assert finished.usage == Usage(input_tokens=3, output_tokens=2)


@every_format
@pytest.mark.req("PRV-4")
def test_an_error_behind_a_complete_answer_says_nothing_of_it(wire: Format) -> None:
    stream = STREAMS[wire.name](SAID)
    garbage = ServerEvent('{"choices": [', stream.error.name)

    spoilt = [*stream.pieces, stream.ending, stream.error, garbage, *stream.rest]

    assert read(wire.decoder("host"), spoilt) == read(wire.decoder("host"), stream.events)


@every_format
@pytest.mark.req("PRV-4")
def test_an_error_before_the_end_is_one(wire: Format) -> None:
    stream = STREAMS[wire.name](SAID)
    decoder = wire.decoder("host")
    for event in stream.pieces:
        decoder.feed(event)

    with pytest.raises(ProviderError):
        decoder.feed(stream.error)
    with pytest.raises(StreamBroken, match="before the response was complete"):
        decoder.close()


@every_format
def test_what_cannot_be_read_breaks_an_answer_that_is_not_complete(wire: Format) -> None:
    with pytest.raises(StreamBroken, match="returned data that is not"):
        wire.decoder("host").feed(ServerEvent('{"choices": [', "contentBlockDelta"))


@every_format
def test_json_that_is_deeper_than_anyone_can_read_is_a_broken_stream(wire: Format) -> None:
    deep = ServerEvent('{"delta":' + "[" * 200_000 + "]" * 200_000 + "}", "contentBlockDelta")

    with pytest.raises(StreamBroken, match="returned data that is not"):
        wire.decoder("host").feed(deep)


NATIVE_CALLS = {
    "anthropic": '{"type":"message","stop_reason":"tool_use","content":'
    '[{"type":"tool_use","id":"t","name":"Read","input":%s}]}',
    "converse": '{"output":{"message":{"role":"assistant","content":'
    '[{"toolUse":{"toolUseId":"t","name":"Read","input":%s}}]}},"stopReason":"tool_use"}',
    "gemini": '{"candidates":[{"content":{"parts":[{"functionCall":{"name":"Read","args":%s}}]},'
    '"finishReason":"STOP"}]}',
}
"""Whole responses of the APIs that send arguments as JSON."""


@pytest.mark.req("TOL-1")
@pytest.mark.parametrize("depth", [300, 990, 100_000])
@pytest.mark.parametrize("name", NATIVE_CALLS)
def test_arguments_that_are_nested_too_deeply_are_invalid_arguments(name: str, depth: int) -> None:
    arguments = '{"file_path":"a","deep":' + "[" * depth + "]" * depth + "}"
    body = NATIVE_CALLS[name] % arguments
    decoder = next(each for each in FORMATS if each.name == name).decoder("host")

    chunks = decoder.whole(body.encode())

    told = "".join(chunk.arguments for chunk in chunks if isinstance(chunk, CallChunk))
    assert told == arguments
    assert decoder.close().reason is StopReason.TOOL_CALLS
    with pytest.raises(ValueError, match="nested more than 128 levels"):
        ToolCall(call_id=CallId("t"), name="Read", arguments=told).decode_arguments()


@pytest.mark.req("TOL-1")
def test_nested_arguments_in_an_event_are_invalid_arguments() -> None:
    wire = next(each for each in FORMATS if each.name == "gemini")
    arguments = "{" + '"a":{' * 5_000 + "}" * 5_001
    event = ServerEvent(NATIVE_CALLS["gemini"] % arguments)

    message, finished = read(wire.decoder("host"), [event])

    assert message.calls[0].arguments == arguments
    assert finished.reason is StopReason.TOOL_CALLS


def test_a_gateways_error_behind_the_limit_is_the_limit_and_tells_the_usage() -> None:
    wire = next(each for each in FORMATS if each.name == "chat")
    stream = STREAMS["chat"](Said(words=("Hel",)))
    limit = ServerEvent('{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}')
    error = ServerEvent(
        '{"error":{"code":400,"message":"Token limit reached"},'
        '"choices":[{"index":0,"delta":{}}],"usage":{"prompt_tokens":43,"completion_tokens":10}}'
    )

    message, finished = read(wire.decoder("host"), [*stream.pieces, limit, error])

    assert message.text == "Hel"
    assert finished.reason is StopReason.LENGTH
    assert finished.usage == Usage(input_tokens=43, output_tokens=10)
