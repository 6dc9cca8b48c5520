"""The examples run as they stand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert done.stderr == ""


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_is_short_and_says_how_to_run_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert text.count("\n") < 60
    assert f"Run it with: python examples/{path.name}" in text


def test_the_examples_are_listed_in_the_guide() -> None:
    guide = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")

    assert [path.name for path in EXAMPLES if f"`{path.name}`" not in guide] == []
