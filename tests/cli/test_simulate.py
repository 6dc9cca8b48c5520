"""`clew simulate` as a process: tables, JSON, charts, and everything a person can get wrong."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import anyio
import pytest

from clew.core.entries import Body, MessageAdded, SetupChanged, encode
from clew.core.ids import CallId
from clew.core.messages import ToolCall, assistant, tool_result, user
from clew.core.models import ModelFacts
from tests.forked_clew import run_clew
from tests.histories import entries_of

pytestmark = pytest.mark.req("SIM-1")

ALL = ["none", "eager", "full", "balanced", "lean", "sliding_window", "summarize", "compact"]


def simulate(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    async def run() -> "subprocess.CompletedProcess[bytes]":
        named = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        command, env = ["simulate", *map(str, arguments)], {**named, "NO_COLOR": "1"}
        with anyio.fail_after(60):
            return await run_clew(command, env=env, cwd=Path.cwd())

    done = anyio.run(run)
    out, err = done.stdout.decode(), done.stderr.decode()
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def record(path: Path, *, turns: int = 12, model: str = "gpt-4o") -> Path:
    """Write a Clew journal in which each turn reads a file."""
    bodies: list[Body] = [SetupChanged(model=ModelFacts(name=model, window=128_000))]
    for n in range(turns):
        call = ToolCall(call_id=CallId(f"c{n}"), name="Read", arguments=f'{{"p":"part_{n}.py"}}')
        messages = [user(f"Look at part {n}."), assistant(call)]
        messages += [tool_result(call, f"line_number_{n} " * 300), assistant(f"Seen {n}.")]
        bodies += [MessageAdded(message=message) for message in messages]
    path.write_bytes(b"\n".join(map(encode, entries_of(bodies))) + b"\n")
    return path


def rows(table: str) -> dict[str, list[str]]:
    """Read the lines that begin with a strategy, by its name."""
    found = [line.split() for line in table.splitlines() if line.split()[:1]]
    return {words[0]: words[1:] for words in found if words[0] in ALL}


def test_a_table_compares_the_strategies_on_one_session(tmp_path: Path) -> None:
    file = record(tmp_path / "one.jsonl")

    done = simulate(file, "--window", "8000")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == f"{file} (clew, gpt-4o, window 8,000)"
    table = rows(done.stdout)
    assert list(table) == ALL
    calls, total, cached, uncached, cost, share, *_ = table["none"]
    assert (calls, share) == ("24", "100.0%")
    whole, read, written = (int(cell.replace(",", "")) for cell in (total, cached, uncached))
    assert whole == read + written
    assert int(cost.replace(",", "")) == round(read * 0.1 + written * 1.25)
    assert all(row[-3] == "0" for row in table.values())
    lines = [line for line in done.stdout.splitlines() if line.split()[:1] != []]
    assert len({len(line) for line in lines[1:8]}) == 1


def test_json_is_complete(tmp_path: Path) -> None:
    file = record(tmp_path / "one.jsonl")

    done = simulate(file, "--json", "--strategy", "summarize", "--max-tokens", "3_000")

    data: dict[str, Any] = json.loads(done.stdout)
    (session,) = data["sessions"]
    (run,) = session["runs"]
    (total,) = data["totals"]
    assert (session["model"], session["window"], session["source"]) == ("gpt-4o", 128_000, "clew")
    assert run["strategy"] == "summarize"
    assert run["compactions"] > 0
    assert run["invalid_requests"] == 0
    assert run["cost_of_none"] > 0
    assert len(run["timeline"]) == run["calls"]
    assert {key: total[key] for key in ("calls", "cost", "recall")} == {
        key: run[key] for key in ("calls", "cost", "recall")
    }
    assert data["skipped"] == []


def test_a_folder_is_searched_and_the_sessions_added_up(tmp_path: Path) -> None:
    record(tmp_path / "a.jsonl", turns=2)
    (tmp_path / "deep").mkdir()
    record(tmp_path / "deep" / "b.jsonl", turns=3)
    (tmp_path / "notes.txt").write_text("no session")

    done = simulate(tmp_path, tmp_path / "a.jsonl", "--strategy", "none")
    wordy = simulate(tmp_path, "--strategy", "none", "--verbose")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "all 2 sessions"
    assert rows(done.stdout)["none"][0] == "10"
    assert wordy.stdout.count("\nnone ") == 3


def test_a_file_that_is_no_session_is_reported_and_passed_over(tmp_path: Path) -> None:
    good = record(tmp_path / "good.jsonl", turns=2)
    bad = tmp_path / "bad.jsonl"
    bad.write_text("hello\n")

    mixed = simulate(good, bad, tmp_path / "absent.jsonl")
    none = simulate(bad)

    assert mixed.returncode == 0
    assert "none" in rows(mixed.stdout)
    assert f"skipped: {bad} has an unknown format" in mixed.stderr
    assert "absent.jsonl: No such file" in mixed.stderr
    assert (none.returncode, none.stdout) == (1, "")


def test_damaged_lines_are_reported_and_skipped(tmp_path: Path) -> None:
    file = record(tmp_path / "one.jsonl", turns=2)
    with file.open("ab") as lines:
        lines.write(b'{"torn": \n')

    done = simulate(file)

    assert done.returncode == 0
    assert "clew: note: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--strategy", "magic"],
            "unknown strategy 'magic'; choose one of none, eager",
        ),
        (["--model", "mystery-9"], "unknown model 'mystery-9'; set its context window"),
        (["--chart", "out.png"], "writes SVG only: 'out.png' must end in .svg"),
        (["--chart", "/nowhere/at/all.svg"], "cannot write the chart to"),
    ],
)
def test_bad_usage_is_an_error_message(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = simulate(record(tmp_path / "one.jsonl", turns=1), *arguments)

    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_model_in_a_recording_is_reported_and_gets_a_small_window(
    tmp_path: Path,
) -> None:
    file = record(tmp_path / "one.jsonl", turns=1, model="mystery-9")

    done = simulate(file)
    told = simulate(file, "--model", "mystery-9", "--window", "9000")

    assert "unknown model 'mystery-9'; assuming a window of 32,768" in done.stderr
    assert (told.returncode, told.stderr) == (0, "")
    assert "mystery-9, window 9,000" in told.stdout


def test_the_chart_shows_the_longest_session(tmp_path: Path) -> None:
    record(tmp_path / "short.jsonl", turns=2)
    record(tmp_path / "long.jsonl", turns=8)
    picture = tmp_path / "out.svg"

    done = simulate(tmp_path, "--chart", picture, "--window", "4000")

    text = picture.read_text(encoding="utf-8")
    assert f"long.jsonl to {picture}" in done.stderr
    assert "the longest of 2 sessions" in text
    assert ElementTree.fromstring(text) is not None


def test_a_strategy_is_still_compared_to_none_when_only_it_is_asked_for(tmp_path: Path) -> None:
    file = record(tmp_path / "one.jsonl")

    both = rows(simulate(file, "--window", "8000").stdout)
    alone = rows(simulate(file, "--window", "8000", "--strategy", "eager").stdout)
    free = rows(simulate(file, "--window", "8000", "--strategy", "eager", "--no-lookups").stdout)

    assert alone == {"eager": both["eager"]}
    assert free["eager"][8] == "0"
