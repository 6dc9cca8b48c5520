"""The shape of the source: sizes that keep it readable, names that a reader can guess."""

import ast
import gc
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import clew
from tests.conftest import SHARED_SERVER, SLOW

ROOT = Path(__file__).parent.parent
SOURCE, TESTS = ROOT / "src", ROOT / "tests"
MAX_FILE, MAX_CLASS, MAX_FUNCTION = 400, 200, 50
SMALL_FILE = 60
"""A shorter file needs a reason: a protocol, an entry point, a package's `__init__`."""

# These limits only go down. When a change lowers the number, lower the limit with it.
MAX_LARGE_CLASSES = 0
"""Classes above `MAX_CLASS` lines when their own bases are counted in."""
MAX_SMALL_FILES_PERCENT = 14
MAX_GERUNDS = 0
"""Modules that are named after an activity, such as `reading.py`."""

NOUNS = frozenset({"docstring", "greeting", "hosting", "reasoning", "string"})
"""Words that end in -ing and name a thing."""

MAX_PUBLIC_NAMES = 71

OWN_OUTPUT = {"blind_test.py", "main.py", "models.py", "paint.py", "print_mode.py", "streams.py"}
"""Modules of the command line that write text of their own: bars, the version, one question."""

JSON_DECODERS = {
    "config/documents.py",
    "core/json_text.py",
    "extensions/project/languages.py",
    "tools/sandbox/landlock_exec.py",
}
"""The only modules with a JSON decoder of their own; all handle deep nesting. `landlock_exec` runs
as a program of its own and reads only what Clew itself passes to it."""


@dataclass(frozen=True)
class Module:
    """A parsed source file."""

    name: str
    path: Path
    lines: int
    tree: ast.Module
    classes: Mapping[str, ast.ClassDef]
    imported: Mapping[str, str]
    """The name that a class has here, and its full name."""


def test_no_file_has_more_lines_than_the_limit() -> None:
    long = [f"{module.path}: {module.lines}" for module in modules() if module.lines > MAX_FILE]

    assert long == []


def test_no_function_has_more_lines_than_the_limit() -> None:
    long = [
        f"{module.path}:{node.lineno}: {node.name} has {lines(node)} lines"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and lines(node) > MAX_FUNCTION
    ]

    assert long == []


def test_a_public_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for module in modules():
        for name in module.classes:
            if not name.startswith("_"):
                places.setdefault(name, []).append(module.name)

    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_a_class_stays_small_when_its_own_bases_are_counted() -> None:
    sizes = sizes_with_bases({module.name: module for module in modules()})
    large = {name: size for name, size in sizes.items() if size > MAX_CLASS}

    assert len(large) <= MAX_LARGE_CLASSES, large


def test_few_files_are_fragments() -> None:
    sources = modules()
    small = [str(module.path) for module in sources if module.lines < SMALL_FILE]
    percent = 100 * len(small) / len(sources)

    assert percent <= MAX_SMALL_FILES_PERCENT, f"{percent:.1f} %: {small}"


def test_a_module_is_named_after_a_thing_not_an_activity() -> None:
    gerunds = [
        str(module.path)
        for module in modules()
        if (last := module.path.stem.rpartition("_")[2]).endswith("ing") and last not in NOUNS
    ]

    assert len(gerunds) <= MAX_GERUNDS, gerunds


def test_json_is_decoded_in_one_place_so_that_deep_nesting_is_an_error_everywhere() -> None:
    decoders = re.compile(r"\b(?:msgspec\.)?json\.(?:decode|Decoder|loads?)\b\(|JSONDecoder\(")
    found = {
        str(module.path.relative_to("src/clew"))
        for module in modules()
        if decoders.search((ROOT / module.path).read_text(encoding="utf-8"))
    }

    assert found - {path for path in found if path.startswith("testing/")} == JSON_DECODERS


def test_commands_write_through_functions_that_sanitize() -> None:
    writes = re.compile(r"\bprint\(|\bsys\.std(?:out|err)\.write\(")
    found = {
        module.path.name
        for module in modules()
        if module.path.parent.name == "cli"
        and writes.search((ROOT / module.path).read_text(encoding="utf-8"))
    }

    assert found == OWN_OUTPUT


def test_bases_in_other_modules_count_once_and_outside_classes_do_not() -> None:
    base = parse("clew.base", "class Base(Exception):\n    x = 1\n")
    left = parse("clew.left", "from clew.base import Base as B\nclass Left(B): ...\n")
    both = parse(
        "clew.both",
        "from clew.base import Base\nfrom clew.left import Left\nclass Both(Left, Base): ...\n",
    )

    sizes = sizes_with_bases({module.name: module for module in (base, left, both)})

    assert sizes == {"clew.base.Base": 2, "clew.left.Left": 3, "clew.both.Both": 4}


def test_every_file_that_is_called_slow_exists() -> None:
    names = {f"{path.parent.name}/{path.stem}" for path in TESTS.rglob("test_*.py")}

    assert (SLOW.keys() | SHARED_SERVER) - names == set()


def test_the_public_names_are_few_sorted_and_importable() -> None:
    assert len(clew.__all__) <= MAX_PUBLIC_NAMES
    assert clew.__all__ == sorted(clew.__all__)
    assert [name for name, count in Counter(clew.__all__).items() if count > 1] == []
    assert [name for name in clew.__all__ if not hasattr(clew, name)] == []


def test_the_version_is_in_the_changelog() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (\S+)", changelog, re.MULTILINE)

    assert next(name for name in sections if name != "Unreleased") == clew.__version__


def test_nothing_in_the_repository_names_a_package_index() -> None:
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")

    assert "://" not in constraints
    assert "--" not in constraints


@cache
def modules() -> tuple[Module, ...]:
    """Return every source file, parsed."""
    # Millions of nodes, none of them garbage: looking for it would take most of the time.
    gc.disable()
    try:
        return tuple(
            parse(module_name(path), path.read_text(encoding="utf-8"), path.relative_to(ROOT))
            for path in sorted(SOURCE.rglob("*.py"))
        )
    finally:
        gc.freeze()
        gc.enable()


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def parse(name: str, text: str, path: Path = Path()) -> Module:
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    return Module(
        name=name,
        path=path,
        lines=text.count("\n"),
        tree=tree,
        classes={node.name: node for node in nodes if isinstance(node, ast.ClassDef)},
        imported={
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        },
    )


def lines(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def sizes_with_bases(sources: Mapping[str, Module]) -> dict[str, int]:
    """Return the lines of each class together with those of its bases in these modules."""
    classes = {
        f"{m.name}.{name}": node for m in sources.values() for name, node in m.classes.items()
    }
    bases = {
        f"{m.name}.{name}": {resolve(m, base) for base in node.bases} & classes.keys()
        for m in sources.values()
        for name, node in m.classes.items()
    }

    def family(name: str) -> set[str]:
        return {name}.union(*(family(base) for base in bases[name]))

    return {name: sum(lines(classes[member]) for member in family(name)) for name in classes}


def resolve(module: Module, base: ast.expr) -> str:
    """Return the full name of a base class, without its type arguments."""
    name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
    return module.imported.get(name, f"{module.name}.{name}")
