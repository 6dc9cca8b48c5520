"""A session that is killed at any moment loses nothing that it had said was safe."""

from pathlib import Path

import pytest

from tests.session.crashes import KILLS_PER_SESSION, crash
from tests.stores.postgres import Server


@pytest.mark.req("STO-2", "SES-3")
def test_a_killed_session_is_there_again_and_goes_on(tmp_path: Path) -> None:
    count = crash(str(tmp_path / "s.db"), KILLS_PER_SESSION, tmp_path)

    assert (count.kills, count.lost, count.invalid) == (KILLS_PER_SESSION, 0, 0)
    assert count.entries > 60


@pytest.mark.req("STO-2")
def test_so_it_is_in_postgres(tmp_path: Path, postgres: Server) -> None:
    count = crash(postgres.fresh(), KILLS_PER_SESSION // 2, tmp_path)

    assert (count.kills, count.lost, count.invalid) == (KILLS_PER_SESSION // 2, 0, 0)
