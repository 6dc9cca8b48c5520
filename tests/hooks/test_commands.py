"""Hooks that are commands: their input, their output, their time and their children."""

import json
import os
import re
import shlex
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from clew.core.permissions import Decision, Verdict
from clew.hooks.command import MAX_BYTES, build_argv, choose_folder
from clew.hooks.context import HookContext
from clew.hooks.handlers import CommandHook
from clew.hooks.protocol import HookEvent, HookInput, HookVerdict
from clew.hooks.runner import HookRunner
from clew.hooks.settings import HookSource, parse_hooks

pytestmark = [pytest.mark.anyio, pytest.mark.req("HOK-2", "HOK-3")]

STOP, PRE, PROMPT = HookEvent.STOP, HookEvent.PRE_TOOL_USE, HookEvent.USER_PROMPT_SUBMIT
STUBBORN = "sh -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 1000; done'"


def runner(
    cwd: Path, *lines: str | dict[str, Any], event: HookEvent = STOP, **more: Any
) -> HookRunner:
    hooks = [
        {"type": "command", **(line if isinstance(line, dict) else {"command": line})}
        for line in lines
    ]
    table = parse_hooks(
        {event.value: [{"hooks": hooks}]}, more.pop("source", HookSource(name="test"))
    )
    return HookRunner(table, HookContext(project=cwd, **more))


async def fire(
    cwd: Path, *lines: str | dict[str, Any], event: HookEvent = STOP, **more: Any
) -> HookVerdict:
    told = HookInput(session_id="s-1", cwd=str(cwd), **more.pop("told", {}))
    with anyio.fail_after(60):
        return await runner(cwd, *lines, event=event, **more).fire(event, told)


async def watch(cwd: Path) -> int:
    """Wait until a child has written its number into the pipe `pid`; return a handle on it."""
    text = await anyio.to_thread.run_sync((cwd / "pid").read_text, abandon_on_cancel=True)
    return os.pidfd_open(int(text))


async def gone(handle: int) -> None:
    try:
        await anyio.wait_readable(handle)
    finally:
        os.close(handle)


def open_pipes() -> int:
    count = 0
    for file in Path("/proc/self/fd").iterdir():
        # The listing itself is one of the files, and gone by now.
        with suppress(FileNotFoundError):
            count += str(file.readlink()).startswith("pipe:")
    return count


@contextmanager
def nothing_left() -> Iterator[None]:
    """Check that no open file and no dead child stays behind."""

    before = open_pipes()
    yield
    assert open_pipes() == before
    assert dead_children() == []


def dead_children() -> list[str]:
    dead = []
    for thread in Path("/proc/self/task").iterdir():
        # Threads and children come and go while this looks.
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in (thread / "children").read_text().split():
                status = Path(f"/proc/{child}/status").read_text()
                if re.search(r"^State:\s+Z", status, re.MULTILINE):
                    dead.append(child)
    return dead


async def test_a_script_reads_the_json_and_decides(tmp_path: Path) -> None:
    script = tmp_path / "guard.sh"
    script.write_text(
        "#!/bin/sh\n"
        'case "$(cat)" in\n'
        "*'\"command\":\"rm '*) echo 'no rm here' >&2; exit 2;;\n"
        '*\'"command":"git \'*)\n'
        '        printf \'{"hookSpecificOutput": {"hookEventName": "PreToolUse",\'\n'
        '        printf \'"permissionDecision": "allow", "updatedInput": {"command": "ls"}}}\'\n'
        "esac\n"
    )
    script.chmod(0o755)

    async def call(command: str) -> HookVerdict:
        told = {"tool_name": "Bash", "tool_input": {"command": command}}
        line = '"$CLAUDE_PROJECT_DIR"/guard.sh'
        return await fire(tmp_path, line, event=PRE, told=told)

    assert await call("rm -rf x") == HookVerdict(decision=Decision(Verdict.DENY, "no rm here"))
    assert (await call("git log")).updated_input == {"command": "ls"}
    assert await call("pwd") == HookVerdict()


async def test_the_input_is_complete_json_on_stdin(tmp_path: Path) -> None:
    text = "long " * 100_000

    await fire(tmp_path, "cat > told.json", event=PROMPT, told={"prompt": text})

    assert json.loads((tmp_path / "told.json").read_text()) == {
        "hook_event_name": "UserPromptSubmit",
        "session_id": "s-1",
        "transcript_path": "",
        "cwd": str(tmp_path),
        "prompt": text,
    }


