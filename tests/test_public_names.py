"""The names of `clew` itself: all are there, and most are not loaded before somebody asks."""

import ast
import inspect
import subprocess
import sys

import pytest

import clew

LATER = clew._LATER


def test_import_clew_loads_no_agent() -> None:
    code = "import sys, clew; print(*sys.modules, sep='\\n')"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    layers = ("clew.cli", "clew.config", "clew.extensions", "clew.sdk", "clew.testing")

    assert [name for name in child.stdout.split() if name.startswith(layers)] == []


@pytest.mark.parametrize("name", sorted(LATER))
def test_a_name_that_is_loaded_later_is_there(name: str) -> None:
    found = getattr(clew, name)

    assert getattr(found, "__name__", "Event") == name  # a union has no name of its own
    assert found.__doc__


def test_type_checkers_know_the_names_that_are_loaded_later() -> None:
    tree = ast.parse(inspect.getsource(clew))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]

    known = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert known == LATER


def test_another_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Minotaur'"):
        clew.Minotaur  # noqa: B018
