"""The demo on the real model: it plays to the end, and a kill in the middle loses nothing."""

import importlib.util
import os
import re
import signal
import sys
from pathlib import Path

import anyio
import pytest

from clew.core.ids import SessionId
from clew.providers.embedded.model_file import model_path
from clew.sdk.folders import store_path
from clew.stores.sqlite import SqliteStore

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        importlib.util.find_spec("xllamacpp") is None or not model_path().is_file(),
        reason="needs the extra 'embedded' and the model: clew models get",
    ),
]

CLEW = [sys.executable, "-m", "clew.cli"]


def environment(tmp_path: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home"),
        "CLEW_HOME": str(tmp_path / "clew"),
        "CLEW_CACHE": str(model_path().parent.parent),
    }


@pytest.mark.req("CMP-10", "STO-3", "TUI-1")
async def test_the_demo_plays_every_scene(tmp_path: Path) -> None:
    with anyio.fail_after(115):
        done = await anyio.run_process(
            [*CLEW, "demo", "--window", "1024"],
            env=environment(tmp_path),
            cwd=tmp_path,
            check=False,
        )
    text = done.stdout.decode()

    assert done.returncode == 0, done.stderr.decode()
    for number in range(1, 7):
        assert f"── {number}. " in text
    for status in ("ok", "warning", "critical"):
        assert re.search(rf"tokens  {status}$", text, re.MULTILINE)
    assert "compacting (auto)" in text
    assert "lost        nothing" in text
    assert "the user's rule is still in the view: yes" in text
    assert "says: order 4711 failed: card declined" in text
    assert "is undone; every message is in the view again" in text
    assert "the view is the same after reopening: yes" in text


@pytest.mark.req("STO-2", "STO-3")
async def test_a_killed_demo_can_be_resumed_with_all_that_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = environment(tmp_path)
    monkeypatch.setenv("CLEW_HOME", env["CLEW_HOME"])
    seen = ""
    with anyio.fail_after(115):
        async with await anyio.open_process(
            [*CLEW, "demo", "--window", "1024"], env=env, cwd=tmp_path
        ) as process:
            assert process.stdout is not None
            async for piece in process.stdout:
                seen += piece.decode()
                if re.search(r"[1-9]\d+ entries on disk", seen):
                    process.send_signal(signal.SIGKILL)
                    break
        acknowledged = [int(n) for n in re.findall(r"(\d+) entries on disk", seen)]
        session_id = re.search(r"session (\w+)", seen)
        assert session_id is not None
        store = SqliteStore(store_path(tmp_path))
        _, entries = await store.load(SessionId(session_id.group(1)))
        await store.aclose()
        assert len(entries) >= acknowledged[-1] >= 10

        done = await anyio.run_process(
            [*CLEW, "-p", "Hello again.", "--resume", session_id.group(1)],
            env=env,
            cwd=tmp_path,
            check=False,
        )

    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.strip()
