"""Globs match in linear time, and match what the same regular expressions would match."""

import os
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import ConfigError
from clew.core.permissions import Access, Risk, TargetKind, Verdict
from clew.permissions.decide import decide
from clew.permissions.grants import grant_for, rules_for
from clew.permissions.match_text import denies_address, matches_text
from clew.permissions.paths import denies_path, denies_some
from clew.permissions.policy import Policy
from clew.permissions.rules import MAX_RULE_LENGTH, Rule, names_tool, parse_rule
from tests.rows import each_row

pytestmark = pytest.mark.req("PRM-2")

_TOKEN = re.compile(r"(?s)/\*\*$|\*\*/|\*\*|\*|\?|\\.|\[[^]/]+\]|.")
_PIECES = {"/**": "(?:/.*)?", "**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def path_expression(pattern: str) -> re.Pattern[str]:
    """Say in a regular expression what a pattern of paths means to a rule that denies."""
    body = "".join(map(piece, _TOKEN.findall(os.path.normpath(pattern))))
    return re.compile(body + "(?:/.*)?", re.DOTALL)


def piece(token: str) -> str:
    if token in _PIECES:
        return _PIECES[token]
    if len(token) == 2 and token[0] == "\\":
        return re.escape(token[1])
    if len(token) > 2 and token[0] == "[":
        letters = re.escape(token[1:-1]).replace(r"\-", "-").removeprefix("!")
        negated = "^/" if token[1] == "!" else ""
        return f"(?:{re.escape(token)}|[{negated}{letters}])"
    return re.escape(token)


def text_expression(pattern: str) -> re.Pattern[str]:
    """Say in a regular expression what a pattern of texts means."""
    body, ending = re.sub(r"\*+", "*", pattern), ""
    for mark in (":*", " *"):
        if body.endswith(mark) and (mark == ":*" or body.count("*") == 1):
            body, ending = body.removesuffix(mark).rstrip(), "(?: .*)?"
            break
    pieces = {"*": ".*", "?": "."}
    return re.compile("".join(pieces.get(c, re.escape(c)) for c in body) + ending, re.DOTALL)


@given(
    st.text(alphabet="ab-*?/[]!\\.\n", min_size=1, max_size=9).map(lambda text: f"a{text}"),
    st.text(alphabet="ab-/[]!\\.\n", max_size=9).map(lambda text: f"a{text}"),
)
def test_a_path_is_matched_as_by_an_expression(pattern: str, path: str) -> None:
    rule, target = Rule("Read", f"//{pattern}"), os.path.normpath(f"/{path}")
    try:
        expression = path_expression(f"/{pattern}" + "**" * pattern.endswith("/"))
    except (re.error, FutureWarning):
        return

    found = denies_path(rule, target, Path("/srv"), fold=False)

    assert rule.covers_all or found == bool(expression.fullmatch(target))


@given(st.text(alphabet="ab*?: \n", max_size=9), st.text(alphabet="ab: \n", max_size=12))
def test_a_text_is_matched_as_by_an_expression(pattern: str, text: str) -> None:
    rule = Rule("Bash", pattern)

    assert matches_text(rule, text) == (
        rule.covers_all or bool(text_expression(pattern).fullmatch(text))
    )


LONG = "*a" * 900 + "b"


@each_row(
    "compare",
    [
        lambda: denies_path(Rule("Read", LONG), "a" * 4_000, Path("/srv")),
        lambda: denies_path(Rule("Read", LONG.replace("*", "**/")), "a/" * 2_000, Path("/srv")),
        lambda: denies_path(Rule("Read", "[a-b]*" * 300 + "c"), "ab" * 2_000, Path("/srv")),
        lambda: matches_text(Rule("Bash", LONG), "a" * 100_000),
        lambda: matches_text(Rule("Bash", LONG.replace("*", "?*") + ":*"), "a " * 50_000),
        lambda: names_tool(Rule(LONG), "a" * 4_000),
        lambda: denies_address(Rule("WebFetch", f"domain:*.{LONG}"), "https://" + "a" * 4_000),
        lambda: denies_some(Rule("Read", "//" + "a" * 4_000), LONG, Path("/")),
    ],
)
def test_no_pattern_takes_long(compare: "object") -> None:
    assert callable(compare)
    before = time.process_time()

    assert not compare()
    assert time.process_time() - before < 1


def test_a_rule_that_is_too_long_is_refused_and_never_proposed() -> None:
    with pytest.raises(ConfigError, match="more than 2,000 characters"):
        parse_rule(f"Bash({'x' * MAX_RULE_LENGTH})")

    access = Access(
        tool="Bash",
        risk=Risk.EXECUTE,
        target=f"rm {'x ' * MAX_RULE_LENGTH}",
        kind=TargetKind.COMMAND,
    )
    assert rules_for(access, Path("/srv")) == ()


@pytest.mark.parametrize("name", ["a" * 300, "[z-a]", "a\0b", "\udcff", "~nobody-of-this-name/x"])
def test_no_name_makes_a_decision_fail(name: str, tmp_path: Path) -> None:
    policy = Policy(
        cwd=tmp_path, deny=(parse_rule(f"Read({name}/**)"), parse_rule(f"Read(x{name})"))
    )
    for target in (name, "x", "."):
        access = Access(tool="Grep", risk=Risk.INSPECT, target=target, kind=TargetKind.PATH)

        assert decide(access, policy).verdict in Verdict
        grant_for(access, tmp_path)
