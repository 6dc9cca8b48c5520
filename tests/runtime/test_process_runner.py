"""Background processes: output, input, exit, and nothing left behind."""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import BackgroundTaskError
from clew.core.events import BackgroundTaskEvent, TaskStage, TextDelta
from clew.core.tasks import TaskErrorCategory, TaskKind, TaskState, TaskStatus
from clew.runtime import log_pages
from clew.runtime.log_pages import open_log, read_page, take_page
from clew.runtime.manager import BackgroundTaskManager
from clew.runtime.process_output import MAX_RESULT_BYTES, TRUNCATED, OutputLines
from clew.runtime.process_runner import END_OF_INPUT, ProcessRunner
from clew.runtime.protocol import TaskLimits, TaskRequest
from clew.testing.runners import RUNNER_CHECKS, RunnerCheck, RunnerHarness
from clew.tools.protocol import ToolContext
from clew.tools.sandbox import Sandbox, SandboxMode, SandboxPolicy
from tests.runtime.runners import Published

pytestmark = [pytest.mark.anyio, pytest.mark.req("BGT-2")]

NO_SANDBOX = Sandbox(SandboxPolicy(mode=SandboxMode.OFF))
SECRET = "sk-ant-api03-" + "abcDEF123456" * 6


class World:
    """A manager of real processes."""

    def __init__(self, folder: Path, secrets: tuple[str, ...] | None = ()) -> None:
        self.published = Published()
        context = ToolContext(cwd=folder, env={"GREETING": "hello"}, redact_values=secrets)
        self.logs = folder / "logs"
        self.runner = ProcessRunner(
            self.logs, context=lambda: context, sandbox=NO_SANDBOX, grace=0.5, send_timeout=60
        )
        self.manager = BackgroundTaskManager([self.runner], publish=self.published)
        self._lines = anyio.Event()
        self.manager.subscribe(self._follow)

    def _follow(self, event: BackgroundTaskEvent) -> None:
        self._lines.set()

    async def spawn(self, command: str, **fields: object) -> str:
        request = TaskRequest(kind=TaskKind.PROCESS, prompt=command, **fields)  # type: ignore[arg-type]
        return (await self.manager.spawn(request)).task_id

    async def run(self, command: str, **fields: object) -> TaskState:
        return await self.manager.wait(await self.spawn(command, **fields))

    async def read(self, task_id: str, **page: int) -> list[str]:
        return list((await self.manager.read_log(task_id, **page)).lines)

    async def wait_for(self, task_id: str, line: str) -> None:
        """Wait until the newest line of a task has this text."""
        while line not in self.manager.get(task_id).preview:
            self._lines = anyio.Event()
            await self._lines.wait()


@asynccontextmanager
async def world(folder: Path, secrets: tuple[str, ...] | None = ()) -> AsyncIterator[World]:
    made = World(folder, secrets)
    with anyio.fail_after(60):
        try:
            yield made
        finally:
            await made.manager.shutdown()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


