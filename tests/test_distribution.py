"""What pip installs: the wheel, built by way of the source distribution."""

import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow("builds a wheel and installs it"),
    pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling is not installed"),
]

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, cwd: Path) -> str:
    ran = subprocess.run(
        command,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


@pytest.mark.req("PRM-2")
def test_an_installed_wheel_starts_in_a_hostile_folder_and_is_removed_completely(
    tmp_path: Path,
) -> None:
    build = (sys.executable, "-m", "hatchling", "build", "-d", tmp_path)
    run(*build, "-t", "sdist", cwd=ROOT)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    run(*build, "-t", "wheel", cwd=tmp_path / sdist.name.removesuffix(".tar.gz"))
    (wheel,) = tmp_path.glob("*.whl")
    python = tmp_path / "venv" / "bin" / "python"
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    pip = (sys.executable, "-m", "pip", "--python", python)
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for name in ("clew", "importlib", "json", "runpy"):
        (hostile / f"{name}.py").write_text("open('ran', 'a').write(__name__)")

    run(*pip, "install", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    shown = run(python, "-X", "frozen_modules=off", "-m", "clew", "--version", cwd=hostile)
    run(*pip, "uninstall", "--yes", "clew", cwd=tmp_path)

    assert shown.startswith("clew ")
    assert not (hostile / "ran").exists()
    assert not [*(tmp_path / "venv").rglob("*clew*")]
