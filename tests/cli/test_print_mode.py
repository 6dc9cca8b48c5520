"""`clew` as a process: print mode, formats, resume, and everything a person can get wrong."""

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from clew import __version__
from clew.core.events import decode_envelope
from clew.providers.embedded.model_file import model_path
from clew.testing.fake_openai import (
    ScriptedResponse,
    Stall,
    delta,
    error_response,
    fake_openai,
    text_response,
    tool_call_response,
)
from tests.forked_clew import run_clew

pytestmark = pytest.mark.anyio

CLEW = [sys.executable, "-m", "clew.cli"]


def ends(reason: str, *words: str) -> ScriptedResponse:
    """Return an answer that ends for a reason of its own."""
    said = [delta(content=word) for word in words]
    return ScriptedResponse(steps=[*said, delta(reason), *text_response().steps[-2:]])


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    keep = {
        key: os.environ[key]
        for key in ("PATH", "LANG", "COVERAGE_PROCESS_START", "PYTHONPATH")
        if key in os.environ
    }
    return {**keep, "HOME": str(tmp_path / "home"), "CLEW_HOME": str(tmp_path / "clew")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


async def clew(
    *arguments: str, env: Mapping[str, str], cwd: Path, typed: str = ""
) -> "subprocess.CompletedProcess[str]":
    with anyio.fail_after(60):
        done = await run_clew(arguments, env=env, cwd=cwd, input=typed.encode())
    return subprocess.CompletedProcess(
        arguments, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


@pytest.mark.req("CLI-1")
async def test_the_version_is_printed(home: dict[str, str], folder: Path) -> None:
    done = await clew("--version", env=home, cwd=folder)

    assert (done.returncode, done.stdout) == (0, f"clew {__version__}\n")


@pytest.mark.req("CLI-1")
async def test_an_answer_streams_to_standard_output(home: dict[str, str], folder: Path) -> None:
    async with fake_openai(text_response("Hello", " there")) as server:
        done = await clew(
            "-p", "hi", "--base-url", server.url, "--model", "gpt-4o", env=home, cwd=folder
        )

    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello there\n", "")


@pytest.mark.req("CLI-1")
async def test_json_tells_text_usage_context_and_session(
    home: dict[str, str], folder: Path
) -> None:
    async with fake_openai(text_response("Hello")) as server:
        done = await clew(
            *("-p", "-", "--base-url", server.url, "--model", "gpt-4o"),
            *("--output-format", "json"),
            env=home,
            cwd=folder,
            typed="from a pipe",
        )

        assert server.requests[0]["messages"][-1]["content"] == "from a pipe"
    result = json.loads(done.stdout)
    assert (result["event"], result["text"]) == ("result", "Hello")
    assert result["stop_reason"] == "done"
    assert result["usage"]["input_tokens"] == 10
    assert result["context"]["used_tokens"] == 11
    assert result["session_id"]
    assert (result["model"], result["turns"], result["denials"]) == ("gpt-4o", 1, [])
    assert (result["cleared"], result["compacted"]) == (0, 0)
    assert result["tokens"]["total"] == 11
    assert result["cost_usd"] > 0
    assert result["duration_ms"] > 0


@pytest.mark.req("CLI-1", "CLI-2")
async def test_stream_json_is_one_envelope_a_line_and_ends_with_the_result(
    home: dict[str, str], folder: Path
) -> None:
    async with fake_openai(text_response("Hel", "lo")) as server:
        done = await clew(
            *("-p", "hi", "--base-url", server.url, "--model", "gpt-4o"),
            *("--output-format", "stream-json"),
            env=home,
            cwd=folder,
        )

    lines = [json.loads(line) for line in done.stdout.splitlines()]
    events = [line["event"] for line in lines]
    envelopes = [decode_envelope(line.encode()) for line in done.stdout.splitlines()[1:-1]]
    assert [event["text"] for event in events if event["event"] == "text_delta"] == ["Hel", "lo"]
    assert events[0] == {
        "event": "session",
        "session_id": lines[-1]["session_id"],
        "model": "gpt-4o",
        "cwd": str(folder),
        "mode": "default",
    }
    assert (events[-1]["event"], events[-1]["text"]) == ("result", "Hello")
    assert {"entry", "context_update", "complete"} <= {one.name for one in envelopes}
    numbers = [line["seq"] for line in lines]
    assert numbers == sorted(numbers)


@pytest.mark.req("CMP-14", "CLI-1")
async def test_stream_json_announces_cleared_results(home: dict[str, str], folder: Path) -> None:
    (folder / "map.txt").write_text("a corridor\n" * 200, encoding="utf-8")
    settings = folder / ".clew" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"context": {"compressToolResults": true}}', encoding="utf-8")
    read = '{"file_path":"map.txt"}'
    async with fake_openai(
        tool_call_response("Read", read),
        tool_call_response("Read", read, call_id="call_2"),
        text_response("Done"),
    ) as server:
        done = await clew(
            *("-p", "hi", "--base-url", server.url, "--model", "gpt-4o"),
            *("--output-format", "stream-json"),
            env=home,
            cwd=folder,
        )

    events = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    (event,) = [event for event in events if event["event"] == "results_cleared"]
    assert (events[-1]["cleared"], events[-1]["turns"]) == (1, 3)
    assert event["trigger"] == "option"
    assert len(event["report"]["cleared"]) == 1
    assert event["report"]["tokens_after"] < event["report"]["tokens_before"]


@pytest.mark.req("STO-3", "CLI-1")
async def test_a_session_goes_on_by_id_and_by_being_the_newest(
    home: dict[str, str], folder: Path
) -> None:
    async with fake_openai(
        text_response("one"), text_response("two"), text_response("three")
    ) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o", "--output-format", "json")
        first = json.loads((await clew("-p", "1", *flags, env=home, cwd=folder)).stdout)
        second = json.loads(
            (await clew("-p", "2", "--continue", *flags, env=home, cwd=folder)).stdout
        )
        third = json.loads(
            (
                await clew("-p", "3", "--resume", first["session_id"], *flags, env=home, cwd=folder)
            ).stdout
        )

        sent = [message["content"] for message in server.requests[2]["messages"][1:]]
        assert sent == ["1", "one", "2", "two", "3"]
    assert first["session_id"] == second["session_id"] == third["session_id"]


@pytest.mark.req("PRM-3", "TOL-2")
async def test_without_a_user_to_ask_writing_is_denied_and_reading_works(
    home: dict[str, str], folder: Path
) -> None:
    (folder / "notes.txt").write_text("the answer is 42", encoding="utf-8")
    async with fake_openai(
        tool_call_response("Read", '{"file_path":"notes.txt"}'),
        tool_call_response("Write", '{"file_path":"new.txt","content":"x"}', call_id="call_2"),
        text_response("done"),
    ) as server:
        done = await clew(
            "-p", "go", "--base-url", server.url, "--model", "gpt-4o", env=home, cwd=folder
        )

        results = [m["content"] for m in server.requests[2]["messages"] if m["role"] == "tool"]
        assert "the answer is 42" in results[0]
        assert "Permission denied" in results[1]
        assert done.returncode == 0
    assert not (folder / "new.txt").exists()
    assert done.stderr.splitlines() == [
        "clew: denied: Write new.txt (default mode asks before calls that change files; "
        "there is no user to ask); --permission-mode acceptEdits would allow it"
    ]


@pytest.mark.req("PRM-5")
async def test_each_denied_call_is_reported_once_with_the_flag_that_would_allow_it(
    home: dict[str, str], folder: Path
) -> None:
    async with fake_openai(
        tool_call_response("Bash", '{"command":"make\\u001b[2J all"}'),
        tool_call_response("Write", '{"file_path":"/etc/x","content":"x"}', call_id="call_2"),
        text_response("done"),
    ) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o", "--permission-mode", "plan")
        done = await clew("-p", "go", *flags, env=home, cwd=folder)

    told = done.stderr.splitlines()
    assert len(told) == 2
    assert told[0].startswith(
        "clew: denied: Bash make␛[2J all (plan mode forbids calls that run commands"
    )
    assert all(line.endswith("--permission-mode bypassPermissions would allow it") for line in told)


async def test_piped_input_is_appended_to_the_prompt(home: dict[str, str], folder: Path) -> None:
    async with fake_openai(text_response("Hello")) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o")
        await clew("-p", "What is this?", *flags, env=home, cwd=folder, typed="some data\n")

        assert server.requests[0]["messages"][-1]["content"] == "What is this?\n\nsome data\n"


async def test_standard_input_that_is_no_pipe_is_left_alone(
    home: dict[str, str], folder: Path
) -> None:
    ours, theirs = pty.openpty()
    async with fake_openai(text_response("Hello")) as server:
        command = [*CLEW, "-p", "hi", "--base-url", server.url, "--model", "gpt-4o"]
        with anyio.fail_after(60):
            async with await anyio.open_process(
                command, stdin=theirs, env=home, cwd=folder
            ) as process:
                assert await process.wait() == 0
        (folder / "list").write_text("a\nb\n", encoding="utf-8")
        with anyio.fail_after(60), (folder / "list").open("rb") as file:
            async with await anyio.open_process(
                command, stdin=file, env=home, cwd=folder
            ) as process:
                assert await process.wait() == 0
            assert file.read() == b"a\nb\n"

        assert [body["messages"][-1]["content"] for body in server.requests] == ["hi", "hi"]
    os.close(ours)
    os.close(theirs)


async def test_a_silent_pipe_is_not_waited_for_for_ever(home: dict[str, str], folder: Path) -> None:
    reader, writer = os.pipe()
    async with fake_openai(text_response("Hello")) as server:
        command = [*CLEW, "-p", "hi", "--base-url", server.url, "--model", "gpt-4o"]
        with anyio.fail_after(60):
            async with await anyio.open_process(
                command, stdin=reader, stderr=subprocess.PIPE, env=home, cwd=folder
            ) as process:
                assert process.stderr is not None
                told = await process.stderr.receive()
                assert await process.wait() == 0
    os.close(reader)
    os.close(writer)

    assert b"no input arrived on standard input" in told


@pytest.mark.parametrize(
    ("answer", "told", "code"),
    [
        (ends("length", "Half"), "cut off at the model's output limit", 0),
        (ends("content_filter", "No."), "refused to answer", 0),
        (ends("length"), "cut off at the model's output limit", 1),
        (ends("stop"), "the answer is empty", 1),
    ],
)
async def test_an_answer_that_stopped_early_is_reported(
    home: dict[str, str], folder: Path, *, answer: ScriptedResponse, told: str, code: int
) -> None:
    async with fake_openai(answer) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o")
        done = await clew("-p", "hi", *flags, env=home, cwd=folder)

    assert done.returncode == code
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


async def test_ctrl_c_prints_how_to_resume(home: dict[str, str], folder: Path) -> None:
    half = ScriptedResponse(steps=[delta(content="Half an answer"), Stall()])
    async with fake_openai(half, text_response("whole")) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o")
        with anyio.fail_after(60):
            async with await anyio.open_process(
                [*CLEW, "-p", "go", *flags], stdin=subprocess.DEVNULL, env=home, cwd=folder
            ) as process:
                assert process.stdout is not None
                assert process.stderr is not None
                assert await process.stdout.receive() == b"Half an answer"
                process.send_signal(signal.SIGINT)
                told = b"".join([piece async for piece in process.stderr]).decode()
                assert await process.wait() == 130
        found = re.fullmatch(
            r"\nclew: aborted; the partial answer is saved \(clew --resume (\w+)\)\n", told
        )
        assert found is not None, told
        await clew("-p", "on", "--resume", found.group(1), *flags, env=home, cwd=folder)

        assert "Half an answer" in str(server.requests[1]["messages"])


async def test_printed_text_and_json_cannot_steer_a_terminal(
    home: dict[str, str], folder: Path
) -> None:
    evil = "\x1b[2J\x9b2J\u202e\r"
    async with fake_openai(text_response(evil)) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o")
        text = await clew("-p", "hi", *flags, env=home, cwd=folder)
        lines = await clew(
            "-p", "hi", *flags, "--output-format", "stream-json", env=home, cwd=folder
        )

    assert text.stdout == "␛[2J<U+009B>2J<U+202E>␍\n"
    assert not set("\x1b\x9b\u202e\r") & set(lines.stdout)
    assert json.loads(lines.stdout.splitlines()[-1])["event"]["text"] == evil


@pytest.mark.req("PRM-1")
async def test_accept_edits_writes_without_asking(home: dict[str, str], folder: Path) -> None:
    async with fake_openai(
        tool_call_response("Write", '{"file_path":"new.txt","content":"x"}'), text_response("done")
    ) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o", "--permission-mode", "acceptEdits")
        await clew("-p", "go", *flags, env=home, cwd=folder)

    assert (folder / "new.txt").read_text(encoding="utf-8") == "x"


@pytest.mark.req("CLI-1")
@pytest.mark.parametrize(
    ("arguments", "sentence", "code"),
    [
        (["-p", "hi", "--model", "gpt-9"], "gpt-9 is served by openai, which needs a key", 1),
        (["-p", "  "], "the prompt is empty", 2),
        (["-p", "hi", "--resume", "nope"], "no session matches nope", 1),
        (["-p", "hi", "--continue"], "there is no session in this folder", 1),
        (
            ["-p", "hi", "--base-url", "http://127.0.0.1:9/v1", "--model", "x"],
            "Check that the server is running",
            1,
        ),
        (["-p", "hi", "--base-url", "nonsense", "--model", "x"], "nonsense", 1),
        (["--no-such-flag"], "unknown flag --no-such-flag", 2),
        (["serve", "--model", "qwen3"], "unknown flag --model", 2),
        (["--modle", "x", "-p", "hi"], "did you mean --model?", 2),
        (["simulte"], "did you mean simulate?", 2),
        (["sessions", "lst"], "did you mean list?", 2),
        (["sessions", "list", "--limt", "3"], "did you mean --limit?", 2),
        (["-p", "hi", "there is more"], "give one prompt", 2),
        (["--json-schema", "x.json"], "--json-schema works in print mode only", 2),
        (["-p", "hi", "--allowed-tools", "Bash(git"], "is not a list such as", 2),
        (["-p", "hi", "--allowed-tools", "*"], "allows tools of any server", 1),
        (["-p", "hi", "--output-format", "xml"], "invalid choice: 'xml'", 2),
        (["-p", "hi", "--window", "12"], "is not between 256", 2),
        (["-p", "hi", "--window", "many"], "not an integer", 2),
        (["-p", "hi", "--permission-mode", "yolo"], "invalid choice: 'yolo'", 2),
        (["models"], "required", 2),
        (["-p", "hi", "--resume", "a", "--continue"], "not allowed with", 2),
    ],
)
async def test_bad_usage_is_an_error_message(
    home: dict[str, str], folder: Path, *, arguments: list[str], sentence: str, code: int
) -> None:
    done = await clew(*arguments, env=home, cwd=folder)

    assert sentence in done.stderr
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.req("PRV-4")
@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (error_response(401, {"error": {"message": "bad key"}}), "bad key"),
        (error_response(400, {"error": {"message": "no such parameter"}}), "no such parameter"),
    ],
)
async def test_an_error_of_the_provider_is_printed(
    home: dict[str, str], folder: Path, answer: ScriptedResponse, sentence: str
) -> None:
    async with fake_openai(answer) as server:
        done = await clew(
            "-p", "hi", "--base-url", server.url, "--model", "gpt-4o", env=home, cwd=folder
        )

    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a read-only file system")
