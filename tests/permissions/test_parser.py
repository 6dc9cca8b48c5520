"""Parsing command lines: commands, words, files, and what is uncertain."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.permissions.shell.command_line import flatten
from clew.permissions.shell.parser import MAX_LINE_LENGTH, parse_line
from tests.rows import each_row

pytestmark = pytest.mark.req("PRM-2")


def commands(line: str) -> list[tuple[str, ...]]:
    return [
        tuple(word.text for word in command.words) for command in flatten(parse_line(line).commands)
    ]


@each_row(
    ("line", "found"),
    [
        (
            "a 'x; y' && b \"p | q\" | c d\\;e; f\n g & # h; i",
            [("a", "x; y"), ("b", "p | q"), ("c", "d;e"), ("f",), ("g",)],
        ),
        ("(a; { b; }) && ! c", [("a",), ("b",), ("c",)]),
        ("if a; then b; elif c; then d; else e; fi", [("a",), ("b",), ("c",), ("d",), ("e",)]),
        ("while a; do b; done; until c; do d; done", [("a",), ("b",), ("c",), ("d",)]),
        ("for x in 1 $(a); do b; done", [("a",), ("b",)]),
        ("case $(a) in x|y) b;; *) c;; esac", [("a",), ("b",), ("c",)]),
        ("a $(b `c`)", [("c",), ("b", "`c`"), ("a", "$(b `c`)")]),
        ("a <(b) >(c)", [("b",), ("c",), ("a", "<(b)", ">(c)")]),
        ('a "x $(b) ${y:-$(c)}"', [("b",), ("c",), ("a", "x $(b) ${y:-$(c)}")]),
        ("X=$(a); b", [("a",), ("b",)]),
        ("cat <<E\n$(a)\nE\nb", [("a",), ("cat",), ("b",)]),
        ("cat <<'E'\n$(a)\nE\nb", [("cat",), ("b",)]),
        ("cat <<E | a && b\nx\nE", [("a",), ("b",), ("cat",)]),
        ("a > f b c", [("a", "b", "c")]),
        ("> f a b", [("a", "b")]),
        ("a{b,c}d {1..3} {x}", [("abd", "acd", "1", "2", "3", "{x}")]),
        ("a {b,{c,d}}{,e}", [("a", "b", "be", "c", "ce", "d", "de")]),
        ("a '{b,c}' \"{d,e}\" \\{f,g}", [("a", "{b,c}", "{d,e}", "{f,g}")]),
        ("a {c..a}", [("a", "c", "b", "a")]),
        ("a\\\nb c\\\n d", [("ab", "c", "d")]),
        ("a $'\\x62\\t\\'\\u00e9' $\"c\"", [("a", "b\t'é", "c")]),
        ("a \"b\\\nc\\\"\\$d\\e\" 'f'\\''g'", [("a", 'bc"$d\\e', "f'g")]),
        ('a "$x $y" " z "', [("a", "$x $y", " z ")]),
        ("[ -f a ] && [[ b == c ]] && d", [("d",)]),
        ("a 2>&1 >/dev/null 3", [("a", "3")]),
        ("a <<< 'b'", [("a",)]),
        ("sudo -u x env A=1 timeout 5 b", [
            ("sudo", "-u", "x", "env", "A=1", "timeout", "5", "b"),
            ("env", "A=1", "timeout", "5", "b"),
            ("timeout", "5", "b"),
            ("b",),
        ]),
        ("sh -c 'a; b'", [("sh", "-c", "a; b"), ("a",), ("b",)]),
        ("find . -exec a {} \\; -exec b +", [
            ("find", ".", "-exec", "a", "{}", ";", "-exec", "b", "+"), ("a", "{}"), ("b",),
        ]),
        ("", []),
        ("# nothing", []),
    ],
)  # fmt: skip
def test_every_simple_command_is_found_with_its_own_words(
    line: str, found: list[tuple[str, ...]]
) -> None:
    assert commands(line) == found
    assert parse_line(line).doubts == ()


def test_a_command_knows_how_it_was_written() -> None:
    (command,) = parse_line("  /bin/a   'x  y' 2>&1   >/dev/null 3").commands

    assert command.written == "/bin/a 'x  y' 3"
    assert command.plain == "/bin/a x  y 3"
    assert (command.name, command.program, command.called) == ("/bin/a", "a", "a x  y 3")
    assert not command.expands


@each_row(
    ("line", "reads", "writes"),
    [
        ("a < b > c 2>> d", ["b"], ["c", "d"]),
        ("a &> b; c >| d; e >& f", [], ["b", "d", "f"]),
        ("a > /dev/null 2>&1 < /dev/null >&-", [], []),
        ("a > b c > d", [], ["b", "d"]),
        ("{ a; } > b", [], ["b"]),
        ("for x in 1; do a; done > b < c", ["c"], ["b"]),
        ("$(< a)", ["a"], []),
        ("cat a b", ["a", "b"], []),
        ("cp a b c", ["a", "b"], ["c"]),
        ("cp -t d a b", ["a", "b"], ["d"]),
        ("mv a b", [], ["a", "b"]),
        ("tee -a a b", [], ["a", "b"]),
        ("sed -n p a", ["a"], []),
        ("sed -i s/x/y/ a", [], ["a"]),
        ("sed -e p a", ["a"], []),
        ("grep x a", ["a"], []),
        ("grep -e x a", ["a"], []),
        ("grep -f a b", ["a", "b"], []),
        ("dd if=a of=b bs=1", ["a"], ["b"]),
        ("dd if=/dev/zero of=-", [], ["-"]),
        ("sort -o a b", ["b"], ["a"]),
        ("sort --output=a b", ["b"], ["a"]),
        ("curl -sSoa https://x", [], ["a"]),
        ("curl -o a https://x", [], ["a"]),
        ("curl -oa https://x", [], ["a"]),
        ("scp a host:b", ["a"], []),
        ("tar czf a b", ["b"], ["a"]),
        ("tar xf a -C b", ["a"], ["b"]),
        ("tar --create --file=a b", ["b"], ["a"]),
        ("zip a b c", ["b", "c"], ["a"]),
        ("chmod 600 a", [], ["a"]),
        ("cat -- -a", ["-a"], []),
        ("cat -", [], []),
        ("ssh host 'cat a > b'", [], []),
        ("sh -c 'cat a > b'", ["a"], ["b"]),
        ("git status", [], []),
    ],
)
def test_the_files_that_a_line_uses_are_found(
    line: str, reads: list[str], writes: list[str]
) -> None:
    touches = parse_line(line).files

    assert sorted(each.path.text for each in touches if not each.writes) == sorted(reads)
    assert sorted(each.path.text for each in touches if each.writes) == sorted(writes)


@each_row(
    "line",
    [
        "a '", 'a "', "a \\", "if a", "a &&", "$a", "$(a)", "a $((b))", "a ${b:=c}", "a ${!b}",
        "a() { b; }", "eval a", "source a", "a <<E", "a <<E\nb", "PATH=b a", "a\rb", "a\x00b",
        "é", "{a,b", "a {1..9999}", "a {01..10}", "x[$(a)]=1", "declare -i x=1", "a {x}>b",
        "a <<'E'\"F\"\nE\n", "a\n\\b", "a $'\\xff'", "a $'\\q'", "a <&$b", "a\\\n&\\\n& b",
        "`a \\`b\\``", "[ a > b ]", "[[ a -eq $b ]]", "test -v a", "let a", "export A",
        "a 1\\\n2>b",
        "unset PATH", "unset -f a", "read 'a[0]'", "read $a", "printf -v PATH b", "set -- a",
        "then a", "in a", "sudo --unknown a", "env -S a", "xargs -I% % a", "bash", "bash -s",
        "sh -c $a", "sh -c 'a &> b'", "fish -c a", "su root", "ssh", "fd -xa",
        "a" * (MAX_LINE_LENGTH + 1), "(" * 100 + "a" + ")" * 100, "sh -c " * 20 + "a", "a \ud800",
        "nice " * 20 + "a", "x=(a) declare -n y", "[[ a =~ <(b) ]]", "a >& --b",
    ],
)  # fmt: skip
def test_an_uncertain_line_is_in_doubt(line: str) -> None:
    assert parse_line(line).doubts


@each_row(
    ("line", "caution"),
    [
        ("find . -delete", ("-delete",)),
        ("python -c x", ("-c",)),
        ("python -m x -c y", ()),
        ("python x.py -c y", ()),
        ("python -W x -c y", ("-c",)),
        ("node --eval=x", ("--eval",)),
        ("perl -lane x", ("-lane",)),
        ("tar -xIf a", ("-xIf",)),
        ("git -c a=b log", ("-c",)),
        ("git commit -c HEAD", ()),
        ("git -C . log", ()),
        ("git rebase -x a", ("-x",)),
        ("git config a b", ("config",)),
        ("sed s/a/b/e f", ("s/a/b/e",)),
        ("sed s/a/b/g f", ()),
        ("sed -n '/a/,/b/{p}' f", ("/a/,/b/{p}",)),
        ("awk '{print $1}' f", ()),
        ("awk -F: '{print > $1}' f", ("{print > $1}",)),
        ("watch -n 1 a", ("watch", "-n", "1", "a")),
        ("ssh -oProxyCommand=a h", ("-oProxyCommand=a",)),
    ],
)
def test_sensitive_words_are_found(line: str, caution: tuple[str, ...]) -> None:
    assert parse_line(line).commands[0].sensitive_words == caution


@pytest.mark.parametrize("sign", ["\u00e9", "\u3000", "\U0001f600", "\U0010ffff"])
@pytest.mark.parametrize("before", ["", "{", "a {", "$", "${", "<<", "`", "x=", "[[ ", "((", "'"])
def test_no_character_is_too_much_for_the_grammar(before: str, sign: str) -> None:
    for line in (f"{before}{sign}", f"a {before}{sign}^ b"):
        assert parse_line(line) == parse_line(line)
    assert commands(f"a '{before}'{sign}") == [("a", f"{before}{sign}")] or before == "'"
    assert parse_line(f"{sign}=1 a").doubts


@given(st.lists(st.from_regex(r"[abz/._:@%+-][abz/._=:@%+-]*", fullmatch=True), min_size=1))
def test_plain_words_are_unchanged(words: list[str]) -> None:
    line = parse_line("x " + " ".join(words))

    assert line.doubts == ()
    assert tuple(word.text for word in line.commands[0].words) == ("x", *words)


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Zl", "Zp"])))
def test_a_single_quoted_word_is_taken_literally(text: str) -> None:
    quoted = "'" + text.replace("'", "'\\''") + "'"
    line = parse_line(f"x {quoted}")

    assert line.doubts == ()
    assert [word.text for word in line.commands[0].words] == ["x", text]


@given(st.text(alphabet="ab'\"\\$`(){}[]<>|&;#!~*?=-%:/ \t\nx\u00e9\u3000\U0001f600", max_size=40))
def test_no_text_makes_the_reading_fail(text: str) -> None:
    line = parse_line(text)

    assert line.doubts or len(line.commands) <= len(text)


@pytest.mark.slow("starts a process")
def test_the_shell_grammar_is_loaded_only_to_judge_a_call() -> None:
    code = "import sys, clew.session.gate; print(*sys.modules, sep='\\n')"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(child.stdout.split())

    assert "clew.session.gate" in loaded
    assert loaded.isdisjoint({"tree_sitter", "tree_sitter_bash", "clew.permissions.shell"})
