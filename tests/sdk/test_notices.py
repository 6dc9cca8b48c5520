"""A notice is shown once, and again when it changes."""

from pathlib import Path

import pytest

from clew.sdk.notices import take_notice

pytestmark = pytest.mark.req("PRM-6")


def test_a_notice_is_shown_once_for_a_home(tmp_path: Path) -> None:
    home = tmp_path / "home"

    shown = [take_notice(home, "sandbox", "Commands run in a sandbox.") for _ in range(3)]

    assert shown == ["Commands run in a sandbox.", "", ""]


def test_a_notice_that_changed_is_shown_again(tmp_path: Path) -> None:
    take_notice(tmp_path, "sandbox", "Commands run in a sandbox.")

    assert take_notice(tmp_path, "other", "Something else.") == "Something else."
    assert take_notice(tmp_path, "sandbox", "No sandbox.") == "No sandbox."
    assert take_notice(tmp_path, "sandbox", "No sandbox.") == ""


def test_a_damaged_or_unwritable_home_shows_the_notice(tmp_path: Path) -> None:
    (tmp_path / "notices.json").write_text("{broken")
    (tmp_path / "file").touch()

    assert take_notice(tmp_path, "sandbox", "text") == "text"
    assert take_notice(tmp_path / "file", "sandbox", "text") == "text"
