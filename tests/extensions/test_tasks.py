"""Task files: which are found and chosen, how they read, and how their status is written."""

import os
import re
import time
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import ConfigError
from clew.extensions.project.tasks import (
    MAX_FILE,
    SETTABLE,
    SettableStatus,
    Status,
    Task,
    find_tasks,
    format_task_context,
    load_task_context,
    parse_task,
    read_branch,
    select_tasks,
    update_task_file_status,
)
from tests.rows import each_row

pytestmark = pytest.mark.req("PCX-2")

NOON = 1_700_000_000.0  # 2023-11-14
FULL = """\
# T-1: Load the tasks

- **Status**: in-progress
- **Branch**: `feat/tasks`
- **Scope**: src/clew/extensions

## Objective

Read the files
and show them.

### Why

So that nobody forgets.

## Plan

- [ ] not about completion

## Completion Criteria

- [x] found
- [ ] chosen
* [ ] shown

```
- [ ] code
# no heading
- **Status**: completed
```

## Progress

### 2023-11-13

- Began.
"""


def write(project: Path, name: str, text: str | bytes = "# x\n") -> Path:
    path = project / ".agents" / "tasks" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def with_status(status: str, branch: str = "") -> str:
    return f"# x\n\n- **Status**: {status}\n- **Branch**: {branch}\n"


# Reading


def test_a_task_is_read_and_shown_as_neutral_metadata(tmp_path: Path) -> None:
    write(tmp_path, "T-1.md", FULL)

    assert (
        load_task_context(tmp_path)
        == """\
## Active Task Context

### T-1: Load the tasks

- Path: `.agents/tasks/T-1.md`
- Status: in-progress
- Branch: feat/tasks
- Scope: src/clew/extensions
- Objective: Read the files and show them. So that nobody forgets.
- Open completion items:
  - [ ] chosen
  - [ ] shown"""
    )
    assert load_task_context(tmp_path, heading=False).startswith("### T-1")


def test_only_markdown_directly_in_the_folder_counts(tmp_path: Path) -> None:
    for name in ("b.md", "a.md", "README.md", "readme.md", "notes.txt", "completed/c.md", "x/d.md"):
        write(tmp_path, name)
    (tmp_path / ".agents" / "tasks" / "folder.md").mkdir()

    tasks, warnings = find_tasks(tmp_path)

    assert [task.path for task in tasks] == [".agents/tasks/a.md", ".agents/tasks/b.md"]
    assert len(warnings) == 1
    assert "folder.md is not a regular file" in warnings[0]


def test_no_tasks_are_no_text(tmp_path: Path) -> None:
    assert load_task_context(tmp_path) == ""
    write(tmp_path, "a.md", with_status("done"))
    assert load_task_context(tmp_path) == ""


def test_what_must_not_be_read_is_left_out_with_a_warning(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "secret.md"
    outside.write_text("# private", encoding="utf-8")
    write(project, "good.md", "# Good\n")
    write(project, "huge.md", b"#" * (MAX_FILE + 1))
    folder = project / ".agents" / "tasks"
    (folder / "link.md").symlink_to(outside)
    (folder / "loop.md").symlink_to("loop.md")
    (folder / "near.md").symlink_to("good.md")
    os.mkfifo(folder / "pipe.md")
    warnings: list[str] = []

    shown = load_task_context(project, max_tasks=9, warn=warnings.append)

    assert re.findall("### (.*)", shown) == ["Good", "Good"]
    assert "private" not in shown
    names = [re.search(r"(\w+)\.md", warning) for warning in warnings]
    assert [name and name[1] for name in names] == ["huge", "link", "loop", "pipe"]


def test_a_folder_that_leads_outside_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "other", "a.md")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / ".agents").symlink_to(tmp_path / "other" / ".agents")

    tasks, warnings = find_tasks(tmp_path / "project")

    assert tasks == ()
    assert "leads out of" in warnings[0]


def test_of_very_many_files_the_first_are_read(tmp_path: Path) -> None:
    for number in range(1_001):
        write(tmp_path, f"{number:04}.md")

    tasks, warnings = find_tasks(tmp_path)

    assert (len(tasks), tasks[-1].path) == (1_000, ".agents/tasks/0999.md")
    assert warnings == (
        "1 of 1,001 task files were skipped: the limit is 1,000 files and 1,000,000 bytes.",
    )


