"""The public names of `clew`: all of them can be imported, and each is loaded on first use."""

import ast
import inspect
import subprocess
import sys

import pytest

import clew
from clew.core.events import Event

PUBLIC = [name for name in clew.__all__ if name != "__version__"]


def test_all_public_names_are_listed_in_order_and_shown_by_dir() -> None:
    assert clew.__all__ == sorted(clew.__all__)
    assert len(set(clew.__all__)) == len(clew.__all__)
    assert set(clew.__all__) <= set(dir(clew))


def test_type_checkers_and_the_lazy_import_know_the_same_names() -> None:
    tree = ast.parse(inspect.getsource(clew))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]

    imported = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert imported == clew._MODULES
    assert sorted(imported) == PUBLIC


def test_each_public_name_is_defined_and_documented_in_its_module() -> None:
    values = {name: getattr(clew, name) for name in PUBLIC}

    assert values.pop("Event") == Event, "a union has no name of its own"
    assert {name: value.__name__ for name, value in values.items()} == {
        name: name for name in values
    }
    assert [name for name, value in values.items() if not value.__doc__] == []


def test_import_clew_imports_no_upper_layer() -> None:
    code = "import sys, clew; print(*sys.modules, sep='\\n')"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    layers = ("clew.cli", "clew.config", "clew.extensions", "clew.sdk", "clew.testing")

    assert [name for name in child.stdout.split() if name.startswith(layers)] == []


def test_an_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Minotaur'"):
        clew.Minotaur  # noqa: B018
