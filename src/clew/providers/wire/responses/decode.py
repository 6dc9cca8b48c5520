"""Decode the responses of the Responses API, streamed or whole."""

from collections.abc import Callable
from typing import Any, ClassVar

from msgspec import Raw, Struct

from clew.core.errors import ProviderError, ProviderRejected
from clew.core.json_text import JsonDecoder
from clew.core.usage import Usage
from clew.providers.http_errors import error_for
from clew.providers.protocol import Chunk, Finished, StopReason
from clew.providers.sse import ServerEvent
from clew.providers.wire.base_decoder import EventDecoder
from clew.providers.wire.responses.item_stream import ItemStream, StreamedItem
from clew.providers.wire.responses.output_items import as_fields, as_text, pack_extra, unpack_extra
from clew.providers.wire.surrogates import repair_surrogates

DONE = "[DONE]"
TICKS = 10_000_000_000
"""xAI's units per US dollar."""

_OVERLOADED = frozenset({"server_is_overloaded", "slow_down"})
_WAITING = frozenset({"queued", "in_progress"})


class _Event(Struct):
    type: str = ""
    output_index: int | None = None
    item_id: str | None = None
    content_index: int | None = None
    summary_index: int | None = None
    item: Raw = Raw(b"")
    response: Raw = Raw(b"")
    delta: Any = None
    text: Any = None
    refusal: Any = None
    arguments: Any = None
    input: Any = None
    error: Any = None


