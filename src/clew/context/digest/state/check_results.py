"""Check results: the last outcome of each test run, linter, type checker and build.

A check is recognized by its program and subcommand. The outcome comes from the exit code and,
because a pipe such as `| tail` hides that, from what common tools print.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from clew.context.cleared_results import MARKER
from clew.context.digest.steps.tool_steps import ToolStep
from clew.context.lazy_list import lazy_property
from clew.core.ids import EntryId
from clew.core.text import one_line, pluralize


class Outcome(StrEnum):
    """The result of a check."""

    PASSED = "passed"
    FAILED = "FAILED"
    UNKNOWN = "outcome unknown"
    RUNNING = "still running"


class CheckOutput(Struct, frozen=True, dict=True):
    """What the output of a shell call tells about its checks; it is read on first access."""

    step: ToolStep
    is_piped: bool
    """True if the exit code is not that of the checks."""
    is_filtered: bool = False
    """True if only a part of the output is known."""

    @lazy_property
    def _text(self) -> str:
        return _cut_middle(self.step.output)

    @lazy_property
    def outcome(self) -> Outcome:
        """The result of the checks."""
        step, output = self.step, self._text
        if output.startswith(MARKER):
            passed = Outcome.UNKNOWN if self.is_piped else Outcome.PASSED
            return Outcome.FAILED if step.failed else passed
        if step.background_id and step.exit_code is None:
            return Outcome.RUNNING
        if step.failed or step.exit_code not in (None, 0):
            return Outcome.FAILED
        if _FAILED.search(output) and (self.is_piped or not _PASSED.search(output)):
            return Outcome.FAILED
        if not self.is_piped or _PASSED.search(output) or _is_silent(output):
            return Outcome.PASSED
        return Outcome.UNKNOWN

    @lazy_property
    def detail(self) -> str:
        """The part of the output that shows the outcome."""
        output = self._text
        if output.startswith(MARKER) or self.outcome is Outcome.RUNNING:
            return ""
        if self.outcome is Outcome.FAILED:
            return quote_failure(output)
        if self.outcome is Outcome.UNKNOWN:
            return f"output ends: {one_line(output.strip()[-160:])}"
        if self.is_piped and _is_silent(output):
            return "no output"
        return quote_success(output)

    @lazy_property
    def failing(self) -> Sequence[str]:
        """The names of the tests that failed."""
        return list_failing(self._text) if self.outcome is Outcome.FAILED else ()


def _is_silent(output: str) -> bool:
    return output.strip() in {"", "(Bash completed with no output)", "(no output)"}


class CheckRun(Struct, frozen=True, kw_only=True):
    """One run of a check."""

    command: str
    """The check alone, without `cd`, redirections and pipes."""
    output: CheckOutput
    is_quoted: bool
    """False if the output may be that of another check in the same call."""
    earlier: CheckOutput | None = None
    """What the same check printed the time before."""
    runs: str = ""
    """The command that a task runner printed for the task; empty if it printed none."""

    @property
    def fixed(self) -> list[str]:
        """Tests that failed the time before and do not any more, although others do.

        None where only a part of the output is known, such as its end.
        """
        now = () if self.output.is_filtered else self.output.failing
        before = self.earlier.failing if self.earlier is not None and now else ()
        return [name for name in before if name not in now]

    @property
    def outcome(self) -> Outcome:
        """How it ended."""
        return self.output.outcome

    @property
    def detail(self) -> str:
        """Quoted output: counts, failing names or the first errors."""
        return self.output.detail if self.is_quoted else ""

    @property
    def entry_id(self) -> EntryId:
        """The entry with the result."""
        return self.output.step.result_id

    @property
    def place(self) -> int:
        """The index of the item with the call."""
        return self.output.step.place

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
_FILTER = re.compile(r"(?:tail|head|grep|egrep|rg|sed|awk|cut)\b")
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
    is_piped = any(hides for _, hides in checks) or "||" in command or ";" in command
    output = CheckOutput(step, is_piped, is_filtered=_is_filtered(step))
    names = [part for part, _ in checks]
    is_quoted = len(names) == 1 or output.outcome is Outcome.FAILED
    if len(names) > 1 and is_quoted:
        names = _blame(names, step.output)
    return [
        CheckRun(command=one_line(name, 300), output=output, is_quoted=is_quoted)
        for name in dict.fromkeys(names)
    ]


def _is_filtered(step: ToolStep) -> bool:
    commands = step.simple_commands
    after_pipe = (following for (_, piped), (following, _) in pairwise(commands) if piped)
    return any(_FILTER.match(following) for following in after_pipe)


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
    # What all begin with comes first, and literals do, because that is fast.
    r"^(?:[ \t]*--- FAIL|FAIL\b|FAILED |error(?:\[E\d+\])?:|make(?:\[\d+\])?: \*\*\*|\* \w+: [1-9]"
    r"|[1-9]\d* issues?:|panic:|Traceback \(most recent|ELIFECYCLE|\S+\.go:\d+:\d+: "
    r"|\S+\.\w+:\d+:\d+: error)"
    r"|[1-9](?<!\w[1-9])\d* (?:failed|failing|failures?|errors?\b(?! fixed))"
    r"|ERROR task failed|error TS\d+|BUILD FAILED"
    r"|BUILD FAILURE|✖ [1-9]\d* problem|npm ERR!"
    r"|test result: FAILED|Found [1-9]\d* error|command not found"
    r"|exited with code [1-9]|\[build failed\]|Command failed"
    r"|Tests:.* [1-9]\d* failed",
    re.MULTILINE,
)
_PASSED = re.compile(
    r"^(?:ok[ \t]+\S|PASS$|0 issues|OK\b|# fail 0)"
    r"|[1-9](?<!\w[1-9])\d* (?:passed|passing)\b|0(?<!\w0) (?:errors|failures|problems)\b"
    r"|All checks passed|Success: no issues|BUILD SUCCESS|test result: ok|All matched files use"
    r"|✓ built|compiled successfully|Finished `?\w+`? |All files pass|No fixes applied",
    re.MULTILINE,
)


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
_ERROR_MARK = re.compile(
    r"\.\w+[:(]\d+[:,)]|error TS\d|Error: |panic: |fatal: |ERROR |command not found"
)
_ERROR_BEGINNING = re.compile(r"error(?:\[E\d+\])?:")
_ERROR_WORD = re.compile(
    r"error|undefined|cannot|expected|unexpected|mismatch|not equal|fatal|panic|missing|invalid"
    r"|unused|undeclared|not checked|not found|failed|\bgot\b|\bwant\b",
    re.IGNORECASE,
)
_COUNT = re.compile(
    r"^.*\b\d+ (?:passed|failed|passing|failing|errors?|issues|problems|tests?)\b.*$", re.MULTILINE
)
_GO_OK = re.compile(r"^ok[ \t]+\S+", re.MULTILINE)
_MOST_DETAIL = 560


def quote_failure(output: str) -> str:
    """Quote failing names, the first errors and the counts from the output of a failed check."""
    names = list_failing(output)
    parts = [", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")]
    errors = list(dict.fromkeys(one_line(line, 200) for line in _find_errors(output)))
    errors = [line for line in errors if not line.endswith("ERROR task failed")] or errors
    errors.sort(key=lambda line: _ERROR_WORD.search(line) is None)
    parts += errors[: 3 if names else 4]
    counts = _COUNT.findall(output)
    parts += [one_line(counts[-1], 120)] if counts else []
    told = "; ".join(dict.fromkeys(part for part in parts if part))
    if not told:
        lines = [line for line in output.splitlines() if line.strip()]
        told = lines[-1] if lines else ""
    return one_line(told, _MOST_DETAIL)


def list_failing(output: str) -> list[str]:
    """Return the names of the tests that failed; not of one whose parts are named."""
    found = (next(filter(None, groups)).strip() for groups in _FAILING_NAME.findall(output))
    names = list(dict.fromkeys(found))
    wholes = {name.rpartition("/")[0] for name in names}
    return [name for name in names if name not in wholes]


def _find_errors(output: str) -> list[str]:
    """Return the lines that tell an error."""
    lines = output.split("\n")
    return [line for line in lines if _ERROR_MARK.search(line) or _ERROR_BEGINNING.match(line)]


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
        earlier = latest.pop(key, None)
        told = _find_task_command(run)
        if earlier is not None:
            latest[key] = replace(run, earlier=earlier.output, runs=told or earlier.runs)
        else:
            latest[key] = replace(run, runs=told) if told else run
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


_RUNNER = re.compile(r"(?:mise|npm|pnpm|yarn|bun|task)\b")
_TASK_COMMAND = re.compile(
    r"^(?:\[(?=[^\n]*\] \$ )|task: \[)([\w:.-]+)\](?: \$)? ([\w.-]+ .+)$"  # mise, task
    r"|^> \S+@\S+ ([\w:.-]+)(?: .*)?\n> (.+)$",  # npm, pnpm
    re.MULTILINE,
)
_TASK_HEAD, _MOST_TASK_COMMAND = 2_000, 120


def _find_task_command(run: CheckRun) -> str:
    """Return the command of the task in `run`, if its runner printed one."""
    if not _RUNNER.match(run.command):
        return ""
    words = run.command.split()
    for task, command, script, line in _TASK_COMMAND.findall(run.output.step.output[:_TASK_HEAD]):
        if (task or script) in words:
            return one_line(command or line, _MOST_TASK_COMMAND)
    return ""


def _is_settled(run: CheckRun, wide: dict[str, CheckRun]) -> bool:
    later = wide.get(run.family)
    return later is not None and later.place > run.place and later.outcome is Outcome.PASSED
