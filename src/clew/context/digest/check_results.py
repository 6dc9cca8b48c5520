"""Check results: the last outcome of each test run, linter, type checker and build.

A check is recognized by its program and subcommand. The outcome comes from the exit code and,
because a pipe such as `| tail` hides that, from what common tools print.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from clew.context.cleared_results import MARKER
from clew.context.digest.tool_steps import ToolStep
from clew.core.ids import EntryId
from clew.core.text import one_line, pluralize


class Outcome(StrEnum):
    """The result of a check."""

    PASSED = "passed"
    FAILED = "FAILED"
    UNKNOWN = "outcome unknown"
    RUNNING = "still running"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRun:
    """One run of a check."""

    command: str
    """The check alone, without `cd`, redirections and pipes."""
    outcome: Outcome
    detail: str = ""
    """Quoted output: counts, failing names or the first errors."""
    entry_id: EntryId
    """The entry with the result."""
    place: int
    """The index of the item with the call."""

    @property
    def family(self) -> str:
        """Program and subcommand: runs with other arguments are about the same thing."""
        return _name_family(self.command)


_TASK = r"\S*(?:test|lint|check|build|verify|vet|tsc|e2e|ci\b)\S*"
"""The name of a task of a task runner that is a check."""
_CHECK = re.compile(
    "^(?:"
    + "|".join(
        (
            r"pytest|py\.test|unittest|tox|nox|mypy|pyright|flake8|pylint|pre-commit run",
            r"ruff(?! format(?!.*--check))|black (?=.*--check)",
            r"go (?:test|vet|build)|golangci-lint|staticcheck|gotestsum|govulncheck|gofmt -l",
            r"cargo (?:test|build|check|clippy|nextest|fmt.*--check)",
            rf"(?:npm|pnpm|yarn|bun)(?: -\S+(?: \.\S*)?)* (?:test|t|(?:run )?{_TASK})",
            r"tsc|tsgo|vue-tsc|eslint|jest|vitest|mocha|ava|biome (?:check|lint|ci)",
            r"prettier .*--check|playwright test|cypress run|node --test|deno (?:test|check|lint)",
            rf"make(?=$| .*{_TASK}| all)|(?:mise|task|just|nx|turbo|rake|lerna)(?: run)? {_TASK}",
            r"gradlew?|mvnw?|sbt|dotnet (?:test|build)|swift (?:test|build)|xcodebuild|ctest",
            r"cmake --build|bazel (?:test|build)|zig (?:build|test)|stack (?:test|build)",
            r"cabal (?:test|build)|mix (?:test|credo|compile)|rspec|rubocop|phpunit|composer test",
            r"terraform (?:validate|plan)|helm lint|shellcheck|hadolint|bats",
            r"gh (?:pr checks|run (?:watch|view))",
        )
    )
    + r")(?=\s|$|:)",
    re.IGNORECASE,
)
_NARROW = re.compile(
    r"\s(?:-run|-k|-t|--filter|--grep|--tests?|-m|-p)[\s=]|::|_test\.|\.test\.|test_\w+\.py"
)
_SUBCOMMAND_PROGRAMS = frozenset(
    {
        "bazel", "biome", "bun", "cabal", "cargo", "cmake", "deno", "dotnet", "gh", "go", "gradle",
        "gradlew", "helm", "just", "make", "mise", "mix", "mvn", "mvnw", "npm", "nx", "pnpm",
        "rake", "ruff", "stack", "swift", "task", "terraform", "turbo", "yarn", "zig",
    }
)  # fmt: skip


def find_checks(step: ToolStep) -> list[CheckRun]:
    """Return the checks of a shell call that ran, with their outcome."""
    command = step.command
    checks = [(part, piped) for part, piped in step.simple_commands if _CHECK.match(part)]
    if not checks:
        return []
    piped = any(hides for _, hides in checks) or "||" in command or ";" in command
    outcome, detail = judge_output(step, piped=piped)
    names = [part for part, _ in checks]
    if len(names) > 1:
        if outcome is Outcome.FAILED:
            names = _blame(names, step.output)
        else:
            detail = ""
    return [
        CheckRun(
            command=one_line(name, 300),
            outcome=outcome,
            detail=detail,
            entry_id=step.result_id,
            place=step.place,
        )
        for name in dict.fromkeys(names)
    ]


def _blame(names: Sequence[str], output: str) -> list[str]:
    """Return the checks of a chain that failed: those that the output names, or all."""
    of_tests = re.search(r"--- FAIL|^FAIL\b|\d+ failed|FAILED ", output, re.MULTILINE)
    of_lint = re.search(r"\d+ (?:issues|problems|errors?)\b|golangci|eslint|ruff", output)
    kind = "test" if of_tests else "lint|vet|check|tsc|eslint|ruff|mypy" if of_lint else ""
    blamed = [name for name in names if kind and re.search(kind, name)]
    return blamed or [" && ".join(names)]


_READ_CHARS = 20_000
"""Characters that are read at the beginning and at the end of an output."""
_FAILED = re.compile(
    r"^[ \t]*--- FAIL|^FAIL\b|\b[1-9]\d* (?:failed|failing|failures?|errors?\b(?! fixed))"
    r"|ERROR task failed|error TS\d+|^error(?:\[E\d+\])?:|^make(?:\[\d+\])?: \*\*\*|BUILD FAILED"
    r"|BUILD FAILURE|^\* \w+: [1-9]|^[1-9]\d* issues?:|✖ [1-9]\d* problem|npm ERR!|^panic:"
    r"|^Traceback \(most recent|test result: FAILED|Found [1-9]\d* error|command not found"
    r"|^ELIFECYCLE|exited with code [1-9]|\[build failed\]|^FAILED |Command failed"
    r"|^\S+\.go:\d+:\d+: |^\S+\.\w+:\d+:\d+: error|Tests:.* [1-9]\d* failed",
    re.MULTILINE,
)
_PASSED = re.compile(
    r"^ok[ \t]+\S|^PASS$|\b[1-9]\d* (?:passed|passing)\b|^0 issues|All checks passed"
    r"|Success: no issues"
    r"|BUILD SUCCESS|test result: ok|\b0 (?:errors|failures|problems)\b|^OK\b|All matched files use"
    r"|^# fail 0|✓ built|compiled successfully|Finished `?\w+`? |All files pass|No fixes applied",
    re.MULTILINE,
)


def judge_output(step: ToolStep, *, piped: bool) -> tuple[Outcome, str]:
    """Return the outcome of a check and the part of its output that shows it.

    `piped` says that the exit code is not that of the check.
    """
    output = _cut_middle(step.output)
    if output.startswith(MARKER):
        passed = Outcome.UNKNOWN if piped else Outcome.PASSED
        return (Outcome.FAILED if step.failed else passed), ""
    if step.background_id and step.exit_code is None:
        return Outcome.RUNNING, ""
    if step.failed or step.exit_code not in (None, 0):
        return Outcome.FAILED, quote_failure(output)
    if _FAILED.search(output) and (piped or not _PASSED.search(output)):
        return Outcome.FAILED, quote_failure(output)
    if _PASSED.search(output) or not piped:
        return Outcome.PASSED, quote_success(output)
    if not output.strip() or output.strip() in {"(Bash completed with no output)", "(no output)"}:
        return Outcome.PASSED, "no output"
    return Outcome.UNKNOWN, f"output ends: {one_line(output.strip()[-160:])}"


def _cut_middle(output: str) -> str:
    if len(output) <= 2 * _READ_CHARS:
        return output
    return f"{output[:_READ_CHARS]}\n{output[-_READ_CHARS:]}"


_FAILING_NAME = re.compile(
    r"^[ \t]*--- FAIL: (\S+)|^FAILED (\S+)|^FAIL[ \t]+([\w./@-]+\.\S+)"
    r"|^[ \t]*test (\S+) \.\.\. FAILED"
    r"|^[ \t]*(?:✗|✖|×|✕|●) (.{4,120})$|^not ok \d+ - (.{4,120})$",
    re.MULTILINE,
)
_ERROR_LINE = re.compile(
    r"^.*?(?:\.\w+[:(]\d+[:,)].*|error TS\d+.*|^error(?:\[E\d+\])?:.*|Error: .*|panic: .*"
    r"|fatal: .*|ERROR .*|command not found.*)$",
    re.MULTILINE,
)
_ERROR_WORD = re.compile(
    r"error|undefined|cannot|expected|unexpected|mismatch|not equal|fatal|panic|missing|invalid"
    r"|unused|undeclared|not checked|not found|failed",
    re.IGNORECASE,
)
_COUNT = re.compile(
    r"^.*\b\d+ (?:passed|failed|passing|failing|errors?|issues|problems|tests?)\b.*$", re.MULTILINE
)
_GO_OK = re.compile(r"^ok[ \t]+\S+", re.MULTILINE)
_MOST_DETAIL = 420


def quote_failure(output: str) -> str:
    """Quote failing names, the first errors and the counts from the output of a failed check."""
    names = list(
        dict.fromkeys(
            next(filter(None, groups)).strip() for groups in _FAILING_NAME.findall(output)
        )
    )
    parts = [", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")]
    errors = list(dict.fromkeys(one_line(line, 200) for line in _ERROR_LINE.findall(output)))
    errors = [line for line in errors if not line.endswith("ERROR task failed")] or errors
    errors.sort(key=lambda line: _ERROR_WORD.search(line) is None)
    parts += errors[: 2 if names else 4]
    counts = _COUNT.findall(output)
    parts += [one_line(counts[-1], 120)] if counts else []
    told = "; ".join(dict.fromkeys(part for part in parts if part))
    if not told:
        lines = [line for line in output.splitlines() if line.strip()]
        told = lines[-1] if lines else ""
    return one_line(told, _MOST_DETAIL)


def quote_success(output: str) -> str:
    """Quote the counts from the output of a check that passed; empty if it prints none."""
    counts = _COUNT.findall(output)
    if counts:
        return one_line(counts[-1], 120)
    packages = len(_GO_OK.findall(output))
    return f"{pluralize(packages, 'package')} ok" if packages else ""


def _name_family(command: str) -> str:
    words = [word for word in command.split() if not word.startswith("-")]
    taken = 1
    if words and words[0].lower() in _SUBCOMMAND_PROGRAMS:
        taken = 3 if words[1:2] == ["run"] else 2
    return " ".join(words[:taken])


_OUTPUT_FLAGS = re.compile(r" (?:-v+|-q|-x|-s|--verbose|--quiet|-count=\S+|-timeout[ =]\S+)(?= |$)")
_MOST_NARROW = 2


def keep_latest(runs: Iterable[CheckRun]) -> list[CheckRun]:
    """Return the last run of each check, most relevant first.

    First comes the last run of each family, newest first. Then come runs of a part (one test,
    one file): failures that no later run of the family settled, and the newest that passed.
    """
    latest: dict[str, CheckRun] = {}
    for run in runs:
        key = _OUTPUT_FLAGS.sub("", run.command)
        latest.pop(key, None)
        latest[key] = run
    wide: dict[str, CheckRun] = {}
    narrow: list[CheckRun] = []
    passed: Counter[str] = Counter()
    for run in reversed(latest.values()):
        if run.family not in wide and not _NARROW.search(f" {run.command} "):
            wide[run.family] = run
        elif run.outcome is not Outcome.PASSED:
            narrow.append(run)
        elif run.family not in wide and passed[run.family] < _MOST_NARROW:
            passed[run.family] += 1
            narrow.append(run)
    return [*wide.values(), *(run for run in narrow if not _is_settled(run, wide))]


def _is_settled(run: CheckRun, wide: dict[str, CheckRun]) -> bool:
    later = wide.get(run.family)
    return later is not None and later.place > run.place and later.outcome is Outcome.PASSED
