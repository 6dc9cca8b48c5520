"""What a session should hold, by rules that fit on a page.

The model knows no fold. It keeps a list of what counts, and a copy of that list for each entry:
a rewind puts an old copy back, an undo takes one thing out of the list.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from clew.core.entries import (
    Cleared,
    Compacted,
    Entry,
    MessageAdded,
    ModeChanged,
    PinChanged,
    Replacement,
    ResultsCleared,
    Rewound,
    SetupChanged,
    Undone,
)
from clew.core.ids import CallId, EntryId
from clew.core.messages import Message, Part, Role, Text, ToolResult, assistant


class Model:
    """What a session should hold, by rules that fit on a page."""

    def __init__(self) -> None:
        self.counts: list[Entry] = []
        """What is in force and shapes the conversation, oldest first."""
        self.before: dict[int, list[Entry]] = {}
        """The same as it was before each entry."""
        self.pinned: set[int] = set()
        self.mode = self.name = ""

    def take(self, entry: Entry) -> None:
        """Let one thing happen."""
        self.before[entry.id] = list(self.counts)
        match entry.body:
            case MessageAdded() | Compacted() | ResultsCleared() | Cleared():
                self.counts.append(entry)
            case Rewound(before=before) if before is not None:
                self.rewind(entry, before)
            case Undone(target=target):
                self.undo(target)
            case PinChanged(target=target, pinned=pinned):
                self.pinned = self.pinned | {target} if pinned else self.pinned - {target}
            case ModeChanged(mode=mode):
                self.mode = mode
            case SetupChanged(model=model):
                self.name = model.name
            case _:
                pass

    def rewind(self, entry: Entry, before: int) -> None:
        """Show what was shown before that entry."""
        self.counts = [*self.before[before], entry]

    def undo(self, target: int) -> None:
        """Let one thing not have happened; what came after it stays."""
        place = next((n for n, entry in enumerate(self.counts) if entry.id == target), None)
        if place is not None:
            taken_back, later = self.counts[place], self.counts[place + 1 :]
            is_rewind = isinstance(taken_back.body, Rewound)
            self.counts = [*(self.before[target] if is_rewind else self.counts[:place]), *later]

    def compact(self, shown: list[tuple[int, Message]], entry: Entry) -> list[tuple[int, Message]]:
        """Leave out what a compaction dropped, and put its words first."""
        body = entry.body
        assert isinstance(body, Compacted)
        kept = [one for one in shortened(shown, body.replaced) if one[0] not in body.dropped]
        words = assistant(f"[Context Summary]\n{body.summary}")
        return [(entry.id, words), *kept] if body.summary else kept

    def shown(self) -> list[tuple[int, Message]]:
        """Return the conversation, each message with its entry."""
        shown: list[tuple[int, Message]] = []
        for entry in self.counts:
            match entry.body:
                case MessageAdded(message=message):
                    shown.append((entry.id, message))
                case Compacted():
                    shown = self.compact(shown, entry)
                case ResultsCleared(replaced=replaced):
                    shown = shortened(shown, replaced)
                case Cleared():
                    shown = []
                case _:
                    pass
        return shown

    def sent(self) -> list[Message]:
        """Return what a request would hold: a summary is the user's, silence is left out."""
        summaries = {entry.id for entry in self.counts if isinstance(entry.body, Compacted)}
        return [
            Message(role=Role.USER, parts=message.parts) if number in summaries else message
            for number, message in self.shown()
            if message.parts
        ]

    @property
    def undoable(self) -> list[int]:
        """What an undo would take back, the newest last."""
        kinds = (Compacted, ResultsCleared, Cleared, Rewound)
        return [entry.id for entry in self.counts if isinstance(entry.body, kinds)]

    def whole_before(self, number: int) -> int:
        """Return the last entry up to that one before which no call waits for its result."""
        past = Model()
        past.counts = self.before[number]
        asking, waiting = number, set[CallId]()
        for entry_id, message in past.shown():
            if message.calls:
                asking, waiting = entry_id, {call.call_id for call in message.calls}
            waiting -= {result.call_id for result in message.results}
        return asking if waiting else number

    def unanswered(self) -> list[str]:
        """Return the tools of the calls at the end that have no result."""
        waiting: dict[CallId, str] = {}
        for _, message in self.shown():
            waiting |= {call.call_id: call.name for call in message.calls}
            for result in message.results:
                waiting.pop(result.call_id, None)
        return list(waiting.values())


def shortened(
    shown: list[tuple[int, Message]], changes: Sequence[Replacement]
) -> list[tuple[int, Message]]:
    """Return the conversation with other words in some messages."""
    texts = {change.entry_id: change.text for change in changes}

    def part(number: int, old: Part) -> Part:
        if isinstance(old, ToolResult):
            words = texts[EntryId(number)]
            return ToolResult(call_id=old.call_id, name=old.name, text=words, failed=old.failed)
        return Text(texts[EntryId(number)]) if isinstance(old, Text) else old

    return [
        (number, replace(message, parts=tuple(part(number, old) for old in message.parts)))
        if number in texts
        else (number, message)
        for number, message in shown
    ]


def sketch(message: Message, full_text: str | None = None) -> str:
    """Write a message as a line, by which a prediction can be compared with what came."""
    words = [message.text] if message.text else []
    words += [f"{call.name}({call.arguments})" for call in message.calls]
    words += [
        f"{result.name} {'failed' if result.failed else f'-> {full_text or result.text}'}"
        for result in message.results
    ]
    return f"{message.role}{'!' if message.interrupted else ''}: {' '.join(words)}"
