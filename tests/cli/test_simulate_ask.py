"""`clew simulate --ask` as a process: cost, table, JSON, chart, interruption, and mistakes."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from xml.etree import ElementTree

import anyio
import pytest

from clew.testing.fake_openai import FakeOpenAI, ScriptedResponse, Stall, fake_openai
from tests.cli.terminal import clew as in_terminal
from tests.forked_clew import run_clew
from tests.simulation.examiner import Examiner, make_session, write_session

pytestmark = [pytest.mark.anyio, pytest.mark.req("SIM-1")]

SUMMARY = "fact fact_1 is value_1"
SHORT = ("--questions", "4", "--views", "full,recorded,recall-4k")


class Place:
    """A folder with a session, and a server that an examiner answers on."""

    def __init__(self, folder: Path, server: FakeOpenAI) -> None:
        self.folder = folder
        self.url = server.url
        self.examiner = Examiner()
        self.file = write_session(folder / "session.jsonl", make_session(summary=SUMMARY))

    def arguments(self, *arguments: str, model: str = "gpt-4o") -> list[str]:
        return ["--base-url", self.url, "simulate", *arguments, "--ask", model]

    def command(self, *arguments: str, model: str = "gpt-4o") -> list[str]:
        return [sys.executable, "-m", "clew.cli", *self.arguments(*arguments, model=model)]

    @property
    def environment(self) -> dict[str, str]:
        keep = ("PATH", "LANG", "COVERAGE_PROCESS_START", "PYTHONPATH")
        named = {key: os.environ[key] for key in keep if key in os.environ}
        homes = {"HOME": str(self.folder / "home"), "CLEW_HOME": str(self.folder / "clew")}
        return {**named, **homes, "NO_COLOR": "1"}

    async def run(
        self, *arguments: str, model: str = "gpt-4o"
    ) -> "subprocess.CompletedProcess[str]":
        with anyio.fail_after(60):
            done = await run_clew(
                self.arguments(*arguments, model=model), cwd=self.folder, env=self.environment
            )
        out, err = done.stdout.decode(), done.stderr.decode()
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    def answer(body: bytes) -> ScriptedResponse:
        return here.examiner(body)

    async with fake_openai(answer) as server:
        here = Place(tmp_path, server)
        yield here


async def test_without_a_terminal_the_cost_is_stated_and_nothing_is_asked(place: Place) -> None:
    known = await place.run(str(place.file), *SHORT)
    unknown = await place.run(str(place.file), *SHORT, model="mystery-9")

    assert (known.returncode, known.stdout) == (1, "")
    assert re.search(
        r"about 25 calls, [\d,]+ tokens in, [\d,]+ out; cost: \$\d.*, or \$\d.* caches",
        known.stderr,
    )
    assert "add --yes to begin without a question" in known.stderr
    assert "cost: unknown" in unknown.stderr
    assert place.examiner.requests == []


async def test_a_table_a_chart_and_json_show_the_scores(place: Place) -> None:
    chart = place.folder / "scores.svg"

    table = await place.run(str(place.file), *SHORT, "--yes", "--chart", str(chart))
    asked = len(place.examiner.requests)
    again = await place.run(str(place.file), *SHORT, "--json")

    assert table.returncode == 0
    lines = table.stdout.splitlines()
    assert lines[0] == f"{place.file} (clew, recorded compactions after message 96)"
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:5]}
    assert rows["view"][:3] == ["tokens", "questions", "score"]
    assert rows["full"][1:3] == rows["recall-4k"][1:3] == ["4", "1.00"]
    assert rows["recorded"][1:3] == ["4", "0.00"]
    assert rows["recall-4k"][-3] != "–"
    assert ElementTree.fromstring(chart.read_text(encoding="utf-8")) is not None
    data = json.loads(again.stdout)
    assert again.returncode == 0
    assert [view["view"] for view in data["scores"]["views"]] == list(rows)[1:]
    assert data["done"] == data["total"] == 1 + 4 * 3 + 4
    assert len(place.examiner.requests) == asked


@pytest.mark.parametrize(("typed", "code"), [("n\r", 1), ("\r", 1), ("yes\r", 0)])
async def test_a_person_decides_whether_to_begin(place: Place, typed: str, code: int) -> None:
    arguments = place.command(str(place.file), *SHORT)[3:]
    with anyio.fail_after(60):
        async with in_terminal(*arguments, cwd=place.folder, env=place.environment) as (
            terminal,
            process,
        ):
            await terminal.shows("Begin? [y/N] ")
            before = len(place.examiner.requests)
            terminal.types(typed)
            said = await terminal.shows("spent" if code == 0 else "nothing was asked")
            found = await process.wait()

    assert (found, before) == (code, 0)
    assert ("full" in said) == (code == 0)
    assert bool(place.examiner.requests) == (code == 0)


async def test_ctrl_c_at_the_question_ends_without_a_call(place: Place) -> None:
    arguments = place.command(str(place.file), *SHORT)[3:]
    with anyio.fail_after(60):
        async with in_terminal(*arguments, cwd=place.folder, env=place.environment) as (
            terminal,
            process,
        ):
            await terminal.shows("Begin? [y/N] ")
            process.send_signal(signal.SIGINT)
            code = await process.wait()

    assert code == 130
    assert place.examiner.requests == []


@pytest.mark.parametrize(
    ("sent", "ended"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
async def test_a_signal_keeps_the_replies_and_says_how_to_continue(
    place: Place, sent: signal.Signals, ended: int
) -> None:
    stall = Stall()
    count = 0

    def say(_: object) -> ScriptedResponse | None:
        nonlocal count
        count += 1
        return ScriptedResponse(steps=[stall]) if count > 6 else None

    place.examiner = Examiner(say)
    with anyio.fail_after(60):
        async with await anyio.open_process(
            place.command(str(place.file), *SHORT, "--yes"),
            cwd=place.folder,
            env=place.environment,
        ) as process:
            await stall.reached.wait()
            process.send_signal(sent)
            assert process.stderr is not None
            said = b"".join([piece async for piece in process.stderr]).decode()
            code = await process.wait()
    place.examiner = Examiner()
    done = await place.run(str(place.file), *SHORT, "--yes")

    assert code == ended
    assert re.search(r"\d+ of 17 replies are kept in .*; continue with the same command", said)
    assert "Traceback" not in said
    assert "replies are kept from an earlier run" in done.stderr
    assert place.examiner.roles.count("writer") == 0
    assert done.returncode == 0


async def test_a_provider_that_fails_ends_with_an_error_and_the_table_so_far(place: Place) -> None:
    place.examiner = Examiner(lambda _: ScriptedResponse(steps=[b'{"error": "no"}'], status=401))

    done = await place.run(str(place.file), *SHORT, "--yes")

    assert done.returncode == 1
    assert "0 of 17 replies are kept" in done.stderr
    assert "no questions yet" in done.stdout
    assert "Traceback" not in done.stderr


async def test_a_stored_session_is_named_by_its_id(place: Place) -> None:
    clew = [sys.executable, "-m", "clew.cli", "sessions", "import", str(place.file)]
    with anyio.fail_after(60):
        made = await anyio.run_process(clew, cwd=place.folder, env=place.environment)
    session_id = made.stdout.decode().strip()

    found = await place.run(session_id, *SHORT)
    missing = await place.run("nowhere", *SHORT)

    assert "1 compaction of 1 session" in found.stderr
    assert missing.returncode == 1
    assert "nowhere is neither a file nor a stored session" in missing.stderr


async def test_words_of_a_model_reach_the_terminal_sanitized(place: Place) -> None:
    place.examiner = Examiner(
        lambda _: ScriptedResponse(steps=[b'{"error": {"message": "\\u001b[2J bad"}}'], status=400)
    )

    done = await place.run(str(place.file), *SHORT, "--yes")

    assert "\x1b" not in done.stderr + done.stdout
    assert "bad" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--views", "magic"], "unknown view 'magic'; choose from full"),
        (["--views", ","], "name at least one view"),
        (["--strategy", "lean"], "--strategy has no effect with --ask"),
        (["--no-lookups"], "--no-lookups has no effect with --ask"),
        (["--chart", "out.png"], "writes SVG only"),
    ],
)
async def test_bad_usage_is_an_error_message(place: Place, arguments: list[str], said: str) -> None:
    done = await place.run(str(place.file), *arguments)

    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


async def test_options_of_the_test_need_a_model_to_ask(place: Place) -> None:
    clew = [sys.executable, "-m", "clew.cli", "simulate", str(place.file), "--questions", "3"]

    with anyio.fail_after(60):
        done = await anyio.run_process(clew, check=False, env=place.environment)

    assert done.returncode == 1
    assert b"--questions needs --ask MODEL" in done.stderr
