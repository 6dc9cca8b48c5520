"""`clew schedule`: add, list and remove prompts that run again and again; a worker runs them."""

import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from benchmarks.durable_harness import Cluster, open_agents, run_cluster
from clew.cli.main import main
from clew.core.tasks import TaskStatus
from clew.runtime.schedule_zone import find_local_zone, find_next_run
from clew.stores.task_protocol import ScheduleRow
from tests.runtime.repositories import commit_all, git

pytestmark = pytest.mark.req("CLI-1")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.setenv("CLEW_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLEW_STORE", raising=False)
    monkeypatch.setenv("TZ", "Europe/Berlin")
    monkeypatch.chdir(folder)
    return folder


def test_a_schedule_is_added_listed_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--model", "openai/gpt-5", "--permission-mode", "plan", "--worktree")
    assert main(["schedule", "every weekday 9:00", "-p", "check the build", *flags]) == 0
    added = capsys.readouterr()
    name = added.out.strip()
    assert "09:00 CE" in added.err
    assert "(0 9 * * 1-5)" in added.err
    assert "start one with `clew worker`" in added.err

    main(["schedule", "list"])
    line = capsys.readouterr().out
    assert line.startswith(name)
    assert line.rstrip().endswith("every weekday 9:00    check the build")
    main(["schedule", "list", "--json"])
    (row,) = json.loads(capsys.readouterr().out)
    assert row["spec"]["session"]["model"] == "openai/gpt-5"
    assert row["spec"]["session"]["permission_mode"] == "plan"
    assert row["spec"]["request"]["isolation"] == "worktree"
    assert row["spec"]["zone"] == "Europe/Berlin"

    assert main(["schedule", "remove", name]) == 0
    assert main(["schedule", "remove", name]) == 1
    assert f"there is no schedule {name}" in capsys.readouterr().err


def test_flags_before_the_command_and_words_without_quotes_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("every", "day", "at", "18:30")
    main(["--model", "openai/gpt-5", "schedule", *words, "-p", "x", "--zone", "UTC", "--json"])

    row = json.loads(capsys.readouterr().out)
    assert (row["cron"], row["text"]) == ("30 18 * * *", "every day at 18:30")
    assert row["spec"]["session"]["model"] == "openai/gpt-5"
    assert row["next_at"] % 86_400 == 18.5 * 3_600


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["every day"], 2, "say what to do"),
        (["remove"], 2, "say which schedule to remove"),
        (["whenever", "-p", "x"], 1, "is not understood; examples: `every weekday 9:00`"),
        (["daily", "-p", "x", "--zone", "Mars/Olympus"], 1, "use a name such as Europe/Berlin"),
        (["daily", "-p", "x", "--zone", "../../etc/passwd"], 1, "is not known here"),
    ],
)
def test_bad_usage_says_what_to_do(
    arguments: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schedule", *arguments]) == code
    assert text in capsys.readouterr().err


def test_a_folder_without_schedules_says_so_and_stores_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schedule"]) == 0

    assert "no schedules" in capsys.readouterr().err
    assert not (tmp_path / "home").exists()


def test_the_zone_of_the_machine_is_found() -> None:
    assert find_local_zone({"TZ": ":America/New_York"}) == "America/New_York"
    assert find_local_zone({"TZ": "nonsense"})


def test_a_schedule_in_a_zone_that_a_worker_does_not_know_runs_in_utc() -> None:
    row = ScheduleRow(
        schedule_id="s",
        text="daily",
        cron="0 0 * * *",
        spec={"zone": "Mars/Olympus"},
        next_at=0.0,
        created_at=0.0,
    )

    assert find_next_run(row, 1.0) == 86_400.0


def note_worktrees(cluster: Cluster) -> Path:
    """Make a hook of the user that notes each new worktree."""
    notes = cluster.folder / "notes"
    command = f"cat >> {notes}"
    hooks = {"WorktreeCreate": [{"hooks": [{"type": "command", "command": command}]}]}
    settings = Path(cluster.environ["HOME"], ".clew", "settings.json")
    settings.parent.mkdir()
    settings.write_text(json.dumps({"hooks": hooks}))
    return notes


@pytest.mark.anyio
@pytest.mark.req("HOK-1", "BGT-4")
async def test_a_worker_starts_an_agent_when_a_schedule_is_due(tmp_path: Path) -> None:
    with run_cluster(tmp_path, str(tmp_path / "sessions.db")) as cluster:
        (cluster.project / "shared.txt").write_text("read me\n")
        git(cluster.project, "init", "-q")
        commit_all(cluster.project, "first")
        notes = note_worktrees(cluster)
        command = ["schedule", "daily", "-p", "agent 1 of ., 2 steps", "--worktree"]
        model = ["--base-url", cluster.model, "--model", "scripted"]
        mode = ["--permission-mode", "bypassPermissions"]
        done = await anyio.run_process(
            [sys.executable, "-m", "clew", "--sandbox", "off", *command, *model, *mode],
            cwd=cluster.project,
            env=cluster.environ,
            stderr=subprocess.DEVNULL,
        )
        async with open_agents(cluster) as agents:
            tasks = agents.durable.tasks
            (row,) = await tasks.schedules()
            assert row.schedule_id == done.stdout.decode().strip()
            await tasks.save_schedule(replace(row, next_at=1.0))
            await cluster.wait_ready([cluster.start_worker()])

            with anyio.fail_after(60):
                while not (moved := (await tasks.schedules())[0]).last_task_id:  # noqa: ASYNC110
                    await anyio.sleep(0.05)
            ended = await agents.wait_for(
                moved.last_task_id, lambda task: task.state.status.is_terminal
            )

    assert ended.state.status is TaskStatus.COMPLETED
    assert moved.next_at > 1.0
    kept = Path(ended.state.worktree_path)
    assert (kept / "agent-1.txt").read_text() == "agent 1 step 1\n"
    noted = json.loads(notes.read_text())
    assert noted["hook_event_name"] == "WorktreeCreate"
    assert noted["worktree_path"] == str(kept)
