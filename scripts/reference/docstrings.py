"""Reads the public names of a module and their docstrings from its source, without importing it.

Reading the source keeps signatures and defaults as they were written, the same in every version
of Python.
"""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeAlias

SOURCES = Path(__file__).parents[2] / "src"
_WIDTH = 88
_QUOTED = re.compile(r"'([^'\"\\\\]*)'")

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A field, a property or a method."""

    name: str
    code: str
    """The type and default of a field; the signature of anything else."""
    doc: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """A class, a function or a value of a module."""

    name: str
    code: str
    doc: str
    fields: tuple[Member, ...] = ()
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One module."""

    name: str
    doc: str
    things: tuple[Thing, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    name: str
    text: str
    tree: ast.Module
    origins: Mapping[str, str] = field(default_factory=dict)
    """Modules of Clew from which names were imported."""


def read_module(name: str, only: Iterable[str] = ()) -> Module:
    """Return what is public in a module, in the order of its source.

    Args:
        name: The module, with dots.
        only: The names to read; default: all public ones.

    Raises:
        LookupError: The module has no such name.
    """
    source = _source(name)
    wanted = tuple(only)
    things = [thing for thing in _things(source) if not wanted or thing.name in wanted]
    missing = set(wanted) - {thing.name for thing in things}
    if missing:
        raise LookupError(f"{name} has no {', '.join(sorted(missing))}")
    return Module(name=name, doc=_doc(source.tree), things=tuple(things))


def public_names() -> dict[str, str]:
    """Return the names of `clew` itself, each with the module that defines it."""
    source = _source("clew")
    return {
        name: _defining(name, module) for name, module in source.origins.items() if _is_public(name)
    }


@cache
def _source(name: str) -> _Source:
    path = SOURCES.joinpath(*name.split("."))
    package = path / "__init__.py"
    file = package if package.is_file() else path.with_suffix(".py")
    text = file.read_text(encoding="utf-8")
    tree = ast.parse(text)
    return _Source(name=name, text=text, tree=tree, origins=dict(_origins(tree)))


def _origins(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("clew."):
            for alias in node.names:
                yield alias.asname or alias.name, node.module or ""


def _defining(name: str, module: str) -> str:
    """Return the module that defines a name, through re-exports."""
    source = _source(module)
    return _defining(name, source.origins[name]) if name in source.origins else module


def _things(source: _Source) -> Iterator[Thing]:
    for node, doc in _with_docs(source.tree.body):
        match node:
            case ast.ClassDef(name=name) if _is_public(name):
                yield _class(node, source)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if _is_public(name):
                if not _is_overload(node):
                    yield Thing(name=name, code=signature(node), doc=_doc(node))
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                if _is_public(name) and (doc or _is_alias(node)):
                    yield Thing(name=name, code=_value(node, source), doc=doc)
            case _:
                pass


def _class(node: ast.ClassDef, source: _Source) -> Thing:
    line = list(_line_of_descent(node, source))
    known: set[str] = set()
    fields: list[Member] = []
    members: list[Member] = []
    for owner in line:
        for member in _members(owner):
            if member.name not in known:
                known.add(member.name)
                (members if _is_callable(member) else fields).append(member)
    made = next((init for owner in line if (init := _init(owner)) is not None), None)
    bases = ", ".join(_written(base) for base in node.bases)
    code = f"class {node.name}({bases})" if bases else f"class {node.name}"
    if made is not None:
        code += f"\n\n{signature(made, name=node.name, returns=False)}"
    return Thing(
        name=node.name, code=code, doc=_doc(node), fields=tuple(fields), members=tuple(members)
    )


def _line_of_descent(node: ast.ClassDef, source: _Source) -> Iterator[ast.ClassDef]:
    """Yield a class and its base classes in Clew, the nearest first."""
    yield node
    for base in node.bases:
        name = _written(base).partition("[")[0]
        home = source
        if name in source.origins:
            home = _source(_defining(name, source.origins[name]))
        for other in home.tree.body:
            if isinstance(other, ast.ClassDef) and other.name == name:
                yield from _line_of_descent(other, home)


def _members(node: ast.ClassDef) -> Iterator[Member]:
    for each, doc in _with_docs(node.body):
        match each:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind, value=value):
                if _is_public(name):
                    yield Member(name=name, code=f"{_written(kind)}{_default(value)}", doc=doc)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_public(name):
                yield Member(name=name, code=f"= {_written(value)}", doc=doc)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if (_is_public(name) or name == "__call__") and not _is_overload(each):
                    yield _method(each)
            case _:
                pass


def _method(node: _Function) -> Member:
    if any(_written(mark) == "property" for mark in node.decorator_list):
        kind = _written(node.returns) if node.returns else ""
        return Member(name=node.name, code=kind, doc=_doc(node))
    return Member(name=node.name, code=signature(node), doc=_doc(node))


def signature(node: _Function, *, name: str = "", returns: bool = True) -> str:
    """Return a signature; a long one has a line for each parameter."""
    start = "" if name else ("async def " if isinstance(node, ast.AsyncFunctionDef) else "def ")
    end = f" -> {_written(node.returns)}" if returns and node.returns else ""
    parameters = list(_parameters(node.args))
    line = f"{start}{name or node.name}({', '.join(parameters)}){end}"
    if len(line) <= _WIDTH:
        return line
    inner = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"{start}{name or node.name}(\n{inner}){end}"


def _parameters(given: ast.arguments) -> Iterator[str]:
    positional = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(given.defaults))
    for place, (parameter, default) in enumerate(
        zip(positional, [*defaults, *given.defaults], strict=True), start=1
    ):
        if parameter.arg not in ("self", "cls"):
            yield _parameter(parameter, default)
        if place == len(given.posonlyargs):
            yield "/"
    if given.vararg is not None:
        yield f"*{_parameter(given.vararg, None)}"
    elif given.kwonlyargs:
        yield "*"
    for parameter, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield _parameter(parameter, default)
    if given.kwarg is not None:
        yield f"**{_parameter(given.kwarg, None)}"


