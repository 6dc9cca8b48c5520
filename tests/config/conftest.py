"""What the tests of settings share."""

from pathlib import Path

import pytest

from tests.config.folders import Folders


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)
