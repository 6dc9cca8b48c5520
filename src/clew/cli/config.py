"""`clew config`: what the settings say, where they say it, and how to change them."""

import os
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from clew.cli.sanitize import sanitize, sanitize_json
from clew.cli.streams import tell, write_out
from clew.config.display import list_values, redact_settings
from clew.config.layers import get_value
from clew.config.providers import find_mistakes
from clew.config.schema_info import json_schema
from clew.config.session_options import build_session_options
from clew.config.settings import LoadedSettings, load_trusted
from clew.config.trust import Trust, format_withheld
from clew.config.updates import find_key, find_target, set_value, unset_value
from clew.core.errors import ConfigError
from clew.sdk.folders import user_folder, working_folder

_WIDEST = 40


@dataclass(frozen=True, slots=True)
class _Ask:
    """What was asked for, and where."""

    arguments: Namespace
    cwd: Path
    trust: Trust

    def load(self) -> LoadedSettings:
        return load_trusted(
            self.cwd,
            user_home=Path.home(),
            clew_home=user_folder(),
            environ=os.environ,
            trust=self.trust,
        )


def run_config(arguments: Namespace) -> int:
    """Carry out one of the actions below."""
    ask = _Ask(arguments, working_folder(), trust_file())
    return _ACTIONS[arguments.action or "show"](ask)


def trust_file() -> Trust:
    """Return where accepted folders are remembered."""
    return Trust(user_folder() / "trust.json")


def _show(ask: _Ask) -> int:
    loaded = ask.load()
    if ask.arguments.json:
        _write_json(_report(loaded))
        return 0
    _write(_lines(loaded))
    return 0


def _report(loaded: LoadedSettings) -> dict[str, Any]:
    return {
        "settings": redact_settings(loaded),
        "origins": {key: labels for key, _, labels in list_values(loaded)},
        "accepted": loaded.accepted,
        "fingerprint": loaded.fingerprint,
        "withheld": [
            {"path": str(each.path), "key": each.key, "why": each.why} for each in loaded.withheld
        ],
        "unused": [{"file": each.label, "key": each.key} for each in loaded.settings.unused],
        "problems": list(loaded.settings.hooks.problems),
    }


def _lines(loaded: LoadedSettings) -> Iterator[str]:
    found = [
        (f"{key} = {msgspec.json.encode(value).decode()}", ", ".join(labels))
        for key, value, labels in list_values(loaded)
    ]
    if not found:
        yield "nothing is set; all is as Clew comes"
    width = min(_WIDEST, max((len(text) for text, _ in found), default=0))
    for text, labels in found:
        yield f"{text:<{width}}  # {labels}"
    if loaded.withheld:
        yield "\nwithheld until you accept this folder with `clew config accept`:"
        yield from (f"  {line}" for line in format_withheld(loaded.withheld).splitlines())
    if loaded.settings.unused:
        yield "\nnot used by Clew:"
        yield from (f"  {each.label}: {each.key}" for each in loaded.settings.unused)
    if problems := loaded.settings.hooks.problems:
        yield "\nleft out:"
        yield from (f"  {problem}" for problem in problems)


def _path(ask: _Ask) -> int:
    _write(
        f"{'+' if layer.exists else '-'} {layer.path}  ({layer.place.scope})"
        for layer in ask.load().layers
    )
    return 0


def _check(ask: _Ask) -> int:
    found = list(_mistakes(ask))
    for mistake in found:
        tell(mistake)
    if not found:
        _write(["all settings are in order"])
    return 1 if found else 0


def _mistakes(ask: _Ask) -> Iterator[str]:
    """Yield what is wrong, with the settings of the project as if it were accepted."""
    try:
        loaded = ask.load().once_accepted()
        build_session_options(loaded.settings)
    except ConfigError as error:
        yield str(error)
        return
    yield from find_mistakes(loaded.settings, loaded.environ)


def _schema(_: _Ask) -> int:
    _write_json(json_schema())
    return 0


def _get(ask: _Ask) -> int:
    way, _ = find_key(ask.arguments.key)
    found = get_value(redact_settings(ask.load()), way)
    if found is None:
        tell(f"{ask.arguments.key} is not set")
        return 1
    if isinstance(found, str):
        _write([found])
    else:
        _write_json(found)
    return 0


def _set(ask: _Ask) -> int:
    loaded = ask.load()
    place = find_target(loaded, ask.arguments.where)
    set_value(loaded, place, ask.arguments.key, ask.arguments.value, trust=ask.trust)
    _write([f"{ask.arguments.key} is set in {place.label}"])
    withheld = ask.load().withheld
    if any(each.path == place.path for each in withheld):
        tell("part of that file is withheld until you accept this folder: clew config accept")
    return 0


def _unset(ask: _Ask) -> int:
    loaded = ask.load()
    place = find_target(loaded, ask.arguments.where)
    unset_value(loaded, place, ask.arguments.key, trust=ask.trust)
    _write([f"{ask.arguments.key} is no longer set in {place.label}"])
    return 0


def _accept(ask: _Ask) -> int:
    loaded = ask.load()
    if not loaded.withheld:
        _write(["this folder is accepted already" if loaded.accepted else _NOTHING])
        return 0
    ask.trust.accept(ask.cwd, loaded.fingerprint)
    _write(
        [
            f"accepted {ask.cwd}; from now on",
            format_withheld(loaded.withheld, most=len(loaded.withheld)),
        ]
    )
    return 0


def _forget(ask: _Ask) -> int:
    was = ask.trust.forget(ask.cwd)
    _write(["this folder is accepted no longer" if was else "this folder was not accepted"])
    return 0


def _write(lines: Iterator[str] | list[str]) -> None:
    write_out("".join(f"{sanitize(line)}\n" for line in lines))


def _write_json(value: object) -> None:
    text = msgspec.json.format(msgspec.json.encode(value)).decode()
    write_out(f"{sanitize_json(text)}\n")


_NOTHING = "there is nothing to accept: this folder's settings only restrict, or there are none"
_Action: TypeAlias = Callable[[_Ask], int]
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
