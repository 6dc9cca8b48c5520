"""A fresh project for every test."""

from pathlib import Path

import pytest

from tests.sdk.places import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
