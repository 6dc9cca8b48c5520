"""References in a prompt: what is one, and what is only a sign."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.sdk.path_completion import PathIndex, make_match
from clew.session.references import find_references

pytestmark = pytest.mark.req("TUI-3")

names = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"), exclude_characters="\"'`<>|\\#@"),
    min_size=1,
    max_size=30,
).filter(lambda name: name.strip() == name and not name.startswith("session:"))


@given(st.text(max_size=300))
def test_any_text_has_references_or_none(text: str) -> None:
    for reference in find_references(f"@{text} {text}"):
        assert all(reference.names)


@given(names)
def test_a_completed_path_is_read_back(name: str) -> None:
    (reference,) = find_references(f"see @{make_match(name).text}")

    assert name in reference.names


@given(st.lists(names, max_size=20), st.text(max_size=8))
def test_a_search_finds_only_names_with_these_letters(files: list[str], fragment: str) -> None:
    index = PathIndex.of(files)

    found = index.search(fragment, 10)

    assert set(found) <= set(index.names)
    assert len(found) == len(set(found)) <= 10
    for name in found:
        rest = iter(name.lower())
        assert all(sign in rest for sign in fragment.lower().lstrip("/"))


@given(st.lists(names, min_size=1, max_size=20))
def test_the_whole_name_finds_its_file_first(files: list[str]) -> None:
    index = PathIndex.of(files)

    for name in index.names:
        wanted = name.lower().strip("/")
        assert wanted in index.search(name.strip("/"), 5)[0].lower()
