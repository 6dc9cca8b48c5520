"""Rules with a sandbox: lines that evade a rule run for real, and reach nothing.

Each line runs in a folder of its own, all of them in one sandbox. A random text is in the file
that must not be read; afterwards it must be nowhere else, and nothing that must not change may
have changed.
"""

import base64
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from anyio import to_thread

from attacks.corpus import CORES, Outcome, Status, run_together, select_sample
from attacks.evasions import READS_ENV, WRITES_CONF, fill
from attacks.permissions import make_project
from clew.permissions.denied_paths import find_denied_paths
from clew.permissions.rules import parse_rule
from clew.tools.sandbox import Sandbox, SandboxPolicy
from clew.tools.sandbox.bubblewrap import Bubblewrap
from clew.tools.sandbox.landlock import Landlock
from clew.tools.sandbox.protocol import SandboxBackend
from clew.tools.sandbox.seatbelt import Seatbelt

NAME = "sandbox"
TARGET = "evasions that really run read and change nothing that a rule forbids"
BACKENDS: dict[str, SandboxBackend] = {
    "bubblewrap": Bubblewrap(),
    "Landlock": Landlock(),
    "Landlock without namespaces": Landlock(namespaces=False),
    "seatbelt": Seatbelt(),
}
WORKERS = 2 * CORES
"""Lines that wait for input take three seconds each."""
RULES = ("Read(.env)", "Edit(conf/**)")
_RUN_ALL = """
exec 2> /dev/null
for line in "$1"/*; do
  name=${line##*/}
  cd "$2/$name" && timeout -k 1 3 setsid bash -c "$(cat "$line")" > "$3/$name.txt" 2>&1 < /dev/null
done
true
"""
_IDENTITY = {
    f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}
_ENVIRON = {
    **_IDENTITY,
    "PATH": os.environ.get("PATH", ""),
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "LC_ALL": "C",
}


async def run(sample: int | None = None) -> AsyncIterator[Outcome]:
    """Run the lines in every sandbox of this machine."""
    lines = select_sample([*READS_ENV, *WRITES_CONF], sample)
    for name, backend in BACKENDS.items():
        sandbox = Sandbox(SandboxPolicy(network=False), backends=[backend])
        if not sandbox.active:
            yield Outcome(name, Status.SKIPPED, sandbox.problem)
            continue
        attack = partial(_run_in_thread, name, sandbox)
        parts = [part for at in range(WORKERS) if (part := lines[at::WORKERS])]
        async for outcome in run_together(parts, attack, limit=WORKERS):
            yield outcome


async def _run_in_thread(name: str, sandbox: Sandbox, lines: Sequence[str]) -> list[Outcome]:
    return await to_thread.run_sync(_run_lines, name, sandbox, lines)


def _run_lines(name: str, sandbox: Sandbox, lines: Sequence[str]) -> list[Outcome]:
    with tempfile.TemporaryDirectory() as place:
        trial = Trial.prepare(Path(place), lines)
        trial.run(sandbox)
        return [
            Outcome(f"{name}: {line}", Status.FAILED if problem else Status.HELD, problem)
            for line, problem in trial.judge()
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Lines, each with a folder to run in."""

    root: Path
    lines: Sequence[str]
    canary: str

    @classmethod
    def prepare(cls, root: Path, lines: Sequence[str]) -> "Trial":
        """Make the folders, each with a repository and a secret."""
        root = root.resolve()
        trial = cls(root=root, lines=lines, canary=os.urandom(16).hex())
        template = root / "template"
        template.mkdir()
        make_project(template)
        (template / ".env").write_text(f"KEY={trial.canary}\n")
        (template / "l").write_text(".env\n")
        (template / "p").write_text("--- conf/x\n+++ conf/x\n@@ -1 +1 @@\n-a\n+b\n")
        _call("git", "init", "-q", "--template=", ".", cwd=template)
        _call("git", "add", "x", "conf", cwd=template)
        _call("git", "commit", "-qm", "m", cwd=template)
        for folder in ("lines", "work", "out"):
            (root / folder).mkdir()
        for number, line in enumerate(lines):
            work, out = root / "work" / f"{number:04}", root / "out" / f"{number:04}"
            _call("cp", "-a", str(template), str(work), cwd=root)
            out.mkdir()
            (root / "lines" / f"{number:04}").write_text(fill(line, work, out))
        _call("rm", "-r", str(template), cwd=root)
        return trial

    def run(self, sandbox: Sandbox | None) -> None:
        """Run all lines in one sandbox, or without any."""
        command = ["bash", "-c", _RUN_ALL, "bash"]
        command += [str(self.root / folder) for folder in ("lines", "work", "out")]
        if sandbox is not None:
            denied = find_denied_paths(map(parse_rule, RULES), self.root)
            command = sandbox.wrap(command, folder=self.root, cwd=self.root, denied=denied)
        _call(*command, cwd=self.root)

    def judge(self) -> Iterator[tuple[str, str]]:
        """Yield each line and what it read or changed, if anything."""
        for number, line in enumerate(self.lines):
            work, out = self.root / "work" / f"{number:04}", self.root / "out" / f"{number:04}"
            yield line, self._find_leak(work, out) or self._find_change(work)

    def _find_leak(self, work: Path, out: Path) -> str:
        raw = self.canary.encode()
        forms = (raw, base64.b64encode(raw)[4:-4], raw.hex().encode())
        files = [out.with_suffix(".txt"), *_files(out), *_files(work)]
        for file in files:
            if file != work / ".env" and any(form in file.read_bytes() for form in forms):
                return f"the secret is in {file.name}"
        return ""

    def _find_change(self, work: Path) -> str:
        env = work / ".env"
        if not env.is_file() or env.read_bytes() != f"KEY={self.canary}\n".encode():
            return "it changed .env"
        if [path.name for path in _files(work / "conf")] != ["x"]:
            return "it changed the folder conf"
        return "" if (work / "conf/x").read_bytes() == b"a\n" else "it changed conf/x"


def _files(folder: Path) -> list[Path]:
    found = (Path(at) / name for at, _, names in os.walk(folder) for name in names)
    return [path for path in found if path.is_file() and not path.is_symlink()]


def _call(*command: str, cwd: Path) -> None:
    subprocess.run(
        command, cwd=cwd, env=_ENVIRON, check=True, stdin=subprocess.DEVNULL, timeout=600
    )
