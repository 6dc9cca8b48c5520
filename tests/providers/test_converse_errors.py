import pytest

from clew.core.errors import (
    ContextOverflow,
    ProviderBusy,
    ProviderDenied,
    ProviderRejected,
    StreamBroken,
)
from clew.core.usage import Usage
from clew.providers.eventstream import EventStream
from clew.providers.protocol import (
    Chunk,
)
from clew.providers.wire.converse.decode import converse_decoder
from clew.testing.fake_apis.converse import event, exception, frame
from tests.rows import each_row


def start(index: int, **fields: object) -> bytes:
    return event("contentBlockStart", contentBlockIndex=index, start=fields)


def delta(index: int, **fields: object) -> bytes:
    return event("contentBlockDelta", contentBlockIndex=index, delta=fields)


def stop(index: int) -> bytes:
    return event("contentBlockStop", contentBlockIndex=index)


def ended(reason: str = "end_turn", **fields: object) -> list[bytes]:
    usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
    return [
        event("messageStop", stopReason=reason),
        event("metadata", **{"usage": usage, "metrics": {"latencyMs": 1}, **fields}),
    ]


USED = Usage(input_tokens=10, output_tokens=5)


def decode(*chunks: bytes) -> list[Chunk]:
    framing, decoder = EventStream("bedrock"), converse_decoder("bedrock")
    found = [
        piece for data in chunks for event in framing.feed(data) for piece in decoder.feed(event)
    ]
    found += [piece for event in framing.close() for piece in decoder.feed(event)]
    return [*found, decoder.close()]


@pytest.mark.req("PRV-4")
@each_row(
    ("frames", "kind", "status"),
    [
        (exception("throttlingException", "Too many tokens."), ProviderBusy, 429),
        (exception("serviceUnavailableException", "Later."), ProviderBusy, 503),
        (exception("internalServerException", "Oh."), ProviderBusy, 500),
        (exception("modelStreamErrorException", "Broken."), ProviderBusy, 500),
        (
            exception("modelStreamErrorException", "Bad.", originalStatusCode=400),
            ProviderRejected,
            400,
        ),
        (exception("validationException", "Malformed input."), ProviderRejected, 400),
        (
            exception("validationException", "Input is too long for requested model."),
            ContextOverflow,
            400,
        ),
        (exception("accessDeniedException", "No."), ProviderDenied, 403),
        (
            frame(
                {":message-type": "error", ":error-code": "Oops", ":error-message": "It broke"}, b""
            ),
            ProviderBusy,
            500,
        ),
    ],
)
def test_an_error_among_the_frames_is_raised(
    frames: bytes, kind: type[Exception], status: int
) -> None:
    with pytest.raises(kind, match=r"Too many|Later|Oh|Broken|Bad|input|Input|No|It broke") as told:
        decode(delta(0, text="a"), frames)

    assert getattr(told.value, "status", None) == status


def test_an_answer_that_just_stops_is_broken() -> None:
    with pytest.raises(StreamBroken, match="before the response was complete"):
        decode(delta(0, text="a"), stop(0))
    with pytest.raises(StreamBroken, match="before the response was complete"):
        decode(b"".join(ended())[:50])


def test_events_before_damaged_bytes_are_still_decoded() -> None:
    framing = EventStream("bedrock")
    damaged = bytearray(delta(0, text="b"))
    damaged[-6] ^= 1

    first = framing.feed(delta(0, text="a") + bytes(damaged))

    assert [each.name for each in first] == ["contentBlockDelta"]
    with pytest.raises(StreamBroken, match="invalid event stream"):
        framing.feed(delta(0, text="c"))
    with pytest.raises(StreamBroken, match="invalid event stream"):
        framing.close()
    with pytest.raises(StreamBroken, match="invalid event stream"):
        decode(b"<html><body>not frames at all</body></html>")


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"output":{"message":{"content":[5]}}}'])
def test_an_invalid_response_is_a_broken_stream(answer: bytes) -> None:
    with pytest.raises(StreamBroken, match="not a Converse response"):
        converse_decoder("bedrock").whole(answer)
    with pytest.raises(StreamBroken, match="not a Converse response"):
        decode(frame({":message-type": "event", ":event-type": "metadata"}, b"{"))


def test_an_error_in_place_of_a_response_is_raised() -> None:
    with pytest.raises(ProviderRejected, match="invalid"):
        converse_decoder("bedrock").whole(b'{"message": "The model is invalid."}')
