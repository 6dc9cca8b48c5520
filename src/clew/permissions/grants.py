"""Approvals that last longer than one call: they cover calls of the same shape.

The shape of a command line is the first words of each command, that of a path its folder, that of a
URL its host. A call without a target, as of an MCP tool, has no shape: the grant covers the tool.
Filters such as `tail` in a line have no shape: a grant covers any of them. The file of a
redirection belongs to the shape; groups, loops and variables count only as such. Only a grant for
exactly that call covers a call in doubt, one whose later arguments decide what is lost, and a
change to settings or hooks. A grant never covers another tool or another risk.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from clew.core.permissions import Access, Risk, TargetKind
from clew.permissions.command_files import WorkingDirs, follow_cd
from clew.permissions.guarded_files import is_guarded
from clew.permissions.match_text import host_of
from clew.permissions.paths import escape_glob, is_folder, resolve
from clew.permissions.policy import Grant, Policy
from clew.permissions.read_only import only_reads
from clew.permissions.rules import MAX_RULE_LENGTH
from clew.permissions.shell.command_line import CommandLine, ShellCommand
from clew.permissions.shell.file_arguments import find_files
from clew.permissions.shell.parser import parse_line
from clew.permissions.shell.possible_files import find_possible_files
from clew.permissions.shell.programs import DESTRUCTIVE, FILTERS, RUNNERS, word_set

_WILD = frozenset("*?")
_ANY_CALL = (("any",),)
"""The shape of a call without a target: nothing in it tells calls of the tool apart."""
_FILTERS = ("filters",)
"""The part of a shape that stands for filters in a line."""
_COMPOUND = ("compound",)
"""The part of a shape that stands for groups, loops and harmless variables in a line."""
_OPTIONAL = frozenset({_FILTERS, _COMPOUND})
"""A grant with such a part also covers lines without it."""
_RUN_WORDS = {"python": "-m", "python3": "-m", "uv": "run", "poetry": "run", "pipenv": "run"}
_TOOLS = word_set("pytest unittest mypy ruff black isort flake8 pylint pyright")
_MAKE_ARGUMENT = re.compile(r"-[jksB]\d*|\w[\w./-]*")


def grant_for(access: Access, cwd: Path) -> Grant:
    """Return a grant for calls of the same shape."""
    shape = tuple(part for target in access.targets for part in _shape(access, target, cwd))
    return Grant(access.tool, access.risk, shape)


def exact_grant(access: Access) -> Grant:
    """Return a grant for exactly this call; without a target, its arguments tell calls apart."""
    arguments = repr(sorted(access.arguments.items(), key=lambda one: one[0]))
    shape = tuple(("exactly", target or arguments) for target in access.targets)
    return Grant(access.tool, access.risk, shape)


def covers(grant: Grant, access: Access, cwd: Path) -> bool:
    """Does a grant cover this call?"""
    if (grant.tool, grant.risk) != (access.tool, access.risk):
        return False
    if grant == exact_grant(access):
        return True
    asked = grant_for(access, cwd)
    extra = _OPTIONAL.intersection(asked.shape)
    return _required(grant) == _required(asked) and extra.issubset(grant.shape)


def _required(grant: Grant) -> tuple[tuple[str, ...], ...]:
    return tuple(part for part in grant.shape if part not in _OPTIONAL)


def session_grant(access: Access, cwd: Path, *, exact: bool) -> Grant:
    """Return the grant of an approval for the session: this call, or calls of its shape."""
    return exact_grant(access) if exact else grant_for(access, cwd)


def describe_grant(grant: Grant, cwd: Path) -> str:
    """Say which calls a grant covers, such as `Write in this folder`."""
    if any(kind == "exactly" for kind, *_ in grant.shape):
        return "just this call"
    parts = dict.fromkeys(_describe_part(part, cwd) for part in grant.shape)
    return f"{grant.tool} {' and '.join(parts)}".rstrip()


def _describe_part(part: tuple[str, ...], cwd: Path) -> str:
    match part:
        case ("folder", folder):
            return _describe_folder(Path(folder), cwd.resolve())
        case ("host", host):
            return f"from {host}"
        case ("cd", folder):
            return _describe_folder(Path(folder), cwd.resolve())
        case ("filters",):
            return "filters that only read"
        case ("compound",):
            return "the same in groups and loops and with variables"
        case ("writes" | "reads", file):
            path, root = Path(file), cwd.resolve()
            place = path.relative_to(root) if path.is_relative_to(root) else path
            return f"{'writing' if part[0] == 'writes' else 'reading'} {place}"
        case ("any",):
            return "with any arguments"
        case (_, *words):
            return f"`{' '.join(words)} …`"
        case _:
            return ""


def _describe_folder(folder: Path, root: Path) -> str:
    if folder == root:
        return "in this folder"
    return f"in {folder.relative_to(root) if folder.is_relative_to(root) else folder}/"


def rules_for(access: Access, cwd: Path) -> tuple[str, ...]:
    """Return allow rules that let calls of this shape run in every session of the project.

    Empty if no rule can: a rule never allows a line in doubt, and rules have a maximum length.
    """
    found = [tuple(_target_rules(access, target, cwd)) for target in access.targets]
    rules = tuple(dict.fromkeys(rule for rules in found for rule in rules))
    return rules if all(found) and all(len(rule) <= MAX_RULE_LENGTH for rule in rules) else ()


def is_command(access: Access) -> bool:
    """Is the target parsed as a command line?

    So is the target of any tool that may do anything: for other text this only means more
    questions.
    """
    if access.kind is TargetKind.TEXT:
        return access.risk in (Risk.EXECUTE, Risk.UNKNOWN) and access.target != ""
    return access.kind is TargetKind.COMMAND


def _shape(access: Access, target: str, cwd: Path) -> tuple[tuple[str, ...], ...]:
    exact = (("exactly", target),)
    if is_command(access):
        return _line_shape(parse_line(target), access, cwd) or exact
    if access.kind is TargetKind.PATH:
        folder = None if is_guarded(access, target, cwd) else _folder(target, cwd)
        return (("folder", str(folder)),) if folder else exact
    if access.kind is TargetKind.ADDRESS and (host := host_of(target)):
        return (("host", host),)
    return exact if target else _ANY_CALL


def _folder(target: str, cwd: Path) -> Path | None:
    path = resolve(target, cwd) if target else None
    return path if path is None or is_folder(path) else path.parent


def _line_shape(line: CommandLine, access: Access, cwd: Path) -> tuple[tuple[str, ...], ...]:
    dirs = follow_cd(line, cwd, access.start)
    files = _redirections(line, dirs)
    # What a here-document or a loop passes to a program may be commands for it.
    unclear = line.doubts or line.made_program or (line.inputs and not line.is_list)
    if unclear or files is None or (line.cd_targets and not dirs.inside):
        return ()
    commands = [each for command in line.commands for each in command.variants or (command,)]
    acting = [each for each in commands if not is_filter(each, cwd) and each.name != "cd"]
    if not acting or any(map(_needs_exact_grant, acting)):
        return ()
    moves = tuple(("cd", str(folder)) for folder in dirs.folders[1:])
    shapes = map(_command_shape, acting)
    shape = (*moves, *(shapes if line.is_list else dict.fromkeys(shapes)), *files)
    filtered = any(is_filter(each, cwd) for each in commands)
    extra = (*(() if line.is_list else (_COMPOUND,)), *((_FILTERS,) if filtered else ()))
    return (*shape, *extra)


def _redirections(line: CommandLine, dirs: WorkingDirs) -> tuple[tuple[str, str], ...] | None:
    """Return the files of redirections as parts of a shape; None if a file needs an exact grant."""
    found: list[tuple[str, str]] = []
    root = dirs.cwd.resolve()
    for file in line.files:
        if not (file.redirected and file.path.known) or dirs.moved:
            return None
        tool, risk = ("Write", Risk.MODIFY) if file.writes else ("Read", Risk.INSPECT)
        path = resolve(file.path.text, root)
        access = Access(tool=tool, risk=risk, target=file.path.text, kind=TargetKind.PATH)
        if path is None or not path.is_relative_to(root):
            return None
        if is_guarded(access, file.path.text, dirs.cwd):
            return None
        found.append(("writes" if file.writes else "reads", str(path)))
    return tuple(dict.fromkeys(found))


def is_filter(command: ShellCommand, cwd: Path) -> bool:
    """Does a command only read its standard input, and no file?"""
    if command.inner or command.name == "cd":
        return False
    if command.inert:
        return not command.expands
    if any(find_files(command.words)) or any(find_possible_files(command.words)):
        return False
    place = WorkingDirs(cwd, (cwd.resolve(),))
    return command.program in FILTERS and only_reads(command, Policy(cwd=cwd), place)


def _command_shape(command: ShellCommand) -> tuple[str, ...]:
    count = 3 if _runs_known_tool(command) else 2
    return ("begins", *(word.text for word in command.words[:count]))


def _runs_known_tool(command: ShellCommand) -> bool:
    """Is it a call such as `python -m pytest`, whose third word says what it does?"""
    texts = [word.text for word in command.words[:3]]
    return len(texts) == 3 and texts[1] == _RUN_WORDS.get(texts[0]) and texts[2] in _TOOLS


def _is_plain_make(command: ShellCommand) -> bool:
    """Is it `make` with targets, and without variables, files or code?"""
    return command.name == "make" and all(
        _MAKE_ARGUMENT.fullmatch(word.text) for word in command.words[1:]
    )


def _needs_exact_grant(command: ShellCommand) -> bool:
    if command.expands or command.inner or command.sensitive_words or command.opaque_reason:
        return True
    if command.program in DESTRUCTIVE:
        return True
    runs = command.program in RUNNERS
    return runs and not (_runs_known_tool(command) or _is_plain_make(command))


def _target_rules(access: Access, target: str, cwd: Path) -> Iterator[str]:
    if is_command(access):
        yield from _line_rules(access, parse_line(target), cwd)
    elif access.kind is TargetKind.PATH:
        folder = None if is_guarded(access, target, cwd) else _folder(target, cwd)
        if folder is not None:
            yield f"{access.tool}({_folder_pattern(folder, cwd)}/*)"
    elif access.kind is TargetKind.ADDRESS:
        host = host_of(target)
        if host is not None:
            yield f"{access.tool}(domain:{host})"
    elif not _WILD & set(target) and target.strip() == target:
        yield f"{access.tool}({target})" if target else access.tool


def _folder_pattern(folder: Path, cwd: Path) -> str:
    root = cwd.resolve()
    if folder == root:
        return "."
    if folder.is_relative_to(root):
        return f"/{escape_glob(str(folder.relative_to(root)))}"
    return f"/{escape_glob(str(folder))}"


def _line_rules(access: Access, line: CommandLine, cwd: Path) -> Iterable[str]:
    needed = [each for each in line.commands if not each.inert and not is_filter(each, cwd)]
    if line.cd_targets:
        # A rule does not allow git in another folder.
        git = any(each.program == "git" for each in needed)
        if git or not follow_cd(line, cwd, access.start).inside:
            return ()
        needed = [each for each in needed if each.name != "cd"]
    if line.doubts or line.files or not needed:
        return ()
    # A rule must not allow more than the answer for the session, which may be just this call.
    is_exact = not _line_shape(line, access, cwd)
    if is_exact and not line.is_list:
        return ()
    texts = [_rule_text(command, is_exact=is_exact) for command in needed]
    return [f"{access.tool}({text})" for text in texts] if all(texts) else ()


def _rule_text(command: ShellCommand, *, is_exact: bool) -> str:
    """Return a pattern that allows a command and similar ones, or an empty string without one."""
    special = set("\"'\\*?\n\t\r\0")
    if is_exact or _needs_exact_grant(command) or _is_plain_make(command):
        words = [word.text for word in command.words]
        spelled = all(word and not (special | {" "}) & set(word) for word in words)
        return command.plain if spelled and not command.expands else ""
    words = list(_command_shape(command)[1:])
    if not all(word and not (special | {" "}) & set(word) for word in words):
        return ""
    return f"{' '.join(words)}:*" if len(command.words) > 1 else words[0]
