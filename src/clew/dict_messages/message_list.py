"""Convert a caller's message list to a view and back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from clew.context.estimate import text_units
from clew.context.items import Item, ItemKind, Items
from clew.context.model_family import family_of
from clew.context.render import find_problems, repair
from clew.context.view import SUMMARY_HEADING, View
from clew.core.entries import Entry, SetupChanged
from clew.core.errors import ConfigError
from clew.core.ids import EntryId
from clew.core.messages import Message, Role
from clew.core.models import ModelFacts, ToolSpec
from clew.dict_messages.formats import Dict, MessageSlice, read_slices, write_slices
from clew.dict_messages.repair import repair_messages
from clew.providers.catalogue import lookup
from clew.providers.tokenizers import meter_for

M = TypeVar("M")
_SETUP = EntryId(1)
_LISTS = ("content", "tool_calls")


class MessageList(Struct, Generic[M], frozen=True, kw_only=True):
    """A caller's messages, parsed once."""

    given: Sequence[M]
    """The list after repairs."""
    slices: tuple[MessageSlice, ...] = ()
    """Empty for Clew messages, where each message is one slice."""
    header: int = 0
    """The number of leading slices that are system messages; they always stay."""
    view: View
    repairs: tuple[str, ...] = ()
    objects: Mapping[int, M] = {}
    """The caller's objects by the identity of the dictionaries that were made of them."""

    @property
    def length(self) -> int:
        """The number of messages."""
        return len(self.given)

    @property
    def indices(self) -> Sequence[int]:
        """The indices of the messages that the items of the view belong to."""
        if not self.slices:
            return range(len(self.given))
        return [part.index for part in self.slices[self.header :]]

    def write(self, view: View) -> list[M]:
        """Return the messages of `view` in the caller's format, reusing the caller's objects."""
        if not self.slices or isinstance(self.given[0], Message):
            return cast("list[M]", [_make_sendable(item) for item in view.items])
        kept = list(self.slices[: self.header])
        shortened: dict[int, Message] = {}
        original = {item.entry_id: item for item in self.view.items}
        for item in view.items:
            if item.entry_id not in original:
                continue
            if item is not original[item.entry_id]:
                shortened[len(kept)] = item.message
            kept.append(self.slices[self.header + find_place(item)])
        dicts = write_slices(cast("Sequence[Dict]", self.given), kept, shortened)
        written = [self.objects.get(id(one), one) for one in dicts]
        header = len({part.index for part in self.slices[: self.header]})
        return cast(
            "list[M]", [*written[:header], *_summary_dict(view, original), *written[header:]]
        )


def read_message_list(
    messages: Sequence[M],
    *,
    model: str | None,
    system: str | None,
    tools: Sequence[Mapping[str, Any]] | None,
    invalid: Literal["repair", "refuse"],
) -> MessageList[M]:
    """Read a list of messages.

    Raises:
        ConfigError: It is not a list of messages; or not one that a provider would take, and
            `invalid` is `refuse`.
    """
    if invalid not in ("repair", "refuse"):
        raise ConfigError(f"invalid must be 'repair' or 'refuse', not {invalid!r}")
    if isinstance(messages, str | Mapping) or not isinstance(messages, Sequence):
        raise ConfigError(f"pass a list of messages, not {type(messages).__name__}")
    items = Items()
    if messages and all(issubclass(kind, Message) for kind in set(map(type, messages))):
        items = _items(cast("Sequence[Message]", messages), model)
        if items.is_valid:
            return MessageList(given=messages, view=_view(items, model, system, tools))
    plain = [_as_dict(message) for message in messages]
    made = {id(one): own for one, own in zip(plain, messages, strict=True) if one is not own}
    try:
        given, notes = _repair(plain)
    except (AttributeError, KeyError, TypeError, UnicodeEncodeError) as error:
        raise ConfigError(f"the messages have an unknown format: {error}") from error
    if notes and invalid == "refuse":
        raise ConfigError("a provider would reject these messages: " + "; ".join(notes))
    slices = tuple(_read(given))
    header = next((n for n, part in enumerate(slices) if not part.is_system), len(slices))
    words = "\n".join(part.message.text for part in slices[:header])
    shown = slices[header:]
    view = _view(
        _items([part.message for part in shown], model, measured=items),
        model,
        "\n".join(filter(None, [system, words])),
        tools,
    )
    pinned = (_id(n) for n, part in enumerate(shown) if part.is_system)
    return MessageList(
        given=given,
        slices=slices,
        header=header,
        view=replace(view, pinned=frozenset(pinned)),
        repairs=tuple(notes),
        objects=made,
    )