async def test_a_process_runs_to_its_end_with_a_log_of_both_streams(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        ended = await w.run("echo $GREETING; echo oops >&2; pwd")

        assert (ended.status, ended.exit_code) == (TaskStatus.COMPLETED, 0)
        lines = await w.read(ended.task_id)
        assert sorted(lines) == ["[stderr] oops", "[stdout] " + str(tmp_path), "[stdout] hello"]
        assert sorted(ended.result.splitlines()) == sorted([str(tmp_path), "hello", "oops"])
        assert Path(ended.log_path).read_text().splitlines() == lines
        assert ended.pid
        assert not is_alive(ended.pid)
        assert Path(ended.log_path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("command", "error"),
    [("echo half; exit 3", "exit code 3"), ("echo half; kill -SEGV $$", "killed by SIGSEGV")],
)
async def test_a_process_that_fails_says_how(command: str, error: str, tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        ended = await w.run(command)

        assert (ended.status, ended.error) == (TaskStatus.FAILED, error)
        assert ended.error_category is TaskErrorCategory.PROCESS
        assert ended.exit_code in (3, -11)
        assert ended.result == "half\n"


async def test_a_process_that_cannot_start_fails(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        ended = await w.run("ls", cwd=str(tmp_path / "gone"))

        assert ended.error_category is TaskErrorCategory.PROCESS
        assert "no longer exists" in ended.error
        null = await w.run("echo \0")
        assert "could not be started" in null.error


async def test_output_is_seen_while_the_process_runs_and_input_reaches_it(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        task_id = await w.spawn('printf "name? "; read name; echo "hi $name"; cat; echo bye')
        await w.wait_for(task_id, "name?")

        await w.manager.send(task_id, "Ada")
        await w.wait_for(task_id, "hi Ada")
        await w.manager.send(task_id, "one\ntwo\n")
        await w.wait_for(task_id, "two")
        await w.manager.send(task_id, END_OF_INPUT)
        ended = await w.manager.wait(task_id)

        assert await w.read(task_id) == [
            "[stdout] name? hi Ada",
            "[stdout] one",
            "[stdout] two",
            "[stdout] bye",
        ]
        texts = [e.text for e in w.published.reported(task_id) if isinstance(e, TextDelta)]
        assert "".join(texts) == ended.result


async def test_a_closed_input_is_said_to_be_closed(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        task_id = await w.spawn("exec <&-; echo ready; exec sleep 1000 </dev/null")
        await w.wait_for(task_id, "ready")

        with pytest.raises(BackgroundTaskError, match=r"input of .* is closed"):
            await w.manager.send(task_id, "hello")
        await w.manager.cancel(task_id)
        with pytest.raises(BackgroundTaskError, match="is not running"):
            await w.runner.send(task_id, "hello")


async def test_a_message_that_nobody_reads_does_not_outlive_the_process(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        task_id = await w.spawn("echo ready; exec sleep 1000")
        await w.wait_for(task_id, "ready")

        async def send() -> None:
            with pytest.raises(BackgroundTaskError, match=r"input of .* is closed"):
                await w.manager.send(task_id, "x" * 1_000_000)

        async with anyio.create_task_group() as group:
            group.start_soon(send)
            await anyio.wait_all_tasks_blocked()
            await w.manager.cancel(task_id)


async def test_cancel_ends_the_whole_group_and_keeps_the_output(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        script = "sleep 1000 & echo $!; (trap '' TERM; sleep 1000) & echo $!; echo ready; wait"
        task_id = await w.spawn(script)
        await w.wait_for(task_id, "ready")

        ended = await w.manager.cancel(task_id)

        assert ended.status is TaskStatus.CANCELLED
        children = [int(line) for line in ended.result.split()[:2]]
        assert not any(map(is_alive, [*children, ended.pid or 0]))
        assert ended.result.endswith("ready\n")


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
async def test_processes_that_leave_the_group_end_too(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        task_id = await w.spawn("setsid sleep 1000 & echo $!; echo ready; wait")
        await w.wait_for(task_id, "ready")

        ended = await w.manager.cancel(task_id)

        assert not is_alive(int(ended.result.split()[0]))


async def test_what_a_process_leaves_in_the_background_ends_with_it(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        ended = await w.run("sleep 1000 & echo $!")

        assert ended.status is TaskStatus.COMPLETED
        assert not is_alive(int(ended.result))
        assert (await w.read(ended.task_id))[-1].startswith("[clew] ended the processes")


async def test_shutdown_leaves_no_process(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        ids = [await w.spawn("echo ready; exec sleep 1000") for _ in range(6)]
        await w.wait_for(ids[0], "ready")

        await w.manager.shutdown()

        states = w.manager.list()
        assert {state.status for state in states} == {TaskStatus.CANCELLED}
        assert [state.started_at is None for state in states] == [False] * 4 + [True] * 2
        assert not any(is_alive(state.pid) for state in states if state.pid)


async def test_secrets_reach_neither_the_log_nor_the_result_nor_an_event(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text(f"{SECRET[:20]}\n{SECRET[20:]}\nhunter2-and-more\n")
    command = """{ read a; read b; read c; } < secrets
        printf "first $a"; read x; echo "$b"; echo "a $c b" >&2; printf "key $a$b"; read x"""
    async with world(tmp_path, secrets=("hunter2-and-more",)) as w:
        task_id = await w.spawn(command)
        await w.wait_for(task_id, "first")
        await w.manager.send(task_id, "go on")
        await w.wait_for(task_id, "key [redacted:")

        ended = await w.manager.cancel(task_id)

        assert ended.result.count("[redacted:") == 3
        log = Path(ended.log_path).read_text()
        for text in (ended.result, log, str(w.published.events)):
            assert SECRET[20:] not in text
            assert "hunter2" not in text


async def test_without_redaction_the_output_stays_as_it_is(tmp_path: Path) -> None:
    async with world(tmp_path, secrets=None) as w:
        assert (await w.run(f"echo {SECRET}")).result == f"{SECRET}\n"


async def test_a_long_output_keeps_its_end_as_the_result(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        ended = await w.run("seq 1 20000")

        assert ended.result.startswith(TRUNCATED)
        assert ended.result.endswith("19999\n20000\n")
        assert len(ended.result) <= MAX_RESULT_BYTES + len(TRUNCATED)
        page = await w.manager.read_log(ended.task_id)
        assert (len(page.lines), page.offset, page.next_offset) == (200, 0, 200)
        assert await w.read(ended.task_id, offset=-2) == ["[stdout] 19999", "[stdout] 20000"]
        last = await w.manager.read_log(ended.task_id, offset=19_900)
        assert (len(last.lines), last.next_offset) == (100, None)


async def test_watchdogs_hold_for_processes_too(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        ended = await w.run("seq 1 100000; sleep 1000", limits=TaskLimits(output_limit_bytes=50))

        assert (ended.status, ended.error_category) == (
            TaskStatus.FAILED,
            TaskErrorCategory.TIMEOUT,
        )
        assert not is_alive(ended.pid or 0)


async def test_a_process_reports_its_life(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        ended = await w.run("echo one")

        stages = w.published.changes(ended.task_id)
        assert stages[:2] == [TaskStage.CREATED, TaskStage.STARTED]
        assert stages[-1] is TaskStage.COMPLETED
        assert ended.preview == "one"


@pytest.mark.parametrize("check", RUNNER_CHECKS)
async def test_the_runner_keeps_the_contract(check: RunnerCheck, tmp_path: Path) -> None:
    w = World(tmp_path)
    mark = f"clew-check-{tmp_path}"

    def request(command: str) -> TaskRequest:
        return TaskRequest(kind=TaskKind.PROCESS, prompt=command)

    def find_processes() -> list[int]:
        return [
            int(file.parent.name)
            for file in Path("/proc").glob("[0-9]*/cmdline")
            if mark.encode() in read_bytes(file)
        ]

    await check(
        RunnerHarness(
            runner=w.runner,
            short=request("seq 1 5"),
            endless=request(f"echo begun; while sleep 1000; do :; done # {mark}"),
            failing=request("exit 3"),
            find_leftovers=find_processes,
        )
    )


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


async def test_logs_are_removed_after_a_month(tmp_path: Path) -> None:
    async with world(tmp_path) as before:
        old, new = await before.run("echo old"), await before.run("echo new")
        os.utime(old.log_path, (0, time.time() - 31 * 24 * 3_600))
    async with world(tmp_path) as w:
        await w.run("true")

        assert not Path(old.log_path).exists()
        assert Path(new.log_path).exists()


@pytest.mark.parametrize("task_id", ["", "../x", "a/b", "/etc/passwd"])
async def test_a_log_outside_of_the_folder_cannot_be_read(task_id: str, tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        with pytest.raises(BackgroundTaskError, match="is not the id of a process"):
            await w.runner.read_log(task_id)


async def test_a_process_without_a_log_says_so(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        with pytest.raises(BackgroundTaskError, match="has no log"):
            await w.runner.read_log("task-1")


async def test_logs_outlive_the_process_that_wrote_them(tmp_path: Path) -> None:
    async with world(tmp_path) as before:
        ended = await before.run("echo kept")
    async with world(tmp_path) as w:
        await w.manager.restore([ended])

        assert await w.read(ended.task_id) == ["[stdout] kept"]


lines = st.lists(st.text(st.characters(exclude_characters="\n\r", codec="utf-8"), max_size=8))


@given(lines, st.data())
def test_lines_are_the_same_however_the_bytes_arrive(texts: list[str], data: st.DataObject) -> None:
    whole = "\n".join(texts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    edges = [0, *cuts, len(whole)]

    once, pieces = OutputLines(()), OutputLines(())
    expected = [*once.add(whole), *once.close()]
    got = [line for start, end in pairwise(edges) for line in pieces.add(whole[start:end])]

    assert [*got, *pieces.close()] == expected


def test_progress_bars_become_lines_and_line_ends_stay_together() -> None:
    output = OutputLines(())

    assert output.add(b"10%\r20%\r") == ["10%"]
    assert output.add(b"\nnext\r") == ["20%"]
    assert output.add(b"\n") == ["next"]
    assert output.close() == []


def test_a_line_without_an_end_is_passed_on_in_pieces() -> None:
    output = OutputLines(())

    got = [line for _ in range(40) for line in output.add("é".encode() * 4_001)]

    # What is kept does not grow with the line.
    assert len("".join(got)) > 40 * 4_001 - 100_000
    assert "".join([*got, *output.close()]) == "é" * 40 * 4_001


@given(st.integers(0, 30), st.integers(-35, 35), st.integers(1, 12))
def test_a_page_of_a_file_is_the_page_of_its_lines(count: int, offset: int, limit: int) -> None:
    texts = [f"[stdout] {number}" for number in range(count)]
    page = take_page("t", texts, offset=offset, limit=limit)

    start = max(0, count + offset) if offset < 0 else offset
    assert page.lines == tuple(texts[start : start + limit])
    assert page.next_offset == (start + limit if start + limit < count else None)
    found = log_pages._find_page(iter(texts), "t", offset=offset, limit=limit)
    assert found.lines == page.lines
    assert found.next_offset == page.next_offset


def test_a_log_stops_growing_at_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_pages, "MAX_LOG_BYTES", 100)
    with open_log(tmp_path / "logs" / "t.log") as log:
        for _ in range(3):
            log.add("stdout", ["0123456789"] * 3)

    page = read_page(tmp_path / "logs" / "t.log", "t")
    assert len(page.lines) == 6
    assert page.lines[-1].startswith("[clew] this log is full")


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t.log"
    path.write_text("[stdout] whole\n[stdout] ha")

    assert read_page(path, "t").lines == ("[stdout] whole",)
