"""What bash really runs must be among the commands that were found, unless there was a doubt.

Lines are put together at random from pieces of the shell's language and run by bash, in an
empty folder, with nothing on the path but programs that write down their arguments.
"""

import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clew.permissions.shell.command_line import ShellCommand, flatten
from clew.permissions.shell.parser import parse_line

pytestmark = [
    pytest.mark.req("PRM-2"),
    pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash"),
]

LINES = 800
SEED = 2_026
_UNSAFE = re.compile(r"\(\s*\)|function|until|while|coproc")
"""Could define a function or go on for ever."""
_WORDS = (
    "a", "-x", "p", "--k=v", "'a b'", '"a b"', "a\\ b", "'#x'", '"$x"', "$x", "${x}", "*", "{a,b}",
    "x{1,2}y", "{1..3}", "$'\\x70'", "$'a\\tb'", '$"a"', "''", '""', "a#b", "\\#", "[a]", "a=b",
    "{}", "\\$x", "'$(p)'", '"\\$(p)"', "a$", "$", "!", "\\\n", "a\\\nb", "\\\\", '" $x "', "{,b}",
    "\"it's\"", "'say \"x\"'", "${x:-p}", "${y:-q r}", "~", "p{", "}", "a{b", "é", "a\u00a0b",
)  # fmt: skip
_NOISE = (
    "'", '"', "\\", "$", "`", "(", ")", "{", "}", ";", "&", "|", "\n", ">", "<", "#", " ", "=", "[",
    "]", "!", "\\\n", "<<E", "$(", "&&", "||", ";;", "p", "then", "do", "esac", "2>", "$'", '$"',
)  # fmt: skip


