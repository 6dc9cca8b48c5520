"""Changing the code that is running: a plan of steps, and the order in which things may happen.

The process that changes the files goes on with the modules it has loaded. What checks the new
files runs in child processes, from the commands of a plan. Nothing here writes, runs or
restores anything: a plan is a value, and the loop is a function from a state to the next.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

from msgspec import Struct

from clew.core.errors import ConfigError, SessionError

Argv: TypeAlias = tuple[str, ...]
"""A command as a list of arguments; it is never given to a shell."""

StepKind: TypeAlias = Literal[
    "create-checkpoint",
    "mutate-files",
    "hand-off",
    "verify-package",
    "verify-harness",
    "roll-back",
]
State: TypeAlias = Literal[
    "idle", "checkpointed", "editing", "verifying", "passed", "failed", "rolled_back"
]
Event: TypeAlias = Literal[
    "checkpoint_created",
    "edits_started",
    "edits_applied",
    "edits_failed",
    "verify_passed",
    "verify_failed",
    "rollback_completed",
    "rollback_failed",
    "reset",
]
STATES: Final[tuple[State, ...]] = get_args(State)
EVENTS: Final[tuple[Event, ...]] = get_args(Event)

TRANSITIONS: Final[Mapping[State, Mapping[Event, State]]] = MappingProxyType(
    {
        "idle": {"checkpoint_created": "checkpointed"},
        "checkpointed": {"edits_started": "editing", "reset": "idle"},
        "editing": {"edits_applied": "verifying", "edits_failed": "failed"},
        "verifying": {"verify_passed": "passed", "verify_failed": "failed"},
        "passed": {"reset": "idle"},
        "failed": {"rollback_completed": "rolled_back", "rollback_failed": "failed"},
        "rolled_back": {"reset": "idle"},
    }
)
"""Once files were touched there are two ways on: the checks pass, or the files are brought back."""


class VerificationCommands(Struct, frozen=True, kw_only=True):
    """What checks a tree. `{scope}` and `{base_ref}` stand for the plan's own values.

    An argument that is `{changed_files}` and nothing else stands for all changed files.
    """

    package: tuple[Argv, ...] = (
        ("python", "-m", "pytest", "{scope}"),
        ("python", "-m", "mypy", "{scope}"),
        ("python", "-m", "compileall", "-q", "-f", "{scope}"),
    )
    """Run for every scope, in this order: test, check types, build."""
    harness: tuple[Argv, ...] = (("make", "test"),)
    """Run for the whole project; never empty."""


class Step(Struct, frozen=True, kw_only=True):
    """One step of a plan."""

    id: str
    kind: StepKind
    description: str
    in_child: bool = False
    """Its commands run in processes of their own, on what is on disk."""
    commands: tuple[Argv, ...] = ()
    scope: str = ""
    only_after_failure: bool = False


class SelfHostingPlan(Struct, frozen=True, kw_only=True):
    """The steps of one round, in order. A step that fails leads to the last one."""

    changed_files: tuple[str, ...]
    package_scopes: tuple[str, ...]
    base_ref: str
    steps: tuple[Step, ...]


def plan_self_hosting_verification(
    *,
    changed_files: Sequence[str],
    package_scopes: Sequence[str] = (),
    base_ref: str = "origin/main",
    commands: VerificationCommands | None = None,
) -> SelfHostingPlan:
    """Plan how files of the running project are changed and checked.

    Args:
        changed_files: From the project's folder on; at least one.
        package_scopes: What the package commands are run for, such as paths or package names.
        base_ref: What the changes are compared with.
        commands: What checks the tree; fit for a Python project unless given.

    Raises:
        ConfigError: A value is missing, leads out of the project, or would be read as an option.
    """
    files = _unique(changed_files)
    scopes = _unique(package_scopes)
    used = commands or VerificationCommands()
    _check(files, scopes, base_ref, used)
    values = {"base_ref": base_ref}
    packages = (
        Step(
            id=f"verify-package:{scope}",
            kind="verify-package",
            description=f"Check {scope} on disk.",
            in_child=True,
            commands=tuple(
                _fill_placeholders(c, {**values, "scope": scope}, files) for c in used.package
            ),
            scope=scope,
        )
        for scope in scopes
    )
    harness = Step(
        id="verify-harness",
        kind="verify-harness",
        description="Check the whole project on disk.",
        in_child=True,
        commands=tuple(_fill_placeholders(command, values, files) for command in used.harness),
    )
    return SelfHostingPlan(
        changed_files=files,
        package_scopes=scopes,
        base_ref=base_ref,
        steps=(*_BEFORE, *(packages if used.package else ()), harness, _ROLL_BACK),
    )


def transition_self_hosting_loop(state: State, event: Event) -> State:
    """Return the state that follows.

    Raises:
        SessionError: That event cannot happen in that state; nothing has changed.
    """
    if state not in TRANSITIONS:
        raise SessionError(f"There is no state {state!a}: use one of {', '.join(STATES)}.")
    following = TRANSITIONS[state].get(event)
    if following is None:
        possible = ", ".join(TRANSITIONS[state])
        raise SessionError(f"In the state {state} there can be no {event!a}, only {possible}.")
    return following


_BEFORE = (
    Step(
        id="create-checkpoint",
        kind="create-checkpoint",
        description="Keep the files as they are, so that they can be brought back.",
    ),
    Step(
        id="mutate-files",
        kind="mutate-files",
        description="Replace each file in one step.",
    ),
    Step(
        id="hand-off",
        kind="hand-off",
        description="Continue with the loaded modules; check the new files in child processes.",
    ),
)
_ROLL_BACK = Step(
    id="roll-back",
    kind="roll-back",
    description="Bring the files back from the checkpoint.",
    only_after_failure=True,
)
_PLACEHOLDER = re.compile(r"\{(scope|base_ref)\}")
_ALL_FILES = "{changed_files}"


def _unique(values: Sequence[str]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise ConfigError("Give a list of names, not one text.")
    return tuple(dict.fromkeys(values))


def _check(
    files: tuple[str, ...], scopes: tuple[str, ...], base_ref: str, used: VerificationCommands
) -> None:
    if not files:
        raise ConfigError("There is nothing to verify: name at least one changed file.")
    for value in (*files, *scopes, base_ref):
        if not value.strip() or "\0" in value:
            raise ConfigError("A file, a scope or the base must not be empty or hold a NUL.")
        if value.startswith("-"):
            raise ConfigError(f"{value[:80]!a} would be read as an option: it begins with `-`.")
    for file in files:
        path = PurePosixPath(file)
        if path.is_absolute() or ".." in path.parts:
            raise ConfigError(f"{file[:80]!a} leads out of the project. Name it from there on.")
    if not used.harness or not all((*used.package, *used.harness)):
        raise ConfigError("The harness needs a command, and a command needs a program.")
    if any("{scope}" in argument for command in used.harness for argument in command):
        raise ConfigError("A command of the harness is for all scopes: `{scope}` means nothing.")


def _fill_placeholders(command: Argv, values: Mapping[str, str], files: tuple[str, ...]) -> Argv:
    arguments: list[str] = []
    for argument in command:
        if argument == _ALL_FILES:
            arguments += files
        else:
            arguments.append(_PLACEHOLDER.sub(lambda found: values[found[1]], argument))
    return tuple(arguments)