async def test_a_store_that_cannot_be_written_is_named(home: dict[str, str], folder: Path) -> None:
    done = await clew("-p", "hi", env={**home, "CLEW_HOME": "/proc/clew"}, cwd=folder)

    assert done.returncode == 1
    assert "/proc/clew" in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_model_that_is_not_fetched_says_how_to_get_it(
    home: dict[str, str], folder: Path, tmp_path: Path
) -> None:
    done = await clew("-p", "hi", env={**home, "CLEW_CACHE": str(tmp_path / "c")}, cwd=folder)

    assert done.returncode == 1
    assert "clew models get" in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_damaged_model_file_is_named(
    home: dict[str, str], folder: Path, tmp_path: Path
) -> None:
    env = {**home, "CLEW_CACHE": str(tmp_path / "c")}
    path = Path((await clew("models", "path", env=env, cwd=folder)).stdout.strip())
    path.parent.mkdir(parents=True)
    path.write_bytes(b"GGUF but not really")

    done = await clew("-p", "hi", env=env, cwd=folder)

    assert done.returncode == 1
    assert "damaged" in done.stderr
    assert "clew models get" in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_port_that_is_taken_is_named(home: dict[str, str], folder: Path) -> None:
    pytest.importorskip("xllamacpp", reason="the extra 'embedded' is not installed")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])

        done = await clew("-p", "hi", "--port", port, env=_with_model(home), cwd=folder)

    assert done.returncode == 1
    assert port in done.stderr
    assert "Traceback" not in done.stderr


