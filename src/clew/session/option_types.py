"""Checks of the options of a session, so that a wrong one is named where it was given.

Type checkers find most of these mistakes. Without one, a class in place of an object or a name in
place of a strategy would fail much later, somewhere inside a run.
"""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from clew.core.errors import ConfigError
from clew.core.permissions import PermissionMode

_NUMBERS = frozenset({"budget_usd", "tool_timeout", "provider_timeout"})
_INTEGERS = frozenset(
    {"max_context_tokens", "max_turns", "max_parallel_tools", "max_tool_output_chars"}
)
_TEXTS = frozenset(
    {
        "session_id",
        "resume_session_id",
        "model",
        "name",
        "system_message",
        "append_system_prompt",
        "identity",
        "language",
        "context_strategy",
        "summary_model",
        "compact_instructions",
        "effort",
    }
)
_LISTS = frozenset({"allowed_tools", "disallowed_tools", "add_dirs", "protect", "redact_values"})


def check_types(options: Mapping[str, Any]) -> None:
    """Raise `TypeError` for an option of the wrong type, with what to pass instead."""
    for name, value in options.items():
        if value is None:
            continue
        if name in _NUMBERS and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise TypeError(f"{name} must be a number, not {value!r}")
        if name in _INTEGERS and (isinstance(value, bool) or not isinstance(value, int)):
            raise TypeError(f"{name} must be a whole number, not {value!r}")
        if name in _TEXTS and not isinstance(value, str):
            raise TypeError(f"{name} must be a text, not {value!r}")
        if name in _LISTS and (isinstance(value, str) or not isinstance(value, Iterable)):
            raise TypeError(f"{name} must be a list of texts, not {value!r}")
    for name in ("tools", "extra_tools"):
        if options.get(name) is not None:
            _check_tools(name, options[name])
    _check_store(options.get("store"))
    _check_strategy(options.get("strategy"))


def check_provider(provider: object) -> None:
    """Raise `TypeError` for what is not a provider."""
    _refuse_class("provider", provider)
    if isinstance(provider, str) or not _has(provider, "name", "facts", "stream"):
        raise TypeError(
            f"provider must be an object such as clew.providers.anthropic.Anthropic(key), "
            f"not {provider!r}; a provider of your own has name, facts, stream and aclose"
        )
    if inspect.iscoroutinefunction(getattr(provider, "stream", None)):
        raise TypeError(
            f"{type(provider).__name__}.stream must be an async generator: "
            "`yield` each chunk instead of returning them"
        )


def read_mode(mode: PermissionMode | str) -> PermissionMode:
    """Return the permission mode of that name.

    Raises:
        ConfigError: There is no such mode.
    """
    try:
        return PermissionMode(mode)
    except ValueError:
        known = ", ".join(PermissionMode)
        raise ConfigError(f"there is no permission mode {mode!r}; choose one of: {known}") from None


def _check_tools(name: str, tools: object) -> None:
    if not isinstance(tools, Iterable) or isinstance(tools, str | Mapping):
        raise TypeError(f"{name} must be a list of tools, not {tools!r}")
    for tool in tools:
        _refuse_class(name, tool)
        if _has(tool, "spec", "run"):
            continue
        if callable(tool):
            label = getattr(tool, "__name__", repr(tool))
            raise TypeError(f"{name}: {label} is a plain function; decorate it with @clew.tool")
        raise TypeError(f"{name}: {tool!r} is not a tool; see clew.Tool")


def _check_store(store: object) -> None:
    _refuse_class("store", store)
    if store is not None and not _has(store, "create", "append", "load"):
        raise TypeError(f"store must be an open store, not {store!r}: use clew.stores.open_store")


def _check_strategy(strategy: object) -> None:
    _refuse_class("strategy", strategy)
    if isinstance(strategy, str):
        raise TypeError(f"strategy takes an object; a name goes into context_strategy={strategy!r}")
    if strategy is not None and not _has(strategy, "due", "target", "plan"):
        raise TypeError(f"strategy must have due, target and plan, unlike {strategy!r}; see Custom")


def _refuse_class(name: str, value: object) -> None:
    if isinstance(value, type):
        label = value.__name__
        raise TypeError(f"{name} takes an object, not the class {label}: write {label}(…)")


def _has(value: object, *names: str) -> bool:
    return all(hasattr(value, name) for name in names)