@pytest.mark.parametrize("line", ["true", "exec <&-", "head -c 10 >/dev/null"])
async def test_a_command_need_not_read_its_input(tmp_path: Path, line: str) -> None:
    with nothing_left():
        said = await fire(tmp_path, line, event=PROMPT, told={"prompt": "x" * 1_000_000})

    assert said == HookVerdict()


async def test_a_command_runs_in_the_working_folder_and_knows_its_places(tmp_path: Path) -> None:
    project, plugin = tmp_path / "project", tmp_path / "plugin"
    project.mkdir()
    plugin.mkdir()
    told = HookInput(session_id="s-1", cwd=str(tmp_path))
    line = (
        "pwd; echo $CLAUDE_PROJECT_DIR $CLEW_PROJECT_DIR ${CLAUDE_PLUGIN_ROOT} "
        "'${CLAUDE_PLUGIN_ROOT}' $CLAUDE_PLUGIN_DATA $CLAUDE_SESSION_ID $API_KEY"
    )
    means = HookContext(project=project, environ={**os.environ, "API_KEY": "k"})
    source = HookSource(name="p", plugin_root=plugin, plugin_data=tmp_path)
    section = {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": line}]}]}

    said = await HookRunner(parse_hooks(section, source), means).fire(PROMPT, told)

    assert said.context == (f"{tmp_path}\n{project} {project} {plugin} {plugin} {tmp_path} s-1 k",)


async def test_a_hook_outside_a_plugin_has_no_plugin_folder(tmp_path: Path) -> None:
    environ = {**os.environ, "CLAUDE_PLUGIN_ROOT": "/strange", "CLAUDE_PLUGIN_DATA": "/strange"}
    line = "echo [$CLAUDE_PLUGIN_ROOT$CLAUDE_PLUGIN_DATA]"

    assert (await fire(tmp_path, line, event=PROMPT, environ=environ)).context == ("[]",)


async def test_a_groups_variables_reach_its_commands(tmp_path: Path) -> None:
    hook = {"type": "command", "command": "echo $MODE"}
    section = {"UserPromptSubmit": [{"hooks": [hook], "env": {"MODE": "ci"}}]}
    hooks = HookRunner(parse_hooks(section, HookSource(name="s")), HookContext(project=tmp_path))

    said = await hooks.fire(PROMPT, HookInput(session_id="s", cwd=str(tmp_path)))

    assert said.context == ("ci",)


def test_a_path_that_could_be_code_is_left_to_the_shell() -> None:
    handler = CommandHook(command="${CLAUDE_PLUGIN_ROOT}/x ${CLAUDE_PLUGIN_DATA} ${OTHER}")

    assert build_argv(handler, {"CLAUDE_PLUGIN_ROOT": "/a b"})[2] == (
        "/a b/x ${CLAUDE_PLUGIN_DATA} ${OTHER}"
    )
    assert build_argv(handler, {"CLAUDE_PLUGIN_ROOT": '/a"; rm -rf ~; "'})[2] == handler.command


async def test_with_arguments_there_is_no_shell(tmp_path: Path) -> None:
    exec_form = {"command": "printf", "args": ["%s|", "a b", "$HOME", "${CLAUDE_PROJECT_DIR}"]}

    said = await fire(tmp_path, exec_form, event=PROMPT)

    assert said.context == (f"a b|$HOME|{tmp_path}|",)


async def test_the_shell_may_be_chosen(tmp_path: Path) -> None:
    bash = {"command": "echo ${BASH_VERSION:+bash}", "shell": "bash"}

    assert (await fire(tmp_path, bash, event=PROMPT)).context == ("bash",)


@pytest.mark.parametrize(
    "hook",
    [
        {"command": "/nowhere/guard", "args": []},
        {"command": "ls", "shell": "powershell"},
        {"command": "a\0b"},
    ],
)
async def test_a_command_that_cannot_start_is_reported(
    tmp_path: Path, hook: dict[str, Any]
) -> None:
    with nothing_left():
        said = await fire(tmp_path, hook, environ={"PATH": "/nowhere"})

    assert said == HookVerdict(reports=said.reports)
    assert "could not start" in said.reports[0]


async def test_a_mistyped_path_is_reported_as_the_shell_says_it(tmp_path: Path) -> None:
    said = await fire(tmp_path, "/nowhere/guard.sh")

    assert said.reports[0].startswith(
        "Stop hook `/nowhere/guard.sh` (test): failed with exit code 127: "
    )


async def test_a_folder_that_is_gone_is_replaced_by_one_that_exists(tmp_path: Path) -> None:
    told = HookInput(session_id="s", cwd=str(tmp_path / "gone"))
    gone = tmp_path / "gone too"

    assert choose_folder(told, HookContext(project=tmp_path)) == tmp_path
    assert (
        choose_folder(told, HookContext(project=gone, environ={"HOME": str(tmp_path)})) == tmp_path
    )
    assert choose_folder(told, HookContext(project=gone, environ={})) == Path("/")
    assert choose_folder(told, HookContext(project=gone, environ={"HOME": str(gone)})).is_dir()


async def test_hooks_run_side_by_side_and_answer_in_their_order(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    said = await fire(tmp_path, "cat pipe", "echo second | tee pipe", event=PROMPT)

    assert said.context == ("second", "second")


async def test_the_number_of_concurrent_hooks_is_limited(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    lines = [{"command": line, "timeout": 0.3} for line in ("cat pipe", "echo x > pipe")]

    said = await fire(tmp_path, *lines, event=PROMPT, parallel=1)

    assert [report.partition("): ")[2] for report in said.reports] == [
        "timed out after 0.3 s; its output is ignored"
    ] * 2


async def test_the_same_command_runs_once(tmp_path: Path) -> None:
    said = await fire(tmp_path, "echo once", "echo once", event=PROMPT)

    assert said.context == ("once",)


async def test_a_timeout_ends_the_whole_group_and_decides_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pid")
    said: list[HookVerdict] = []

    async def call() -> None:
        line = {"command": f"echo said; {STUBBORN} & wait", "timeout": 1}
        said.append(await fire(tmp_path, line, event=PROMPT))

    with nothing_left(), anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            handle = await watch(tmp_path)
        await gone(handle)

    assert said[0].context == ()
    assert said[0].reports[0].endswith("): timed out after 1 s; its output is ignored")


async def test_cancellation_ends_the_whole_group(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pid")

    with nothing_left(), anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(fire, tmp_path, f"{STUBBORN} & wait")
            handle = await watch(tmp_path)
            group.cancel_scope.cancel()
        await gone(handle)


@pytest.mark.parametrize("child", ["sh -c 'echo $$ > pid; exec sleep 1000'", STUBBORN])
async def test_a_child_that_holds_the_output_is_ended_with_its_hook(
    tmp_path: Path, child: str
) -> None:
    os.mkfifo(tmp_path / "pid")
    said: list[HookVerdict] = []

    async def call() -> None:
        said.append(await fire(tmp_path, f"{child} & echo started", event=PROMPT))

    with nothing_left(), anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            handle = await watch(tmp_path)
        await gone(handle)

    assert said == [HookVerdict(context=("started",))]


async def test_a_child_that_let_go_of_the_output_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pid")
    server = "sh -c 'echo $$ > pid; exec sleep 1000' </dev/null >/dev/null 2>&1 &"

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(fire, tmp_path, f"{server} true")
            pid = int(await anyio.to_thread.run_sync((tmp_path / "pid").read_text))
        handle = os.pidfd_open(pid)
        os.kill(pid, 9)
        await gone(handle)


async def test_a_flood_is_drained_within_bounds(tmp_path: Path) -> None:
    flood = "echo first; head -c 100000000 /dev/zero | tee /dev/stderr"
    tracemalloc.start()
    try:
        with nothing_left():
            said = await fire(tmp_path, flood, event=PROMPT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert len(said.context[0]) <= MAX_BYTES
    assert said.context[0].startswith("first\n\0")
    assert peak < 4_000_000


async def test_what_is_beyond_the_limit_is_counted(tmp_path: Path) -> None:
    said = await fire(tmp_path, "printf '{'; head -c 70000 /dev/zero")

    assert said.reports[0].endswith(f"; {70_001 - MAX_BYTES} bytes beyond the limit were dropped")


async def test_an_endless_flood_ends_with_its_time(tmp_path: Path) -> None:
    with nothing_left():
        said = await fire(tmp_path, {"command": "yes", "timeout": 0.3})

    assert said.reports[0].endswith("timed out after 0.3 s; its output is ignored")


async def test_every_text_is_redacted(tmp_path: Path) -> None:
    def redact(text: str) -> str:
        return text.replace("sk-1", "[key]")

    shown = await fire(tmp_path, "echo sk-1 >&2; exit 2", redact=redact)
    failed = await fire(tmp_path, "echo sk-1 >&2; exit 3", redact=redact)
    line = 'printf \'{"systemMessage": "sk-1", "continue": false, "stopReason": "sk-1"}\''
    told = await fire(tmp_path, line, redact=redact)

    assert shown.block == "[key]"
    assert failed.reports[0].endswith("failed with exit code 3: [key]")
    assert (told.messages, told.stop) == (("[key]",), "[key]")


def background(command: str, **more: Any) -> dict[str, Any]:
    return {"command": command, "async": True, **more}


async def test_the_session_does_not_wait_for_a_background_hook_and_reads_it_with_the_next_prompt(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / "go")
    answer = shlex.quote('{"decision": "block", "systemMessage": "late"}')
    line = background(f"cat go; echo {answer}", timeout=0.01)
    told = HookInput(session_id="s", cwd=str(tmp_path))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            hooks = runner(tmp_path, line, background=group)
            first = await hooks.fire(STOP, told)
            early = await hooks.fire(PROMPT, told)
            await anyio.to_thread.run_sync((tmp_path / "go").write_text, "")
        late = await hooks.fire(PROMPT, told)
        again = await hooks.fire(PROMPT, told)

    assert first == early == again == HookVerdict()
    assert late == HookVerdict(context=("late",))


async def test_the_owner_of_the_background_ends_what_runs_there(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pid")
    told = HookInput(session_id="s", cwd=str(tmp_path))

    with nothing_left(), anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            hooks = runner(tmp_path, background(STUBBORN), background=group)
            await hooks.fire(STOP, told)
            handle = await watch(tmp_path)
            group.cancel_scope.cancel()
        await gone(handle)


async def test_without_a_background_such_a_hook_is_waited_for(tmp_path: Path) -> None:
    answer = shlex.quote('{"decision": "block", "systemMessage": "late"}')

    assert await fire(tmp_path, background(f"echo {answer}")) == HookVerdict(context=("late",))


@pytest.mark.parametrize("line", ["a\0b", "exit 1"])
async def test_a_background_hook_decides_nothing_even_when_it_fails(
    tmp_path: Path, line: str
) -> None:
    waited = await fire(tmp_path, line, event=HookEvent.WORKTREE_CREATE)
    behind = await fire(tmp_path, background(line), event=HookEvent.WORKTREE_CREATE)

    assert waited.block is not None
    assert behind == HookVerdict(reports=behind.reports)


async def test_the_model_reads_the_output_of_a_rewake_hook_with_the_next_prompt(
    tmp_path: Path,
) -> None:
    line = {
        "command": "echo sk-1 leaks >&2; exit 2",
        "asyncRewake": True,
        "rewakeMessage": "Review:",
    }
    told = HookInput(session_id="s", cwd=str(tmp_path))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            hooks = runner(
                tmp_path,
                line,
                background=group,
                redact=lambda text: text.replace("sk-1", "[key]"),
            )
            assert await hooks.fire(STOP, told) == HookVerdict()
        late = await hooks.fire(PROMPT, told)

    assert late.context == ("Review:\n[key] leaks",)
    assert (await fire(tmp_path, line)).context == ("Review:\nsk-1 leaks",)


async def test_a_rewake_hook_has_a_timeout(tmp_path: Path) -> None:
    line = {"command": "exec sleep 1000", "asyncRewake": True, "timeout": 0.1}
    told = HookInput(session_id="s", cwd=str(tmp_path))

    with nothing_left(), anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            hooks = runner(tmp_path, line, background=group)
            await hooks.fire(STOP, told)
        late = await hooks.fire(PROMPT, told)

    assert late.reports[0].endswith("timed out after 0.1 s; its output is ignored")