def _with_model(home: Mapping[str, str]) -> dict[str, str]:
    return {**home, "CLEW_CACHE": str(model_path().parent.parent)}


@pytest.mark.skipif(not model_path().is_file(), reason="needs the model: clew models get")
async def test_a_missing_extra_is_named(home: dict[str, str], folder: Path) -> None:
    (folder / "xllamacpp.py").write_text("raise ImportError('not here')", encoding="utf-8")
    env = {**_with_model(home), "PYTHONPATH": str(folder)}

    with anyio.fail_after(60):
        done = await anyio.run_process([*CLEW, "-p", "hi"], env=env, cwd=folder, check=False)

    assert done.returncode == 1
    assert b"clew[embedded]" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.req("HOK-2", "PRM-1")
async def test_the_users_own_rules_and_hooks_are_kept(
    home: dict[str, str], folder: Path, tmp_path: Path
) -> None:
    settings = Path(home["HOME"]) / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True)
    blocked = {"type": "command", "command": "echo 'no talk of marigolds' >&2; exit 2"}
    settings.write_text(
        json.dumps(
            {
                "permissions": {"deny": ["Read(./secret.txt)"], "allow": ["Bash(ls:*)"]},
                "hooks": {"UserPromptSubmit": [{"hooks": [blocked]}]},
            }
        )
    )
    async with fake_openai(text_response("never")) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o")
        done = await clew("-p", "marigold", *flags, env=home, cwd=folder)
        settings.write_text('{"permissions": {"deny": ["Read(("]}}')
        broken = await clew("-p", "hi", *flags, env=home, cwd=folder)

    assert done.returncode == 1
    assert "a hook blocked the prompt: no talk of marigolds" in done.stderr
    assert broken.returncode == 1
    assert "settings.json:1:27: permissions.deny[0]: 'Read(('" in broken.stderr
    assert server.bodies == []


