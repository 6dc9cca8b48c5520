"""The `.clew` folder of a project: git sees what can be shared, and nothing else."""

import subprocess
from pathlib import Path

import pytest

from clew.cli.main import main
from clew.extensions.memory import ProjectMemory

pytestmark = pytest.mark.req("CLI-2")


def untracked(folder: Path) -> list[str]:
    listed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return [line[3:] for line in listed.stdout.splitlines()]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CLEW_HOME", str(tmp_path / "clew"))
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True, timeout=60)
    return folder


def test_private_files_that_clew_creates_are_not_untracked(project: Path) -> None:
    ProjectMemory(project / ".clew" / "memory").add("The thread is red.", topic="thread")
    assert main(["config", "set", "language", "Latin", "--local"]) == 0
    assert untracked(project) == []

    assert main(["config", "set", "language", "Latin", "--project"]) == 0
    assert untracked(project) == [".clew/settings.json"]


def test_a_folder_of_the_user_is_not_touched(project: Path) -> None:
    (project / ".clew").mkdir()

    assert main(["config", "set", "language", "Latin", "--local"]) == 0

    assert untracked(project) == [".clew/settings.local.json"]
