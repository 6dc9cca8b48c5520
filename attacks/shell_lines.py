"""A grammar of shell lines over the programs in the tables, for the fuzzer.

Lines are drawn at random, the same ones for the same seed: options alone, in clusters, abbreviated
and with attached values; files, folders, patterns and links as values and operands; redirections,
lists, pipelines and wrappers. `compound_lines` has loops, variables, substitutions and the like.
"""

import random
import shlex
from collections.abc import Sequence

from attacks.compound_lines import make_compound
from clew.permissions.shell.arguments import Program
from clew.permissions.shell.tables import PROGRAMS
from clew.permissions.shell.tables.git import SUBCOMMANDS

FILES = {
    "a.txt": "b\na\nc\n",
    "b.txt": "1 x\n2 y\n",
    "list": "a.txt\nsub/d.txt\n",
    "nul": "a.txt\0b.txt\0",
    "sums": "d41d8cd98f00b204e9800998ecf8427e  empty\n",
    "empty": "",
    "p.diff": "--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n-b\n+B\n a\n c\n",
    "data.json": '{"a": [1, 2]}\n',
    "sub/d.txt": "d\n",
    "sub/deep/e.txt": "e\n",
    "other/a.txt": "z\n",
    "keep/secret": "s\n",
}
"""The files of the folder in which a line runs. No line names `keep`."""
LINKS = {
    "link": "a.txt", "to-sub": "sub", "out": "../outside/secret", "sub/to-out": "../../outside",
}  # fmt: skip
ARCHIVES = ("t.tar", "t.zip", "g.gz")
SENTINEL = "keep/secret"

_OLD = [*FILES, *LINKS, *ARCHIVES, "sub", "other", "sub/deep", ".", "./a.txt", "sub/../b.txt"]
_OUTSIDE = ["../outside", "../outside/secret", "sub/../../outside/secret", "sub/to-out/secret"]
"""A folder beside the one in which a line runs."""
_PLACES = [path for path in (*_OLD, *_OUTSIDE) if not path.startswith("keep")]
_NEW = ["new", "sub/new", "new.gz", "to-sub/new", "other/", "n/ew"]
_GLOBS = [
    "*.txt",
    "sub/*",
    "?.txt",
    "[ab].txt",
    "*/a.txt",
    "{a,b}.txt",
    "o*",
    "sub/*/*",
    "s*/t*",
    "@list",
]
_TEXTS = [
    "a",
    "1",
    "2",
    "x",
    "1,2p",
    "/a/d",
    "s/a/b/",
    ".",
    ".a",
    "644",
    "%s",
    "0",
    "u+w",
    "-",
    "5",
]
_SCRIPTS = {
    "sed": [
        "p", "1d", "s/a/b/g", "s/a/b/w new", "w new", "r b.txt", "$r b.txt", "1e touch new",
    ],
    "awk": [
        "{print}", "1", "NR==1", '{print > "new"}', 'BEGIN{system("touch new")}',
        '{getline < "b.txt"; print}',
    ],
    "jq": [".", ".a", ".a[]", "keys"],
    "yq": [".", ".a=1", "load(\"a.txt\")"],
    "chmod": ["644", "u+w", "+x", "700"],
}  # fmt: skip
_SCRIPTS |= {"mawk": _SCRIPTS["awk"]}
_WRAPPERS = [
    "nice", "env", "env A=1", "timeout 5", "command", "time -p", "nohup", "stdbuf -oL", "setsid -w",
    "xargs", "prlimit", "setarch x86_64", "busybox", "exec", "ionice -c 3",
]  # fmt: skip
_NEVER = frozenset(
    {
        *("source", ".", "view", "bat", "batcat", "7z", "7za", "7zr", "7zz", "ditto", "more"),
        *("less", "scp", "rsync"),
    }
)
"""Not installed, interactive, or a shell builtin that the parser treats separately."""
COMPOUND = 0.25
"""The share of lines that are more than a list of commands."""
_ENDLESS = frozenset({"-f", "-F", "--follow", "--retry"})


