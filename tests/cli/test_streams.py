"""Standard streams that are closed, full, or speak another encoding; folders that are gone."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import DEVNULL, CompletedProcess

import anyio
import pytest

from clew.testing.fake_openai import (
    FakeOpenAI,
    ScriptedResponse,
    Stall,
    delta,
    fake_openai,
    text_response,
)
from tests.cli.terminal import clew

pytestmark = pytest.mark.anyio

COMMAND = 'exec "$PYTHON" -m clew.cli --base-url "$URL" --model gpt-4o'


async def shell(line: str, server: FakeOpenAI, cwd: Path, **env: str) -> "CompletedProcess[bytes]":
    """Run a line of bash in which `clew` is the command line that speaks to `server`."""
    base = {"PATH": os.environ["PATH"], "HOME": str(cwd), "CLEW_HOME": str(cwd / "clew")}
    own = {"URL": server.url, "PYTHON": sys.executable}
    command = f'clew() ( {COMMAND} "$@"; ); {line}'
    with anyio.fail_after(60):
        return await anyio.run_process(
            ["bash", "-c", command],
            stdin=DEVNULL,
            env={**base, **own, **env},
            cwd=cwd,
            check=False,
        )


@asynccontextmanager
async def endless() -> AsyncIterator[FakeOpenAI]:
    """Serve an answer that has many words, and then waits until the client leaves."""
    words = [delta(content=f"word {number}\n\n") for number in range(300)]
    async with fake_openai(ScriptedResponse(steps=[*words, Stall()])) as server:
        yield server


async def test_print_mode_ends_silently_when_its_reader_exits(tmp_path: Path) -> None:
    async with endless() as server:
        done = await shell("clew -p hi | head -c1; exit ${PIPESTATUS[0]}", server, tmp_path)

        with anyio.fail_after(60):
            await server.client_left.wait()
    assert (done.returncode, done.stdout, done.stderr) == (141, b"w", b"")


async def test_a_full_device_ends_the_answer_with_an_error(tmp_path: Path) -> None:
    async with endless() as server:
        done = await shell("clew -p hi > /dev/full", server, tmp_path)

        with anyio.fail_after(60):
            await server.client_left.wait()
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == [
        "clew: cannot write to standard output: No space left on device"
    ]


async def test_the_prompt_ends_when_the_reader_of_its_output_exits(tmp_path: Path) -> None:
    async with endless() as server:
        done = await shell(
            "(echo hi; echo again; cat /dev/zero) | clew | head -c999 > out; exit ${PIPESTATUS[1]}",
            server,
            tmp_path,
        )

    assert (done.returncode, done.stderr) == (141, b"")
    assert "word" in (tmp_path / "out").read_text(encoding="utf-8")
    assert len(server.requests) == 1


@pytest.mark.parametrize("line", ["clew -p hi >&-", "echo hi | clew >&-", "clew sessions >&-"])
async def test_without_standard_output_there_is_one_error(tmp_path: Path, line: str) -> None:
    async with fake_openai(text_response("Hello")) as server:
        done = await shell(line, server, tmp_path)

    assert done.returncode == 1
    assert done.stderr.decode().startswith("clew: standard output is closed")
    assert server.requests == []


@pytest.mark.parametrize("line", ["clew -p hi <&-", "clew -p hi 2>&-", "clew <&-"])
async def test_the_other_streams_may_be_closed(tmp_path: Path, line: str) -> None:
    async with fake_openai(text_response("Hello")) as server:
        done = await shell(line, server, tmp_path)

    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["ascii", "posix"],
)
async def test_characters_that_an_encoding_lacks_are_replaced(
    tmp_path: Path, env: dict[str, str]
) -> None:
    (tmp_path / "lines").write_text("hi\n!printf 'a\\033'\n", encoding="utf-8")
    async with fake_openai(text_response("naïve → 猫")) as server:
        done = await shell("clew < lines", server, tmp_path, **env)
        printed = await shell("clew -p hi", server, tmp_path, **env)

    assert (done.returncode, done.stderr) == (0, b"")
    assert b"na?ve -> ?\n" in done.stdout
    assert b" - context " in done.stdout
    assert b"a?\n" in done.stdout
    assert (printed.returncode, printed.stdout) == (0, b"na?ve -> ?\n")


async def test_characters_are_shown_where_the_encoding_has_them(tmp_path: Path) -> None:
    async with (
        fake_openai(text_response("naïve")) as server,
        clew("--base-url", server.url, "--model", "gpt-4o", cwd=tmp_path) as (terminal, _),
    ):
        await terminal.shows("> ")
        terminal.types("hi\n")
        await terminal.shows("naïve")
        await terminal.shows("context 0%")


@pytest.mark.parametrize("command", ["clew -p hi", "clew", "clew sessions"])
async def test_a_deleted_working_folder_is_named(tmp_path: Path, command: str) -> None:
    async with fake_openai(text_response("Hello")) as server:
        done = await shell(f"mkdir gone; cd gone; rmdir ../gone; {command}", server, tmp_path)

    assert done.returncode == 1
    assert done.stderr.decode().startswith("clew: the working folder cannot be used")
    assert done.stderr.count(b"\n") == 1
