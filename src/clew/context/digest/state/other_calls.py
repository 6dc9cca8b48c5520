"""Other calls: what an agent did with tools that no other part of a digest knows.

Such tools are those of a user's program or of an MCP server: they book, send, create, assign. Calls
that only look something up are left out.
"""

import re
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from clew.context.cleared_results import DELEGATION_TOOLS
from clew.context.digest.steps.tool_steps import ToolStep
from clew.context.tool_arguments import (
    AGENT_TOOLS,
    CHANGE_TOOLS,
    READ_TOOLS,
    SEARCH_TOOLS,
    SHELL_TOOLS,
)
from clew.core.ids import EntryId
from clew.core.text import one_line

_KNOWN = (
    frozenset(
        {*AGENT_TOOLS, *CHANGE_TOOLS, *READ_TOOLS, *SEARCH_TOOLS, *SHELL_TOOLS, "apply_patch"}
    )
    | DELEGATION_TOOLS
)
_LOOKS = frozenset(
    {
        "get", "list", "search", "find", "fetch", "query", "describe", "retrieve", "lookup", "look",
        "browse", "inspect", "show", "read", "view", "check", "calculate", "count", "think", "wait",
        "navigate", "screenshot", "snapshot", "is", "has", "resolve",
    }
)  # fmt: skip
_ACTS = frozenset(
    {
        "create", "update", "delete", "replace", "insert", "remove", "send", "add", "set", "write",
        "book", "cancel", "assign", "close", "merge", "post", "upload", "move", "rename", "edit",
        "start", "stop", "run", "execute", "deploy", "submit", "approve", "archive", "out",
    }
)  # fmt: skip
_JOINED = frozenset({"or", "and"})
_CAMEL_LOOK = re.compile(
    r"(?:get(?!away)|list(?!en|ing)|search|find|fetch|query(?!set)|describe|retrieve|lookup"
    r"|read(?!y|just|me)|show|view)(?!.*(?:or|and)(?:create|update|replace|delete|insert|add))"
)
"""A name in camel case, of which only lower case is left."""
_WORD = re.compile(r"[a-z0-9]+")
_MOST_VALUE, _MOST_ARGUMENTS, _MOST_RESULT = 120, 320, 100


class OtherCall(Struct, frozen=True, gc=False):
    """A call that did something."""

    entry_id: EntryId
    text: str
    """The tool with its arguments, and the beginning of its result."""


def list_other_calls(steps: Iterable[ToolStep]) -> list[OtherCall]:
    """Return the calls of other tools that ran, newest first; a repeated one once."""
    found: dict[str, EntryId] = {}
    for step in steps:
        if step.name in _KNOWN or not step.ran or is_lookup(step.name):
            continue
        text = _write_call(step)
        found.pop(text, None)
        found[text] = step.entry_id
    return [OtherCall(entry_id, text) for text, entry_id in reversed(found.items())]


def is_lookup(name: str) -> bool:
    """Return whether the name of a tool says that it only reads: by its first verb.

    `get_or_create` and `search_and_replace` do more.
    """
    words = _WORD.findall(name.lower())
    verbs = [word for word in words if word in _LOOKS or word in _ACTS]
    if not verbs:
        return any(map(_CAMEL_LOOK.match, words))
    return verbs[0] in _LOOKS and not (
        "out" in verbs or (_JOINED.intersection(words) and not _LOOKS.issuperset(verbs))
    )


def _write_call(step: ToolStep) -> str:
    values = [f"{key}: {one_line(_write(value), _MOST_VALUE)}" for key, value in _iterate(step)]
    arguments = one_line(", ".join(values), _MOST_ARGUMENTS)
    outcome = "failed" if step.failed else "→"
    name, result = one_line(step.name, _MOST_VALUE), one_line(step.output, _MOST_RESULT)
    return f"{name} {arguments} {outcome} {result}".rstrip(" →")


def _iterate(step: ToolStep) -> Iterable[tuple[str, object]]:
    return [
        (key, value) for key, value in step.arguments.items() if value not in (None, "", [], {})
    ]


def _write(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
