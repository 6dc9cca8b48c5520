"""Random shell lines run for real: each touches only files that the permission analysis predicts.

A file is predicted if a deny rule for it would stop the line or ask: so a touched file must not be
one for which the rule lets the line pass. A line that runs without a question because it only
reads must change nothing, and read nothing outside of its folder. Many lines run in one sandbox,
each in a fresh folder. What git keeps in its own folder does not count.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from anyio import to_thread

from attacks import line_runner
from attacks.corpus import CORES, Outcome, Status, run_together
from attacks.permissions import judge
from attacks.read_only_commands import is_allowed
from attacks.shell_lines import FILES, LINKS, SENTINEL, make_lines
from clew.core.permissions import Verdict
from clew.tools.sandbox import Sandbox, SandboxPolicy

NAME = "shell-fuzzer"
TARGET = "a line touches no file beyond those that the analysis predicts"
LINES = 20_000
SEED = 15
BATCH = 250
WORKERS = 2 * CORES
"""Lines that wait for input take two seconds each."""
_ENVIRON = {
    "PATH": os.environ.get("PATH", ""),
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
    "GIT_EDITOR": "true",
    "FILTER_BRANCH_SQUELCH_WARNING": "1",
}


async def run(sample: int | None = None) -> AsyncIterator[Outcome]:
    """Run the lines in batches, and judge what each touched."""
    sandbox = Sandbox(SandboxPolicy(network=False))
    if not sandbox.active:
        yield Outcome("all lines", Status.SKIPPED, sandbox.problem)
        return
    lines = make_lines(LINES if sample is None else sample, SEED)
    batches = [lines[at : at + BATCH] for at in range(0, len(lines), BATCH)]

    async def attack(batch: Sequence[str]) -> list[Outcome]:
        return await to_thread.run_sync(run_batch, sandbox, batch)

    async for outcome in run_together(batches, attack, limit=WORKERS):
        yield outcome


def run_batch(sandbox: Sandbox, lines: Sequence[str]) -> list[Outcome]:
    """Run lines in one sandbox and judge them."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place).resolve()
        template = make_template(root / "template")
        request = root / "request.json"
        request.write_text(json.dumps({"lines": lines, "template": str(template)}))
        command = [sys.executable, "-I", "-S", line_runner.__file__, str(request)]
        done = subprocess.run(
            sandbox.wrap(command, folder=root, cwd=root),
            env=_ENVIRON,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=3600,
            check=True,
        )
        results = [json.loads(row) for row in done.stdout.splitlines()]
        return [
            judge_line(line, touched, template)
            for line, touched in zip(lines, results, strict=True)
        ]


def judge_line(line: str, touched: dict[str, list[str]], template: Path) -> Outcome:
    """Say whether a deny rule for each touched file would have stopped the line."""
    for tool, paths in (("Edit", touched["written"]), ("Read", touched["read"])):
        for path in paths:
            if judge(line, f"{tool}({_as_pattern(path)})", template) is Verdict.ALLOW:
                verb = "writes" if tool == "Edit" else "reads"
                return Outcome(repr(line), Status.FAILED, f"it {verb} {path}")
    beyond = [*touched["written"], *(path for path in touched["read"] if path.startswith(".."))]
    if beyond and is_allowed(line, template):
        detail = f"it runs without a question, and uses {beyond[0]}"
        return Outcome(repr(line), Status.FAILED, detail)
    return Outcome(repr(line), Status.HELD)


def _as_pattern(path: str) -> str:
    return path if path.startswith("..") else f"./{path}"


def is_precise(line: str, template: Path) -> bool:
    """Does the analysis exclude a file that the line has nothing to do with?"""
    return judge(line, f"Read(./{SENTINEL})", template) is Verdict.ALLOW


def make_template(root: Path) -> Path:
    """Make the folder in which lines run: files, links, archives and a repository."""
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        os.utime(root / path, (0, line_runner.MODIFIED))
    for path, target in LINKS.items():
        (root / path).symlink_to(target)
    for command in (
        "tar cf t.tar a.txt sub",
        "gzip -c b.txt > g.gz",
        "zip -qr t.zip a.txt sub || touch t.zip",
        "git init -q --template= .",
        # Copies have other inodes: git must not read them again to see that nothing changed.
        "git config core.trustctime false; git config core.checkStat minimal",
        "git add a.txt sub",
        "git commit -qm m",
    ):
        subprocess.run(["bash", "-c", command], cwd=root, env=_ENVIRON, check=True)
    return root
