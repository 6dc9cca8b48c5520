"""`clew -p … --detach` and `clew worker`: what they print, and what they refuse."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio import to_thread

from clew.cli.main import main
from clew.core.tasks import TaskStatus
from clew.sdk.folders import store_path
from clew.stores.sqlite import SqliteStore

pytestmark = [pytest.mark.anyio, pytest.mark.req("BGT-5")]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("CLEW_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLEW_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        yield tmp_path


def test_a_detached_task_is_stored_and_its_id_is_printed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["-p", "tidy up", "--detach", "--model", "m"]) == 0

    said = capsys.readouterr()
    assert said.out.startswith("agent-")
    assert "start one with `clew worker`" in said.err
    assert len(said.out.splitlines()) == 1


async def test_the_stored_task_says_what_a_worker_needs(folder: Path) -> None:
    await run_here("-p", "tidy up", "--detach", "--model", "m", "--max-turns", "3")

    store = SqliteStore(store_path(folder))
    [row] = await store.tasks.tasks()
    await store.aclose()
    assert (row.state.status, row.state.durable) == (TaskStatus.QUEUED, True)
    assert row.state.prompt == "tidy up"
    assert (row.spec["session"]["model"], row.spec["session"]["max_turns"]) == ("m", 3)


def test_as_json_it_prints_the_state_of_the_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-p", "tidy up", "--detach", "--output-format", "json"]) == 0

    state = json.loads(capsys.readouterr().out)
    assert (state["label"], state["durable"]) == ("tidy up", True)


@pytest.mark.parametrize("flags", [("--resume", "x"), ("--continue",), ("--json-schema", "f")])
def test_a_detached_task_is_a_new_one(
    flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["-p", "tidy up", "--detach", *flags]) == 2

    assert "--detach starts a new agent" in capsys.readouterr().err


def test_a_store_that_keeps_no_tasks_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worker", "--store", "mongodb://here"]) == 1

    assert "is not a session store" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan"])
def test_seconds_must_be_positive(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["worker", "--silent-after", value])

    assert left.value.code == 2
    assert "number of seconds" in capsys.readouterr().err


async def run_here(*arguments: str) -> None:
    assert await to_thread.run_sync(main, arguments) == 0
