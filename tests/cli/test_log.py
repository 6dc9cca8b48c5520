"""`--log` and `clew log` as a process: written, shown, checked, run again."""

import os
from pathlib import Path
from subprocess import CompletedProcess

import anyio
import msgspec
import pytest

from clew.testing.fake_openai import fake_openai, text_response, tool_call_response
from tests.forked_clew import run_clew

pytestmark = pytest.mark.anyio


async def clew(*arguments: str | Path, cwd: Path) -> "CompletedProcess[bytes]":
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd), "CLEW_HOME": str(cwd / "clew")}
    with anyio.fail_after(60):
        return await run_clew([*map(str, arguments)], env=env, cwd=cwd)


async def recorded(folder: Path, level: str = "raw") -> Path:
    """Ask twice, with a tool call, and return the log."""
    (folder / "notes.txt").write_text("the minotaur sleeps\n")
    read = tool_call_response("Read", '{"file_path": "notes.txt"}')
    async with fake_openai(
        read, text_response("it ", "sleeps \x1b[2J"), text_response("good bye")
    ) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o", "--log", level)
        await clew("-p", "what does it do?", *flags, cwd=folder)
        await clew("-p", "thanks", "--continue", *flags, cwd=folder)
    (log,) = (folder / "clew").rglob("logs/*.jsonl")
    return log


@pytest.mark.req("LOG-1", "LOG-4", "LOG-5")
async def test_a_session_is_logged_shown_checked_and_run_again(tmp_path: Path) -> None:
    log = await recorded(tmp_path)

    shown = (await clew("log", "show", log, cwd=tmp_path)).stdout.decode()
    history = (await clew("log", "show", log, "--history", cwd=tmp_path)).stdout.decode()
    checked = await clew("log", "validate", log, cwd=tmp_path)
    again = await clew("log", "replay", log, cwd=tmp_path)

    assert "run 1: what does it do?" in shown
    assert 'Read {"file_path":"notes.txt"}' in shown
    assert "\x1b" not in shown
    assert [line.split()[1] for line in history.splitlines()] == [
        "user:",
        "assistant:",
        "tool:",
        "assistant:",
        "user:",
        "assistant:",
    ]
    assert (checked.returncode, checked.stderr) == (0, b"")
    assert b": valid: " in checked.stdout
    assert b" 3 calls, " in checked.stdout
    assert (again.returncode, again.stderr) == (0, b"")
    assert again.stdout.decode().splitlines() == [
        "3 calls, 1 tool call; 30 tokens in (0 cached), 8 out",
        "no difference: every request matches the recording",
    ]


async def test_show_can_be_narrowed_and_gives_whole_events(tmp_path: Path) -> None:
    log = await recorded(tmp_path, "requests")

    done = await clew(
        "log", "show", log, "--event", "pre_run", "--event", "session_init", "--json", cwd=tmp_path
    )
    early = await clew("log", "show", log, "--until", "3", cwd=tmp_path)

    events = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events] == [
        "session_init",
        "pre_run",
        "session_init",
        "pre_run",
    ]
    assert "You are Clew" in events[0]["system_prompt"]
    assert events[2]["resumed"]
    assert len(early.stdout.splitlines()) == 3


@pytest.mark.req("LOG-4", "LOG-5")
async def test_an_invalid_log_lists_its_faults_and_exits_with_1(tmp_path: Path) -> None:
    log = await recorded(tmp_path)
    text = log.read_text()
    log.write_text(text.replace("the minotaur sleeps", "the minotaur wakes"))

    checked = await clew("log", "validate", log, cwd=tmp_path)
    again = await clew("log", "replay", log, cwd=tmp_path)
    log.write_text(text + '{"seq":')
    torn = await clew("log", "validate", log, cwd=tmp_path)

    assert checked.returncode == 1
    assert b"CONTENT_SHA256_MISMATCH line" in checked.stdout
    assert b": invalid: " in checked.stdout
    assert b"CONTENT_SHA256_MISMATCH" in again.stderr
    assert torn.returncode == 0
    assert b"LINE_TORN line" in torn.stdout


@pytest.mark.req("LOG-5")
async def test_the_first_difference_is_shown_with_both_sides(tmp_path: Path) -> None:
    log = await recorded(tmp_path)
    lines = [msgspec.json.decode(line) for line in log.read_bytes().splitlines()]
    requests = [line for line in lines if line["event"] == "provider_request"]
    requests[1]["model"] = "gpt-3"
    log.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))

    done = await clew("log", "replay", log, cwd=tmp_path)
    strict = await clew("log", "replay", log, "--strict", cwd=tmp_path)

    assert done.returncode == strict.returncode == 1
    assert done.stdout.decode().splitlines()[1:] == [
        "first difference: call 2, model, character 5",
        "  expected: 'gpt-3'",
        "  found:    'gpt-4o'",
    ]
    assert strict.stdout.splitlines()[1] == done.stdout.splitlines()[1]


async def test_a_file_that_is_not_a_log_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no log")

    done = [
        await clew("log", "validate", "nowhere", cwd=tmp_path),
        await clew("log", "show", "nowhere", cwd=tmp_path),
        await clew("log", "replay", "x", cwd=tmp_path),
    ]

    assert [one.returncode for one in done] == [1, 1, 1]
    assert done[0].stderr == b"clew: cannot read the session log nowhere\n"
    assert b"x has an unknown format; Clew reads" in done[2].stderr
    assert b"Traceback" not in b"".join(one.stderr for one in done)


async def test_without_the_flag_nothing_is_logged(tmp_path: Path) -> None:
    async with fake_openai(text_response("ok")) as server:
        await clew("-p", "hi", "--base-url", server.url, "--model", "gpt-4o", cwd=tmp_path)

    assert list((tmp_path / "clew").rglob("logs/*.jsonl")) == []
