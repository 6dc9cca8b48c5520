"""Write and Edit when processes die and when many work at once.

This file is also the program that does the work: it forks a writer, kills it at a random
moment, and looks at what it left. `CLEW_KILLS` says how often, 40 times unless given.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from clew import Gate, PermissionMode, Session
from clew.providers.scripted import ScriptedProvider, call_reply
from clew.tools.builtin import builtin_tools
from clew.tools.builtin.edit import edit_tool
from clew.tools.builtin.file_states import FileStates
from clew.tools.builtin.read import read_tool
from clew.tools.builtin.write import write_tool
from clew.tools.protocol import Tool, ToolContext

pytestmark = [pytest.mark.anyio, pytest.mark.req("TOL-5")]

KILLS = int(os.environ.get("CLEW_KILLS", "40"))
LINES = 4_000
LONGEST_LIFE = 0.02
"""Seconds that a writer lives at most, from its first change on."""


def content(version: int) -> str:
    return f"<{version}> all lines say the same\n" * LINES


def version_of(text: str) -> int | None:
    """Which version a file is, or None if it is no whole one."""
    first = re.match(r"<(\d+)>", text)
    return int(first[1]) if first and text == content(int(first[1])) else None


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finished(program: subprocess.Popen[str]) -> Any:
    out, _ = program.communicate(timeout=600)
    assert program.returncode == 0
    return json.loads(out)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", ["Write", "Edit"])
def test_no_kill_ever_leaves_half_a_file(tmp_path: Path, way: str) -> None:
    found = finished(start("kill", tmp_path, way, KILLS))

    assert found["torn"] == 0
    assert found["kills"] == KILLS
    assert found["versions"] > 1
    assert found["amid"] > 0, "no kill fell into a write: this shows nothing"


def test_the_same_kills_tear_a_file_that_is_written_in_place(tmp_path: Path) -> None:
    assert finished(start("kill", tmp_path, "in place", 30))["torn"] > 0


def test_processes_that_edit_one_file_lose_nothing(tmp_path: Path) -> None:
    workers, edits = 3, 20
    marks = [f"<{worker}.{n}>" for worker in range(workers) for n in range(edits)]
    (tmp_path / "file").write_text("\n".join(marks))

    programs = [start("edit", tmp_path, worker, edits) for worker in range(workers)]
    for program in programs:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("go\n")
        program.stdin.flush()
    refused = [finished(program) for program in programs]

    text = (tmp_path / "file").read_text()
    assert text == "\n".join(mark.replace("<", "[").replace(">", "]") for mark in marks)
    assert sum(refused) >= workers - 1, "nobody met anybody: this shows nothing"


async def test_edits_of_one_answer_on_one_file_all_land(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("".join(f"<{n}>\n" for n in range(40)))
    calls = [
        ("Edit", {"file_path": "file", "old_string": f"<{n}>", "new_string": f"[{n}]"})
        for n in range(40)
    ]
    session = Session(
        ScriptedProvider([call_reply(*calls), "done"]),
        model="m",
        cwd=tmp_path,
        tools=builtin_tools(),
        gate=Gate(cwd=tmp_path, mode=PermissionMode.ACCEPT_EDITS),
    )

    async with session:
        with anyio.fail_after(60):
            await session.run("go")
        results = [result for message in session.get_history() for result in message.results]

    assert [result.text for result in results] == [
        f"Edited file: 1 replacement at line {n + 1}." for n in range(40)
    ]
    assert (tmp_path / "file").read_text() == "".join(f"[{n}]\n" for n in range(40))


async def test_conflicting_edits_of_one_answer_are_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("one\n")
    calls = [
        ("Edit", {"file_path": "file", "old_string": "one", "new_string": f"two {n}"})
        for n in range(8)
    ]
    session = Session(
        ScriptedProvider([call_reply(*calls), "done"]),
        model="m",
        cwd=tmp_path,
        tools=builtin_tools(),
        gate=Gate(cwd=tmp_path, mode=PermissionMode.ACCEPT_EDITS),
    )

    async with session:
        with anyio.fail_after(60):
            await session.run("go")
        results = [result for message in session.get_history() for result in message.results]

    landed = [n for n, result in enumerate(results) if not result.failed]
    assert len(landed) == 1
    assert (tmp_path / "file").read_text() == f"two {landed[0]}\n"
    assert all("not in file" in result.text for result in results if result.failed)


# From here on: the program.


async def run(tool: Tool, context: ToolContext, **arguments: object) -> str:
    out = await tool.run(arguments, context)
    return out.text if out.failed else ""


async def write_on(folder: Path, begun: Callable[[], None], way: str) -> None:
    """Write one version after another until somebody kills us."""
    states, place, path = FileStates(), ToolContext(cwd=folder), folder / "file"
    read, write, edit = read_tool(states), write_tool(states), edit_tool(states)
    version = version_of(path.read_text()) or 0
    await run(read, place, file_path="file")
    begun()
    while True:
        old, version = f"<{version}>", version + 1
        fields: dict[str, object] = {"file_path": "file"}
        if way == "in place":
            path.write_text(content(version))
        elif way == "Write":
            assert not await run(write, place, content=content(version), **fields)
        else:
            fields |= {"old_string": old, "new_string": f"<{version}>", "replace_all": True}
            assert not await run(edit, place, **fields)


def kill(folder: Path, way: str, times: int) -> dict[str, int]:
    chance, seen = random.Random(f"{way} {os.getpid()}"), Counter[str]()
    path = folder / "file"
    versions = set()
    path.write_text(content(0))
    anyio.run(anyio.lowlevel.checkpoint)  # loads what every child would have to
    for _ in range(times):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            anyio.run(write_on, folder, partial(os.close, writer), way)
        os.close(writer)
        os.read(reader, 1)
        os.close(reader)
        time.sleep(chance.uniform(0, LONGEST_LIFE))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        seen["kills"] += 1
        version = version_of(path.read_text())
        versions.add(version)
        if version is None:
            seen["torn"] += 1
            path.write_text(content(0))
        for left in folder.glob(".clew-*"):
            seen["amid"] += 1
            left.unlink()
    return {"torn": 0, "amid": 0, **seen, "versions": len(versions)}


async def edit_all(folder: Path, worker: int, edits: int) -> int:
    states, place, refused = FileStates(), ToolContext(cwd=folder), 0
    read, edit = read_tool(states), edit_tool(states)
    await run(read, place, file_path="file")  # so that all but the first to edit are refused once
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    for n in range(edits):
        fields = {"old_string": f"<{worker}.{n}>", "new_string": f"[{worker}.{n}]"}
        while problem := await run(edit, place, file_path="file", **fields):
            assert "has changed" in problem or "was changed" in problem, problem
            refused += 1
            await run(read, place, file_path="file")
    return refused


def main(job: str, folder: str, *rest: str) -> None:
    if job == "kill":
        print(json.dumps(kill(Path(folder), rest[0], int(rest[1]))))  # noqa: T201
    else:
        print(json.dumps(anyio.run(edit_all, Path(folder), int(rest[0]), int(rest[1]))))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
