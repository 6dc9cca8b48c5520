"""Starting Clew in a folder runs no module of that folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.req("PRM-2")

MODULES = (
    *("abc", "argparse", "codecs", "collections", "contextlib", "importlib", "io", "json"),
    *("logging", "os", "pkgutil", "runpy", "site", "sitecustomize", "types", "typing"),
    *("usercustomize", "warnings", "anyio", "msgspec", "clew"),
)
PACKAGES = ("clew", "encodings", "importlib", "json", "msgspec")
CLEW = Path(sys.executable).with_name("clew")


def start(
    folder: Path, *command: str, arguments: tuple[str, ...] = ("config", "show"), **variables: str
) -> "subprocess.CompletedProcess[str]":
    kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
    return subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env={**kept, "HOME": str(folder.parent), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(params=["modules", "packages"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder whose modules would write a file."""
    made = tmp_path / "project"
    made.mkdir()
    if request.param == "modules":
        for name in MODULES:
            (made / f"{name}.py").write_text(f"open('ran', 'a').write('{name} ')")
    else:
        for name in PACKAGES:
            (made / name).mkdir()
            for file in ("__init__.py", "__main__.py"):
                (made / name / file).write_text(f"open('ran', 'a').write('{name}/{file} ')")
    return made


@pytest.mark.parametrize(
    "command",
    [
        ("-m", "clew"),
        ("-mclew",),
        ("-m", "clew.cli"),
        ("-X", "dev", "-um", "clew"),
        ("-bWerror", "-mclew"),
        ("--check-hash-based-pycs", "default", "-W", "error", "-m", "clew"),
        ("-X", "frozen_modules=off", "-m", "clew"),
        ("-P", "-m", "clew"),
        ("-Im", "clew"),
    ],
    ids=" ".join,
)
def test_python_m_clew_imports_nothing_of_the_folder(
    folder: Path, command: tuple[str, ...]
) -> None:
    result = start(folder, sys.executable, *command)

    assert (result.returncode, result.stderr) == (0, "")
    assert not (folder / "ran").exists()


def test_the_program_imports_nothing_of_the_folder(folder: Path) -> None:
    result = start(folder, str(CLEW))

    assert (result.returncode, result.stderr) == (0, "")
    assert not (folder / "ran").exists()


def test_a_folder_that_is_gone_leaves_the_path_as_it_is(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()

    result = subprocess.run(
        [
            "sh",
            "-c",
            'cd "$1" && rmdir "$1" && exec "$2" -m clew --version',
            "-",
            gone,
            sys.executable,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (result.returncode, result.stdout.split()[0]) == (0, "clew")


def test_a_folder_on_pythonpath_stays_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "clew").mkdir()
    (tmp_path / "clew" / "__init__.py").touch()
    (tmp_path / "clew" / "__main__.py").write_text("print('the folder')")

    result = start(tmp_path, sys.executable, "-m", "clew", PYTHONPATH=str(tmp_path))

    assert result.stdout == "the folder\n"


@pytest.mark.parametrize(
    "command",
    [("-m", "app"), ("-m", "app", "-m", "clew"), ("-m", "clewish"), ("-X", "clew", "-m", "app")],
    ids=" ".join,
)
def test_another_program_keeps_its_path(tmp_path: Path, command: tuple[str, ...]) -> None:
    for name in ("app", "clewish"):
        (tmp_path / f"{name}.py").write_text("import clew, helper")
    (tmp_path / "helper.py").write_text("open('ran', 'a').write('helper')")

    result = start(tmp_path, sys.executable, *command, arguments=())

    assert (result.returncode, result.stderr) == (0, "")
    assert (tmp_path / "ran").read_text() == "helper"


def test_another_start_of_python_does_not_import_clew(tmp_path: Path) -> None:
    show = "import sys; print(sorted(n for n in sys.modules if n.startswith('clew')))"
    (tmp_path / "app.py").write_text(show)

    alone = start(tmp_path, sys.executable, "-c", show, arguments=())
    module = start(tmp_path, sys.executable, "-m", "app", arguments=("clew",))

    assert (alone.stdout, module.stdout) == ("[]\n", "[]\n")


def test_without_installation_modules_of_the_folder_are_not_imported(tmp_path: Path) -> None:
    """Clew on `PYTHONPATH` has no `.pth` file that runs first."""
    for name in ("json", "typing", "collections", "msgspec"):
        (tmp_path / f"{name}.py").write_text(f"open('ran', 'a').write('{name} ')")
    base = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    source = Path(__file__).parents[2] / "src"

    result = start(
        tmp_path, str(base), "-m", "clew", arguments=("--version",), PYTHONPATH=str(source)
    )

    assert (result.returncode, result.stderr) == (0, "")
    assert not (tmp_path / "ran").exists()
