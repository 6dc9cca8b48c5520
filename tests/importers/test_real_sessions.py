"""Sessions of Claude Code, Codex, Gemini CLI and pi, as people recorded them, are sessions of Clew.

Some of them here; `python -m tests.importers.real_sessions` goes through all.
"""

import os
import sys
from pathlib import Path

import anyio
import pytest

from clew.core.ids import SessionId
from clew.stores.sqlite import SqliteStore
from tests.importers.real_sessions import RECORDINGS, TOOLS, go_through, recordings

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not RECORDINGS.is_dir(), reason="there are no recordings here"),
]
CHOSEN = [path for tool in TOOLS for path in recordings(tool)[1::16] or recordings(tool)[:1]]


@pytest.mark.req("STO-3", "STO-5")
@pytest.mark.parametrize("path", CHOSEN, ids=lambda path: f"{path.parent.name}/{path.name[:8]}")
async def test_a_recording_is_resumed_forked_found_and_exported(path: Path, tmp_path: Path) -> None:
    seen = await go_through(path, tmp_path)

    assert seen.messages > 3
    assert seen.requests >= 3


@pytest.mark.req("STO-5", "CLI-1")
@pytest.mark.parametrize("tool", TOOLS)
async def test_the_command_line_imports_and_exports_a_recording(tool: str, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "CLEW_HOME": str(tmp_path / "home")}

    async def clew(*arguments: str, store: str) -> bytes:
        with anyio.fail_after(60):
            done = await anyio.run_process(
                [sys.executable, "-m", "clew.cli", "sessions", *arguments],
                env=env | {"CLEW_STORE": str(tmp_path / store)},
                cwd=tmp_path,
            )
        return done.stdout

    recording = recordings(tool)[0]
    session_id = (await clew("import", str(recording), store="one.db")).decode().strip()
    exported = await clew("export", session_id, store="one.db")
    (tmp_path / "session.jsonl").write_bytes(exported)
    again = (await clew("import", "session.jsonl", store="two.db")).decode().strip()

    assert again == session_id
    assert await clew("export", session_id, store="two.db") == exported
    store = SqliteStore(tmp_path / "two.db")
    record, entries = await store.load(SessionId(session_id))
    assert record.entries == len(entries) == exported.count(b"\n") - 1
    await store.aclose()
