"""Bash: its output, its time and its children."""

import os
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.tools.builtin.bash import HeadTail, bash_tool
from clew.tools.protocol import Place, ToolOutput

pytestmark = [pytest.mark.anyio, pytest.mark.req("TOL-5")]

STUBBORN = "(trap '' TERM; echo $BASHPID > pid; while :; do sleep 1000; done) & wait"


async def run(cwd: Path, command: str, timeout: float = 30) -> ToolOutput:  # noqa: ASYNC109
    with anyio.fail_after(20):
        arguments = {"command": command, "timeout": timeout}
        return await bash_tool().run(arguments, Place(cwd=cwd))


async def watch(cwd: Path) -> int:
    """Wait until a child has written its number into the pipe `pid`; return a handle on it."""
    text = await anyio.to_thread.run_sync((cwd / "pid").read_text, abandon_on_cancel=True)
    return os.pidfd_open(int(text))


async def gone(handle: int) -> None:
    try:
        await anyio.wait_readable(handle)
    finally:
        os.close(handle)


async def test_output_and_errors_come_in_order_from_the_working_folder(tmp_path: Path) -> None:
    out = await run(tmp_path, "pwd; echo a >&2; echo b; echo c >&2")

    assert out.text == f"{tmp_path}\na\nb\nc"
    assert not out.failed


@pytest.mark.parametrize(
    ("command", "text", "failed"),
    [
        ("exit 3", "[exit code 3]", True),
        ("echo x; false", "x\n[exit code 1]", True),
        ("kill -KILL $$", "[ended by SIGKILL]", True),
        ("true", "[no output]", False),
        ("cat", "[no output]", False),
        ("printf '\\xff'", "\ufffd", False),
    ],
)
async def test_the_end_of_a_command_is_told(
    tmp_path: Path, command: str, text: str, *, failed: bool
) -> None:
    out = await run(tmp_path, command)

    assert (out.text, out.failed) == (text, failed)


async def test_a_command_that_cannot_start_fails_in_words(tmp_path: Path) -> None:
    assert (await run(tmp_path / "nowhere", "ls")).failed
    assert (await run(tmp_path, "a\0b")).failed


async def test_a_time_limit_beyond_the_longest_is_refused(tmp_path: Path) -> None:
    out = await run(tmp_path, "ls", timeout=601)

    assert out.failed
    assert "`timeout`: expected `float` <= 600" in out.text


async def test_a_timeout_ends_the_whole_group_and_keeps_what_was_said(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pid")
    outs: list[ToolOutput] = []

    async def call() -> None:
        outs.append(await run(tmp_path, f"echo before; {STUBBORN}", timeout=1))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await gone(await watch(tmp_path))

    assert outs[0].failed
    assert outs[0].text.startswith("before\n[timed out after 1 s")
    assert outs[0].data["timed_out"] is True


async def test_cancellation_ends_the_whole_group(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pid")

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(run, tmp_path, STUBBORN)
            handle = await watch(tmp_path)
            group.cancel_scope.cancel()
        await gone(handle)


async def test_a_background_child_does_not_hold_up_the_answer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pid")
    outs: list[ToolOutput] = []

    async def call() -> None:
        outs.append(await run(tmp_path, "(echo $BASHPID > pid; exec sleep 1000) & echo started"))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            handle = await watch(tmp_path)
    hint = outs[0].text.splitlines()[1]
    command = hint.rpartition(": ")[2].removesuffix("]")

    assert outs[0].text.startswith("started\n[background processes go on")
    assert not (await run(tmp_path, command)).failed
    with anyio.fail_after(10):
        await gone(handle)


async def test_long_output_keeps_its_head_and_its_tail(tmp_path: Path) -> None:
    out = await run(tmp_path, "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last")

    assert out.text.startswith("first\nxxx")
    assert out.text.endswith("xxx\nlast")
    assert len(out.text) < 1_000_100
    assert out.data["dropped"] == 3_000_012 - 1_000_000
    assert f"\n[{3_000_012 - 1_000_000} bytes left out]\n" in out.text


async def test_commands_run_side_by_side(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    outs: list[ToolOutput] = []

    async def call(command: str) -> None:
        outs.append(await run(tmp_path, command))

    async with anyio.create_task_group() as group:
        group.start_soon(call, "cat pipe")
        group.start_soon(call, "echo through > pipe")

    assert {out.text for out in outs} == {"through", "[no output]"}


@given(st.lists(st.binary(max_size=12)), st.integers(min_value=1, max_value=10))
def test_nothing_is_lost_without_being_counted(chunks: list[bytes], half: int) -> None:
    kept = HeadTail(limit=2 * half)
    whole = b"".join(chunks)

    for chunk in chunks:
        kept.add(chunk)

    assert len(kept.head) + kept.dropped + len(kept.tail) == len(whole)
    assert whole.startswith(kept.head)
    assert whole.endswith(kept.tail)
    assert kept.dropped == max(0, len(whole) - 2 * half)
