"""The pictures of README and docs show what the program shows."""

import re
from pathlib import Path
from xml.etree import ElementTree

import anyio
import pytest

from scripts.pictures.scenes import record_pictures
from scripts.pictures.svg import read_lines
from tests.rows import each_row

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
NAMES = ("agents", "compaction", "diff", "prompt", "question", "undo")
NUMBERS = re.compile(r"(?<=agent-)[0-9a-f]{8}|· [0-9a-f]{8} ·|[\d.,]+|[█░]+")
"""Durations, estimates and the ids of sessions differ from one run to the next."""


def mask(picture: str) -> list[str]:
    lines = (NUMBERS.sub("0", line).rstrip() for line in read_lines(picture))
    return [re.sub(" {2,}", "  ", line) for line in lines]  # a duration moves to the right


@pytest.mark.anyio
@pytest.mark.req("TUI-1", "TUI-2")
@pytest.mark.slow("starts the program in a terminal twice")
async def test_the_pictures_match_the_program() -> None:
    with anyio.fail_after(110):
        recorded = {name: picture async for name, picture in record_pictures()}

    assert sorted(recorded) == list(NAMES)
    for name, picture in recorded.items():
        committed = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
        assert mask(committed) == mask(picture), "run: .venv/bin/python -m scripts.pictures"


@each_row("name", [*NAMES, "agents-embedded"])
def test_a_picture_is_svg_without_scripts_and_addresses(name: str) -> None:
    root = ElementTree.fromstring((FOLDER / f"{name}.svg").read_text(encoding="utf-8"))

    found = {element.tag.partition("}")[2] for element in root.iter()}
    assert found <= {"svg", "title", "rect", "circle", "text", "tspan"}
    text = "".join(root.itertext())
    assert "127.0.0.1" not in text
    assert "/tmp" not in text
