"""The state ledger: what was checked, committed, planned, refused, changed and read."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.digest.sections import TextSection, fill_sections
from clew.context.digest.state.check_results import Outcome
from clew.context.digest.state.state_ledger import StateLedger, gather_state, render_state
from clew.context.digest.steps.file_activity import find_root
from clew.context.digest.steps.shell_commands import split_command, strip_prefixes
from clew.context.digest.steps.step_log import list_steps
from clew.context.items import Item
from clew.context.view import fold
from clew.core.entries import Entry
from clew.core.ids import CallId, EntryId
from clew.core.messages import ToolCall, assistant, user
from clew.importers.journal import build_journal
from clew.importers.reader import read_session
from tests.context.conversations import edit, items, run, use
from tests.histories import histories
from tests.rows import each_row

SESSIONS = Path(__file__).parents[3] / "shared" / "data" / "sessions"
GO_FAILURE = (
    "--- FAIL: TestLogin (0.01s)\n    login_test.go:12: expected 200, got 500\nFAIL\n"
    "FAIL\texample.com/app/login\t0.2s\nok  \texample.com/app/util\t0.1s"
)


def state_of(*messages: object) -> StateLedger:
    return gather_state(items(*messages))  # type: ignore[arg-type]


def show(*messages: object) -> str:
    return render_state(state_of(*messages), max_chars=10_000)


# Failures


def test_a_failure_is_told_with_its_error_and_what_settled_it() -> None:
    text = show(
        run("go test ./...", GO_FAILURE, failed=True),
        *(edit(f"/app/login_{n}.go") for n in range(4)),
        run("go test ./...", "ok  \ta\t1s"),
        run("git push", "fatal: no upstream branch", failed=True),
        run("git push -u origin main", ""),
        run("docker compose up", "Error: port 5432 is already in use", failed=True),
        run("docker compose up", "Error: port 5432 is already in use", failed=True),
        run("grep -rn gone src", "grep: src: No such file", failed=True),
        run("cd app", "no such directory app", failed=True),
        run("mise run lint", "a.go:1:2: unused x\n[lint] ERROR task failed", failed=True),
        run("npm run build | tail -3", "> vite build\ncopied"),
    )
    told = text.partition("Failed before, and what settled it:\n")[2].split("\nFiles changed")[0]

    assert told.splitlines() == [
        "- #21 docker compose up: Error: port 5432 is already in use",
        "- #15 git push: fatal: no upstream branch → git push -u origin main #17",
        "- #3 go test ./...: TestLogin, example.com/app/login; login_test.go:12: expected 200, got "
        "500 → passed #13 after edits to login_0.go, login_1.go, login_2.go …",
    ]


def test_a_page_or_a_record_that_was_not_found_is_a_failure() -> None:
    gone, there = "https://docs.example.com/api/keys", "https://docs.example.com/api"
    text = show(
        use("WebFetch", {"url": gone, "prompt": "limits"}, "status code 404", failed=True),
        edit("/app/login.go"),
        use("WebFetch", {"url": there, "prompt": "limits"}, "# API"),
        use("mcp__tracker__get_issue", {"id": "WEB-7"}, "Could not find issue", failed=True),
        use("Read", {"file_path": "/app/none.go"}, "File does not exist.", failed=True),
        use("Grep", {"pattern": "x", "path": "/none"}, "Path does not exist.", failed=True),
        use("WebFetch", {"url": gone}, "The user doesn't want to proceed", failed=True),
    )
    told = text.partition("Failed before, and what settled it:\n")[2].split("\nRefused")[0]

    assert told.splitlines() == [
        "- #9 mcp__tracker__get_issue WEB-7: Could not find issue",
        f"- #3 webfetch {gone}: status code 404 → webfetch {there} #7",
    ]


def test_a_look_up_is_settled_by_the_same_one_or_the_same_site() -> None:
    long = "https://docs.example.com/" + "deep/" * 30
    text = show(
        use("WebFetch", {"prompt": "limits", "url": long}, "status code 503", failed=True),
        use("WebFetch", {"prompt": "limits", "url": long}, "# Limits"),
        use("WebSearch", {"query": "cache limits"}, "Error: rate limited", failed=True),
        use("WebFetch", {"url": "https://a.example.com"}, "status code 404", failed=True),
        use("WebFetch", {"url": "https://b.example.com"}, "# B"),
        use("get_record", {"id": 7}, "Error: no such record", failed=True),
        use("read_many_files", {"path": "/app"}, "Error: no such folder", failed=True),
    )
    told = text.partition("Failed before, and what settled it:\n")[2].splitlines()

    assert [line for line in told if line.startswith("- #")] == [
        "- #13 get_record 7: Error: no such record",
        "- #9 webfetch https://a.example.com: status code 404",
        "- #7 websearch cache limits: Error: rate limited",
        f"- #3 webfetch {long[:90]}…: status code 503 → passed #5",
    ]


def test_only_the_newest_failures_are_looked_at() -> None:
    failed = [run(f"tool{n} run", f"Error: number {n} is wrong", failed=True) for n in range(40)]

    assert len(state_of(*failed).failures) == 24


def test_a_task_is_listed_with_the_command_that_it_runs() -> None:
    text = show(
        run("mise run test:ci", "[test:ci] $ go test -tags=integration -race ./...\nok  \ta\t1s"),
        run("mise run test:ci | tail -1", "ok  \ta\t1s"),
        run("npm run lint", "\n> shop@1.2.0 lint\n> eslint src --max-warnings 0\n"),
        run("task check", "task: [check] ruff check .\nAll checks passed!"),
        run("mise run lint", "[lint] Finished in 3 ms\n[build] $ go build ./...\n0 issues."),
        run("go vet ./...", "[vet] $ something else"),
    )
    told = text.partition("Last result of each check:\n")[2].split("\n")

    assert [line.partition(": ")[0] for line in told[:5]] == [
        "- #13 go vet ./...",
        "- #11 mise run lint",
        "- #9 task check (runs ruff check .)",
        "- #7 npm run lint (runs eslint src --max-warnings 0)",
        "- #5 mise run test:ci (runs go test -tags=integration -race ./...)",
    ]


def test_a_check_that_still_fails_says_what_was_fixed() -> None:
    def fail(*names: str) -> str:
        return "".join(f"--- FAIL: {name} (0.01s)\n" for name in names)

    text = show(
        run("go test ./...", fail("TestRead", "TestRead/empty", "TestWrite"), failed=True),
        edit("/app/read.go"),
        run("go test -v ./...", fail("TestWrite"), failed=True),
    )

    assert "go test -v ./...: FAILED (TestWrite; fixed: TestRead/empty); no edits since" in text


@pytest.mark.parametrize("command", ["go test ./... 2>&1 | tail -20", "go test ./... | grep FAIL"])
def test_a_part_of_the_output_does_not_say_what_was_fixed(command: str) -> None:
    text = show(
        run(command, "--- FAIL: TestRead\n--- FAIL: TestWrite", failed=True),
        run(command, "--- FAIL: TestWrite", failed=True),
    )

    assert "go test ./...: FAILED (TestWrite)" in text


# What git undoes


def test_a_reset_takes_commits_back_and_their_files_are_uncommitted_again() -> None:
    text = show(
        edit("/app/src/a.py"),
        run("git commit -am one", "[main 1a2b3c4] one"),
        edit("/app/src/b.py"),
        run("git commit -am two", "[main 2b3c4d5] two"),
        run("git push", "ok"),
        run("git reset --soft HEAD~1"),
    )

    assert "- changed and not seen in a commit: b.py\n" in text
    assert "commit 1a2b3c4 one\n" in text
    assert "2b3c4d5" not in text
    assert "git reset --soft HEAD~1" in text


@each_row(
    ("command", "kept"),
    [
        ("git reset --hard HEAD", ["1a2b3c4", "2b3c4d5"]),
        ("git reset --hard", ["1a2b3c4", "2b3c4d5"]),
        ("git reset HEAD^", ["1a2b3c4"]),
        ("git reset @~9", []),
        ("git reset --hard 1a2b3c4d5e6f7", ["1a2b3c4"]),
        ("git reset --hard origin/main", ["1a2b3c4", "2b3c4d5"]),
    ],
)
def test_a_reset_keeps_the_commits_up_to_its_target(command: str, kept: list[str]) -> None:
    state = state_of(
        edit("/app/a.py"),
        run("git commit -am one", "[main 1a2b3c4] one"),
        run("git commit --allow-empty -m two", "[main 2b3c4d5] two"),
        edit("/app/b.py"),
        run(command),
    )

    assert [commit.hash for commit in state.git.commits] == kept
    assert bool(state.git.uncommitted) == ("--hard" not in command)


@each_row(
    ("command", "undone"),
    [
        ("git checkout -- src/a.py", ["/app/src/a.py"]),
        ("git restore .", ["/app/src/a.py", "/app/src/b.py"]),
        ("git restore --staged src/a.py", []),
        ("git checkout -- other.py", []),
        ("git reset --hard", ["/app/src/a.py", "/app/src/b.py"]),
    ],
)
def test_a_file_whose_changes_git_discarded_says_so(command: str, undone: list[str]) -> None:
    text = show(edit("/app/src/a.py"), edit("/app/src/b.py"), run(command))

    marked = [line for line in text.splitlines() if "undone with git" in line]
    assert sorted(line.split()[1] for line in marked) == undone
    assert not undone or f"{command}\n" in text


def test_a_checkout_of_the_present_branch_discards_nothing() -> None:
    text = show(edit("/app/main/a.py"), run("git checkout main", "Already on 'main'"))

    assert "undone" not in text


def test_a_file_that_was_edited_after_a_restore_is_changed() -> None:
    text = show(edit("/app/a.py"), run("git restore ."), edit("/app/a.py"))

    assert "undone" not in text


def test_stashed_changes_are_told_until_they_are_restored() -> None:
    saved = run("git stash", "Saved working directory and index state WIP on main: 12")
    work = [edit("/app/src/a.py"), edit("/app/src/b.py")]

    assert "- in the stash: a.py, b.py\n" in show(*work, saved)
    assert "- in the stash: changes\n" in show(run("ls"), saved)
    for command, left in (("pop", False), ("apply", True)):
        state = state_of(*work, saved, run(f"git stash {command}"))
        assert list(state.git.uncommitted) == ["/app/src/a.py", "/app/src/b.py"]
        assert bool(state.git.stashes) == left
    assert not state_of(*work, saved, run("git stash drop")).git.stashes
    assert state_of(*work, run("git stash pop", "No stash entries found.")).git.uncommitted


def test_a_revert_is_a_commit() -> None:
    state = state_of(
        run("git commit -m one", "[main 1a2b3c4] one"),
        run("git revert --no-edit HEAD", '[main 3c4d5e6] Revert "one"'),
        run("git cherry-pick abc", "error: could not apply", failed=True),
    )

    assert [commit.subject for commit in state.git.commits] == ["one", 'Revert "one"']


# Checks


@each_row(
    ("command", "output", "failed", "expected"),
    [
        ("pytest -q", "12 passed in 0.3s", False, "pytest -q: passed (12 passed in 0.3s)"),
        ("cd app && uv run pytest 2>&1 | tail -3", "1 failed, 2 passed\nFAILED t.py::test_x - no",
         False, "pytest: FAILED (t.py::test_x; 1 failed, 2 passed)"),
        ("python -m pytest", "Exit code 2\nno tests ran", True, "pytest: FAILED (no tests ran)"),
        ("go test ./...", GO_FAILURE, True,
         "go test ./...: FAILED (TestLogin, example.com/app/login; login_test.go:12: expected 200,"
         " got 500)"),
        ("go test ./... | tail", "ok  \ta\t1s\nok  \tb\t1s", False,
         "go test ./...: passed (2 packages ok)"),
        ("go build ./... 2>&1 | head", "", False, "go build ./...: passed (no output)"),
        ("tsc --noEmit", "", False, "tsc --noEmit: passed"),
        ("npm run build | tail -3", "> vite build\ncopied", False,
         "npm run build: outcome unknown (output ends: > vite build copied)"),
        ("make lint", "make: *** [lint] Error 1", True,
         "make lint: FAILED (make: *** [lint] Error 1)"),
        ("cargo test", "", True, "cargo test: FAILED"),
        ("npx vitest run", "[cleared: 9,000 characters of Bash; entry #3 has them]", False,
         "vitest run: passed"),
        ("npx vitest run | cat", "[cleared: 9,000 characters of Bash; entry #3 has them]", False,
         "vitest run: outcome unknown"),
        ("npx vitest run", "[cleared: 9,000 characters of Bash; entry #3 has them]", True,
         "vitest run: FAILED"),
        ("eslint . | tail", "\n".join(f"✖ name number {n}" for n in range(12)) + "\n12 errors",
         False, "name number 7 and 4 more"),
    ],
)  # fmt: skip
def test_the_last_outcome_of_a_check_is_told_with_its_output(
    command: str, output: str, *, failed: bool, expected: str
) -> None:
    assert expected in show(run(command, output, failed=failed))


@pytest.mark.parametrize(
    "command",
    ["ls", "ruff format .", "git log | grep test", "echo make test", "mise run fmt", "black ."],
)
def test_other_commands_are_no_checks(command: str) -> None:
    assert state_of(run(command, "1 failed")).checks == []


def test_a_check_names_the_files_that_were_edited_after_it() -> None:
    text = show(edit("a.py"), run("pytest", "2 passed"), edit("b.py"), run("ruff check .", "ok"))

    assert "pytest: passed (2 passed); edited since: b.py" in text
    assert "ruff check .: passed; no edits since" in text


def test_many_edited_files_are_counted() -> None:
    text = show(run("pytest", "2 passed"), *(edit(f"f{n}.py") for n in range(9)))

    assert "edited since: f8.py, f7.py, f6.py and 6 more" in text


def test_only_the_last_run_counts_and_a_later_pass_settles_an_earlier_failure() -> None:
    state = state_of(
        run("go test ./a -run TestOne -v", GO_FAILURE, failed=True),
        run("go test ./b -run TestTwo", "ok  \tb\t1s"),
        run("go test ./...", GO_FAILURE, failed=True),
        run("go test ./...", "ok  \ta\t1s"),
        run("go test -count=1 ./c -run TestThree", GO_FAILURE, failed=True),
        *(run(f"pytest -k {name}", "1 passed") for name in "abc"),
    )

    assert [(check.command, check.outcome.value) for check in state.checks] == [
        ("go test ./...", "passed"),
        ("pytest -k c", "passed"),
        ("pytest -k b", "passed"),
        ("go test -count=1 ./c -run TestThree", "FAILED"),
    ]


def test_a_chain_blames_the_check_that_the_output_names() -> None:
    tests = state_of(run("make lint && make test", "--- FAIL: TestX\nFAIL", failed=True))
    lint = state_of(run("make lint && make test", "3 issues:\n* errcheck: 3", failed=True))
    either = state_of(run("make lint && make test", "Killed", failed=True))
    both = state_of(run("make lint && make test", "0 issues.\n4 passed"))

    assert [check.command for check in tests.checks] == ["make test"]
    assert [check.command for check in lint.checks] == ["make lint"]
    assert [check.command for check in either.checks] == ["make lint && make test"]
    assert {check.outcome for check in both.checks} == {Outcome.PASSED}
    assert len(both.checks) == 2


def test_long_output_is_judged_by_its_beginning_and_end() -> None:
    output = "x" * 50_000 + "\nFAILED tests/a.py::test_b\n1 failed"

    assert "tests/a.py::test_b" in show(run("pytest | cat", output))


def test_a_command_that_was_refused_was_not_run() -> None:
    refused = run("pytest", "The user doesn't want to proceed with this tool use.", failed=True)
    unknown = run("pytest", "<tool_use_error>no such tool</tool_use_error>", failed=True)

    assert state_of(refused, unknown).checks == []


def test_commands_are_split_at_operators_outside_of_quotes() -> None:
    command = (
        "cd a && FOO=1 timeout 5 npx -y jest 'a; b' 2>&1 | tail -1; cat <<'EOF'\nx && y\nEOF\n"
    )

    parts = split_command(command)

    assert [(part, piped) for part, piped in parts if "jest" in part] == [
        ("FOO=1 timeout 5 npx -y jest 'a; b' 2>&1", True)
    ]
    assert not any(part.startswith("y") for part, _ in parts)
    assert strip_prefixes("FOO=1 timeout 5 npx -y ./bin/jest 'a; b' 2>&1") == "jest 'a; b'"


# The repository


def test_commits_pushes_and_uncommitted_files_are_followed() -> None:
    text = show(
        run("git checkout -b fix/login", "Switched to a new branch 'fix/login'"),
        edit("/work/app/src/login.py"),
        edit("/work/app/src/other.py"),
        edit("/work/app/docs/new.md"),
        run("git add src/login.py docs && git commit -m 'Fix login'",
            "[fix/login 1a2b3c4] Fix login\n 2 files changed"),
        run("git push -u origin fix/login", " * [new branch] fix/login -> fix/login"),
        run("gh pr create --fill", "https://github.com/me/app/pull/7"),
        edit("/work/app/src/login.py"),
        run("git commit -am wip", "[fix/login 2b3c4d5] wip"),
        edit("/work/app/src/late.py"),
        run("git merge origin/main", "conflict", failed=True),
        run("git stash list", ""),
        run("git status", "On branch fix/login\nYour branch is ahead of 'origin' by 1 commit.\n"),
        run("gh pr merge 7", "merged"),
    )  # fmt: skip

    for line in (
        "- branch: fix/login",
        "- changed and not seen in a commit: src/late.py",
        "- not pushed: 1 commit",
        "- pull request: https://github.com/me/app/pull/7",
        "- #19 commit 2b3c4d5 wip (local)",
        "- #11 commit 1a2b3c4 Fix login\n",
        "- git status said: Your branch is ahead of 'origin' by 1 commit.",
        "git merge origin/main (failed)",
        "gh pr merge 7",
    ):
        assert line in text
    assert "stash" not in text.partition("Commands run")[0]


def test_words_in_quotes_are_read_as_the_shell_reads_them() -> None:
    text = show(run('git reset --soft \'HEAD~1\' "a \\"b\\" c" d\\ e'))

    assert '- #3 git reset --soft HEAD~1 a "b" c d e' in text


def test_of_many_searches_the_newest_are_told() -> None:
    searches = [
        run(f"grep -rn word{n} src", f"src/a.py:{n}:word{n}\nsrc/b.py:{n}:word{n}")
        for n in range(40)
    ]

    found = state_of(*searches).searches

    assert found[0].pattern == "word39"
    assert len(found) < len(searches)


def test_a_commit_that_only_git_log_shows_is_named() -> None:
    edited = edit("/app/a.py")

    text = show(edited, run("git log --oneline -3", "1a2b3c4 Drop dead code\n2b3c4d5 Start"))

    assert "- no commit of the changed files was seen\n" in text
    assert "- #5 newest commit in git log: 1a2b3c4 Drop dead code\n" in text


@each_row(
    ("command", "output"),
    [
        ("git log --oneline other", "1a2b3c4 Drop dead code"),
        ("git log --oneline --all", "1a2b3c4 Drop dead code"),
        ("git log --oneline -- a.py", "1a2b3c4 Drop dead code"),
        ("make && git log --oneline", "1a2b3c4 Drop dead code"),
        ("git log --format=%s", "Drop dead code"),
        ("cd /tmp/x && git log --oneline", "1a2b3c4 Drop dead code"),
        ("cd ../x && git log --oneline", "1a2b3c4 Drop dead code\nShell cwd was reset to /app"),
    ],
)
def test_a_log_of_something_else_does_not_name_the_newest_commit(command: str, output: str) -> None:
    assert state_of(run(command, output)).git.head[1] == ""


@pytest.mark.parametrize(
    "step",
    [
        run("git commit -m z", "[main 3c4d5e6] z"),
        run("git reset --hard HEAD~1"),
        run("git checkout other", "Switched to branch 'other'"),
    ],
)
def test_the_newest_commit_is_forgotten_once_it_is_out_of_date(step: object) -> None:
    shown = run("cd src && git log --oneline main..HEAD | head -3", "1a2b3c4 Drop dead code")

    assert state_of(shown).git.head[1] == "1a2b3c4 Drop dead code"
    assert state_of(shown, step).git.head[1] == ""


def test_a_commit_of_the_conversation_is_not_named_twice() -> None:
    text = show(run("git commit -m z", "[main 3c4d5e6] z"), run("git log --oneline", "3c4d5e6 z"))

    assert "newest commit" not in text


@each_row(
    ("command", "output"),
    [
        ("git stash", "Saved working directory and index state WIP on fix/login: 1a2b3c4 x"),
        ("git stash pop", "On branch fix/login\nChanges not staged for commit:"),
        ("git rev-parse --abbrev-ref HEAD", "fix/login"),
        ("git status -sb", "## fix/login...origin/fix/login\n M a.py"),
        ("git status --short --branch", "## fix/login"),
        ("git branch -v", "* fix/login 1a2b3c4 x\n  main 2b3c4d5 y"),
    ],
)
def test_the_branch_is_known_from_any_output_that_names_it(command: str, output: str) -> None:
    assert state_of(run(command, output)).git.branch == "fix/login"


def test_an_output_that_names_no_branch_changes_nothing() -> None:
    kept = run("git branch --show-current", "main")

    assert state_of(kept, run("git branch -d old", "Deleted branch old")).git.branch == "main"
    assert state_of(kept, run("git rev-parse HEAD", "1a2b3c4")).git.branch == "main"


SHOWN = "title:\tMove clean\nstate:\tOPEN\nnumber:\t7\n--\nFewer commands.\n\nAlso tidy up.\n"
FOUND = '{"body": "Fewer commands.", "number": 7, "title": "Move clean"}'


@each_row(
    ("command", "output", "said"),
    [
        ("gh pr view 7", SHOWN, "pull request 7 says: Move clean: Fewer commands. Also tidy up."),
        ("gh issue view 7", SHOWN, "issue 7 says: Move clean: Fewer commands. Also tidy up."),
        ("gh pr view --json body", FOUND, "pull request 7 says: Move clean: Fewer commands."),
        ("gh pr view --json x", '{"title": "Move clean"}', "pull request says: Move clean"),
        ("gh pr view", "title:\tMove clean\nnumber:\tx", "pull request says: Move clean"),
    ],
)
def test_what_a_pull_request_or_an_issue_says_is_quoted(
    command: str, output: str, said: str
) -> None:
    assert f"- #3 {said}" in show(run(command, output)).splitlines()


def test_other_output_about_pull_requests_is_not_quoted() -> None:
    for output in ("7", '{"number": 7}', '{"comments": [', "no pull requests found"):
        assert " says: " not in show(run("gh pr view 7", output))
    assert " says: " not in show(run("gh pr view 7", SHOWN, failed=True))
    assert " says: " not in show(run("gh pr list", SHOWN))


STATUS = """On branch main
Changes not staged for commit:
  (use "git add <file>..." to update what will be committed)
