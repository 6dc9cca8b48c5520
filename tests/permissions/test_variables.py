"""The values of variables that the parser finds are those that bash gives them."""

import os
import random
import shutil
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from clew.permissions.shell.command_line import ShellCommand
from clew.permissions.shell.parser import parse_line

pytestmark = [
    pytest.mark.req("PRM-2"),
    pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash"),
]

LINES = 120
SEED = 2_026
VALUES = ("a", "b", "''", "'c d'", "'*'", "-o", "$x", '"$y"', '"$x$y"', "k.t", '"p$x"', "$(echo q)")
WORDS = ("a", "'c d'", "*.t", "sub/*", "-o", "'*.t'", "{1,2}", '"$x"')
USES = ('"$x"', "$x", '"$y"', "$y", '"p$x"', 'p"$y"', '"${x}s"', '"$x/$y"', "sub/$x", '""$x')


class Generator:
    """Makes lines that set `x` and `y`, and pass them to a program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.uses = 0

    def block(self, depth: int) -> str:
        return "; ".join(self.statement(depth) for _ in range(self.random.randint(1, 3)))

    def statement(self, depth: int) -> str:
        pick = self.random.choice
        name, other = pick("xy"), pick("xy")
        if depth == 0 or self.random.random() < 0.5:
            return pick((self.use(), self.use(), f"{name}={pick(VALUES)}"))
        inside = [self.block(depth - 1) for _ in range(3)]
        some = " ".join(pick(WORDS) for _ in range(2))
        return pick(
            (
                f"for {name} in {some}; do {inside[0]}; done",
                f"if {pick(('true', 'false'))}; then {inside[0]}; else {inside[1]}; fi",
                f"{name}={pick(VALUES)} && {self.use()} && {other}={pick(VALUES)}",
                f"{pick(('true', 'false'))} && {name}={pick(VALUES)} && {self.use()}",
                f"{pick(('true', 'false'))} || {name}={pick(VALUES)}",
                f"{{ {inside[0]}; }}",
                f"({inside[0]})",
                f"{name}={pick(VALUES)} | {{ {inside[0]}; }}",
                f"{{ {name}={pick(VALUES)}; }} & wait",
                f"case a in b) {inside[0]};; a) {inside[1]};; *) {inside[2]};; esac",
                f"while read {name}; do {inside[0]}; done <<< 'k l'",
                f"for i in 1 2; do {inside[0]}; {name}={pick(VALUES)}; done",
                f"read {name} <<< 'm n'",
                f"unset {name}",
                f"export {name}={pick(VALUES)}",
                f"declare -u {name}={pick(VALUES)}",
                f"{name}+={pick(VALUES)}",
                f"printf -v {name} z",
            )
        )

    def use(self) -> str:
        self.uses += 1
        return f"probe {self.uses} {self.random.choice(USES)} {self.random.choice(USES)}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("place")
    (root / "work/sub").mkdir(parents=True)
    for name in ("one.t", "two three.t", "sub/four.t", "sub/*.t"):
        (root / "work" / name).touch()
    (root / "bin").mkdir()
    probe = root / "bin/probe"
    probe.write_text(
        '#!/bin/sh\nfor each; do printf \'%s\\037\' "$each"; done >> "$LOG"; echo >> "$LOG"\n'
    )
    probe.chmod(0o755)
    return root


@pytest.mark.slow("runs bash for every line")
def test_bash_gives_a_program_only_words_that_were_predicted(place: Path) -> None:
    generator = Generator(SEED)
    predicted = 0
    for _ in range(LINES):
        line = generator.block(2)
        commands = [each for each in parse_line(line).commands if each.program == "probe"]
        known = {each.words[1].text: each.variants for each in commands if each.variants}

        for number, *given in run(line, place):
            if number in known:
                predicted += 1
                assert any(matches(variant, given) for variant in known[number]), (line, given)

    assert predicted > LINES / 10


def run(line: str, place: Path) -> list[list[str]]:
    """Run a line, and return the arguments of each program that it started."""
    log = place / "log"
    log.write_text("")
    subprocess.run(
        ["bash", "-c", line],
        cwd=place / "work",
        env={"PATH": f"{place}/bin:{os.environ['PATH']}", "LOG": str(log), "x": "ex", "y": "ey"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return [row.split("\x1f")[:-1] for row in log.read_text().splitlines()]


def matches(variant: ShellCommand, given: list[str]) -> bool:
    words = variant.words[2:]
    if any(not word.known and (word.splits or not word.globs) for word in words):
        # A word remains unknown, or it depends on the names of files whether they are split.
        return True
    return len(words) == len(given) and all(
        fnmatchcase(text, word.text) if word.globs else text == word.text
        for word, text in zip(words, given, strict=True)
    )
