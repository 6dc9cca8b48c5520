"""Parsing rules, and matching them against texts, paths, URLs and tools."""

from pathlib import Path

import pytest

from clew.core.errors import ConfigError
from clew.permissions.match_text import (
    allows_address,
    denies_address,
    denies_text,
    host_of,
    matches_text,
)
from clew.permissions.paths import (
    allows_path,
    denies_path,
    denies_some,
    escape_glob,
    find_fixed_folder,
    folds_case,
)
from clew.permissions.rules import (
    Rule,
    names_tool,
    parse_allow_rule,
    parse_rule,
    select_allow_rules,
)
from tests.rows import each_row

pytestmark = pytest.mark.req("PRM-2")
HERE = Path("/srv/project")
YES, NO = True, False


@each_row(
    ("text", "rule"),
    [
        ("Read", Rule("Read")),
        ("Bash(pnpm *)", Rule("Bash", "pnpm *")),
        (" Bash( ls ) ", Rule("Bash", "ls")),
        ("Bash(echo (a))", Rule("Bash", "echo (a)")),
        ("mcp__git__push", Rule("mcp__git__push")),
        ("mcp__git__*", Rule("mcp__git__*")),
        ("Bash(a\nb)", Rule("Bash", "a\nb")),
        ("*", Rule("*")),
    ],
)
def test_a_rule_names_a_tool_and_perhaps_a_pattern(text: str, rule: Rule) -> None:
    assert parse_rule(text) == rule
    assert parse_rule(str(rule)) == rule
    assert parse_rule(text, source="here").source == "here"


@each_row("text", ["", "Bash(", "Bash)", "Bash()", "Bash( )", "(x)", "B(x)y", "1"])
def test_a_malformed_rule_is_an_error_that_quotes_it(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rule(text)

    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["*", "B*", "mcp__*", "mcp__g*__x"])