def test_long_files_are_read_up_to_a_length_and_bad_ones_are_a_few_lines(tmp_path: Path) -> None:
    for number in range(6):
        write(tmp_path, f"{number}.md", b"#" * 200_000)
    for number in range(100):
        write(tmp_path, f"0{number}.md", b"#" * (MAX_FILE + 1))

    tasks, warnings = find_tasks(tmp_path)

    assert [task.path[-4:] for task in tasks] == ["0.md", "1.md", "2.md", "3.md", "4.md"]
    assert warnings[0].startswith("1 of 106 task files were skipped")
    assert len(warnings) == 7
    assert warnings[-1] == "95 more task files were skipped."


@each_row(
    ("said", "status"),
    [
        *(("todo", "todo"), ("To Do", "todo"), ("not started", "todo"), ("`pending`", "todo")),
        *(
            ("In Progress (half)", "in-progress"),
            ("in_progress", "in-progress"),
            ("🔄 WIP", "in-progress"),
        ),
        *(("✅ Completed", "completed"), ("Done", "completed"), ("incomplete", "unknown")),
        *(("on hold", "blocked"), ("", "unknown"), ("whatever", "unknown"), ("TBD", "unknown")),
    ],
)
def test_a_status_is_understood_as_people_write_it(said: str, status: str) -> None:
    assert parse_task(with_status(said), path="x.md").status == status
    assert parse_task(f"---\nstatus: '{said}' # note\n---\n# x\n", path="x.md").status == status


@pytest.mark.parametrize(
    "text",
    [
        "---\ntitle: 'T'\nstatus: todo\nbranch: b\nscope: s\n---\n# Other\n",
        "\ufeff# T\n\nStatus: todo\nBranch: b\nScope: s\n",
        "# T\r\n\r\n**Status:** todo\r\n**Branch:** b\r\n**Scope:** s\r\n",
        "# T\n\n## Metadata\n\n* __Status__: todo\n* __branch__: `b`\n* **Scope: s**\n",
    ],
)
def test_metadata_are_read_in_several_forms(text: str) -> None:
    task = parse_task(text, path="x.md")

    assert (task.title, task.status, task.branch, task.scope) == ("T", "todo", "b", "s")


def test_what_sections_say_is_no_metadata() -> None:
    task = parse_task("# T\n\n## Notes\n\n- **Status**: the API says done\n", path="x.md")

    assert task.status == "unknown"


@pytest.mark.parametrize("fence", ["```", "~~~", "````", " ```py"])
def test_what_a_code_block_says_is_no_metadata(fence: str) -> None:
    inner = "~~~" if "`" in fence else "```"
    text = f"{fence}\n{inner}\nStatus: done\n- [ ] x\n{fence.removesuffix('py')}\n# T\nStatus: todo"

    task = parse_task(text, path="x.md")

    assert (task.title, task.status, task.open_items) == ("T", "todo", ())


def test_a_file_without_anything_has_its_name() -> None:
    assert parse_task("", path=".agents/tasks/T-9.md") == Task(
        path=".agents/tasks/T-9.md", title="T-9"
    )


def test_without_a_section_about_completion_all_open_items_count() -> None:
    task = parse_task("# T\n\n1. [ ] one\n\n## Steps\n- [ ] two\n- [X] three\n", path="x.md")

    assert task.open_items == ("one", "two")


def test_long_texts_are_cut_and_stay_on_their_line() -> None:
    items = "".join(f"- [ ] item {n}\n" for n in range(15))
    text = f"# {'t' * 999}\u2028# x\n\n## Objective\n\n{'word ' * 999}\n\n## Acceptance\n{items}"

    shown = format_task_context([parse_task(text, path="a\n# b.md")])

    assert "…" in shown
    assert len(shown) < 1_500
    assert "  - (5 more)" in shown
    assert len(re.findall(r"^#", shown, re.MULTILINE)) == 2


