"""The sessions that the pictures show, played by a scripted model server."""

from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import msgspec

from clew.testing.fake_openai import (
    DONE,
    ScriptedResponse,
    Stall,
    delta,
    fake_openai,
    usage,
)
from scripts.pictures.recorder import Recorder, Run, record
from scripts.pictures.svg import draw_terminal

_CODE = '''\
"""Reads a report: one record per line, fields separated by semicolons."""

from dataclasses import dataclass


@dataclass
class Record:
    name: str
    amount: int


def parse(line: str) -> Record:
    name, amount = line.split(";")
    return Record(name, int(amount))
'''
_ANSWER = """\
`parse` fails on the **last line** of the report, where the amount is empty:

| line | text | result |
|-----:|------|--------|
| 1 | `tea;12` | `Record('tea', 12)` |
| 2 | `sugar;` | `ValueError: invalid literal for int()` |

An empty field should count as zero:

```python
amount = int(text or 0)
```

Should I change it?
"""
_DONE = "Done: an empty amount is 0 now. Run the report again to see it."
_SUMMARY = """\
Goal: reports with empty fields must not fail. parse() in report.py splits a line at the semicolon
and treats an empty amount as 0. The user wants one record per line and no new dependency. Read so
far: report.py, totals.py and export.py; totals.py sums amounts per name. Next: export.py writes a
header twice when the file exists; fix it in write_header and add a test.
"""


