"""The head of a file is read as its writer meant it, or a problem says why not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.extensions.frontmatter import MAX_HEAD, read_frontmatter, split_words
from tests.rows import each_row

pytestmark = pytest.mark.req("SKL-1")


def head(text: str) -> str:
    return f"---\n{text}\n---\nThe body.\n"


def test_fields_and_body_are_taken_apart() -> None:
    found = read_frontmatter(
        "---\nname: review\nmodel:\nturns: 3\nfork: true\ntools:\n  - Read\n---\n\nBody.\n"
    )

    assert found.fields == {
        "name": "review",
        "model": None,
        "turns": 3,
        "fork": True,
        "tools": ["Read"],
    }
    assert found.body == "\nBody.\n"
    assert found.problems == ()


@pytest.mark.parametrize(
    "text", ["", "No head.\n", "# Title\n---\nname: x\n---\n", "----\nname: x\n----\n"]
)
def test_a_text_without_a_head_is_all_body(text: str) -> None:
    found = read_frontmatter(text)

    assert (found.fields, found.body, found.problems) == ({}, text, ())


def test_byte_order_mark_and_line_ends_of_other_systems_do_no_harm() -> None:
    windows = read_frontmatter("\ufeff---\r\nname: x\r\n---  \r\nOne\r\nTwo\r\n")
    old = read_frontmatter("---\rname: x\r---\rOne\rTwo\r")

    assert windows.fields == old.fields == {"name": "x"}
    assert windows.body == old.body == "One\nTwo\n"
    assert windows.problems == ()


def test_a_head_that_is_not_closed_is_a_problem_and_no_field_is_believed() -> None:
    found = read_frontmatter("---\nname: x\nBody")

    assert found.fields == {}
    assert "no closing" in found.problems[0]


def test_only_the_plain_words_of_yaml_are_more_than_text() -> None:
    found = read_frontmatter(
        head("a: yes\nb: 2024-01-01\nc: 1.10\nd: 0o17\ne: 12:30\nf: null\ng: 'true'\nh: TRUE")
    )

    assert found.fields == {
        "a": "yes",
        "b": "2024-01-01",
        "c": "1.10",
        "d": "0o17",
        "e": "12:30",
        "f": None,
        "g": "true",
        "h": True,
    }


@each_row(
    ("text", "field", "meant"),
    [
        ("description: Use when: it rains", "description", "Use when: it rains"),
        ("description: [unclosed bracket", "description", "[unclosed bracket"),
        ("argument-hint: [file] [n]", "argument-hint", "[file] [n]"),
        ("tools: *", "tools", "*"),
        ("\tname: x\n\tmodel: y", "model", "y"),
        ("a: b: c\nname: 'quoted'", "name", "quoted"),
        ("a: b: c\nfork: true", "fork", True),
        ("a: b: c\ntools: [Read, Bash(a, b)]", "tools", ["Read", "Bash(a, b)"]),
        ("a: b: c\ntools:\n  - Read\n  - 'Grep'", "tools", ["Read", "Grep"]),
        ("a: b: c\nd: |\n  one\n  two", "d", "one\ntwo"),
        ("a: b: c\nd: >-\n  one\n  two", "d", "one two"),
        ("a: b: c\nd: one\n  two\n# a remark", "d", "one two"),
    ],
)
def test_what_is_no_yaml_is_read_line_by_line_and_the_problem_says_so(
    text: str, field: str, meant: object
) -> None:
    found = read_frontmatter(head(text))

    assert found.fields[field] == meant
    assert found.body == "The body.\n"
    assert "read line by line" in found.problems[0]


def test_the_problem_names_the_line_of_the_file() -> None:
    found = read_frontmatter(head("name: x\ndescription: a: b"))

    assert "line 3" in found.problems[0]


def test_aliases_are_not_followed() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{new}: &{new} [*{old}, *{old}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )

    found = read_frontmatter(head(bomb))

    assert "aliases" in found.problems[0]
    assert found.fields["i"] == "&i [*h, *h]"


def test_tags_make_no_objects() -> None:
    found = read_frontmatter(head("a: !!python/object/apply:os.system ['true']\nb: !!int '3'"))

    assert found.fields == {"a": ["true"], "b": "3"}


def test_deep_nesting_and_a_huge_head_are_refused() -> None:
    deep = read_frontmatter(head(f"a: {'[' * 5_000}"))
    huge = read_frontmatter(head(f"a: {'x' * MAX_HEAD}"))
    many = read_frontmatter(head("\n".join(f"f{number}: v" for number in range(1_000))))

    assert "nested" in deep.problems[0]
    assert huge.fields == {}
    assert f"{MAX_HEAD:,}" in huge.problems[0]
    assert huge.body == "The body.\n"
    assert (many.fields, many.problems) == (
        {},
        ("the frontmatter has 1,000 fields; the limit is 200",),
    )


def test_a_name_given_twice_is_a_problem() -> None:
    found = read_frontmatter(head("name: a\nname: b"))

    assert found.fields == {"name": "b"}
    assert "appears twice" in found.problems[0]


@pytest.mark.parametrize("name", ["allowed-tools", "allowed_tools", "allowedTools"])
def test_a_field_is_found_under_any_spelling(name: str) -> None:
    found = read_frontmatter(head(f"{name}: Read"))

    assert found.words("allowed-tools") == ("Read",)
    assert found.words("allowedTools") == ("Read",)


@pytest.mark.parametrize(
    "text",
    [
        "tools: Read, Bash(git add, git commit), mcp__a__b",
        "tools: Read Bash(git add, git commit) mcp__a__b",
        "tools: [Read, 'Bash(git add, git commit)', mcp__a__b]",
        "tools:\n- Read\n- Bash(git add, git commit)\n- mcp__a__b",
    ],
)
def test_a_list_may_be_written_in_several_ways(text: str) -> None:
    found = read_frontmatter(head(text))

    assert found.words("tools") == ("Read", "Bash(git add, git commit)", "mcp__a__b")


def test_no_list_and_an_empty_list_are_two_things() -> None:
    assert read_frontmatter(head("tools:")).words("tools") is None
    assert read_frontmatter(head("x: y")).words("tools") is None
    assert read_frontmatter(head("tools: []")).words("tools") == ()


def test_flags_and_numbers_are_read_as_people_write_them() -> None:
    found = read_frontmatter(
        head("a: Yes\nb: 'off'\nc: perhaps\nd: 1\nn: 5\nm: -5\nt: true\nw: many")
    )

    assert found.flag("a", default=False)
    assert not found.flag("b", default=True)
    assert found.flag("c", default=True)
    assert not found.flag("c", default=False)
    assert found.flag("d", default=False)
    assert found.flag("absent", default=True)
    assert [found.number(name) for name in "nmtw"] == [5, None, None, None]


def test_a_list_is_shown_as_it_was_written() -> None:
    found = read_frontmatter(head("hint: [issue-number]\nmap: {a: b}"))

    assert found.text("hint") == "[issue-number]"
    assert found.text("map") == ""


@given(st.text())
def test_no_text_makes_it_fail(text: str) -> None:
    found = read_frontmatter(text)

    assert isinstance(found.body, str)


@given(st.text(alphabet="ab:-[]{}&*!|>'\"#,%@`\t\n \x00\ud800é"))
def test_no_head_makes_it_fail_and_the_body_is_never_lost(text: str) -> None:
    closed = f"---\n{text}\n---\nThe body."

    found = read_frontmatter(closed)

    assert found.body.endswith("The body.")


@given(st.lists(st.text(alphabet="ab(), ", max_size=6), max_size=6))
def test_words_lose_nothing_but_separators(parts: list[str]) -> None:
    text = ",".join(parts)

    words = split_words(text)

    assert [c for word in words for c in word if c not in ", "] == [
        c for c in text if c not in ", "
    ]
    assert all(word.strip() == word != "" for word in words)
