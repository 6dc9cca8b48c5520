"""Random lines that really run touch only files that the permission analysis predicts."""

from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from attacks.corpus import Status
from attacks.shell_fuzzer import is_precise, judge_line, make_template, run_batch
from attacks.shell_lines import make_lines
from clew.tools.sandbox import Sandbox, SandboxPolicy

pytestmark = [pytest.mark.anyio, pytest.mark.req("PRM-2")]
COUNT, SEED = 200, 7


@pytest.mark.slow("starts processes")
async def test_lines_touch_no_file_beyond_the_predicted_ones() -> None:
    sandbox = Sandbox(SandboxPolicy(network=False))
    if not sandbox.active:
        pytest.skip(f"no sandbox to run them in: {sandbox.problem}")
    lines = make_lines(COUNT, SEED)

    outcomes = []
    async with anyio.create_task_group() as group:
        for half in (lines[::2], lines[1::2]):

            async def carry_out(half: list[str] = list(half)) -> None:  # noqa: B006
                outcomes.extend(await anyio.to_thread.run_sync(run_batch, sandbox, half))

            group.start_soon(carry_out)

    assert len(outcomes) == COUNT
    assert [one for one in outcomes if one.status is not Status.HELD] == []


def test_the_analysis_excludes_files_that_a_line_does_not_use(tmp_path: Path) -> None:
    template = make_template(tmp_path.resolve() / "template")
    lines = make_lines(COUNT, SEED, compound=0)

    precise = sum(is_precise(line, template) for line in lines)

    assert precise > 0.75 * COUNT


def test_a_file_beyond_the_prediction_is_a_failure(tmp_path: Path) -> None:
    template = make_template(tmp_path.resolve() / "template")

    held = judge_line("sort -o new a.txt", {"written": ["new"], "read": ["a.txt"]}, template)
    failed = judge_line("sort -o new a.txt", {"written": ["b.txt"], "read": []}, template)

    assert (held.status, failed.status) == (Status.HELD, Status.FAILED)
    assert failed.detail == "it writes b.txt"


def test_a_line_that_runs_without_a_question_must_only_read_in_its_folder(tmp_path: Path) -> None:
    template = make_template(tmp_path.resolve() / "template")
    outside: dict[str, list[str]] = {"written": [], "read": ["../outside/secret"]}

    inside = judge_line("cat a.txt", {"written": [], "read": ["a.txt"]}, template)
    beyond = judge_line("echo hi", outside, template)

    assert (inside.status, beyond.status) == (Status.HELD, Status.FAILED)


def test_the_same_seed_gives_the_same_lines() -> None:
    assert make_lines(50, 1) == make_lines(50, 1)
    assert make_lines(50, 1) != make_lines(50, 2)