def _reply(
    text: str = "", *calls: tuple[str, dict[str, object]], tokens: int, thinking: str = ""
) -> ScriptedResponse:
    """Return a response of the model: reasoning, text and tool calls."""
    steps = [delta(reasoning_content=thinking)] if thinking else []
    steps += [delta(content=text)] if text else []
    for index, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": msgspec.json.encode(arguments).decode()}
        call = {"index": index, "id": f"call{tokens}", "type": "function", "function": function}
        steps.append(delta(tool_calls=[call]))
    end = delta("tool_calls" if calls else "stop")
    return ScriptedResponse(steps=[*steps, end, usage(tokens, 120, cached=tokens // 2), DONE])


async def record_pictures() -> AsyncIterator[tuple[str, str]]:
    """Yield the name and the SVG of each picture."""
    with TemporaryDirectory() as folder:
        async for name, title, lines in _record_agents(Path(folder)):
            yield name, draw_terminal(lines, title=title)
    with TemporaryDirectory() as folder:
        async for name, title, lines in _record_edit(Path(folder)):
            yield name, draw_terminal(lines, title=title)
    with TemporaryDirectory() as folder:
        async for name, title, lines in _record_compaction(Path(folder)):
            yield name, draw_terminal(lines, title=title)


async def _record_edit(folder: Path) -> AsyncIterator[tuple[str, str, list[list[Run]]]]:
    project = folder / "project"
    project.mkdir()
    (project / "report.py").write_text(_CODE)
    edit: dict[str, object] = {
        "file_path": "report.py",
        "old_string": "    return Record(name, int(amount))",
        "new_string": "    return Record(name, int(amount or 0))",
    }
    script = (
        _reply("", ("Read", {"file_path": "report.py"}), tokens=5_210, thinking="Look first."),
        _reply(_ANSWER, tokens=5_940),
        _reply("I change one line.", ("Edit", edit), tokens=6_120),
        _reply(_DONE, tokens=6_480),
    )
    async with (
        fake_openai(*script) as server,
        record(folder, *_flags(server.url)) as terminal,
    ):
        await _wait_for_input(terminal)
        terminal.types("Why does report.py fail on the new report?\r")
        await _wait_for_input(terminal, "Should I change it", "6,060/")
        yield "prompt", "A prompt and its answer", terminal.take("❯ Why")
        terminal.types("Yes, please\r")
        await terminal.until(
            lambda lines: (
                lines[-1].endswith("Esc interrupts")
                and lines[-2] == ">"
                and any("y  yes, once" in line for line in lines)
            )
        )
        yield "question", "The question before a file is changed", terminal.take("❯ Yes")
        terminal.types("y")
        await _wait_for_input(terminal, "Done: an empty amount", "6,600/")
        yield "diff", "The change, with the words that differ", terminal.take("❯ Yes")


async def _record_compaction(folder: Path) -> AsyncIterator[tuple[str, str, list[list[Run]]]]:
    project = folder / "project"
    project.mkdir()
    names = ("report.py", "totals.py", "export.py")
    for name in names:
        (project / name).write_text(_CODE * 40)
    script = [
        step
        for at, name in enumerate(names, 1)
        for step in (
            _reply("", ("Read", {"file_path": name}), tokens=5_000 * at - 3_200),
            _reply(f"`{name}` has one function for each record.", tokens=5_000 * at + 1_800),
        )
    ]
    async with (
        fake_openai(*script, _reply(_SUMMARY, tokens=17_100)) as server,
        record(folder, *_flags(server.url), "--window", "24000") as terminal,
    ):
        await _wait_for_input(terminal)
        for at, name in enumerate(names, 1):
            terminal.types(f"What does {name} do?\r")
            await _wait_for_input(terminal, f"{name} has one function", f"{5_000 * at + 1_920:,}/")
        terminal.types("/compact\r")
        await _wait_for_input(terminal, "lost ")
        yield "compaction", "A compaction with its loss report", terminal.take("❯ What does export")
        terminal.types("/undo\r")
        await _wait_for_input(terminal, "reverted")
        yield "undo", "A compaction that is undone", terminal.take("❯ /compact")


async def _record_agents(folder: Path) -> AsyncIterator[tuple[str, str, list[list[Run]]]]:
    project = folder / "project"
    project.mkdir()
    (project / "report.py").write_text(_CODE)
    for command in (["init", "-q"], ["add", "-A"], [*_AUTHOR, "commit", "-q", "-m", "first"]):
        await anyio.run_process(["git", *command], cwd=project)
    stall = Stall()
    slow = _reply("", ("Grep", {"pattern": "def "}), tokens=5_310)
    scripts = {
        "Which fields": iter([_reply(_FIELDS, tokens=5_120)]),
        "Add a test": iter([slow, ScriptedResponse(steps=[delta(content="I write it "), stall])]),
    }

    def answer(body: bytes) -> ScriptedResponse:
        (script,) = [script for prompt, script in scripts.items() if prompt.encode() in body]
        return next(script)

    async with (
        fake_openai(answer) as server,
        record(folder, *_flags(server.url)) as terminal,
    ):
        await _wait_for_input(terminal)
        terminal.types("/agent run --detach --type Explore Which fields has a record?\r")
        await _wait_for_input(terminal, "is done")
        terminal.types("/agent run --detach --worktree Add a test for empty amounts\r")
        await stall.reached.wait()
        terminal.types("/agent list\r")
        await terminal.until(lambda lines: any("running" in line for line in lines))
        done, running = (_find_agent(terminal, status) for status in ("completed", "running"))
        terminal.types(f"/agent read {done}\r")
        await terminal.until(lambda lines: any("[agent]" in line for line in lines))
        terminal.types(f"/agent stop {running}\r")
        await _wait_for_input(terminal, "is cancelled")
        yield "agents", "Agents in the background", terminal.take("❯ /agent list")


def _find_agent(terminal: Recorder, status: str) -> str:
    """Return the id of the agent that the list shows with this status."""
    rows = (line.split() for line in terminal.lines)
    return next(row[0] for row in rows if row[1:2] == [status] and row[0].startswith("agent-"))


_AUTHOR = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
_FIELDS = "A record has two fields: `name`, a text, and `amount`, a whole number (report.py:7)."


def _flags(url: str) -> tuple[str, ...]:
    return ("--base-url", url, "--model", "gpt-4o", "--sandbox", "off")


async def _wait_for_input(terminal: Recorder, text: str = "", tokens: str = "") -> None:
    """Wait until a text was shown, and the tokens in the status line, above which is the input."""
    await terminal.until(
        lambda lines: (
            lines[-1].startswith("gpt-4o")
            and lines[-2] == ">"
            and tokens in lines[-1]
            and "interrupts" not in lines[-1]
            and any(text in line for line in lines)
        )
    )
