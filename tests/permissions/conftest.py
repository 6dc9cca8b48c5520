"""A small project whose lines are judged."""

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    (root / ".env").write_text("KEY=1")
    (root / "conf").mkdir()
    (root / "src").mkdir()
    return root
