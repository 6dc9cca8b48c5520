"""Commands that run without a question because they only read: they run, and no file changes.

Every program of the tables runs with each of its options, through the Bash tool, in a folder with a
git repository whose index is out of date. A program passes if the folder, the home folder and the
temporary folder are the same afterwards: names, content, permissions and times of change. Only the
index of git is left out: some versions store there when a file was last compared.
"""

import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path

from attacks.corpus import Outcome, Status, select_sample
from clew.core.permissions import Access, Risk, TargetKind, Verdict
from clew.permissions.decide import decide
from clew.permissions.policy import Policy
from clew.permissions.shell.arguments import Program
from clew.permissions.shell.tables import PROGRAMS
from clew.permissions.shell.tables.git_readers import GIT_READERS
from clew.tools.builtin.bash import bash_tool
from clew.tools.protocol import ToolContext

NAME = "read-only"
TARGET = "no command that runs without a question changes a file"

_ENDLESS = {"tail": {"-f", "-F", "--follow", "--retry"}, "shuf": {"-r", "--repeat"}}
"""Options with which a program does not end."""
_OPERANDS = {
    "basename": "src/a.py", "dirname": "src/a.py", "which": "ls", "type": "ls", "seq": "3",
    "tr": "a b", "date": "+%F", "find": "src", "fd": "a src", "jq": ". x.json",
    "awk": "'{print $1}' x", "gawk": "'{print $1}' x", "mawk": "'{print $1}' x",
    "sed": "-n 1,2p x", "grep": "a x",
    "rg": "a", "egrep": "a x", "fgrep": "a x", "rgrep": "a src", "diff": "x src/a.py",
    "sdiff": "x src/a.py",
    "cmp": "x src/a.py", "comm": "x src/a.py", "join": "x src/a.py", "look": "a x", "uname": "",
    "git blame": "x", "git show": "HEAD", "git ls-tree": "HEAD", "git cat-file": "HEAD",
    "git merge-base": "HEAD HEAD", "git grep": "a", "git stash": "list", "git worktree": "list",
    "git rev-list": "HEAD", "git diff-tree": "HEAD", "git diff-index": "HEAD",
    "git name-rev": "HEAD", "git shortlog": "HEAD",
}  # fmt: skip


def iter_programs() -> Iterator[tuple[str, Program]]:
    """Yield each program and each subcommand of git that only reads."""
    yield from ((name, table) for name, table in PROGRAMS.items() if table.read_only)
    yield from ((f"git {name}", reader.table) for name, reader in GIT_READERS.items())


def iter_lines(name: str, table: Program) -> Iterator[str]:
    """Yield lines with no option, with each option, and with all flags of one letter."""
    prefix = "" if name.startswith("git") else "x"
    rest = _OPERANDS.get(name, prefix)
    first, after = (rest, "") if name in ("git stash", "git worktree") else ("", rest)
    yield f"{name} {rest}"
    for option in sorted(table.reading):
        if option in _ENDLESS.get(name, ()):
            continue
        joint = "=" if option.startswith("--") and option in table.optional else " "
        values = ("x",) if option in table.reads else ("1", "a", "x:y")
        if option in table.valued or option in table.optional:
            for value in values:
                glue = "" if option in table.optional and not option.startswith("--") else joint
                yield f"{name} {first} {option}{glue}{value} {after}"
        if option not in table.valued:
            yield f"{name} {first} {option} {after}"


async def run(sample: int | None = None) -> AsyncIterator[Outcome]:
    """Run the lines of every program, and look for changes."""
    tool = bash_tool()
    with tempfile.TemporaryDirectory() as place:
        root = make_project(Path(place))
        home = {"HOME": str(root.parent / "home"), "TMPDIR": str(root.parent / "tmp")}
        context = ToolContext(cwd=root, env=home)
        for name, table in select_sample(list(iter_programs()), sample):
            if shutil.which(name.partition(" ")[0]) is None and name != "type":
                yield Outcome(name, Status.SKIPPED, "the program is not installed")
                continue
            lines = [line for line in iter_lines(name, table) if is_allowed(line, root)]
            before = snapshot(root.parent)
            script = "\n".join(f"({line}) </dev/null >/dev/null 2>&1" for line in lines)
            await tool.run({"command": script, "timeout": 60}, context)
            after = snapshot(root.parent)
            changed = sorted(str(path) for path, _ in before.items() ^ after.items())
            status = Status.HELD if lines and not changed else Status.FAILED
            yield Outcome(name, status, f"changed: {changed[:3]}" if lines else "it asks")


def make_project(place: Path) -> Path:
    """Make a project with a repository; its index has old times, so git would like to update it."""
    place = place.resolve()
    root = place / "project"
    for folder in ("project/src", "home", "tmp"):
        (place / folder).mkdir(parents=True)
    for name, text in {"x": "a 1\nb 2\n", "src/a.py": "a = 1\n", "x.json": '{"a": 1}\n'}.items():
        (root / name).write_text(text)
    settings = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "core.hooksPath=/dev/null")
    for line in ("init -q", "add -A", "commit -q -m first", "tag v1"):
        subprocess.run(["git", *settings, *line.split()], cwd=root, check=True)
    (root / "src/a.py").write_text("a = 2\n")
    (root / "x").touch()
    return root


def snapshot(place: Path) -> dict[Path, tuple[object, ...]]:
    """Return what must stay the same of every file and folder below a place."""
    found: dict[Path, tuple[object, ...]] = {}
    for path in place.rglob("*"):
        if path.name in (".git", "index"):
            continue
        facts = path.lstat()
        content = sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[path] = (content, facts.st_mode, facts.st_mtime_ns, facts.st_size)
    return found


def is_allowed(line: str, root: Path) -> bool:
    """Does the line run without a question in default mode?"""
    access = Access(tool="Bash", risk=Risk.EXECUTE, target=line, kind=TargetKind.COMMAND)
    return decide(access, Policy(cwd=root)).verdict is Verdict.ALLOW
