"""Bash: its output, its timeout, its children, and the state that it keeps for the next call."""

import os
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew import MemoryStore, Session
from clew.core.secret_variables import is_secret_variable
from clew.providers.scripted import ScriptedProvider
from clew.tools.builtin.bash import bash_tool
from clew.tools.builtin.child_process import HeadTail, child_environment, make_printable
from clew.tools.protocol import Progress, Tool, ToolContext, ToolOutput
from clew.tools.sandbox import Sandbox, SandboxMode, SandboxPolicy
from tests.rows import each_row

pytestmark = [pytest.mark.anyio, pytest.mark.req("TOL-5")]

STUBBORN = "(trap '' TERM; echo $BASHPID > pid; while :; do sleep 1000; done) & wait"


def bare(*pass_env: str) -> Tool:
    return bash_tool(sandbox=Sandbox(SandboxPolicy(mode=SandboxMode.OFF)), pass_env=pass_env)


async def run(
    cwd: Path | ToolContext,
    command: str,
    timeout: float = 30,  # noqa: ASYNC109
    *,
    tool: Tool | None = None,
) -> ToolOutput:
    place = cwd if isinstance(cwd, ToolContext) else ToolContext(cwd=cwd)
    with anyio.fail_after(60):
        return await (tool or bare()).run({"command": command, "timeout": timeout}, place)


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
        ("kill -KILL $$", "[killed by SIGKILL]", True),
        ("true", "[no output]", False),
        ("cat", "[no output]", False),
        ("printf '\\xff'", "\ufffd", False),
    ],
)
async def test_the_way_a_command_ended_is_reported(
    tmp_path: Path, command: str, text: str, *, failed: bool
) -> None:
    out = await run(tmp_path, command)

    assert (out.text, out.failed) == (text, failed)


async def test_a_command_that_cannot_start_fails_with_a_reason(tmp_path: Path) -> None:
    assert (await run(tmp_path / "nowhere", "ls")).failed
    assert (await run(tmp_path, "a\0b")).failed


async def test_a_time_limit_beyond_the_longest_is_refused(tmp_path: Path) -> None:
    out = await run(tmp_path, "ls", timeout=601)

    assert out.failed
    assert "`timeout`: expected `float` <= 600" in out.text


