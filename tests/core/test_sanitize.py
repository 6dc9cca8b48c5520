"""Untrusted text is visible and harmless wherever it is shown."""

import json

from hypothesis import given
from hypothesis import strategies as st

from clew.core.sanitize import sanitize, sanitize_json, sanitize_line, split_rows

CONTROLS = {*range(0x20), *range(0x7F, 0xA0)} - {9, 10}
HIDDEN = {*range(0x202A, 0x202F), *range(0x2066, 0x2070), 0x200E, 0x200F, 0x61C, 0x2028, 0x2029}
HIDDEN |= {*range(0xFFF9, 0xFFFC), 0xFFFE, 0xFFFF, *range(0xE0000, 0xE0080)}
SURROGATES = set(range(0xD800, 0xE000))
ANYTHING = st.text(st.characters() | st.sampled_from([*map(chr, CONTROLS | HIDDEN | SURROGATES)]))


def test_every_character_that_is_not_text_is_replaced() -> None:
    replaced = CONTROLS | HIDDEN | SURROGATES
    for code in (*range(0x11000), *range(0xDFF00, 0xE0100)):
        shown = sanitize(chr(code))
        if code in replaced:
            assert shown != chr(code)
            assert shown.isprintable()
        else:
            assert shown == chr(code)


@given(ANYTHING)
def test_sanitized_text_can_be_encoded_and_stays_as_it_is(text: str) -> None:
    clean = sanitize(text)

    assert sanitize(clean) == clean
    assert clean.encode().decode() == clean


@given(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(["\x9b", "\U000e0041"])))
def test_sanitized_json_has_the_same_value_and_no_raw_control_character(text: str) -> None:
    clean = sanitize_json(json.dumps(text, ensure_ascii=False))

    assert json.loads(clean) == text
    assert not (CONTROLS | HIDDEN) & set(map(ord, clean))


def test_a_line_is_one_line_of_at_most_that_many_characters() -> None:
    assert sanitize_line("a\n  b\tc", 10) == "a b c"
    assert sanitize_line("word " * 99, 12) == "word word w…"
    assert sanitize_line("\x1b[2J", 12) == "␛[2J"


def test_a_row_has_no_more_columns_than_the_terminal() -> None:
    assert list(split_rows("ab\tc猫猫", 5)) == ["ab  c", "猫猫"]
