"""`clew config`: show the settings and their files, check them, change them."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from clew.cli.environment import own_environment
from clew.cli.streams import print_json, print_lines, write_err
from clew.sdk.folders import working_folder
from clew.sdk.settings import (
    LoadedSettings,
    ProjectSettings,
    describe_settings,
    format_withheld,
    json_schema,
    list_values,
)

_MAX_WIDTH = 40
_NOTHING_TO_ACCEPT = "nothing to accept: this folder has no settings, or they only add restrictions"


def run_config(arguments: Namespace) -> int:
    """Run one action of `clew config`; returns the exit code."""
    return _ACTIONS[arguments.action or "show"](
        ProjectSettings(working_folder(), own_environment(arguments)), arguments
    )


def _show(settings: ProjectSettings, arguments: Namespace) -> int:
    loaded = settings.load()
    if arguments.json:
        print_json(describe_settings(loaded), indent=True)
    else:
        print_lines(_format_settings(loaded))
    return 0


def _format_settings(loaded: LoadedSettings) -> Iterator[str]:
    found = [
        (f"{key} = {msgspec.json.encode(value).decode()}", ", ".join(labels))
        for key, value, labels in list_values(loaded)
    ]
    if not found:
        yield "no settings; all defaults apply"
    width = min(_MAX_WIDTH, max((len(text) for text, _ in found), default=0))
    for text, labels in found:
        yield f"{text:<{width}}  # {labels}"
    if loaded.withheld:
        yield "\nwithheld until you accept this folder with `clew config accept`:"
        yield from (f"  {line}" for line in format_withheld(loaded.withheld).splitlines())
    if loaded.settings.unused:
        yield "\nnot used by Clew:"
        yield from (f"  {each.label}: {each.key}" for each in loaded.settings.unused)
    if problems := loaded.settings.hooks.problems:
        yield "\nignored:"
        yield from (f"  {problem}" for problem in problems)


def _path(settings: ProjectSettings, _: Namespace) -> int:
    print_lines(
        f"{'+' if layer.exists else '-'} {layer.path}  ({layer.place.scope})"
        for layer in settings.load().layers
    )
    return 0


def _check(settings: ProjectSettings, _: Namespace) -> int:
    problems = settings.find_problems()
    for problem in problems:
        write_err(problem)
    if not problems:
        print_lines(["no problems found"])
    return 1 if problems else 0


def _schema(_: ProjectSettings, __: Namespace) -> int:
    print_json(json_schema(), indent=True)
    return 0


def _get(settings: ProjectSettings, arguments: Namespace) -> int:
    value = settings.get(arguments.key)
    if value is None:
        write_err(f"{arguments.key} is not set")
        return 1
    if isinstance(value, str):
        print_lines([value])
    else:
        print_json(value, indent=True)
    return 0


def _set(settings: ProjectSettings, arguments: Namespace) -> int:
    change = settings.set(arguments.key, arguments.value, target=arguments.where)
    print_lines([f"{arguments.key} is set in {change.file}"])
    if change.withheld:
        write_err(
            "part of that file has no effect until you accept this folder: clew config accept"
        )
    return 0


def _unset(settings: ProjectSettings, arguments: Namespace) -> int:
    change = settings.unset(arguments.key, target=arguments.where)
    print_lines([f"{arguments.key} is no longer set in {change.file}"])
    return 0


def _accept(settings: ProjectSettings, _: Namespace) -> int:
    loaded = settings.load()
    if not loaded.withheld:
        print_lines(["this folder is already accepted" if loaded.accepted else _NOTHING_TO_ACCEPT])
        return 0
    settings.accept(loaded)
    withheld = format_withheld(loaded.withheld, most=len(loaded.withheld))
    print_lines([f"accepted {settings.cwd}; these settings now apply:", withheld])
    return 0


def _forget(settings: ProjectSettings, _: Namespace) -> int:
    was_stored = settings.revoke()
    print_lines(
        ["this folder is no longer accepted" if was_stored else "this folder was not accepted"]
    )
    return 0


_Action: TypeAlias = Callable[[ProjectSettings, Namespace], int]
_ACTIONS: Mapping[str, _Action] = MappingProxyType(
    {
        "show": _show,
        "path": _path,
        "check": _check,
        "schema": _schema,
        "get": _get,
        "set": _set,
        "unset": _unset,
        "accept": _accept,
        "forget": _forget,
    }
)