class LineMaker:
    """Draws lines from the grammar."""

    def __init__(self, seed: int, *, compound: float = COMPOUND) -> None:
        self._random = random.Random(seed)
        self._compound = compound

    def make(self) -> str:
        """Return one line of one to three commands."""
        pick = self._random
        if pick.random() < self._compound:
            return make_compound(pick, self._command, self._path)
        commands = [self._command() for _ in range(pick.choices((1, 2, 3), (6, 3, 1))[0])]
        line = commands[0]
        for command in commands[1:]:
            line += pick.choice((" | ", " && ", "; ", " || ", "\n")) + command
        if pick.random() < 0.1:
            line = pick.choice(("cd sub && ", "cd other; ", "cd to-sub; ")) + line
        if pick.random() < 0.05:
            line = f"bash -c {shlex.quote(line)}"
        return line

    def _command(self) -> str:
        pick = self._random
        if pick.random() < 0.12:
            name = pick.choice(sorted(SUBCOMMANDS))
            words = ["git", name, *self._arguments(name, SUBCOMMANDS[name])]
        else:
            name = pick.choice(sorted(PROGRAMS.keys() - _NEVER))
            words = [name, *self._arguments(name, PROGRAMS[name])]
        command = " ".join(words)
        if pick.random() < 0.12:
            command = f"{pick.choice(_WRAPPERS)} {command}"
        if pick.random() < 0.15:
            command += f" {pick.choice(('>', '>>', '2>', '<', '&>', '>|'))} {self._path()}"
        return command

    def _arguments(self, name: str, table: Program) -> list[str]:
        pick = self._random
        options = [word for _ in range(pick.randrange(4)) for word in self._option(name, table)]
        operands = [self._text(name)] if table.text_operands and pick.random() < 0.8 else []
        operands += [self._operand() for _ in range(pick.choices((0, 1, 2, 3), (1, 5, 4, 1))[0])]
        if pick.random() < 0.2:
            return [*operands, *options]
        return [*options, *(["--"] if pick.random() < 0.05 else []), *operands]

    def _option(self, name: str, table: Program) -> list[str]:
        pick = self._random
        known = sorted(table.options - (_ENDLESS if name == "tail" else frozenset()))
        if not known:
            return []
        option = pick.choice(known)
        if option in table.executes and pick.random() < 0.7:
            return []
        value = self._value(name, option, table)
        if len(option) == 2 and not table.long_with_one_dash:
            return self._short(name, option, value)
        if option.startswith("--") and pick.random() < 0.3:
            option = option[: pick.randrange(4, len(option) + 1)] if len(option) > 4 else option
        if value is None:
            return [option]
        return [f"{option}={value}"] if pick.random() < 0.5 else [option, value]

    def _short(self, name: str, option: str, value: str | None) -> list[str]:
        pick = self._random
        table = PROGRAMS.get(name) or SUBCOMMANDS[name]
        known = table.flags - (_ENDLESS if name == "tail" else frozenset())
        flags = sorted(flag[1] for flag in known if len(flag) == 2)
        if flags and pick.random() < 0.4:
            option = f"-{pick.choice(flags)}{option[1]}"
        if value is None:
            return [option]
        return [f"{option}{value}"] if pick.random() < 0.5 else [option, value]

    def _value(self, name: str, option: str, table: Program) -> str | None:
        pick = self._random
        if option in table.optional and pick.random() < 0.5:
            return None
        if option not in table.valued | table.optional:
            return None
        if option in table.text_options:
            return self._text(name)
        if option in table.executes:
            return pick.choice(("true", "cat", "'touch new'", "./a.txt"))
        if option in table.reads_after_at:
            return pick.choice(("@a.txt", "x=@b.txt", "a", "@new"))
        if option in table.values:
            return pick.choice(_TEXTS) if pick.random() < 0.8 else self._path()
        return self._path()

    def _text(self, name: str) -> str:
        return shlex.quote(self._random.choice(_SCRIPTS.get(name, _TEXTS)))

    def _path(self) -> str:
        pick = self._random
        return pick.choice(_NEW) if pick.random() < 0.35 else pick.choice(_PLACES)

    def _operand(self) -> str:
        pick = self._random
        chance = pick.random()
        if chance < 0.12:
            return pick.choice(_GLOBS)
        if chance < 0.2:
            return shlex.quote(pick.choice(_TEXTS))
        return self._path()


def make_lines(count: int, seed: int, *, compound: float = COMPOUND) -> Sequence[str]:
    """Return `count` lines, the same ones for the same seed; `compound` is the share of such."""
    maker = LineMaker(seed, compound=compound)
    return [maker.make() for _ in range(count)]