@pytest.mark.req("STO-3")
async def test_a_copy_of_a_session_goes_its_own_way(home: dict[str, str], folder: Path) -> None:
    async with fake_openai(
        text_response("first"), text_response("second"), text_response("third")
    ) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o", "--output-format", "json")
        begun = json.loads((await clew("-p", "one", *flags, env=home, cwd=folder)).stdout)
        original = begun["session_id"]
        forked = json.loads(
            (await clew("-p", "two", "--fork", original[:8], *flags, env=home, cwd=folder)).stdout
        )
        await clew("sessions", "rename", original, "the", "first", env=home, cwd=folder)
        await clew("-p", "three", "--resume", "the first", *flags, env=home, cwd=folder)
        absent = await clew("-p", "x", "--fork", "nope", *flags, env=home, cwd=folder)

    assert forked["session_id"] != original
    said = [[m["content"] for m in body["messages"][1:]] for body in server.requests]
    assert said == [["one"], ["one", "first", "two"], ["one", "first", "three"]]
    assert absent.returncode == 1
    assert "nope" in absent.stderr


@pytest.mark.req("STO-1")
async def test_a_session_is_kept_where_the_setting_says(
    home: dict[str, str], folder: Path, tmp_path: Path
) -> None:
    elsewhere = {**home, "CLEW_STORE": str(tmp_path / "shared.db")}
    async with fake_openai(text_response("first"), text_response("second")) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o")
        await clew("-p", "one", *flags, env=elsewhere, cwd=folder)
        done = await clew("-p", "two", "--continue", *flags, env=elsewhere, cwd=folder)

    assert done.stdout == "second\n"
    assert [m["content"] for m in server.requests[1]["messages"][1:]] == ["one", "first", "two"]
    assert (tmp_path / "shared.db").is_file()
    assert list(Path(home["CLEW_HOME"]).rglob("sessions.db")) == []
