"""The names of `clew` itself: all can be imported, and most are loaded on first use."""

import ast
import inspect
import subprocess
import sys

import pytest

import clew

LATER = clew._LATER


def test_import_clew_loads_no_upper_layer() -> None:
    code = "import sys, clew; print(*sys.modules, sep='\\n')"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    layers = ("clew.cli", "clew.config", "clew.extensions", "clew.sdk", "clew.testing")

    assert [name for name in child.stdout.split() if name.startswith(layers)] == []


def test_every_lazy_name_is_the_documented_thing_of_that_name() -> None:
    found = {name: getattr(clew, name) for name in LATER}

    # A union has no name of its own.
    assert {name: getattr(thing, "__name__", "Event") for name, thing in found.items()} == {
        name: name for name in LATER
    }
    assert [name for name, thing in found.items() if not thing.__doc__] == []


def test_type_checkers_see_every_lazy_name() -> None:
    tree = ast.parse(inspect.getsource(clew))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]

    known = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert known == LATER


def test_an_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Minotaur'"):
        clew.Minotaur  # noqa: B018
