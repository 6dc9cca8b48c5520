"""Writing down every entry of the journal, in order and without a gap."""

from collections.abc import Sequence
from typing import Any

import msgspec

from clew.core.entries import Entry, MessageAdded, SetupChanged, UnknownBody
from clew.core.messages import Message
from clew.log.events import HistoryMutation
from clew.log.file import Tail
from clew.log.lines import Lines
from clew.log.outline import Contents, content_name

_MUTATIONS = {
    "message": "append",
    "compaction": "compact",
    "results_cleared": "clear_results",
}
"""Kinds of entries that are called otherwise in a log."""
SETUP_FIELDS = ("system", "tools")
"""Contents of a setup that requests name."""


class HistoryLog:
    """Brings the log up to date with a journal."""

    def __init__(self, lines: Lines, contents: Contents) -> None:
        self._lines = lines
        self._contents = contents
        self._last = 0
        self._names: dict[int, tuple[Message, str]] = {}

    def go_on(self, tail: Tail, entries: Sequence[Entry]) -> bool:
        """Take up a log where it ended; returns False when it tells of another history."""
        if not tail.entry_id:
            return True
        same = next((e for e in reversed(entries) if e.id == tail.entry_id), None)
        if same is None or _name(self._lines.redaction.value(_tree(same))) != tail.sha256:
            return False
        self._last = tail.entry_id
        return True

    def catch_up(self, entries: Sequence[Entry]) -> None:
        """Write the entries that the log does not hold yet; raises as `Lines.write`.

        One that cannot be written whatever the disk says is not tried again.
        """
        start = len(entries)
        while start and entries[start - 1].id > self._last:
            start -= 1
        for entry in entries[start:]:
            try:
                self._write(entry)
            except OSError:
                raise
            except Exception:
                self._last = entry.id
                raise
            self._last = entry.id

    def name_of(self, message: Message) -> str:
        """Name a message; one that was just written is not looked at again."""
        known = self._names.get(id(message))
        return known[1] if known else self._contents.name(message)

    def forget_names(self) -> None:
        """Let go of messages whose names were asked for."""
        self._names.clear()

    @property
    def last_entry(self) -> int:
        """The last entry that the log holds."""
        return self._last

    def _write(self, entry: Entry) -> None:
        tree = self._lines.redaction.value(_tree(entry))
        name = _name(tree)
        self._lines.write_fields(
            msgspec.to_builtins(
                HistoryMutation(
                    mutation=_mutation(tree["body"]), entry_id=entry.id, sha256=name, entry=tree
                )
            )
        )
        if isinstance(entry.body, MessageAdded):
            self._contents.hold(name)
            self._names[id(entry.body.message)] = (entry.body.message, name)
        elif isinstance(entry.body, SetupChanged):
            for field in SETUP_FIELDS:
                if field in tree["body"]:
                    self._contents.hold(content_name(tree["body"][field]))


def _tree(entry: Entry) -> dict[str, Any]:
    if isinstance(entry.body, UnknownBody):
        body = msgspec.json.decode(entry.body.raw)
        return {"id": entry.id, "at": entry.at, "schema": entry.schema, "body": body}
    tree: dict[str, Any] = msgspec.to_builtins(entry)
    return tree


def _name(tree: dict[str, Any]) -> str:
    body = tree["body"]
    return content_name(body["message"] if body.get("kind") == "message" else body)


def _mutation(body: dict[str, Any]) -> str:
    kind = str(body.get("kind", "unknown"))
    return _MUTATIONS.get(kind, kind)
