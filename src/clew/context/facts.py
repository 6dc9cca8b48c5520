"""What happened, as code can tell it: no model writes these lines, so none is invented."""

from collections.abc import Iterable

from msgspec import Struct

from clew.context.items import Item
from clew.core.messages import ToolCall

_READS = frozenset({"Read"})
_CHANGES = frozenset({"Write", "Edit"})
_PATH_KEYS = ("file_path", "path", "filename")
_COMMAND_KEY = "command"


class Facts(Struct, frozen=True, kw_only=True):
    """Files and commands of a stretch of conversation, each once, newest last."""

    files_read: tuple[str, ...] = ()
    files_changed: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return the facts as lines of text; empty when there are none."""
        named = (
            ("Files changed", self.files_changed),
            ("Files read", self.files_read),
            ("Commands run", self.commands),
        )
        return [f"{name}: {'; '.join(values)}" for name, values in named if values]


def gather(items: Iterable[Item]) -> Facts:
    """Collect the facts of `items` from their tool calls; calls that failed do not count."""
    items = list(items)
    failed = {result.call_id for item in items for result in item.message.results if result.failed}
    read: dict[str, None] = {}
    changed: dict[str, None] = {}
    commands: dict[str, None] = {}
    for item in items:
        for call in item.message.calls:
            if call.call_id in failed:
                continue
            arguments = _arguments(call)
            path = next((arguments[key] for key in _PATH_KEYS if key in arguments), "")
            if call.name in _CHANGES and path:
                _note(changed, path)
            elif call.name in _READS and path:
                _note(read, path)
            elif _COMMAND_KEY in arguments:
                _note(commands, " ".join(arguments[_COMMAND_KEY].split())[:120])
    return Facts(
        files_read=tuple(path for path in read if path not in changed),
        files_changed=tuple(changed),
        commands=tuple(commands),
    )


def _note(seen: dict[str, None], value: str) -> None:
    seen.pop(value, None)
    seen[value] = None


def _arguments(call: ToolCall) -> dict[str, str]:
    try:
        arguments = call.decoded()
    except ValueError:
        return {}
    return {key: value for key, value in arguments.items() if isinstance(value, str)}
