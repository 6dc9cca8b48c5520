"""Which hooks an event concerns.

A matcher of plain characters is a name, or a list of names; anything else is a regular
expression that may match anywhere in the name. So `Bash` is not `BashOutput`, and `^Note`
is every name that begins so.
"""

import re

from msgspec import Struct, UnsetType

from clew.hooks.protocol import HookEvent, HookInput

_NAMES = re.compile(r"[A-Za-z0-9_\-, |]*")
_NARROW_NAMES = re.compile(r"[A-Za-z0-9_|]*")
_SHOWN = 100
_OLD_NAMES = {"Agent": ("Task",)}
"""Names that Claude Code gave its tools once, and that hooks still use."""

TOOL_EVENTS = frozenset({HookEvent.PRE_TOOL_USE, HookEvent.POST_TOOL_USE})
UNMATCHED = frozenset(
    {
        HookEvent.USER_PROMPT_SUBMIT,
        HookEvent.STOP,
        HookEvent.WORKTREE_CREATE,
        HookEvent.WORKTREE_REMOVE,
    }
)
"""Events that a matcher does not apply to: their hooks always run."""


class Matcher(Struct, frozen=True):
    """What a matcher means: everything, some names, or a pattern."""

    names: frozenset[str] | None = None
    pattern: re.Pattern[str] | None = None

    def matches(self, target: tuple[str, ...]) -> bool:
        """Does it hold for a thing of these names?"""
        if self.names is not None:
            return not self.names.isdisjoint(target)
        return self.pattern is None or any(map(self.pattern.search, target))


ALL = Matcher()


def matcher_for(event: HookEvent, text: str) -> tuple[Matcher, str]:
    """Read a matcher.

    Returns:
        The matcher, and what is wrong with it in words; empty if nothing is.
    """
    if text in ("", "*"):
        return ALL, ""
    if event in UNMATCHED:
        return ALL, f"the matcher {shown(text)} has no effect: {event} has nothing to match"
    # Claude Code reads commas and hyphens as part of a list of names, except here.
    narrow = event is HookEvent.STOP_FAILURE
    if (_NARROW_NAMES if narrow else _NAMES).fullmatch(text):
        names = (name.strip() for name in re.split(r"\|" if narrow else r"[|,]", text))
        return Matcher(names=frozenset(name for name in names if name)), ""
    try:
        return Matcher(pattern=re.compile(text)), ""
    except (re.error, RecursionError, OverflowError) as error:
        why = f"is not a regular expression ({error}); it is read as a name"
        return Matcher(names=frozenset({text})), f"the matcher {shown(text)} {why}"


def shown(written: object) -> str:
    """Return what somebody wrote, a text between quotes, on one line and not too long."""
    text = repr(written)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def target_of(event: HookEvent, payload: HookInput) -> tuple[str, ...]:
    """Return the names of what `event` is about, the usual one first; none for nothing."""
    match event:
        case HookEvent.PRE_TOOL_USE | HookEvent.POST_TOOL_USE:
            found = payload.tool_name
        case HookEvent.SESSION_START:
            found = payload.source
        case HookEvent.SESSION_END:
            found = payload.reason
        case HookEvent.PRE_COMPACT | HookEvent.POST_COMPACT:
            found = payload.trigger
        case HookEvent.SUBAGENT_START | HookEvent.SUBAGENT_STOP:
            found = payload.agent_type or payload.agent_id
        case HookEvent.STOP_FAILURE:
            found = payload.error
        case _:
            return ()
    if isinstance(found, UnsetType):
        return ()
    return (found, *_OLD_NAMES.get(found, ())) if event in TOOL_EVENTS else (found,)