\tmodified:   a.py

Untracked files:
  (use "git add <file>..." to include in what will be committed)
\tdocs/generated/
\tnotes.txt

no changes added to commit
"""


def test_untracked_files_are_those_of_the_last_git_status() -> None:
    line = "- untracked in git status: docs/generated/, notes.txt"

    assert line in show(run("git status", STATUS), edit("a.py"))
    assert line in show(run("git status -sb", "## main\n M a.py\n?? docs/generated/\n?? notes.txt"))
    assert "untracked" not in show(run("git status", STATUS), run("git status", "On branch main"))


def test_explicitly_staged_files_leave_the_others_uncommitted() -> None:
    state = state_of(
        edit("a.py"),
        edit("b.py"),
        edit("/tmp/scratch.py"),
        run("git add a.py"),
        run("git commit -m x", "[main 1a2b3c4] x"),
    )

    assert list(state.git.uncommitted) == ["b.py"]


def test_an_amended_commit_replaces_the_last_one_and_restoring_undoes_an_edit() -> None:
    state = state_of(
        run("git commit -m x", "[main (root-commit) 1a2b3c4] x"),
        run("git push", "ok"),
        run("git commit --amend --no-edit", "[main 2b3c4d5] x"),
        run("git commit --amend --no-edit", "[main 2b3c4d5] x"),
        run("git commit -m y", "nothing to commit"),
        run("git -C sub switch -c", ""),
        run("git checkout -b", ""),
        edit("a.py"),
        edit("b.py"),
        run("git checkout -- a.py", ""),
        run("git branch --show-current", "main"),
        run("git branch --show-current", ""),
        run("git", "usage"),
        run("git log 'unclosed", "x"),
        run("git commit -m z", "[detached 3c4d5e6] z"),
        run("git commit -m again", "Error", failed=True),
        run("gh pr view", "x"),
    )

    assert [commit.hash for commit in state.git.commits] == ["2b3c4d5", "3c4d5e6"]
    assert state.git.pushed == 0
    assert state.git.branch == "main"
    assert not state.git.uncommitted


def test_a_clean_status_and_a_failed_push_are_noted() -> None:
    text = show(
        edit("a.py"),
        run("git status", "nothing to commit, working tree clean"),
        run("git commit -m x", "[main 1a2b3c4] x"),
        run("git push", "! [rejected] main -> main (fetch first)"),
    )

    assert "- no changes since the last commit" in text
    assert "- the last push failed: ! [rejected] main -> main (fetch first)" in text
    assert "- not pushed: 1 commit" in text


CONFLICT = (
    "Auto-merging src/a.py\nCONFLICT (content): Merge conflict in src/a.py\nAutomatic merge failed"
)


def test_a_merge_that_stopped_at_conflicts_is_told_until_it_ends() -> None:
    stopped = run("git merge origin/main", CONFLICT, failed=True)
    goes_on = run(
        "git rebase --continue", "CONFLICT (content): Merge conflict in b.py", failed=True
    )

    assert "- git merge origin/main stopped at conflicts: src/a.py" in show(stopped)
    assert "stopped at conflicts: b.py" in show(stopped, goes_on)
    assert "git merge origin/main stopped" in show(stopped, run("git commit", "error", failed=True))
    assert "git merge origin/main stopped" in show(stopped, run("git reset a.py", ""))
    for end in ("git merge --abort", "git commit --no-edit", "git reset --hard"):
        assert "stopped at conflicts" not in show(stopped, run(end, ""))


def test_a_failed_chain_of_commands_does_not_blame_its_first_part() -> None:
    text = show(run("git stash && git checkout main", "fatal: 'main' is used", failed=True))

    assert "git stash (in a command that failed)" in text
    assert "- #3 git stash; git checkout main: fatal: 'main' is used" in text


def test_messages_without_entries_are_not_cited() -> None:
    calls = run("git status", "On branch x\nYour branch is ahead of 'origin/x' by 1 commit.")
    unsaved = [Item.of(EntryId(-1 - n), message) for n, message in enumerate(calls)]

    text = render_state(gather_state(unsaved), max_chars=2_000)

    assert "git status said: Your branch is ahead of 'origin/x' by 1 commit.\n" in f"{text}\n"


def test_everything_that_was_committed_and_pushed_is_told() -> None:
    commit = run("git commit -m x", "[main 1a2b3c4] x")

    assert "all commits are pushed" in show(commit, run("git push", "ok"))
    assert "- #3 pushed" in show(run("git push", "ok"))


def test_scratch_repositories_are_ignored() -> None:
    state = state_of(
        run("cd /tmp/x && git commit -m x", "[main 1a2b3c4] x"),
        run("git -C $work commit -m x", "[main 1a2b3c4] x"),
    )

    assert state.git.commits == []


def test_commands_of_the_user_count() -> None:
    text = show(
        user("<bash-input>git commit -m mine</bash-input>"),
        user("<bash-stdout>[main 1a2b3c4] mine</bash-stdout><bash-stderr></bash-stderr>"),
        user("<bash-stdout>stray</bash-stdout>"),
    )

    assert "commit 1a2b3c4 mine" in text
    assert list_steps(items(user("<bash-stdout>stray</bash-stdout>"))) == []


# Tasks, refusals, jobs


def test_tasks_are_merged_by_id() -> None:
    text = show(
        use("TaskCreate", {"subject": "Parse"}, "Task #1 created successfully: Parse"),
        use("TaskCreate", {"subject": "Print"}, "Task #2 created successfully: Print"),
        use("TaskCreate", {"subject": "Odd"}, "made"),
        use("TaskCreate", {"subject": "Gone"}, "Task #4 created successfully: Gone"),
        use("TaskUpdate", {"taskId": "1", "status": "completed"}, "ok"),
        use("TaskUpdate", {"taskId": 2, "status": "in_progress", "subject": "Print it"}, "ok"),
        use("TaskUpdate", {"taskId": "4", "status": "deleted"}, "ok"),
        use("TaskUpdate", {"taskId": "9", "status": "pending"}, "ok"),
        use("TaskUpdate", {"status": "pending"}, "ok"),
        use("TaskUpdate", {"taskId": "2", "status": "completed"}, "no", failed=True),
    )

    assert text == (
        "Tasks:\n- [in_progress] Print it\n- [pending] Odd\n- [pending] task 9\n- completed: Parse"
    )


def test_a_whole_list_replaces_the_tasks() -> None:
    text = show(
        use("TodoWrite", {"todos": [{"content": "old", "status": "pending"}]}, "ok"),
        use("update_plan", {"plan": [{"step": "new", "status": "pending"}, "odd", {}]}, "ok"),
        use("update_plan", {"plan": "none"}, "ok"),
    )

    assert text == "Tasks:\n- [pending] new"


def test_refusals_and_interruptions_are_listed_with_the_words_of_the_user() -> None:
    said = "The user doesn't want to proceed. To tell you how to proceed, the user said:\nnot now"
    text = show(
        user("[Request interrupted by user]"),
        run("git push --force", said, failed=True),
        user("[Request interrupted by user for tool use]"),
        use("Deploy", {"count": 3}, "Permission denied: no rule allows it.", failed=True),
        assistant("I will rewrite everything."),
        user("[Request interrupted by user]"),
        run("make release", "x"),
        user("[Request interrupted by user]"),
    )

    assert text.startswith(
        "Refused or interrupted by the user:\n- #12 interrupted: bash: make release\n"
        "- #9 interrupted: I will rewrite everything.\n- #7 deploy\n"
        "- #4 bash: git push --force — the user said: not now\n"
    )


def test_background_jobs_are_listed_until_they_end() -> None:
    start = "Command running in background with ID: {}"
    text = show(
        run("npm run dev", start.format("b1")),
        run("pytest", start.format("b2")),
        run("make build", start.format("b3")),
        run("sleep 9", start.format("b4")),
        use("TaskOutput", {"task_id": "b2"},
            "<status>completed</status>\n<exit_code>0</exit_code>\n3 passed"),
        use("TaskOutput", {"task_id": "b1"}, "<task_id>b1</task_id>\n<status>running</status>"),
        use("TaskOutput", {"task_id": "b9"}, "unknown"),
        use("KillShell", {"shell_id": "b4"}, "killed"),
        user("<task-notification>\n<task-id>b3</task-id>\n<status>failed</status>\n"
             "<summary>exit code 1</summary></task-notification>"),
    )  # fmt: skip

    assert "Still running when last seen:\n- #2 bash: npm run dev (id b1)" in text
    assert "pytest: passed (3 passed)" in text
    assert "make build: FAILED" in text
    assert "sleep 9 (id" not in text


def test_a_check_in_the_background_is_still_running() -> None:
    text = show(run("pytest", "Process running with session ID 77\nOutput:\n"))

    assert "pytest: still running" in text


def test_the_polled_output_of_codex_completes_the_first_part() -> None:
    head = "Chunk ID: a1\nWall time: 1s\n{}\nOriginal token count: 9\nOutput:\n"
    text = show(
        use("exec_command", {"cmd": "go test ./..."},
            head.format("Process running with session ID 5") + "ok  \ta\t1s\n"),
        use("write_stdin", {"session_id": 5, "chars": ""},
            head.format("Process exited with code 0") + "ok  \tb\t1s\n"),
    )  # fmt: skip

    assert "go test ./...: passed (2 packages ok)" in text


# Files


def test_files_changed_by_tools_patches_and_commands_are_counted() -> None:
    patch = (
        "*** Begin Patch\n*** Add File: new.py\n+x\n*** Update File: old.py\n"
        "*** Move to: moved.py\n"
        "*** Update File: kept.py\n@@\n*** Delete File: gone.py\n*** End Patch"
    )
    text = show(
        use("apply_patch", {"input": patch}, "Done"),
        run(f"apply_patch <<'EOF'\n{patch}\nEOF", "Done"),
        run("cat > made.sh <<'EOF'\necho\nEOF\nrm -rf build 2>/dev/null", ""),
        run("sed -i '' 's/a/b/' kept.py && sed -i 's/(x)/*/'", ""),
        run("cat <<EOF > /dev/null\nx\nEOF", ""),
        use("Write", {"file_path": "whole.py", "content": "x"}, "ok"),
        use("Read", {"file_path": "kept.py"}, "x"),
        use("Write", {"file_path": "kept.py", "content": "x"}, "ok"),
        use("str_replace_based_edit_tool", {"command": "create", "path": "c.py"}, "ok"),
        use("str_replace_based_edit_tool", {"command": "view", "path": "v.py"}, "ok"),
        use("Edit", {"file_path": 7}, "ok"),
        use("Edit", {"file_path": "failed.py"}, "no match", failed=True),
    )

    for line in (
        "- c.py (1 edit, created, last #",
        "- kept.py (4 edits, last #",
        "- whole.py (1 edit, created,",
        "- made.sh (1 edit, created,",
        "- build (deleted,",
        "- new.py (2 edits, created,",
        "- moved.py (renamed from old.py,",
        "- gone.py (deleted,",
        "Files read:\n- v.py",
    ):
        assert line in text
    assert "failed.py" not in text
    assert "/dev/null" not in text.partition("Commands")[0]


def test_files_read_have_their_last_range_and_the_relevant_come_first() -> None:
    text = show(
        *(use("Read", {"file_path": "/work/app/src/often.py"}, "x") for _ in range(4)),
        use("Read", {"file_path": "/work/app/src/once.py", "offset": 10, "limit": 20}, "x"),
        run("sed -n '5,9p' src/shell.py", "x"),
        run("nl -ba src/other.py | sed -n '1,40p'", "x"),
        run("cat src/often.py", "x"),
        use("Read", {"file_path": "/work/app/src/odd.py", "offset": "x", "limit": 2}, "x"),
    )

    assert text == (
        "Files read (relative to /work/app):\n- src/often.py\n- src/odd.py\n"
        "- src/other.py lines 1-40\n- src/shell.py lines 5-9\n- src/once.py lines 10-29"
    )


def test_the_root_is_the_folder_of_nearly_all_files() -> None:
    assert find_root(["/home/me/app/a/b.py", "/home/me/app/c.py"]) == "/home/me/app"
    assert find_root([*(f"/work/app/{n}.py" for n in range(9)), "/etc/hosts"]) == "/work/app"
    assert find_root(["/a.py", "/b.py"]) == ""
    assert find_root([]) == ""
    assert find_root(["/home/me/.x/a", "/home/me/.x/b"]) == "/home/me/.x"


def test_a_relative_path_is_never_put_below_a_folder_that_nothing_shows() -> None:
    inside = [f"/home/me/app/src/{name}.py" for name in "abc"]

    assert find_root([*inside, "src/d.py"]) == "/home/me/app"
    assert find_root([*inside, "docs/new.md"]) == ""
    assert find_root([*inside, "b.py"]) == "/home/me/app/src"
    text = show(*map(edit, inside), edit("src/d.py"), edit("docs/new.md"))
    assert "- /home/me/app/src/d.py (" in text
    assert "- /home/me/app/docs/new.md (" in text
    assert "- docs/new.md (" in show(*map(edit, inside), edit("docs/new.md"))


def test_searches_say_where_something_was_found() -> None:
    text = show(
        use("Grep", {"pattern": "scan\\(", "path": "src"}, "Found 2 files\nsrc/a.py\nsrc/b.py"),
        use("Grep", {"pattern": "old", "path": "."}, "No matches found"),
        use("Grep", {"pattern": "x", "path": "src/a.py"}, "3:x = 1\n9:x = 2"),
        use("Grep", {"pattern": "y", "path": "src/a.py"}, "some text"),
        use("Grep", {"pattern": "z"}, "[cleared: 9 characters of Grep]"),
        run("cd app && rg -n -g '*.py' 'load' src tests | head",
            "\n".join(f"src/m{n}.py:{n}:load()\nsrc/m{n}.py:{n}0:load()" for n in range(8))
            + "".join(f"\nsrc/m0.py:{n}:load()" for n in range(5))),
        run("grep -rn gone src", "", failed=True),
        run("grep -rn", "usage"),
        run("grep -rn broken src", "grep: src: No such file", failed=True),
        run("rg -n scan", "src/a.py:4:scan()"),
        use("Grep", {"pattern": "scan\\(", "path": "src"}, "src/a.py:4:scan()"),
    )  # fmt: skip

    assert text == (
        "Searches:\n- #23 scan\\( in src: src/a.py:4\n- #21 scan: src/a.py:4\n"
        "- #13 load in src tests: src/m0.py:0,00,0,1,…, src/m1.py:1,10, src/m2.py:2,20, "
        "src/m3.py:3,30, src/m4.py:4,40, src/m5.py:5,50 and 2 more\n"
        "- #15 gone in src: no matches\n- #5 old: no matches"
    )


def test_commands_that_nothing_else_tells_about_are_kept_whole() -> None:
    long = "curl -s http://localhost:8080/" + "x" * 200
    lists = use("shell", {"command": ["bash", "-lc", "docker ps"]}, "x")
    plain = use("shell", {"command": ["docker", "images"]}, "x")
    odd = use("Bash", {"command": 7}, "x")

    text = show(run(long, "ok"), run("git diff", "x"), lists, plain, odd, run("false", failed=True))

    assert text == (f"Commands run, newest first:\n- docker images\n- docker ps\n- {long}")


def test_calls_without_result_or_readable_arguments_say_nothing() -> None:
    call = ToolCall(call_id=CallId("x"), name="Bash", arguments="not json")
    waiting = ToolCall(call_id=CallId("y"), name="Edit", arguments=json.dumps({"file_path": "a"}))

    assert show(assistant(call, waiting)) == ""


# Rendering


def test_sections_share_the_room_and_count_what_they_omit() -> None:
    many = TextSection("Many:", [f"- line {n}" for n in range(50)])
    few = TextSection("Few:", ["- one"], 0.5)

    text = fill_sections([many, few, TextSection("None:", [])], max_chars=100)

    assert text.endswith("Few:\n- one")
    assert text.startswith("Many:\n- line 0\n")
    assert " more\n" in text
    assert len(text) <= 100
    assert fill_sections([many], max_chars=10) == ""


@given(
    st.lists(
        st.tuples(st.text(max_size=9), st.lists(st.text(max_size=30), max_size=9)), max_size=5
    ),
    st.integers(0, 300),
)
def test_sections_never_exceed_their_room(parts: list[tuple[str, list[str]]], size: int) -> None:
    sections = [TextSection(heading, lines) for heading, lines in parts]

    assert len(fill_sections(sections, max_chars=size)) <= size


def test_changed_files_are_complete_before_anything_that_was_only_read() -> None:
    changes = [edit(f"/work/app/src/module_{n}.py") for n in range(20)]
    state = state_of(
        *changes, *(use("Read", {"file_path": f"/work/app/r{n}.py"}, "x") for n in range(9))
    )

    roomy = render_state(state, max_chars=5_000)
    tight = render_state(state, max_chars=900)

    assert "Files changed:\n- /work/app/src/module_19.py (1 edit" in roomy
    assert "Files read (relative to /work/app):" in roomy
    assert "Files changed (relative to /work/app):\n- src/module_19.py" in tight
    assert "- src/module_0.py" in tight
    assert "Files read" not in tight


def test_a_section_whose_first_line_is_too_long_shows_its_beginning() -> None:
    text = fill_sections([TextSection("Checks:", ["- make test: " + "x" * 500])], max_chars=150)

    assert text.startswith("Checks:\n- make test: xxx")
    assert len(text) <= 150


def test_plans_in_the_home_folder_do_not_move_the_root() -> None:
    paths = ["/Users/me/app/.worktrees/3/a.py", "/Users/me/app/.worktrees/3/src/b.py"]

    assert find_root([*paths, "/Users/me/.claude/plans/x.md"]) == "/Users/me/app/.worktrees/3"


@given(histories(max_turns=4), st.integers(0, 1_500))
def test_a_ledger_never_exceeds_its_size_and_is_deterministic(
    history: list[Entry], size: int
) -> None:
    view = fold(history)

    text = render_state(gather_state(view.items), max_chars=size)

    assert len(text) <= size
    assert text == render_state(gather_state(list(view.items)), max_chars=size)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("claude_code/545b45d4-729e-4d0b-8e6b-45cb65d43f00.jsonl.gz",
         ["- branch: alex/entire-clean-fixes", "commit 22c57db7", "-race ./...): passed",
          "pull request: https://github.com/entireio/cli/pull/201", "pull rebase first"]),
        ("codex/019d7e3d-0164-79d1-af76-e4ee6689b94f.jsonl.gz",
         ["- branch: soph/rewrite", "commit f266bff", "go test ./...: passed",
          "[in_progress] Summarize updated tracker"]),
    ],
)  # fmt: skip
def test_the_state_of_recorded_sessions_is_found(path: str, expected: list[str]) -> None:
    if not (SESSIONS / path).exists():
        pytest.skip("the recordings are absent")
    view = fold(build_journal(read_session(SESSIONS / path)))

    text = render_state(gather_state([*view.archived, *view.items]), max_chars=4_000)

    assert [line for line in expected if line not in text] == []


@pytest.mark.parametrize("piece", ["\n", "<<EOF\n", "<bash-input>", "cat ", "--- FAIL: "])
def test_repetitive_text_is_read_in_linear_time(piece: str) -> None:
    """A quadratic search would take minutes and exceed the timeout of the test."""
    text = piece * (100_000 // len(piece))

    assert len(show(user(text), run(text, text), run("pytest | tail", text))) <= 10_000
