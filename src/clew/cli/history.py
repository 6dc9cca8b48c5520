"""Entries in few words: who, what, and the number to name them by."""

from collections.abc import Iterable, Sequence

from clew.cli.harmless import one_line
from clew.core.entries import (
    Body,
    Charged,
    Cleared,
    Compacted,
    Entry,
    MessageAdded,
    ModeChanged,
    Noted,
    PinChanged,
    ReasoningDropped,
    ResultsCleared,
    Rewound,
    SetupChanged,
    Undone,
    UnknownBody,
)
from clew.core.messages import Message, Role
from clew.session.recall import entry_text

WORDS_SHOWN = 100


def listed(entries: Sequence[Entry], most: int) -> list[str]:
    """List the last entries, the oldest of them first."""
    return [
        f"#{entry.id} {who(entry.body)}: {_words(entry)}" for entry in list(entries)[-most:]
    ] or ["nothing was said yet"]


def who(body: Body) -> str:
    """Return who or what an entry comes from."""
    match body:
        case MessageAdded(message=message):
            return _speaker(message)
        case Noted(topic=topic):
            return one_line(topic, 20)
        case _:
            return "session"


def numbers(entries: Iterable[Entry]) -> str:
    """Name the messages among new entries, such as `you #3, answer #4`."""
    names: dict[str, str] = {}
    for entry in entries:
        match entry.body:
            case MessageAdded(message=Message(role=Role.USER)):
                names["you"] = f"you #{entry.id}"
            case MessageAdded(message=Message(role=Role.ASSISTANT) as message) if message.text:
                names["answer"] = f"answer #{entry.id}"
            case MessageAdded(message=Message(role=Role.TOOL)):
                names["result"] = f"result #{entry.id}"
            case _:
                pass
    return ", ".join(names.values())


def newest(entries: Sequence[Entry], role: Role) -> str:
    """Return the last words that somebody said, or nothing."""
    for entry in reversed(entries):
        match entry.body:
            case MessageAdded(message=message) if message.role is role and message.text.strip():
                return message.text
    return ""


def first_words(entries: Iterable[Entry]) -> str:
    """Return the first words of the user's, or nothing."""
    for entry in entries:
        if isinstance(entry.body, MessageAdded) and entry.body.message.role is Role.USER:
            return entry.body.message.text
    return ""


def _speaker(message: Message) -> str:
    match message.role:
        case Role.USER:
            return "you"
        case Role.ASSISTANT:
            return "model"
        case Role.TOOL:
            names = ", ".join(dict.fromkeys(result.name for result in message.results))
            return one_line(names, 40)


def _words(entry: Entry) -> str:
    match entry.body:
        case Charged(why=why, cost=cost):
            return f"{one_line(why, 60)}, {'price unknown' if cost is None else f'${cost:.4f}'}"
        case MessageAdded() | Noted() | UnknownBody():
            return one_line(entry_text(entry), WORDS_SHOWN)
        case Compacted(report=report):
            return f"compaction, {report.tokens_before:,} → {report.tokens_after:,} tokens"
        case body:
            return _change(body)


def _change(
    body: (
        SetupChanged
        | ResultsCleared
        | ReasoningDropped
        | Cleared
        | Undone
        | Rewound
        | PinChanged
        | ModeChanged
    ),
) -> str:
    match body:
        case SetupChanged(model=model):
            return f"model {one_line(model.name, 60)}"
        case ResultsCleared(replaced=replaced):
            return f"{len(replaced)} tool results are shown as markers"
        case ReasoningDropped(targets=targets):
            return f"the thinking of {len(targets)} messages is no longer sent"
        case Cleared():
            return "the conversation began anew"
        case Undone(target=target):
            return f"#{target} was taken back"
        case Rewound(before=None, files=files):
            return _restored(files)
        case Rewound(before=before, files=files):
            restored = f", and {_restored(files)}" if files else ""
            return f"the conversation went back to before #{before}{restored}"
        case PinChanged(target=target, pinned=pinned):
            return f"#{target} was {'pinned' if pinned else 'unpinned'}"
        case ModeChanged(mode=mode):
            return f"permission mode {one_line(mode, 40)}"


def _restored(files: Sequence[str]) -> str:
    return "1 file was restored" if len(files) == 1 else f"{len(files)} files were restored"
