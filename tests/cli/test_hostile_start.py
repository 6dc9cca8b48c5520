"""Starting Clew in a folder runs no module of that folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.req("PRM-2")

NAMES = ("json", "typing", "argparse", "logging", "msgspec", "anyio", "sitecustomize")
CLEW = Path(sys.executable).with_name("clew")


def start(folder: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
    return subprocess.run(
        [*command, "config", "show"],
        cwd=folder,
        env={**kept, "HOME": str(folder.parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose modules would write a file."""
    made = tmp_path / "project"
    made.mkdir()
    for name in NAMES:
        (made / f"{name}.py").write_text(f"open('ran', 'a').write('{name} ')")
    return made


@pytest.mark.parametrize("module", ["clew", "clew.cli"])
@pytest.mark.parametrize("options", [["-m"], ["-X", "dev", "-um"], ["-P", "-m"]])
def test_modules_of_the_folder_are_not_imported(
    folder: Path, module: str, options: list[str]
) -> None:
    result = start(folder, sys.executable, *options, module)

    assert (result.returncode, result.stderr) == (0, "")
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    "command", [[str(CLEW)], [sys.executable, "-P", "-m", "clew"], [sys.executable, "-Im", "clew"]]
)
def test_the_program_and_a_safe_path_ignore_even_a_module_called_clew(
    folder: Path, command: list[str]
) -> None:
    for name in ("clew", "importlib", "runpy"):
        (folder / f"{name}.py").write_text(f"open('ran', 'a').write('{name} ')")

    result = start(folder, *command)

    assert (result.returncode, result.stderr) == (0, "")
    assert not (folder / "ran").exists()


def test_a_program_that_imports_clew_keeps_its_path(folder: Path) -> None:
    for name in NAMES:
        (folder / f"{name}.py").unlink()
    (folder / "app.py").write_text("import clew, helper")
    (folder / "helper.py").write_text("open('ran', 'a').write('helper')")

    result = subprocess.run([sys.executable, "-m", "app"], cwd=folder, timeout=60, check=False)

    assert result.returncode == 0
    assert (folder / "ran").read_text() == "helper"