class _InputDetails(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None
    cost: float | None = None
    cost_in_usd_ticks: int | None = None


class _Incomplete(Struct):
    reason: str | None = None


class _Response(Struct):
    status: str | None = None
    output: list[Raw] | None = None
    usage: _Usage | None = None
    incomplete_details: _Incomplete | None = None
    error: Any = None


_event = JsonDecoder(_Event)
_response = JsonDecoder(_Response)


def responses_decoder(provider: str) -> EventDecoder:
    """Return the decoder of one response of `provider`."""
    return EventDecoder(provider, ResponsesResponse(provider))


class ResponsesResponse:
    """Interprets one response; see `clew.providers.wire.base_decoder.ResponseFormat`."""

    name: ClassVar = "a response of the Responses API"
    advice: ClassVar = "Check that the base URL is that of a server with this API."

    def __init__(self, provider: str) -> None:
        self.done = False
        self._provider = provider
        self._stream = ItemStream(provider)
        self._items: dict[int | str, StreamedItem] = {}
        self._ended = 0
        self._response: _Response | None = None
        self._handlers: dict[str, Callable[[_Event], list[Chunk]]] = {
            "response.output_item.added": self._on_item_added,
            "response.output_item.done": self._on_item_done,
            "response.output_text.delta": self._on_text,
            "response.output_text.done": self._on_text,
            "response.refusal.delta": self._on_refusal,
            "response.refusal.done": self._on_refusal,
            "response.reasoning_summary_text.delta": self._on_reasoning,
            "response.reasoning_summary_text.done": self._on_reasoning,
            "response.reasoning_text.delta": self._on_reasoning,
            "response.reasoning_text.done": self._on_reasoning,
            "response.function_call_arguments.delta": self._on_arguments,
            "response.function_call_arguments.done": self._on_arguments,
            "response.custom_tool_call_input.delta": self._on_input,
            "response.completed": self._on_completed,
            "response.incomplete": self._on_completed,
            "response.failed": self._on_completed,
        }

    @property
    def complete(self) -> bool:
        """True when the final response has arrived."""
        return self.done

    def finish(self) -> Finished:
        """Return the end of the response."""
        response = self._response or _Response()
        reason, detail = self._end(response)
        usage = response.usage
        return Finished(
            reason=reason,
            usage=_usage(usage) if usage else None,
            cost=_cost(usage) if usage else None,
            detail=detail,
        )

    def take(self, event: ServerEvent) -> list[Chunk]:
        """Return the chunks of one event."""
        if event.data == DONE:
            self.done = True
            return []
        found = _event.decode(event.data)
        found.type = found.type or event.name
        if found.error is not None or found.type == "error":
            raise self._failure(event.data)
        handle = self._handlers.get(found.type)
        return handle(found) if handle else []

    def take_whole(self, body: bytes) -> list[Chunk]:
        """Return the chunks of a non-streamed response."""
        chunks = self._finish(body)
        found = self._response
        if found is None or found.output is None:
            raise ValueError("it has no `output`")
        if found.status in _WAITING:
            raise ProviderRejected(
                f"{self._provider} generates the response in the background, which Clew does"
                " not poll. Remove `background` from the options, or use streaming.",
                provider=self._provider,
            )
        return chunks

    def _item(self, event: _Event) -> StreamedItem:
        # The id is the fallback: some hosts change it from event to event.
        key = event.output_index
        if key is None:
            return self._items.setdefault(event.item_id or _id(event.item), StreamedItem())
        return self._items.setdefault(key, StreamedItem())

    def _on_item_added(self, event: _Event) -> list[Chunk]:
        item = self._item(event)
        if item.ended and event.output_index is not None:
            # Some hosts give all items the same number.
            item = self._items[event.output_index] = StreamedItem()
        return self._stream.start_item(item, unpack_extra(bytes(event.item).decode()))

    def _on_item_done(self, event: _Event) -> list[Chunk]:
        if not bytes(event.item):
            return []
        self._ended += 1
        return self._stream.end_item(self._item(event), bytes(event.item))

    def _on_text(self, event: _Event) -> list[Chunk]:
        text, whole = _event_text(event, event.text)
        return self._stream.add_text(self._item(event), event.content_index or 0, text, whole=whole)

    def _on_refusal(self, event: _Event) -> list[Chunk]:
        text, whole = _event_text(event, event.refusal)
        self._stream.refusal = text if whole else self._stream.refusal + text
        return self._stream.add_text(self._item(event), event.content_index or 0, text, whole=whole)

    def _on_reasoning(self, event: _Event) -> list[Chunk]:
        text, whole = _event_text(event, event.text)
        index = event.content_index if event.summary_index is None else event.summary_index
        place = event.type.rpartition(".")[0], index or 0
        return self._stream.add_reasoning(self._item(event), place, text, whole=whole)

    def _on_arguments(self, event: _Event) -> list[Chunk]:
        text, whole = _event_text(event, event.arguments)
        return self._stream.add_arguments(self._item(event), text, whole=whole)

    def _on_input(self, event: _Event) -> list[Chunk]:
        return self._stream.add_input(self._item(event), as_text(event.delta))

    def _on_completed(self, event: _Event) -> list[Chunk]:
        return self._finish(bytes(event.response))

    def _finish(self, body: bytes) -> list[Chunk]:
        """Handle the final response, with the items that have not arrived before."""
        response = _response.decode(body)
        if response.error is not None or response.status in {"failed", "cancelled"}:
            raise self._failure(pack_extra({"error": response.error or response.status}))
        self.done, self._response = True, response
        chunks: list[Chunk] = []
        output = response.output or []
        if self._ended < len(output):
            for index, raw in enumerate(output):
                item = self._find_item(index, raw)
                if not item.ended:
                    chunks += self._stream.end_item(item, bytes(raw))
        return chunks

    def _find_item(self, index: int, raw: Raw) -> StreamedItem:
        """Return the state of an item, for servers that may not number them."""
        for key in (index, _id(raw)):
            if key in self._items:
                return self._items[key]
        return self._items.pop("", StreamedItem())

    def _end(self, response: _Response) -> tuple[StopReason, str]:
        why = response.incomplete_details and response.incomplete_details.reason
        if self._stream.refusal:
            return StopReason.REFUSED, repair_surrogates(self._stream.refusal)
        if why == "content_filter":
            return StopReason.REFUSED, why
        if why or response.status == "incomplete":
            return StopReason.LENGTH, why or ""
        return StopReason.TOOL_CALLS if self._stream.has_called else StopReason.DONE, ""

    def _failure(self, text: str) -> ProviderError:
        found = unpack_extra(text)
        error = {**found, **as_fields(found.get("error"))}
        code = error.get("code")
        status = 503 if as_text(code) in _OVERLOADED else code if isinstance(code, int) else None
        return error_for(status, text, {}, self._provider)


def _id(item: Raw) -> str:
    return as_text(unpack_extra(bytes(item).decode()).get("id"))


def _event_text(event: _Event, whole: Any) -> tuple[str, bool]:
    """Return the text of an event, and whether it is complete or a delta."""
    is_whole = event.type.endswith(".done")
    return as_text(whole if is_whole else event.delta), is_whole


def _usage(found: _Usage) -> Usage:
    details = found.input_tokens_details or _InputDetails()
    return Usage(
        input_tokens=found.input_tokens or 0,
        output_tokens=found.output_tokens or 0,
        cache_read_tokens=details.cached_tokens or 0,
        cache_write_tokens=details.cache_write_tokens or 0,
    )


def _cost(found: _Usage) -> float | None:
    if found.cost_in_usd_ticks is not None:
        return found.cost_in_usd_ticks / TICKS
    return found.cost