def test_bad_bytes_are_shown_as_such(tmp_path: Path) -> None:
    write(tmp_path, "a.md", b"# bad \xff byte\n")

    assert "### bad \ufffd byte" in load_task_context(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "# " + " " * 2000,
        "- [ ] " + " " * 2000,
        "## " + "#" * 2000,
        "Status:" + "\t #" * 700,
        "`" * 2000,
    ],
)
def test_a_hostile_file_takes_no_time(line: str) -> None:
    text = (line + "\n") * (MAX_FILE // (len(line) + 1))
    start = time.process_time()

    parse_task(text, path="x.md")
    parse_task("## completion\n" * (MAX_FILE // 14), path="x.md")

    assert time.process_time() - start < 2


# Choosing


def test_the_current_branch_comes_first_then_the_status(tmp_path: Path) -> None:
    for name, status in {
        "a": "whatever", "b": "blocked", "c": "todo", "d": "in-progress", "e": "completed",
    }.items():  # fmt: skip
        write(tmp_path, f"{name}.md", with_status(status))
    write(tmp_path, "f.md", with_status("todo", "feat/x"))
    write(tmp_path, "g.md", with_status("completed", "feat/x"))

    tasks, _ = find_tasks(tmp_path)

    def chosen(**options: object) -> str:
        return "".join(Path(t.path).stem for t in select_tasks(tasks, **options))  # type: ignore[arg-type]

    assert chosen(current_branch="feat/x", max_tasks=9) == "fdcba"
    assert chosen(current_branch="feat/x") == "fdc"
    assert chosen() == "dcf"
    assert chosen(max_tasks=0) == chosen(max_tasks=-1) == ""


@given(
    st.lists(st.tuples(st.sampled_from(get_args(Status)), st.sampled_from(["", "a", "b"]))),
    st.sampled_from(["", "a", "b", "c"]),
    st.integers(-1, 9),
)
def test_a_choice_is_bounded_and_never_holds_what_is_completed(
    kinds: list[tuple[Status, str]], branch: str, most: int
) -> None:
    tasks = [
        Task(path=f"{n}.md", title="x", status=status, branch=own)
        for n, (status, own) in enumerate(kinds)
    ]

    chosen = select_tasks(tasks, current_branch=branch, max_tasks=most)

    active = [task for task in tasks if task.status != "completed"]
    assert len(chosen) == min(max(most, 0), len(active))
    assert set(chosen) <= set(active)
    here = [task for task in active if branch and task.branch == branch]
    assert set(chosen[: len(here)]) <= set(here)
    assert select_tasks(tasks[::-1], current_branch=branch, max_tasks=most) == chosen


def test_the_branch_is_read_from_the_files_of_git(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / ".git" / "HEAD").write_text("ref: refs/heads/feat/x\n", encoding="utf-8")
    write(project, "a.md", with_status("in-progress"))
    write(project, "b.md", with_status("todo", "feat/x"))

    assert read_branch(project / ".agents" / "tasks") == "feat/x"
    assert "b.md" in load_task_context(project, max_tasks=1)
    assert "a.md" in load_task_context(project, max_tasks=1, current_branch="main")


def test_the_branch_of_a_worktree_is_its_own(tmp_path: Path) -> None:
    tree, state = tmp_path / "tree", tmp_path / "main" / ".git" / "worktrees" / "tree"
    tree.mkdir()
    state.mkdir(parents=True)
    (state / "HEAD").write_text("ref: refs/heads/side\n", encoding="utf-8")
    (tree / ".git").write_text("gitdir: ../main/.git/worktrees/tree\n", encoding="utf-8")

    assert read_branch(tree) == "side"


# Writing


def updated(
    tmp_path: Path, text: str | bytes, status: SettableStatus = "completed", message: str = ""
) -> bytes:
    path = write(tmp_path, "t.md", text)
    update_task_file_status(path, status, progress_message=message, clock=lambda: NOON)
    return path.read_bytes()


def test_the_status_is_replaced_and_progress_is_dated(tmp_path: Path) -> None:
    after = updated(tmp_path, FULL, "blocked", " Waits\n for Ann. ").decode()

    assert after == FULL.replace("**: in-progress", "**: blocked") + (
        "\n### 2023-11-14\n\n- Waits for Ann.\n"
    )


def test_a_second_entry_of_a_day_goes_below_the_first(tmp_path: Path) -> None:
    text = "# T\n\nStatus: todo\n\n## Progress\n\n### 2023-11-14\n\n- One.\n\n## Notes\n\nend"

    after = updated(tmp_path, text, "todo", "Two.").decode()

    assert after == text.replace("- One.\n", "- One.\n- Two.\n")


def test_a_day_without_entries_and_a_file_without_an_end_are_filled(tmp_path: Path) -> None:
    text = "# T\nstatus: todo\n## Progress\n### 2023-11-14"

    assert updated(tmp_path, text, "todo", "One.").decode() == text + "\n\n- One.\n"


def test_a_section_for_progress_is_made(tmp_path: Path) -> None:
    after = updated(tmp_path, "- **Status**: todo", "todo", "One.").decode()

    assert after == "- **Status**: todo\n\n## Progress\n\n### 2023-11-14\n\n- One.\n"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", "- **Status**: completed\n"),
        ("# T", "# T\n\n- **Status**: completed\n"),
        ("# T\n\nwords\n", "# T\n\n- **Status**: completed\n\nwords\n"),
        ("# T\nwords\n", "# T\n\n- **Status**: completed\n\nwords\n"),
        ("words\n", "- **Status**: completed\n\nwords\n"),
        ("\ufeffwords\n", "\ufeff- **Status**: completed\n\nwords\n"),
        ("## A\n# T\n", "- **Status**: completed\n\n## A\n# T\n"),
        ("# T\n\n- **Branch**: b\n", "# T\n\n- **Status**: completed\n- **Branch**: b\n"),
        ("---\na: 1\n---\n# T\n", "---\na: 1\nstatus: completed\n---\n# T\n"),
        ("---\nstatus: 'todo' # x\n---\n", "---\nstatus: 'completed' # x\n---\n"),
        ("# T\n\n**Status:**todo  \n", "# T\n\n**Status:** completed  \n"),
        ("# T\n\n**Status: todo**\n", "# T\n\n**Status: completed**\n"),
        ("# T\n\nStatus:\n", "# T\n\nStatus: completed\n"),
        ("# T\n\n```\nStatus: a\n```\n", "# T\n\n- **Status**: completed\n\n```\nStatus: a\n```\n"),
    ],
)
def test_a_status_is_updated_or_inserted(tmp_path: Path, text: str, after: str) -> None:
    assert updated(tmp_path, text).decode() == after
    again = text.replace("\n", "\r\n")
    assert updated(tmp_path, again).decode().replace("\r\n", "\n") == after
    assert b"\n" not in updated(tmp_path, again).replace(b"\r\n", b"") or "\n" not in text


def test_bytes_that_are_no_text_are_kept(tmp_path: Path) -> None:
    after = updated(tmp_path, b"# T \xff\r\n\r\n- **Status**: todo\r\n\xc3\r\n\x0c\x85")

    assert after == b"# T \xff\r\n\r\n- **Status**: completed\r\n\xc3\r\n\x0c\x85"


pieces = st.sampled_from(
    (
        *("# T", "## Progress", "### 2023-11-14", "## Notes", "Status: todo", "- **Branch**: b"),
        *("- **Status**: `wip`", "**Status**", "words", "", " ", "---", "```", "~~~", "- [ ] x"),
        *("\ufeff# B", "\x0c", "## Metadata"),
    )
)
ends = st.sampled_from(["\n", "\r\n", "\n\n"])


@given(
    st.lists(st.tuples(pieces, ends), max_size=12),
    st.sampled_from(SETTABLE),
    st.sampled_from(["", "Went on."]),
)
def test_a_change_is_read_back_and_touches_nothing_else(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[tuple[str, str]],
    status: SettableStatus,
    message: str,
) -> None:
    text = "".join(piece + end for piece, end in parts)

    after = updated(tmp_path_factory.mktemp("p"), text, status, message).decode()

    assert parse_task(after, path="x.md").status == status
    old, new = text.split("\n"), after.split("\n")
    assert any(is_within([*old[:n], *old[n + 1 :]], new) for n in range(len(old)))
    assert re.search(r"tatus(\*\*)?: ", text) or is_within(old, new)
    assert after.count("Went on.") == (1 if message else 0)


def is_within(lines: list[str], others: list[str]) -> bool:
    """Are the lines all there, in their order?"""
    rest = iter(others)
    return all(any(line == other for other in rest) for line in lines)


def test_a_mode_is_kept_and_an_unchanged_file_is_not_written(tmp_path: Path) -> None:
    path = write(tmp_path, "t.md", with_status("todo"))
    path.chmod(0o640)
    update_task_file_status(str(path), "completed", clock=lambda: NOON)
    first = path.stat()

    update_task_file_status(path, "completed", clock=lambda: NOON)

    assert path.stat().st_mode & 0o777 == 0o640
    assert path.stat().st_ino == first.st_ino


def test_what_is_no_status_or_no_task_file_is_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("private", encoding="utf-8")
    link = write(tmp_path / "project", "a.md").with_name("link.md")
    link.symlink_to(outside)

    with pytest.raises(ConfigError, match="todo, in-progress, blocked, completed"):
        update_task_file_status(link, "finished")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"does not end with `\.md`"):
        update_task_file_status(tmp_path / "a.txt", "todo")
    with pytest.raises(ConfigError, match="There is no task file"):
        update_task_file_status(tmp_path / "none.md", "todo")
    with pytest.raises(ConfigError, match="leads out of"):
        update_task_file_status(link, "todo")
    assert outside.read_text(encoding="utf-8") == "private"
