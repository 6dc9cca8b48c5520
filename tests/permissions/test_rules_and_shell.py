"""Reading rules, and taking command lines apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import ConfigError
from clew.permissions.rules import Rule, matches_text, parse
from clew.permissions.shell import split


@pytest.mark.req("PRM-2")
@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Read", Rule("Read")),
        ("Bash(pnpm *)", Rule("Bash", "pnpm *")),
        (" Bash( ls ) ", Rule("Bash", "ls")),
        ("Bash(echo (a))", Rule("Bash", "echo (a)")),
        ("mcp__git__push", Rule("mcp__git__push")),
        ("Bash(a\nb)", Rule("Bash", "a\nb")),
    ],
)
def test_a_rule_names_a_tool_and_perhaps_a_pattern(text: str, rule: Rule) -> None:
    assert parse(text) == rule
    assert parse(str(rule)) == rule


@pytest.mark.req("PRM-2")
@pytest.mark.parametrize("text", ["", "Bash(", "Bash)", "Bash()", "Bash( )", "(x)", "*", "B(x)y"])
def test_a_malformed_rule_is_an_error_that_quotes_it(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text)

    assert repr(text) in str(caught.value)


@pytest.mark.req("PRM-2")
@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("a*", "a\nb", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("a.c", "abc", False),
        ("a[b]", "ab", False),
        ("a**b", "axyb", True),
        ("x:*", "x", True),
        ("x:*", "x y", True),
        ("x:*", "xy", False),
    ],
)
def test_a_star_is_anything_and_a_question_mark_one_character(
    pattern: str, text: str, *, matches: bool
) -> None:
    assert matches_text(Rule("Bash", pattern), text) is matches


def test_a_line_is_split_outside_quotes_only() -> None:
    line = split("a 'x; y' && b \"p | q\" | c d\\;e; f\n g & # h; i")

    assert [command.words for command in line.commands] == [
        ("a", "x; y"),
        ("b", "p | q"),
        ("c", "d;e"),
        ("f",),
        ("g",),
    ]


def test_the_text_of_a_command_keeps_its_quotes_and_loses_harmless_redirections() -> None:
    (command,) = split("  a   'x  y' 2>&1   >/dev/null 3").commands

    assert command.text == "a 'x  y' 3"
    assert command.words == ("a", "x  y", "3")


@pytest.mark.parametrize(
    "line", ["a $(b)", "a `b`", "(a)", "a > b", "a <<E", "x=1 a", "if a", "a '", 'a "', "a \\"]
)
def test_what_is_not_certain_is_said_to_be_in_doubt(line: str) -> None:
    assert split(line).doubt
    assert split(line).commands == ()


@given(st.lists(st.text(alphabet="abz/._-=:@%+", min_size=1), min_size=1, max_size=5))
def test_plain_words_come_out_as_they_went_in(words: list[str]) -> None:
    line = split("x " + " ".join(words))

    assert line.doubt == ""
    assert line.commands[0].words == ("x", *words)


@given(st.text(max_size=30).filter(lambda text: "\0" not in text))
def test_a_single_quoted_word_is_taken_literally(text: str) -> None:
    quoted = "'" + text.replace("'", "'\\''") + "'"

    assert split(f"x {quoted}").commands[0].words == ("x", text)