@pytest.mark.slow("waits for a time limit")
async def test_a_timeout_ends_the_whole_group_and_keeps_the_output(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pid")
    outs: list[ToolOutput] = []

    async def call() -> None:
        outs.append(await run(tmp_path, f"echo before; {STUBBORN}", timeout=1))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await gone(await watch(tmp_path))

    assert outs[0].failed
    assert outs[0].text.startswith("before\n[timed out after 1 s")
    assert outs[0].data["timed_out"] is True


async def test_cancellation_ends_the_whole_group(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pid")

    with anyio.fail_after(60):
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

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            handle = await watch(tmp_path)
    hint = outs[0].text.splitlines()[1]
    command = hint.rpartition(": ")[2].removesuffix("]")

    assert outs[0].text.startswith("started\n[background processes keep running")
    assert not (await run(tmp_path, command)).failed
    with anyio.fail_after(60):
        await gone(handle)


async def test_long_output_keeps_its_head_and_its_tail(tmp_path: Path) -> None:
    line = "head -c 25000000 /dev/zero | tr '\\0' x"
    out = await run(tmp_path, f"echo first; {line}; echo; echo last")

    assert out.text.startswith("first\nxxx")
    assert out.text.endswith("xxx\nlast")
    assert len(out.text) < 10_000_100
    assert out.data["dropped"] == 15_000_012
    assert "\n[15,000,012 bytes omitted: only 10,000,000 are kept]\n" in out.text


async def test_what_the_model_does_not_see_of_long_output_can_be_recalled(tmp_path: Path) -> None:
    call = msgspec.json.encode({"command": "seq 100000"}).decode()

    async with Session(
        ScriptedProvider([]), model="m", cwd=tmp_path, store=MemoryStore(), tools=(bare(),)
    ) as session:
        await session.run_tool("Bash", call, said="!seq 100000")
        seen = session.get_history()[-1].results[0].text
        found = session.search("54321")

    assert len(seen) < 100_000
    assert "54321" not in seen
    assert len(found) == 1


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


@each_row(
    ("data", "text"),
    [
        (b"\x1b[1;31mred\x1b[0m \x1b[Kdone", "red done"),
        (b"\x1b]0;title\x07x \x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "x link"),
        (b"\x1b(B\x1b=a\x1bPq123\x1b\\b", "ab"),
        (b"10%\r20%\r\nend", "10%\n20%\nend"),
        (b"N\x08NA\x08A", "NA"),
        (b"a\0b\x01\x7f\xff\tc\n", "a\ufffdb\ufffd\tc\n"),
        ("gr\u00fc\u00df".encode(), "gr\u00fc\u00df"),
        (bytes(1000), "\ufffd"),
        (b"\x1b", "\ufffd"),
    ],
)
def test_output_becomes_text_that_can_be_read(data: bytes, text: str) -> None:
    assert make_printable(data) == text


@given(st.binary())
def test_output_is_printable_whatever_it_is(data: bytes) -> None:
    assert all(
        char.isprintable() or char in "\n\t" or char >= "\xa0" for char in make_printable(data)
    )


async def test_a_folder_reached_with_cd_holds_for_the_next_call(tmp_path: Path) -> None:
    (tmp_path / "a b/c").mkdir(parents=True)
    place = ToolContext(cwd=tmp_path)

    moved = await run(place, "cd 'a b' && cd c; exit 3")
    here = await run(place, "pwd")
    back = await run(place, "cd ../..")

    assert moved.text.startswith(f"[exit code 3]\n[the next command starts in {tmp_path}/a b/c;")
    assert here.text == f"{tmp_path}/a b/c"
    assert here.data["cwd"] == f"{tmp_path}/a b/c"
    assert back.text.startswith(f"[the next command starts in {tmp_path};")
    assert (await run(place, "pwd")).text == str(tmp_path)


@pytest.mark.parametrize("command", ["(cd sub)", "bash -c 'cd sub'", "exec bash -c 'cd sub'", "ls"])
async def test_what_happens_in_other_shells_moves_nothing(tmp_path: Path, command: str) -> None:
    (tmp_path / "sub").mkdir()
    place = ToolContext(cwd=tmp_path)

    await run(place, command)

    assert (await run(place, "pwd")).text == str(tmp_path)


async def test_a_call_that_did_not_move_leaves_the_move_of_another(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    os.mkfifo(tmp_path / "pipe")
    place, outs = ToolContext(cwd=tmp_path), dict[str, ToolOutput]()

    async def call(command: str) -> None:
        outs[command] = await run(place, command)

    async with anyio.create_task_group() as group:
        group.start_soon(call, "read x < pipe; pwd")
        await call("cd sub; echo go > ../pipe")

    assert outs["read x < pipe; pwd"].text == str(tmp_path)
    assert (await run(place, "pwd")).text == f"{tmp_path}/sub"


async def test_a_shell_does_not_stay_outside_the_working_directory(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "sub").mkdir(parents=True)
    place = ToolContext(cwd=project)

    await run(place, "cd sub")
    out = await run(place, "cd ../.. && pwd")

    assert out.text == (
        f"{tmp_path}\n[{tmp_path} is outside the working directory: "
        f"the next command starts in {project} again]"
    )
    assert (await run(place, "pwd")).text == str(project)


async def test_nothing_runs_elsewhere_when_its_folder_is_gone(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    place = ToolContext(cwd=tmp_path)
    await run(place, "cd sub")
    await run(place, "rmdir ../sub")

    lost = await run(place, "touch trace")

    assert lost.failed
    assert "sub, where the last command ended, no longer exists" in lost.text
    assert f"starts in {tmp_path}." in lost.text
    assert not (tmp_path / "trace").exists()
    assert (await run(place, "pwd")).text == str(tmp_path)


async def test_sessions_that_share_a_tool_have_folders_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    shared = bare()

    async def opened() -> Session:
        return await Session(
            ScriptedProvider([]), model="m", cwd=tmp_path, store=MemoryStore(), tools=(shared,)
        ).open()

    one, two = await opened(), await opened()
    await one.run_tool("Bash", '{"command": "cd sub"}', said="!cd sub")

    pwd = '{"command": "pwd"}'
    assert (await one.run_tool("Bash", pwd, said="!pwd")).text == f"{tmp_path}/sub"
    assert (await two.run_tool("Bash", pwd, said="!pwd")).text == str(tmp_path)


@each_row(
    "name",
    [
        *("OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"),
        *("AWS_SESSION_TOKEN", "DB_PASSWORD", "PGPASSWORD", "MYSQL_PWD", "STRIPE_KEY", "SMTP_PASS"),
        *("CLIENT_SECRET_2", "NPM_AUTHTOKEN", "GOOGLE_APPLICATION_CREDENTIALS", "secret_key"),
    ],
)
def test_a_secret_is_known_by_its_name(name: str) -> None:
    assert is_secret_variable(name)


@each_row(
    "name",
    [
        *("PATH", "HOME", "PWD", "OLDPWD", "AWS_REGION", "AWS_PROFILE", "SSH_AUTH_SOCK"),
        *("TOKENIZERS_PARALLELISM", "MAX_TOKENS", "KEYBOARD", "GIT_ASKPASS", "DEPLOY_PUBLIC_KEY"),
    ],
)
def test_variables_that_programs_need_are_not_secret(name: str) -> None:
    assert not is_secret_variable(name)


def test_a_child_gets_what_was_given_for_children_whatever_its_name() -> None:
    own = {"A": "1", "X_TOKEN": "2", "Y_TOKEN": "3", "CLEW": "0"}

    assert child_environment(own, extra={"Z_KEY": "4", "A": "5"}, passed=("X_*",)) == {
        "A": "5",
        "X_TOKEN": "2",
        "Z_KEY": "4",
        "CLEW": "1",
        "GIT_EDITOR": "true",
        "GIT_OPTIONAL_LOCKS": "0",
    }


async def test_commands_do_not_see_secrets_unless_they_are_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ONE_TOKEN", "TWO_TOKEN", "PLAIN"):
        monkeypatch.setenv(name, name.lower())
    show = 'echo "$ONE_TOKEN,$TWO_TOKEN,$PLAIN,$GIVEN_KEY,$CLEW"'
    place = ToolContext(cwd=tmp_path, env={"GIVEN_KEY": "given"})

    assert (await run(place, show)).text == ",,plain,given,1"
    assert (await run(place, show, tool=bare("TWO_*"))).text == ",two_token,plain,given,1"


async def test_the_newest_line_is_reported_while_a_command_runs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    reported = anyio.Event()
    lines: list[str] = []

    def report(line: str) -> None:
        lines.append(line)
        reported.set()

    progress = Progress(report=report)
    command = "printf 'one\\n\\033[31mtwo\\033[0m\\n\\n'; read x < gate; echo three"
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, ToolContext(cwd=tmp_path, progress=progress), command)
            await reported.wait()
            assert progress.get_partial is not None
            assert progress.get_partial().strip() == "one\ntwo"
            await anyio.to_thread.run_sync((tmp_path / "gate").write_text, "go\n")

    assert lines[0].strip() == "one\ntwo"
    assert progress.get_partial is not None
    assert progress.get_partial() == "one\ntwo\n\nthree\n"


@given(st.lists(st.binary(max_size=30)), st.integers(2, 20))
def test_the_recent_text_and_the_size_do_not_depend_on_what_was_dropped(
    chunks: list[bytes], limit: int
) -> None:
    kept, whole = HeadTail(limit=limit * 100), HeadTail()
    for chunk in chunks:
        kept.add(chunk)
        whole.add(chunk)

    assert kept.size == whole.size == sum(map(len, chunks))
    if not kept.dropped:
        assert kept.recent_text() == whole.recent_text() == whole.text()


@given(st.lists(st.integers(0, 9_000), max_size=8), st.integers(1, 5))
def test_the_recent_text_consists_of_whole_lines(lengths: list[int], step: int) -> None:
    output = HeadTail(limit=40_000)
    data = "\n".join("x" * length for length in lengths)
    for start in range(0, len(data), step * 1_000):
        output.add(data[start : start + step * 1_000].encode())

    recent = output.recent_text()

    assert data.endswith(recent)
    assert not recent or f"\n{data}".endswith(f"\n{recent}")