class Generator:
    """Makes lines, well-formed ones and slightly broken ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def line(self) -> str:
        text = self.row(2)
        for _ in range(self.random.choice((0, 0, 1, 2))):
            at = self.random.randint(0, len(text))
            text = text[:at] + self.pick(*_NOISE, "") + text[at + self.random.randint(0, 1) :]
        return text

    def row(self, depth: int) -> str:
        marks = ("; ", " && ", " || ", " | ", "\n", " & ")
        parts = [self.statement(depth) for _ in range(self.random.choice((1, 1, 1, 2, 3)))]
        return "".join(part + self.pick(*marks) for part in parts[:-1]) + parts[-1]

    def statement(self, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.5:
            return self.simple(depth)
        shapes: tuple[Callable[[], str], ...] = (
            lambda: f"({self.row(depth - 1)})",
            lambda: f"{{ {self.row(depth - 1)}; }}",
            lambda: f"if {self.row(depth - 1)}; then {self.row(depth - 1)}; fi",
            lambda: f"for i in {self.word(depth)} b; do {self.row(depth - 1)}; done",
            lambda: f"case {self.word(0)} in {self.word(0)}) {self.row(depth - 1)};; esac",
            lambda: f"[ {self.word(0)} = {self.word(0)} ] && {self.simple(depth)}",
            lambda: f"[[ {self.word(0)} == {self.word(0)} ]] || {self.simple(depth)}",
            lambda: f"X={self.word(depth - 1)}; {self.simple(depth)}",
            lambda: self.document(depth),
            lambda: self.pick("# c\n", "# c; p\n", "# c \\\n") + self.simple(depth),
        )
        return self.random.choice(shapes)()

    def document(self, depth: int) -> str:
        start = self.pick("E", "'E'", '"E"', "\\E")
        dash = self.pick("", "-")
        body = "".join(
            self.pick("a", "$x", "$(p)", "\n", "'", '"', "\\", "E", "\t", "p", "`q`")
            for _ in "12345"
        )
        rest = self.pick("", " | q", " && r", " > f", " a", " # c")
        end = self.pick("E", "\tE" if dash else "E")
        return f"{self.simple(0)} <<{dash}{start}{rest}\n{body}\n{end}\n"

    def simple(self, depth: int) -> str:
        before = self.pick("", "", "", "A=1", "env", "timeout 2", "nice", "time", "command", "!")
        name = self.pick("p", "q", "r", "'p'", "\\q", '"r"', "$'p'", "p\\\n")
        words = [self.word(depth) for _ in range(self.random.randint(0, 3))]
        if self.random.random() < 0.25:
            words.insert(0, self.pick(">f", "2> g", "< f", "2>&1", ">>'h'", "&>f", ">&2", "<<< a"))
        if self.random.random() < 0.1:
            words, name = [f"'{self.pick('p; q', 'p $x', '(r)')}'"], self.pick("sh -c", "bash -c")
        return self.pick(" ", "  ", "\t", " \\\n ").join(filter(None, (before, name, *words)))

    def word(self, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.8:
            return self.pick(*_WORDS)
        inside = self.row(depth - 1)
        return self.pick(f"$({inside})", f'"x $({inside}) y"', f"<({inside})", f"`{inside}`")


class Playground:
    """A folder in which bash can do no harm, and a record of what it ran there."""

    def __init__(self, root: Path) -> None:
        self.work, self.log, self.bin = root / "work", root / "log", root / "bin"
        for folder in (self.work, self.log, self.bin):
            folder.mkdir()
        bash = shutil.which("bash")
        for name in ("p", "q", "r"):
            program = self.bin / name
            program.write_text(
                f"#!{bash}\nprintf '%s\\0' {name} \"$@\" $'\\001' >> {self.log}/$BASHPID\n"
            )
            program.chmod(0o755)
        for name in ("env", "timeout", "nice", "sh", "bash"):
            (self.bin / name).symlink_to(shutil.which(name) or name)
        self.environment = {"PATH": str(self.bin), "HOME": str(root), "x": "p"}

    def run(self, line: str) -> list[tuple[str, ...]]:
        for old in (*self.log.iterdir(), *self.work.iterdir()):
            old.unlink()
        (self.work / "f").write_text("")
        # Every process of the line inherits the pipe, also those in the background with other
        # output: reading to its end waits for them all.
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb") as ended:
            try:
                subprocess.run(
                    ["bash", "-c", line],
                    cwd=self.work,
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    check=False,
                    timeout=60,
                    pass_fds=(writer,),
                )
            finally:
                os.close(writer)
            ended.read()
        return list(self._ran())

    def _ran(self) -> Iterator[tuple[str, ...]]:
        for file in self.log.iterdir():
            for record in file.read_bytes().split(b"\1\0")[:-1]:
                yield tuple(os.fsdecode(word) for word in record.split(b"\0")[:-1])

    def written(self) -> set[str]:
        return {file.name for file in self.work.iterdir() if file.name != "f"}


def explains(command: ShellCommand, argv: tuple[str, ...], home: str) -> bool:
    """Could this command, as it was read, have got these arguments?"""
    pieces = [
        f"(?:{re.escape(word.text)}|{re.escape(home)})\0" if word.known else "(?:[^\0]*\0)*"
        for word in command.words
    ]
    return bool(re.fullmatch("".join(pieces), "".join(f"{word}\0" for word in argv), re.DOTALL))


def test_bash_runs_nothing_that_was_not_found(tmp_path: Path) -> None:
    playground, generator = Playground(tmp_path), Generator(SEED)
    certain = ran = 0
    for _ in range(LINES):
        source = generator.line()
        line = parse_line(source)
        if line.doubts or _UNSAFE.search(source):
            continue
        certain += 1

        for argv in playground.run(source):
            ran += 1
            assert any(explains(each, argv, str(tmp_path)) for each in flatten(line.commands)), (
                source,
                argv,
            )
        told = {touch.path.text for touch in line.files if touch.writes}
        assert playground.written() <= told, source

    print(f"\n{certain} of {LINES} lines were certain, and bash ran {ran} commands of them")  # noqa: T201
    assert certain > LINES // 5
    assert ran > certain // 2
