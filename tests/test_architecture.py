"""The shape of the code: sizes that keep it readable, and a public face that stays small."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MAX_FILE, MAX_CLASS, MAX_FUNCTION = 400, 200, 50
EXCEPTIONS: frozenset[str] = frozenset()
"""Names that may be longer, each with a reason beside it. Meant to stay empty."""


def too_long(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    if text.count("\n") > MAX_FILE:
        yield f"{path.name} has {text.count(chr(10))} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            limit = MAX_CLASS
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            limit = MAX_FUNCTION
        else:
            continue
        length = (node.end_lineno or 0) - node.lineno + 1
        if length > limit and node.name not in EXCEPTIONS:
            yield f"{path.name}: {node.name} has {length} lines"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_files_classes_and_functions_stay_small(path: Path) -> None:
    assert list(too_long(path)) == []


def test_the_public_face_is_small_sorted_and_real() -> None:
    assert len(clew.__all__) <= 40
    assert clew.__all__ == sorted(clew.__all__)
    assert all(hasattr(clew, name) for name in clew.__all__)


def test_the_version_is_in_the_changelog() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)", changelog, re.MULTILINE)

    assert newest is not None
    assert newest.group(1) == clew.__version__


def test_nothing_in_the_repository_names_a_package_index() -> None:
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")

    assert "://" not in constraints
    assert "--" not in constraints
