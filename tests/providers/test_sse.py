from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from clew.providers.sse import EventParser, ServerEvent


def parse(*chunks: bytes) -> list[ServerEvent]:
    parser = EventParser()
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return events + parser.close()


def test_an_event_is_complete_at_its_blank_line() -> None:
    parser = EventParser()

    assert parser.feed(b"data: one\n") == []
    assert parser.feed(b"\ndata: two\n") == [ServerEvent("one")]
    assert parser.feed(b"\n") == [ServerEvent("two")]


def test_every_kind_of_line_ending_is_understood() -> None:
    expected = [ServerEvent("one"), ServerEvent("two")]

    for end in (b"\n", b"\r", b"\r\n"):
        assert parse(end.join([b"data: one", b"", b"data: two", b"", b""])) == expected


def test_a_line_ending_may_be_cut_in_two() -> None:
    assert parse(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [ServerEvent("a\nb")]


def test_comments_ids_and_retry_hints_are_dropped() -> None:
    assert parse(b": ping\n\nid: 7\nretry: 10\n: more\ndata: x\n\n") == [ServerEvent("x")]


def test_data_lines_are_joined_and_lose_one_leading_space() -> None:
    assert parse(b"data:  a\ndata:b\ndata\n\n") == [ServerEvent(" a\nb\n")]


def test_a_name_belongs_to_its_own_event_only() -> None:
    events = parse(b"event: error\ndata: 1\n\nevent: lost\n\ndata: 2\n\n")

    assert events == [ServerEvent("1", "error"), ServerEvent("2")]


def test_the_end_marker_is_an_event_like_any_other() -> None:
    assert parse(b"data: [DONE]\n\n") == [ServerEvent("[DONE]")]


def test_a_last_event_needs_no_blank_line() -> None:
    assert parse(b"data: a\n\ndata: b") == [ServerEvent("a"), ServerEvent("b")]
    assert parse(b"data: a\n\ndata: b\n") == [ServerEvent("a"), ServerEvent("b")]


def test_a_byte_order_mark_is_dropped() -> None:
    assert parse(b"\xef\xbb", b"\xbfdata: a\n\n") == [ServerEvent("a")]


def test_a_character_cut_in_two_arrives_whole() -> None:
    raw = "data: 纲 é 🧵\n\n".encode()

    for place in range(len(raw)):
        assert parse(raw[:place], raw[place:]) == [ServerEvent("纲 é 🧵")]


lines = st.sampled_from(
    [b"", b"data: x", b"data: \xc3\xa9\xf0\x9f\xa7\xb5", b"data:", b": ping", b"event: e", b"\xff"]
)
bodies = st.lists(st.tuples(lines, st.sampled_from([b"\n", b"\r", b"\r\n"])))


@given(bodies, st.lists(st.integers(0, 200)))
def test_any_cutting_gives_the_same_events(
    body: list[tuple[bytes, bytes]], cuts: list[int]
) -> None:
    raw = b"".join(line + end for line, end in body)
    places = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})

    pieces = [raw[a:b] for a, b in pairwise(places)]

    assert parse(*pieces) == parse(raw)
