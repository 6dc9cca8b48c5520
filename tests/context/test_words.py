"""Words by which a search finds a text, the same in every store."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.recall.words import matches, split_parts, split_terms, split_words
from tests.rows import each_row


@each_row(
    ("text", "expected"),
    [
        ("The CAT, the_cat; cats!", ["the", "cat", "cats"]),
        ("src/app/main.py:42", ["src", "app", "main", "py", "42"]),
        ("Crème brûlée ﬁn ²", ["creme", "brulee", "fin", "2"]),
        ("straße", ["strasse"]),
        ("計算 x", ["計算", "算", "x"]),
        ("안녕 하세요", ["안녕", "하세요"]),
        ("🧵 — …", []),
        ("a" * 100, ["a" * 40]),
    ],
)
def test_a_text_becomes_words(text: str, expected: list[str]) -> None:
    assert split_words(text) == expected


@pytest.mark.parametrize(
    ("query", "expected"), [("計算機", ["計算", "算機"]), ("機", ["機"]), ("Ä b", ["a", "b"])]
)
def test_a_query_becomes_terms(query: str, expected: list[str]) -> None:
    assert split_terms(query) == expected


@given(st.text(), st.text())
def test_every_text_is_found_by_itself_and_by_any_beginning_of_its_words(
    text: str, more: str
) -> None:
    there = split_words(f"{text} {more}")

    assert matches(split_terms(text), there)
    assert all(matches([word[: len(word) // 2 + 1]], there) for word in split_words(text))


@given(st.text(alphabet="計算機科学的", min_size=2), st.data())
def test_any_stretch_of_a_text_without_spaces_is_found(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))

    assert matches(split_terms(text[start:end]), split_words(text))


def test_an_endless_text_has_not_endless_words() -> None:
    text = " ".join(f"word{number}" for number in range(200_000))

    assert sum(len(word) + 1 for word in split_words(text)) <= 400_000


@pytest.mark.req("CMP-10")
def test_a_name_counts_as_a_whole_and_by_its_parts() -> None:
    assert split_words("getUserName") == ["getusername", "get", "user", "name", "username"]
    assert split_words("HTTPServer max_age src/a.py") == [
        *("httpserver", "http", "server", "max", "age", "src", "a", "py"),
    ]
    assert split_words("Hello HELLO") == ["hello"]
    assert split_parts("aBcDeFgHiJkLmNoP") == ["abcdefghijklmnop"]
    assert split_parts("x" * 50) == ["x" * 50]