def _parameter(parameter: ast.arg, default: ast.expr | None) -> str:
    kind = f": {_written(parameter.annotation)}" if parameter.annotation else ""
    if default is None:
        return f"{parameter.arg}{kind}"
    equals = " = " if kind else "="
    return f"{parameter.arg}{kind}{equals}{_written(default)}"


def _default(value: ast.expr | None) -> str:
    """Return the default of a field, as source."""
    match value:
        case None:
            return ""
        case ast.Call(func=ast.Name(id="field") | ast.Attribute(attr="field"), keywords=keywords):
            makers = (one.value for one in keywords if one.arg == "default_factory")
            return "".join(f" = {_made(maker)}" for maker in makers)
        case _:
            return f" = {_written(value)}"


def _made(maker: ast.expr) -> str:
    return _written(maker.body) if isinstance(maker, ast.Lambda) else f"{_written(maker)}()"


def _written(node: ast.AST) -> str:
    """Return the source of a node on one line, with double quotes."""
    return _QUOTED.sub(r'"\1"', ast.unparse(node))


def _value(node: ast.AnnAssign | ast.Assign, source: _Source) -> str:
    """Return an assignment as it is written, or only its name and type if it is long."""
    written = ast.get_source_segment(source.text, node) or ""
    if _is_alias(node) or len(written) <= 4 * _WIDTH:
        return written
    if isinstance(node, ast.AnnAssign):
        return f"{_written(node.target)}: {_written(node.annotation)}"
    return _written(node.targets[0])


def _with_docs(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Yield statements, each with the string below it."""
    for node, after in zip(body, [*body[1:], None], strict=True):
        match after:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node, inspect.cleandoc(text)
            case _:
                yield node, ""


def _doc(node: ast.Module | ast.ClassDef | _Function) -> str:
    return ast.get_docstring(node) or ""


def _init(node: ast.ClassDef) -> _Function | None:
    return next(
        (one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"),
        None,
    )


def _is_callable(member: Member) -> bool:
    return member.code.startswith(("def ", "async def "))


def _is_overload(node: _Function) -> bool:
    return any(_written(mark) == "overload" for mark in node.decorator_list)


def _is_alias(node: ast.AnnAssign | ast.Assign) -> bool:
    return isinstance(node, ast.AnnAssign) and _written(node.annotation) == "TypeAlias"


def _is_public(name: str) -> bool:
    return not name.startswith("_")
