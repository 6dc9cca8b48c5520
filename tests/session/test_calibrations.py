"""What is learned about a model outlives the session."""

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clew.context.calibration import learn, make_prior
from clew.core.models import Calibration
from clew.session.calibrations import MOST_MODELS, CalibrationFile

LEARNED = Calibration(slope=1.4, weight=9_000, units=5_000, tokens=47_000)


@pytest.mark.req("CTX-4")
def test_the_rate_comes_back_and_the_overhead_does_not(tmp_path: Path) -> None:
    path = tmp_path / "home" / "calibrations.json"

    assert CalibrationFile(path).save("m", LEARNED)
    found = CalibrationFile(path).load("m")

    assert found == make_prior(1.4, 9_000)
    assert found.overhead == 0
    assert CalibrationFile(path).load("another") is None


@pytest.mark.req("CTX-4")
def test_what_two_sessions_learned_is_merged_by_weight(tmp_path: Path) -> None:
    file = CalibrationFile(tmp_path / "c.json")

    file.save("m", Calibration(slope=1.0, weight=3_000))
    file.save("m", Calibration(slope=2.0, weight=1_000))

    assert file.load("m") == make_prior(1.25, 4_000)


def test_old_evidence_never_outweighs_what_is_new(tmp_path: Path) -> None:
    file = CalibrationFile(tmp_path / "c.json")
    for _ in range(50):
        file.save("m", Calibration(slope=1.0, weight=1e9))
    calibration = file.load("m")
    assert calibration is not None

    for call in range(1, 12):
        calibration = learn(calibration, call * 5_000, call * 7_500)

    assert calibration.rate > 1.3


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff\xfe", b'{"models":{"m":{"rate":"x"}}}']
)
def test_a_damaged_file_is_reported_and_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(content)
    file = CalibrationFile(path)

    with caplog.at_level(logging.WARNING):
        assert file.load("m") is None
    assert "c.json cannot be read" in caplog.text
    assert file.save("m", LEARNED)
    assert file.load("m") == make_prior(1.4, 9_000)


def test_a_folder_that_cannot_be_written_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")

    with caplog.at_level(logging.WARNING):
        assert not CalibrationFile(tmp_path / "file" / "c.json").save("m", LEARNED)

    assert "could not be saved" in caplog.text


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "c.json").mkdir()

    assert not CalibrationFile(tmp_path / "c.json").save("m", LEARNED)
    assert [path.name for path in tmp_path.iterdir()] == ["c.json"]


def test_only_the_models_used_last_are_kept(tmp_path: Path) -> None:
    file = CalibrationFile(tmp_path / "c.json")
    for number in range(MOST_MODELS):
        file.save(f"m{number}", LEARNED)

    file.save("m0", LEARNED)
    file.save("new", LEARNED)

    assert file.load("m0") is not None
    assert file.load("new") is not None
    assert file.load("m1") is None


def test_writers_at_the_same_time_never_leave_a_torn_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = CalibrationFile(tmp_path / "c.json")

    with ThreadPoolExecutor(8) as pool:
        saved = list(pool.map(lambda number: file.save(f"m{number % 4}", LEARNED), range(60)))

    assert all(saved)
    assert any(file.load(f"m{number}") for number in range(4))
    assert "cannot be read" not in caplog.text
