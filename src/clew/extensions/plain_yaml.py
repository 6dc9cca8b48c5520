"""As much of YAML as a file from outside needs: mappings, lists and scalars.

Tags make no objects, aliases are not followed (a few lines of them can stand for gigabytes),
and only `true`, `false`, `null` and whole numbers are more than text: no `yes`, no dates, no
octals. The values are built from the parser's events, so a limit stops a hostile text early.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml

MAX_DEPTH = 16
"""How deep lists and mappings may be nested."""

_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
_NUMBER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class NotPlain(Exception):
    """A text is no YAML, or more of it than is wanted; says why, after the number of a line."""


def read_fields(text: str) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of `text`, and the names that it gives more than once.

    Raises:
        NotPlain: It holds something else.
    """
    repeated: list[str] = []
    try:
        events: Iterator[Any] = iter(yaml.parse(text, Loader=_LOADER))
        nodes = (event for event in events if isinstance(event, yaml.NodeEvent))
        first = next(nodes, None)
        value = {} if first is None else _build(first, events, repeated, 0)
    except yaml.MarkedYAMLError as error:
        place = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise NotPlain(f"{place}{error.problem or error.context}") from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise NotPlain("it has characters that YAML does not allow") from error
    if not isinstance(value, dict):
        raise NotPlain("it holds no fields")
    return value, repeated


def read_scalar(text: str) -> Any:
    """Return what a word without quotes stands for: itself, mostly."""
    lowered = text.lower()
    if lowered in _WORDS:
        return _WORDS[lowered]
    return int(text) if _NUMBER.fullmatch(text) else text


def _build(event: Any, events: Iterator[Any], repeated: list[str], depth: int) -> Any:
    """Return the value that begins with `event`, taking the rest of it from `events`."""
    if depth > MAX_DEPTH:
        raise NotPlain(f"it is nested more than {MAX_DEPTH} deep")
    match event:
        case yaml.ScalarEvent():
            return read_scalar(event.value) if event.implicit[0] else event.value
        case yaml.SequenceStartEvent():
            items = []
            while not isinstance(item := next(events), yaml.SequenceEndEvent):
                items.append(_build(item, events, repeated, depth + 1))
            return items
        case yaml.MappingStartEvent():
            return _build_mapping(events, repeated, depth)
        case _:
            raise NotPlain("it has aliases")


def _build_mapping(events: Iterator[Any], repeated: list[str], depth: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    while not isinstance(key := next(events), yaml.MappingEndEvent):
        if not isinstance(key, yaml.ScalarEvent):
            raise NotPlain("the name of a field is no text")
        if key.value in fields:
            repeated.append(key.value)
        fields[key.value] = _build(next(events), events, repeated, depth + 1)
    return fields