def test_an_allow_rule_must_say_whose_tool_it_names(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_allow_rule(text)

    assert not select_allow_rules((parse_rule(text),), "mcp__git__x")
    assert parse_allow_rule("mcp__git__get_*").tool == "mcp__git__get_*"


def test_a_server_rule_does_not_match_a_server_with_a_longer_name() -> None:
    assert names_tool(parse_rule("mcp__git"), "mcp__git__push")
    assert not names_tool(parse_rule("mcp__git"), "mcp__github__push")
    assert not names_tool(parse_rule("read"), "Read")


@each_row(
    ("pattern", "text", "matches"),
    [
        ("a*", "a\nb", YES),
        ("a?c", "abc", YES),
        ("a?c", "ac", NO),
        ("a.c", "abc", NO),
        ("a[b]", "ab", NO),
        ("a**b", "axyb", YES),
        ("x:*", "x", YES),
        ("x:*", "x y", YES),
        ("x:*", "xy", NO),
        ("x *", "x", YES),
        ("x *", "x y", YES),
        ("x *", "xy", NO),
        ("x*", "xy", YES),
        ("* x *", "a x b", YES),
        ("* x *", "a x", NO),
        ("x", "x y", NO),
    ],
)
def test_a_star_is_anything_and_at_the_end_also_nothing(
    pattern: str, text: str, *, matches: bool
) -> None:
    assert matches_text(Rule("Bash", pattern), text) is matches


def test_denying_may_disregard_upper_and_lower_case() -> None:
    assert denies_text(Rule("Bash", "rm *"), "RM x", fold=True)
    assert not denies_text(Rule("Bash", "rm *"), "RM x")


@each_row(
    ("rule", "path", "allowed", "denied"),
    [
        ("Read(//src/**)", "/src/a/b.py", YES, YES),
        ("Read(//src/**)", "/src/../etc/passwd", NO, NO),
        ("Read(//src/**)", "/srcs/a", NO, NO),
        ("Read(//src/*)", "/src/a", YES, YES),
        ("Read(//src/*)", "/src/a/b", NO, YES),
        ("Read(//src/?.py)", "/src/a.py", YES, YES),
        ("Read(//src/?.py)", "/src/ab.py", NO, NO),
        ("Read(//src/**/x.py)", "/src/x.py", YES, YES),
        ("Read(//src/**/x.py)", "/src/a/b/x.py", YES, YES),
        ("Read(//src/**/x.py)", "/src/a/b/y.py", NO, NO),
        ("Read(/src/**)", "src/a", YES, YES),
        ("Read(/src/**)", "/srv/project/src/a", YES, YES),
        ("Read(/src/**)", "vendor/src/a", NO, NO),
        ("Read(/src/**)", "/src/a", NO, YES),
        ("Read(src/**)", "src/a", YES, YES),
        ("Read(src/**)", "vendor/src/a", NO, YES),
        ("Read(./src/**)", "vendor/src/a", NO, NO),
        ("Read(a/src/**)", "vendor/a/src/b", NO, NO),
        ("Read(**/src/**)", "vendor/src/a", YES, YES),
        ("Read(.env)", ".env", YES, YES),
        ("Read(.env)", "deep/er/.env", YES, YES),
        ("Read(.env)", "/etc/.env", NO, NO),
        ("Read(./.env)", "deep/.env", NO, NO),
        ("Read(//**/.env)", "/etc/.env", YES, YES),
        ("Read(*.pem)", "a/b.pem", YES, YES),
        ("Read(./docs/)", "docs/a/b", YES, YES),
        ("Read(./docs)", "docs/a", NO, YES),
        ("Read(~/notes/**)", "~/notes/a", YES, YES),
        ("Read(~/notes/**)", "~/notes/../.ssh/id", NO, NO),
        ("Read(../shared/**)", "../shared/a.md", YES, YES),
        ("Read(//a.b)", "/axb", NO, NO),
        ("Read(//src/**)", "/src/\0", NO, YES),
        ("Read(./app/[id]/x)", "app/[id]/x", YES, YES),
        ("Read(./app/[id]/x)", "app/i/x", YES, YES),
        ("Read(./app/[!i]/x)", "app/j/x", YES, YES),
        ("Read(./app/[!i]/x)", "app/i/x", NO, NO),
        ("Read(./app/\\[id\\]/x)", "app/i/x", NO, NO),
        ("Read(./app/\\[id\\]/x)", "app/[id]/x", YES, YES),
        ("Read(./a (b)/**)", "a (b)/c", YES, YES),
        ("Read(**)", "/anything", YES, YES),
    ],
)
def test_path_patterns_are_compared_with_where_the_path_leads(
    rule: str, path: str, *, allowed: bool, denied: bool
) -> None:
    assert allows_path(parse_rule(rule), path, HERE) is allowed
    assert denies_path(parse_rule(rule), path, HERE) is denied


def test_one_slash_starts_beside_the_settings_that_hold_the_rule() -> None:
    rule = parse_rule("Read(/notes/**)", base="/home/me/.claude")

    assert allows_path(rule, "/home/me/.claude/notes/a", HERE)
    assert not allows_path(rule, "notes/a", HERE)


def test_case_makes_no_difference_where_the_disk_makes_none(tmp_path: Path) -> None:
    rule = parse_rule("Read(./Secret/**)")

    assert denies_path(rule, "sECRET/x", HERE, fold=True)
    assert not denies_path(rule, "sECRET/x", HERE, fold=False)
    assert denies_path(parse_rule("Read(./caf\u00e9)"), "cafe\u0301", HERE, fold=True)
    swapped = tmp_path.with_name(tmp_path.name.swapcase())
    assert folds_case(str(tmp_path / "1")) is swapped.exists()


def test_a_file_that_does_not_exist_is_resolved_by_its_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    assert denies_path(parse_rule("Edit(./real/**)"), "link/new/file", tmp_path)
    assert denies_path(parse_rule("Edit(./link/**)"), "real/new/file", tmp_path)
    assert not allows_path(parse_rule("Edit(./link/**)"), "link/new", tmp_path)
    assert allows_path(parse_rule("Edit(./real/**)"), "link/new", tmp_path)


@each_row(
    ("rule", "glob", "meets"),
    [
        ("Read(./.env)", ".e*", YES),
        ("Read(./.env)", "*.md", NO),
        ("Read(./conf/x)", "co*", YES),
        ("Read(**/*.pem)", "src/*.pem", YES),
        ("Read(**/*.pem)", "src/*.py", NO),
        ("Read(//etc/**)", "src/*", NO),
        ("Read(//etc/**)", "/e*/x", YES),
    ],
)
def test_a_pattern_in_a_command_may_stand_for_what_is_denied(
    rule: str, glob: str, *, meets: bool
) -> None:
    assert denies_some(parse_rule(rule), glob, HERE) is meets


def test_the_fixed_folder_of_a_pattern() -> None:
    assert [find_fixed_folder(each) for each in ("a/b/*.py", "*.py", "/*", "/a/[b]/c")] == [
        "a/b",
        ".",
        "/",
        "/a",
    ]
    assert allows_path(Rule("Read", f"./{escape_glob('a[b]*?c')}"), "a[b]*?c", HERE)
    assert not allows_path(Rule("Read", f"./{escape_glob('a[b]*?c')}"), "abxyc", HERE)


@each_row(
    ("address", "host"),
    [
        ("https://Example.COM/a", "example.com"),
        ("example.com/a", "example.com"),
        ("https://example.com.:443/", "example.com"),
        ("https://user@evil.com/example.com", "evil.com"),
        ("https://b\u00fccher.de", "xn--bcher-kva.de"),
        ("http://2130706433/", "127.0.0.1"),
        ("http://0x7f.1/", "127.0.0.1"),
        ("http://[::1]/", "::1"),
        ("http://256.1.1.1.1/", None),
        ("https://example.com\\@evil.com", None),
        ("https://a b", None),
        ("ftp://example.com", None),
        ("https://[x", None),
        ("https://x:y/", None),
        ("", None),
        ("javascript:alert(1)", None),
    ],
)
def test_the_host_of_a_url_is_returned_only_if_it_is_certain(
    address: str, host: str | None
) -> None:
    assert host_of(address) == host


@each_row(
    ("pattern", "address", "allowed", "denied"),
    [
        ("domain:example.com", "https://example.com/a", YES, YES),
        ("domain:example.com", "https://EXAMPLE.com./a", YES, YES),
        ("domain:Example.com.", "https://example.com/a", YES, YES),
        ("domain:example.com", "https://evil.com/example.com", NO, NO),
        ("domain:example.com", "https://example.com.evil.com", NO, NO),
        ("domain:example.com", "https://example.com@evil.com", NO, NO),
        ("domain:example.com", "https://me@example.com", NO, YES),
        ("domain:example.com", "https://www.example.com", NO, YES),
        ("domain:example.com", "https://notexample.com", NO, NO),
        ("domain:*.example.com", "https://a.b.example.com", YES, YES),
        ("domain:*.example.com", "https://example.com", NO, NO),
        ("domain:example.*", "https://example.org", YES, YES),
        ("domain:example.*", "https://example.evil.com", NO, NO),
        ("domain:*", "https://anything", YES, YES),
        ("domain:127.0.0.1", "http://2130706433/", YES, YES),
        ("https://docs.x.org/*", "https://docs.x.org/a", YES, YES),
        ("https://docs.x.org*", "https://docs.x.org@evil.com/", NO, YES),
        ("domain:example.com", "ftp://example.com", NO, NO),
    ],
)
def test_a_domain_is_compared_with_the_host(
    pattern: str, address: str, *, allowed: bool, denied: bool
) -> None:
    assert allows_address(Rule("WebFetch", pattern), address) is allowed
    assert denies_address(Rule("WebFetch", pattern), address) is denied