def _as_dict(message: M) -> M:
    """Return what a provider's library returned as a dictionary, and anything else as it is."""
    if isinstance(message, Message):
        return message
    dumped = _dump(message)
    if not isinstance(dumped, dict):
        return cast("M", dumped)
    lists = {name: dumped[name] for name in _LISTS if isinstance(dumped.get(name), list)}
    if not any(hasattr(one, "model_dump") for listed in lists.values() for one in listed):
        return cast("M", dumped)
    plain = {name: [_dump(one) for one in listed] for name, listed in lists.items()}
    return cast("M", {**dumped, **plain})


def _dump(value: object) -> object:
    """Return a Pydantic object, which these libraries use, as a dictionary."""
    dump = getattr(value, "model_dump", None)
    return dump(exclude_none=True) if callable(dump) else value


def _items(messages: Sequence[Message], model: str | None, measured: Iterable[Item] = ()) -> Items:
    """Return messages as items; those in `measured` are not measured again."""
    meter = (meter_for(model) if model else None) or text_units
    framing = family_of(model or "").framing
    ids = cast("Sequence[EntryId]", range(_id(0), _id(len(messages)), -1))
    known = {id(item.message): item for item in measured}
    make = Item.of
    items = [
        replace(known[id(message)], entry_id=entry_id)
        if known and id(message) in known
        else make(entry_id, message, meter=meter, framing=framing)
        for entry_id, message in zip(ids, messages, strict=True)
    ]
    if messages and messages[0].text.startswith(SUMMARY_HEADING):
        items[0] = Item.of(_id(0), messages[0], ItemKind.SUMMARY, meter=meter, framing=framing)
    return Items(items)


def _id(number: int) -> EntryId:
    """Return a negative id, because ids of journal entries are positive."""
    return EntryId(-1 - number)


def find_place(item: Item) -> int:
    """Return the index of an item of a message list, from which its id was made."""
    return -1 - item.entry_id


def _view(
    items: Items,
    model: str | None,
    system: str | None,
    tools: Sequence[Mapping[str, Any]] | None,
) -> View:
    setup = SetupChanged(
        model=lookup(model) if model else ModelFacts(name=""),
        system=system or "",
        tools=tuple(_spec(tool) for tool in tools or ()),
    )
    meter = (meter_for(model) if model else None) or text_units
    view = View(meter=meter).apply(Entry(id=_SETUP, at=0.0, body=setup))
    return replace(view, items=items)


def _repair(messages: Sequence[M]) -> tuple[list[M], list[str]]:
    if all(isinstance(message, Message) for message in messages):
        clew = cast("Sequence[Message]", messages)
        notes = find_problems(clew)
        full = [message for message in clew if message.parts]
        return cast("list[M]", repair(full)), notes
    if any(isinstance(message, Message) for message in messages):
        raise ConfigError("the list mixes Clew messages with dictionaries")
    repaired, notes = repair_messages(cast("Sequence[Dict]", messages))
    return cast("list[M]", repaired), notes


def _read(given: Sequence[Any]) -> list[MessageSlice]:
    if given and isinstance(given[0], Message):
        return [MessageSlice(index=n, blocks=None, message=one) for n, one in enumerate(given)]
    return [part for part in read_slices(given) if isinstance(part, MessageSlice)]


def _spec(tool: Mapping[str, Any]) -> ToolSpec:
    function = tool.get("function", tool)
    schema = function.get("parameters") or function.get("input_schema") or {}
    return ToolSpec(
        name=str(function.get("name", "")),
        description=str(function.get("description", "")),
        schema=dict(schema),
    )


def _summary_dict(view: View, original: Mapping[EntryId, Item]) -> list[dict[str, str]]:
    if not view.summary or view.items[0].entry_id in original:
        return []
    return [{"role": "user", "content": view.items[0].message.text}]


def _make_sendable(item: Item) -> Message:
    if item.kind is ItemKind.SUMMARY and item.message.role is not Role.USER:
        return Message(role=Role.USER, parts=item.message.parts)
    return item.message
