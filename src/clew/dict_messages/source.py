"""A caller's message list as a view, and the way back."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from clew.context.calibration import make_prior
from clew.context.estimate import text_units
from clew.context.items import Item, ItemKind, Items
from clew.context.render import find_problems, is_valid, repair
from clew.context.view import SUMMARY_HEADING, View
from clew.core.entries import Entry, SetupChanged
from clew.core.errors import ConfigError
from clew.core.ids import EntryId
from clew.core.messages import Message, Role
from clew.core.models import ModelFacts, ToolSpec
from clew.dict_messages.mending import mend
from clew.dict_messages.styles import Dict, Piece, read_pieces
from clew.dict_messages.writing import write
from clew.providers.catalogue import lookup
from clew.providers.tokenizers import meter_for

M = TypeVar("M")
_SETUP = EntryId(1)
_SURE = 1_000.0
"""An exact tokenizer needs no rate: what it counts is what the model counts."""


class Source(Struct, Generic[M], frozen=True, kw_only=True):
    """What a caller gave, read once."""

    given: Sequence[M]
    """The list after repairs."""
    pieces: tuple[Piece, ...] = ()
    """Empty for Clew messages, where one message is one piece."""
    header: int = 0
    """How many pieces at the beginning are system messages: they always stay."""
    view: View
    repairs: tuple[str, ...] = ()

    @property
    def length(self) -> int:
        """How many messages the list has."""
        return len(self.given)

    def place_of(self, entry_id: EntryId) -> int:
        """Return which message of the list an item of the view belongs to."""
        at = self.header - entry_id - 1
        return self.pieces[at].place if self.pieces else at

    def write(self, view: View) -> list[M]:
        """Return what `view` shows, in the caller's style and from the caller's objects."""
        if not self.pieces or isinstance(self.given[0], Message):
            return cast("list[M]", [_as_sent(item) for item in view.items])
        kept = list(self.pieces[: self.header])
        texts: dict[int, str] = {}
        original = {item.entry_id: item for item in self.view.items}
        for item in view.items:
            if item.entry_id not in original:
                continue
            if item is not original[item.entry_id]:
                texts[len(kept)] = _text(item.message)
            kept.append(self.pieces[self.header - item.entry_id - 1])
        written = write(cast("Sequence[Dict]", self.given), kept, texts)
        header = len({piece.place for piece in self.pieces[: self.header]})
        return cast(
            "list[M]", [*written[:header], *_summary_dict(view, original), *written[header:]]
        )


def open_source(
    messages: Sequence[M],
    *,
    model: str | None,
    system: str | None,
    tools: Sequence[Mapping[str, Any]] | None,
    invalid: Literal["repair", "refuse"],
) -> Source[M]:
    """Read a list of messages.

    Raises:
        ConfigError: It is not a list of messages; or not one that a provider would take, and
            `invalid` is `refuse`.
    """
    if invalid not in ("repair", "refuse"):
        raise ConfigError(f"invalid must be 'repair' or 'refuse', not {invalid!r}")
    if messages and all(isinstance(message, Message) for message in messages):
        items = _items(cast("Sequence[Message]", messages), model)
        if is_valid(items):
            return Source(given=messages, view=_view(items, model, system, tools))
    try:
        given, notes = _in_order(messages)
    except (AttributeError, KeyError, TypeError, UnicodeEncodeError) as error:
        raise ConfigError(f"no provider has messages of this form: {error}") from error
    if notes and invalid == "refuse":
        raise ConfigError("no provider would take these messages: " + "; ".join(notes))
    pieces = tuple(_pieces(given))
    header = next((n for n, piece in enumerate(pieces) if not piece.is_system), len(pieces))
    words = "\n".join(piece.message.text for piece in pieces[:header])
    shown = pieces[header:]
    view = _view(
        _items([piece.message for piece in shown], model),
        model,
        "\n".join(filter(None, [system, words])),
        tools,
    )
    pinned = (_id(n) for n, piece in enumerate(shown) if piece.is_system)
    return Source(
        given=given,
        pieces=pieces,
        header=header,
        view=replace(view, pinned=frozenset(pinned)),
        repairs=tuple(notes),
    )


def _items(messages: Sequence[Message], model: str | None) -> list[Item]:
    meter = (meter_for(model) if model else None) or text_units
    items = [Item.of(_id(number), one, meter=meter) for number, one in enumerate(messages)]
    if messages and messages[0].text.startswith(SUMMARY_HEADING):
        items[0] = Item.of(_id(0), messages[0], ItemKind.SUMMARY, meter=meter)
    return items


def _id(number: int) -> EntryId:
    """Number messages downwards: they are in no journal, where numbers begin at 1."""
    return EntryId(-1 - number)


def _view(
    items: Sequence[Item],
    model: str | None,
    system: str | None,
    tools: Sequence[Mapping[str, Any]] | None,
) -> View:
    setup = SetupChanged(
        model=lookup(model) if model else ModelFacts(name=""),
        system=system or "",
        tools=tuple(_spec(tool) for tool in tools or ()),
    )
    meter = meter_for(model) if model else None
    if meter is not None:
        setup = replace(setup, calibration=make_prior(1.0, _SURE))
    view = View(meter=meter or text_units).apply(Entry(id=_SETUP, at=0.0, body=setup))
    return replace(view, items=Items(items))


def _in_order(messages: Sequence[M]) -> tuple[list[M], list[str]]:
    if all(isinstance(message, Message) for message in messages):
        clew = cast("Sequence[Message]", messages)
        notes = find_problems(clew)
        full = [message for message in clew if message.parts]
        return cast("list[M]", repair(full)), notes
    if any(isinstance(message, Message) for message in messages):
        raise ConfigError("the list mixes Clew messages with dictionaries")
    mended, notes = mend(cast("Sequence[Dict]", messages))
    return cast("list[M]", mended), notes


def _pieces(given: Sequence[Any]) -> list[Piece]:
    if given and isinstance(given[0], Message):
        return [Piece(place=n, blocks=None, message=one) for n, one in enumerate(given)]
    return [piece for piece in read_pieces(given) if isinstance(piece, Piece)]


def _spec(tool: Mapping[str, Any]) -> ToolSpec:
    function = tool.get("function", tool)
    schema = function.get("parameters") or function.get("input_schema") or {}
    return ToolSpec(
        name=str(function.get("name", "")),
        description=str(function.get("description", "")),
        schema=dict(schema),
    )


def _text(message: Message) -> str:
    return message.text or "\n".join(result.text for result in message.results)


def _summary_dict(view: View, original: Mapping[EntryId, Item]) -> list[dict[str, str]]:
    if not view.summary or view.items[0].entry_id in original:
        return []
    return [{"role": "user", "content": view.items[0].message.text}]


def _as_sent(item: Item) -> Message:
    if item.kind is ItemKind.SUMMARY and item.message.role is not Role.USER:
        return Message(role=Role.USER, parts=item.message.parts)
    return item.message
