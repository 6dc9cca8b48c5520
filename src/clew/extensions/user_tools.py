"""Tools of the user's own: from Python files, and from installed packages.

A file or package that cannot be loaded is reported and left out; it never breaks a session.
"""

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct

from clew.core.models import ToolSpec
from clew.core.text import one_line
from clew.files.entry_points import InstalledPart, find_installed
from clew.files.safe_read import FileContent
from clew.tools.protocol import Tool

TOOL_GROUP = "clew.tools"
_REASON = 200


class UserTool(Struct, frozen=True):
    """A tool that is not built in."""

    tool: Tool
    origin: str
    """The file, or the package and the object."""


class UserTools(Struct, frozen=True, kw_only=True):
    """The tools that were found, and what could not be loaded."""

    tools: tuple[UserTool, ...] = ()
    problems: tuple[str, ...] = ()
    """Each names a file or package, the line, and the reason."""

    def merge(self, taken: Iterable[str]) -> tuple[list[UserTool], list[str]]:
        """Return the tools whose names are free, and a warning for each of the others.

        The first tool of a name wins: a built-in one, then one of the user, of the project, of a
        package.
        """
        owners = dict.fromkeys(taken, "a built-in tool")
        free: list[UserTool] = []
        warnings: list[str] = []
        for one in self.tools:
            name = one.tool.spec.name
            if name in owners:
                warnings.append(
                    f"the tool {name} of {one.origin} is not used: {owners[name]} has that name;"
                    " rename it with @tool(name=…)"
                )
            else:
                owners[name] = one.origin
                free.append(one)
        return free, warnings


def load_user_tools(
    files: Sequence[FileContent], *, installed: Sequence[InstalledPart] | None = None
) -> UserTools:
    """Load the tools of files and of installed packages; blocks, and runs their code.

    Args:
        files: Files that the user trusts, in order of precedence.
        installed: Entry points; by default those of the group `clew.tools`.
    """
    tools: list[UserTool] = []
    problems: list[str] = []
    for file in files:
        if file.problem:
            problems.append(f"{file.path} is not loaded: {file.problem}")
            continue
        _collect(lambda file=file: _load_file(file), str(file.path), tools, problems)  # type: ignore[misc]
    for part in find_installed(TOOL_GROUP) if installed is None else installed:
        _collect(lambda part=part: _load_part(part), part.origin, tools, problems)  # type: ignore[misc]
    return UserTools(tools=tuple(tools), problems=tuple(problems))


def _collect(
    load: Callable[[], list[Tool]], origin: str, tools: list[UserTool], problems: list[str]
) -> None:
    try:
        found = load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it is the user's code
        problems.append(f"{_place(error, origin)} is not loaded: {_describe(error)}")
        return
    if not found:
        problems.append(f"{origin} has no tools: decorate a function with @tool")
    tools += (UserTool(tool, origin) for tool in found)


def _load_file(file: FileContent) -> list[Tool]:
    digest = hashlib.sha256(str(file.path).encode(errors="surrogateescape") + file.content)
    name = f"clew_user_tools_{file.path.stem}_{digest.hexdigest()[:12]}"
    module = sys.modules.get(name)
    if module is None:
        module = ModuleType(name)
        module.__file__ = str(file.path)
        code = compile(file.content, str(file.path), "exec")
        sys.modules[name] = module
        try:
            exec(code, module.__dict__)  # noqa: S102 - the user accepted exactly this content
        except BaseException:
            del sys.modules[name]
            raise
    return list(_find_tools(vars(module).values()))


def _load_part(part: InstalledPart) -> list[Tool]:
    found = part.load()
    if isinstance(found, ModuleType):
        return list(_find_tools(vars(found).values()))
    if not is_tool(found) and callable(found):
        found = found()
    return list(_find_tools([found] if is_tool(found) else found))


def _find_tools(values: Iterable[object]) -> Iterator[Tool]:
    seen: set[int] = set()
    for value in values:
        if is_tool(value) and id(value) not in seen:
            seen.add(id(value))
            yield value  # type: ignore[misc]


def is_tool(value: Any) -> bool:
    """Return whether an object can be used as a tool."""
    return (
        not isinstance(value, type)
        and isinstance(getattr(value, "spec", None), ToolSpec)
        and callable(getattr(value, "access", None))
        and callable(getattr(value, "run", None))
    )


def _place(error: BaseException, origin: str) -> str:
    """Return the file and the line of a failure, as far as it is in that file."""
    if isinstance(error, SyntaxError) and error.filename == origin and error.lineno:
        return f"{origin}, line {error.lineno},"
    import traceback  # noqa: PLC0415 - seldom needed

    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == origin
    ]
    return f"{origin}, line {lines[-1]}," if lines else origin


def _describe(error: BaseException) -> str:
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    return one_line(f"{type(error).__name__}: {said}" if said else type(error).__name__, _REASON)


def shorten_origins(tools: Iterable[UserTool], home: Path) -> Mapping[str, str]:
    """Return where tools come from, by name; the home folder is `~`."""
    return {
        one.tool.spec.name: one.origin.replace(f"{home}/", "~/", 1)
        if one.origin.startswith(f"{home}/")
        else one.origin
        for one in tools
    }
