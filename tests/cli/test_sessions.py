"""`clew sessions`: what can be resumed."""

import os
import sys
from pathlib import Path
from subprocess import CompletedProcess

import anyio
import pytest

from clew.cli.places import store_path
from clew.core.ids import SessionId
from clew.session.stores.sqlite import SqliteStore
from clew.testing.fake_openai import fake_openai, says

pytestmark = pytest.mark.anyio


async def clew(*arguments: str, cwd: Path) -> "CompletedProcess[bytes]":
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd), "CLEW_HOME": str(cwd / "clew")}
    with anyio.fail_after(30):
        return await anyio.run_process(
            [sys.executable, "-m", "clew.cli", *arguments], env=env, cwd=cwd, check=False
        )


@pytest.mark.req("STO-3", "CLI-1")
async def test_sessions_are_listed_by_name_or_first_words_the_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_HOME", str(tmp_path / "clew"))
    async with fake_openai(says("ok")) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o")
        await clew("-p", "first \x1b[2Jquestion", *flags, cwd=tmp_path)
        await clew("-p", "second\nquestion", *flags, cwd=tmp_path)
        before = (await clew("sessions", cwd=tmp_path)).stdout.decode().splitlines()
        store = SqliteStore(store_path(tmp_path))
        await store.rename(SessionId(before[1].split()[0]), "The labyrinth")
        await store.aclose()

    after = (await clew("sessions", cwd=tmp_path)).stdout.decode().splitlines()

    assert before[0].endswith("3 entries  second question")
    assert before[1].endswith("3 entries  first ␛[2Jquestion")
    assert after[1].endswith("The labyrinth")


async def test_a_folder_without_sessions_gets_a_sentence_and_no_store(tmp_path: Path) -> None:
    done = await clew("sessions", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr == b"clew: there is no session in this folder yet\n"
    assert not (tmp_path / "clew").exists()
