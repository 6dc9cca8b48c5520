"""The estimate counts everything that is sent, in every script."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.estimate import (
    image_units,
    message_units,
    part_units,
    pixel_size,
    text_units,
    tool_units,
)
from clew.context.items import Item
from clew.core.ids import CallId, EntryId
from clew.core.messages import (
    File,
    Image,
    Message,
    Native,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    assistant,
)
from clew.core.models import ToolSpec
from tests.rows import each_row


@pytest.mark.req("CTX-3")
@each_row(
    ("text", "low", "high"),
    [
        ("The quick brown fox jumps over the lazy dog.", 9, 14),
        ("計算機科学は楽しい", 6, 10),
        ("안녕하세요 여러분", 5, 9),
        ("Съешь ещё этих мягких французских булок", 12, 22),
        ("🙂" * 10, 10, 30),
        # In o200k these are 826, 750, 100, 90, 125 and 240 tokens.
        ("3f9a0c7be1d24856" * 75, 700, 1_000),
        ("q7Zp0xTkBv3mNfL9" * 50, 550, 900),
        ('{"name":"x","items":[{"id":1,"ok":true},{"id":2,"ok":false}]}' * 4, 80, 120),
        ("        return self._value\n            pass\n" * 10, 70, 110),
        ("x" * 1_000, 100, 150),
        ("12345 67890 3.14159 2024-05-15 10:30:00\n" * 10, 200, 290),
        ("\ud800", 1, 2),
        ("", 0, 0),
    ],
)
def test_every_script_is_weighed_by_its_own_rate(text: str, low: int, high: int) -> None:
    assert low <= text_units(text) <= high


@pytest.mark.req("CTX-3")
@each_row(
    "part",
    [
        Text("words and more words"),
        Image(data=b"x"),
        Reasoning(text="let me think about this"),
        Reasoning(signature="c2lnbmF0dXJl" * 4),
        Reasoning(redacted="b3BhcXVl" * 4),
        ToolCall(call_id=CallId("c"), name="Read", arguments='{"file_path":"a.py"}'),
        ToolResult(call_id=CallId("c"), name="Read", text="line"),
    ],
)
def test_every_kind_of_part_costs_something(part: Part) -> None:
    assert part_units(part) > 0


@pytest.mark.req("CTX-3")
def test_images_in_results_and_tool_schemas_count() -> None:
    plain = ToolResult(call_id=CallId("c"), name="Read", text="line")
    rich = ToolResult(call_id=CallId("c"), name="Read", text="line", images=(Image(data=b"x"),))
    spec = ToolSpec(name="Read", description="Reads a file.", schema={"type": "object"})

    assert part_units(rich) > part_units(plain) + 500
    assert tool_units([spec, spec]) == 2 * tool_units([spec]) > 0


def test_thinking_is_told_apart_from_words() -> None:
    message = assistant(Reasoning(text="hm " * 100), "short")

    item = Item.of(EntryId(1), message)
    assert 0 < item.reasoning_units < item.units


@given(st.text(), st.text())
def test_more_text_never_costs_less(text: str, more: str) -> None:
    assert text_units(text) <= text_units(text + more)
    assert text_units(text + more) <= text_units(text) + text_units(more) + 1


def test_a_long_text_costs_what_its_pieces_cost() -> None:
    page = "def read(self) -> int:\n    return 42  # 計算\n" * 50

    assert text_units(page * 100) == pytest.approx(100 * text_units(page), rel=0.001)


def test_a_tokenizer_may_take_the_place_of_the_estimate() -> None:
    message = assistant(Reasoning(text="hm"), "four", Image(data=b"x"))
    spec = ToolSpec(name="Read", description="Reads.", schema={})

    assert message_units(message, len) - message_units(message, lambda _: 0) == 6
    assert Item.of(EntryId(1), message, meter=len).reasoning_units == 2
    assert tool_units([spec], len) - tool_units([spec], lambda _: 0) == 12


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height)


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + kind + bytes(4) + body


FRAME = b"\xff\xc2\0\x11\x08" + struct.pack(">HH", 300, 400) + bytes(8)
JPEG = b"\xff\xd8\xff\xe1" + struct.pack(">H", 8) + b"Exif\0\0" + FRAME


@pytest.mark.req("CTX-3")
@each_row(
    ("data", "size"),
    [
        (png(1_000, 750), (1_000, 750)),
        (b"GIF89a" + struct.pack("<HH", 320, 200), (320, 200)),
        (webp(b"VP8X", bytes(4) + b"\x8f\x01\0\x2b\x01\0"), (400, 300)),
        (webp(b"VP8L", b"\x2f" + struct.pack("<I", 399 | 299 << 14) + bytes(9)), (400, 300)),
        (webp(b"VP8 ", bytes(6) + struct.pack("<HH", 400, 300)), (400, 300)),
        (JPEG, (400, 300)),
        (webp(b"????", bytes(14)), None),
        (b"\xff\xd8\xff\xe1\xff\xff" + bytes(9), None),
        (png(0, 10), None),
        (b"GIF89a", None),
        (b"", None),
    ],
)
def test_the_size_of_a_picture_is_read_from_its_first_bytes(
    data: bytes, size: tuple[int, int] | None
) -> None:
    assert pixel_size(data) == size


@pytest.mark.req("CTX-3")
def test_a_picture_costs_by_its_area_within_bounds() -> None:
    assert image_units(Image(data=png(1_000, 750))) == 1_000
    assert image_units(Image(data=png(10, 10))) == 85
    assert image_units(Image(data=png(9_000, 9_000))) == 1_600
    assert image_units(Image(url="https://example.org/a.png")) == 1_200


@given(
    st.sampled_from([png(5, 5), JPEG, webp(b"VP8L", bytes(14))]), st.binary(), st.integers(0, 40)
)
def test_damaged_pictures_still_cost_something(start: bytes, rest: bytes, cut: int) -> None:
    assert 85 <= image_units(Image(data=start[:cut] + rest)) <= 1_600


@given(st.text())
def test_a_message_costs_its_text_and_a_little_more(text: str) -> None:
    message = Message(role=Role.USER, parts=(Text(text),))

    assert 0 < message_units(message) - text_units(text) < 10


@pytest.mark.parametrize(
    ("file", "units"),
    [
        (File(media_type="application/pdf", data=b"x" * 40_000), 2_000),
        (File(media_type="audio/mpeg", data=b"x" * 500_000), 1_000),
        (File(media_type="video/mp4", data=b"x" * 800_000), 1_000),
        (File(media_type="text/plain", data=b"x" * 4_000), 1_000),
        (File(media_type="application/pdf", url="https://example.com/a.pdf"), 85),
    ],
)
def test_a_file_is_judged_by_its_kind_and_length(file: File, units: int) -> None:
    assert part_units(file) == units


def test_a_sealed_block_counts_less_than_as_many_letters() -> None:
    assert part_units(Native(provenance="anthropic", data="x" * 5_000)) == 1_000
