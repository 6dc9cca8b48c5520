"""Rules without a sandbox: a line that may evade a deny rule is at least a question.

The mode allows everything and so does an allow rule, so that only the deny rule can stop a line.
"""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from attacks.corpus import Outcome, Status, select_sample
from attacks.evasions import EVASIONS, fill
from clew.core.permissions import Access, PermissionMode, Risk, TargetKind, Verdict
from clew.permissions.decide import decide
from clew.permissions.policy import Policy
from clew.permissions.rules import parse_rule
from tests.permissions.test_denied_lines import DENIED_BY
from tests.permissions.test_uncertain_lines import ASKED_ABOUT

NAME = "permissions"
TARGET = "no line that may evade a deny rule runs without a question"


async def run(sample: int | None = None) -> AsyncIterator[Outcome]:
    """Judge every line under its rule."""
    cases = {
        (rule, line): None
        for table in (EVASIONS, DENIED_BY, ASKED_ABOUT)
        for rule, lines in table.items()
        for line in lines
    }
    with tempfile.TemporaryDirectory() as place:
        root = make_project(Path(place))
        for rule, line in select_sample(list(cases), sample):
            command = fill(line, root).replace("/srv/project", str(root))
            verdict = judge(command, rule, root)
            status = Status.FAILED if verdict is Verdict.ALLOW else Status.HELD
            yield Outcome(f"{rule}: {line}", status, "it runs without a question")


def make_project(root: Path) -> Path:
    """Fill a folder with what the lines use; return its real path."""
    root = root.resolve()
    (root / ".env").write_text("KEY=1")
    (root / "conf").mkdir()
    (root / "src").mkdir()
    for name in ("x", "conf/x"):
        (root / name).write_text("a\n")
    return root


def judge(command: str, rule: str, cwd: Path) -> Verdict:
    """Judge a line that nothing but a deny rule can stop."""
    policy = Policy(
        cwd=cwd, mode=PermissionMode.BYPASS, allow=(parse_rule("Bash"),), deny=(parse_rule(rule),)
    )
    access = Access(tool="Bash", risk=Risk.EXECUTE, target=command, kind=TargetKind.COMMAND)
    return decide(access, policy).verdict
