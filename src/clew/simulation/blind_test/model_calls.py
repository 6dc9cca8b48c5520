"""Ask a model as writer, reader or grader: check the form of its reply, ask once more, count."""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from clew.context.estimate import tool_units
from clew.context.recall import RECALL
from clew.core.entries import SessionRecord
from clew.core.errors import ContextOverflow, SessionError, StoreError, StreamBroken
from clew.core.ids import SessionId
from clew.core.messages import Message, ToolCall, assistant, tool_result
from clew.core.models import ModelFacts
from clew.core.usage import Spending, Usage
from clew.providers.message_builder import MessageBuilder
from clew.providers.protocol import Finished, Provider, Request, StopReason
from clew.session.limits import CostLimit
from clew.session.recall import RECALL_HINTS, SessionRecall, parse_arguments
from clew.session.recall_tool import RECALL_SPEC
from clew.simulation.blind_test.compared_views import ComparedView
from clew.simulation.blind_test.plan import MOST_LOOKUPS, limit_output
from clew.simulation.blind_test.prompts import LAST_LOOKUP, ask_again
from clew.simulation.blind_test.replies import ParsedReply
from clew.simulation.blind_test.transcript import CountTokens
from clew.stores.memory import MemoryStore

T = TypeVar("T")
_ATTEMPTS = 2
_PAGE = 12_000
"""Characters that a look-up returns at most, as in a session."""
_EXPECTED_OUTPUT = 100
_STOPPED = {
    StopReason.LENGTH: "it was cut off at the output limit",
    StopReason.REFUSED: "the model refused to answer",
}


class AskedReply(Struct, Generic[T], frozen=True, kw_only=True):
    """A reply that was checked, and what it took."""

    value: T | None
    problem: str
    lookups: int
    spent: Spending


class SearchableView:
    """Answers the look-ups of a reader, in the entries of a view."""

    def __init__(self, recall: SessionRecall, *, page: int) -> None:
        self._recall, self._page = recall, page

    @classmethod
    async def open(cls, view: ComparedView, *, window: int) -> "SearchableView":
        """Index the entries of a view, for a reader with a window of that size."""
        store, session_id = MemoryStore(), SessionId("blind-test")
        record = SessionRecord(id=session_id, cwd="", created_at=0.0, updated_at=0.0)
        await store.create(record)
        await store.append(session_id, view.entries)
        entries = {int(entry.id): entry for entry in view.entries}
        last = max((entry.at for entry in view.entries), default=0.0)
        recall = SessionRecall(
            store,
            session_id,
            cwd=None,
            read=entries.get,
            hints=RECALL_HINTS,
            clock=lambda: last,
        )
        return cls(recall, page=min(_PAGE, window // 4))

    async def answer(self, call: ToolCall) -> Message:
        """Return the result of a look-up; a mistake is a result that says so."""
        try:
            request = parse_arguments(call.decode_arguments())
            if request is None or call.name != RECALL:
                text = "Error: call Recall with `query`, `entry`, `range` or `latest_file`."
                return tool_result(call, text, failed=True)
            found = await self._recall.answer(replace(request, page=self._page))
        except (SessionError, StoreError, ValueError) as error:
            return tool_result(call, f"Error: {error}.", failed=True)
        return tool_result(call, found.text)


class AskedModel:
    """The model that writes, reads and grades."""

    def __init__(
        self, provider: Provider, facts: ModelFacts, *, count: CountTokens, limit: CostLimit
    ) -> None:
        self.provider, self.facts, self.count = provider, facts, count
        self._limit = limit
        self._spent = Spending()
        """By this run; the budget is for one run."""

    def price(self, usage: Usage) -> float | None:
        """Return the cost of a call in US dollars; None when the price is unknown."""
        return self._limit.cost(usage, provider=self.provider.name, model=self.facts.name)

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        system: str,
        parse: Callable[[str], ParsedReply[T]],
        settled: int = 0,
        searchable: SearchableView | None = None,
    ) -> AskedReply[T]:
        """Ask until the reply has the right form, at most twice.

        Args:
            messages: What to ask.
            system: The instructions.
            parse: Reads a reply.
            settled: How many leading messages other requests share.
            searchable: Answers look-ups; None for a model without any.

        Raises:
            BudgetReached: The next call would exceed the budget.
            ProviderError: A call failed, except for a request that is too long.
        """
        talk = _Talk(self, system=system, settled=settled, searchable=searchable)
        talk.messages.extend(messages)
        parsed: ParsedReply[T] = ParsedReply()
        for _ in range(_ATTEMPTS):
            try:
                text, stopped = await talk.reply()
            except ContextOverflow as error:
                parsed = ParsedReply(problem=str(error))
                break
            parsed = parse(text)
            if not parsed.problem:
                break
            if stopped:
                parsed = ParsedReply(value=parsed.value, problem=f"{parsed.problem}; {stopped}")
            talk.messages.append(ask_again(parsed.problem))
        return AskedReply(
            value=parsed.value, problem=parsed.problem, lookups=talk.lookups, spent=talk.spent
        )

    async def send(self, request: Request) -> tuple[Message, StopReason, Spending]:
        """Send one request, and return what it took; raises as `ask` does."""
        prompt = self.count_request(request)
        expected = Usage(input_tokens=prompt, output_tokens=_EXPECTED_OUTPUT)
        names = {"provider": self.provider.name, "model": self.facts.name}
        self._limit.check(self._spent, **names, expected=expected)
        builder = MessageBuilder(provenance=self.provider.name)
        async with aclosing(self.provider.stream(request)) as stream:
            async for chunk in stream:
                builder.add(chunk)
        finished = builder.finished
        if finished is None:
            raise StreamBroken("the answer stopped before its end", provider=self.provider.name)
        message = builder.message()
        spent = self._count(finished, prompt, message)
        self._spent += spent
        return message, finished.reason, spent

    def count_request(self, request: Request) -> int:
        """Estimate the tokens of a request."""
        texts = [request.system, *(_text_of(message) for message in request.messages)]
        return sum(map(self.count, texts)) + tool_units(request.tools)

    def _count(self, finished: Finished, prompt: int, message: Message) -> Spending:
        usage = finished.usage or Usage(
            input_tokens=prompt, output_tokens=self.count(_text_of(message))
        )
        usd = finished.cost if finished.cost is not None else self.price(usage)
        return Spending(
            usd=usd or 0.0,
            calls=1,
            unpriced=int(usd is None),
            uncounted=int(finished.usage is None),
            usage=usage,
        )


class _Talk:
    """One question to a model with its look-ups and its second attempt."""

    def __init__(
        self, model: AskedModel, *, system: str, settled: int, searchable: SearchableView | None
    ) -> None:
        self._model, self._system = model, system
        self._settled, self._searchable = settled, searchable
        self.messages: list[Message] = []
        self.lookups = 0
        self.spent = Spending()

    async def reply(self) -> tuple[str, str]:
        """Return the text of the next reply without look-ups, and why it stopped early, if so."""
        for _ in range(MOST_LOOKUPS + 2):
            message, reason, spent = await self._model.send(self._request())
            self.spent += spent
            if not message.calls or self._searchable is None:
                self.messages.append(assistant(message.text or "(no reply)"))
                return message.text, _STOPPED.get(reason, "")
            self.messages.append(message)
            for call in message.calls:
                self.messages.append(await self._look_up(call, self._searchable))
        return "", "it asked for more look-ups"

    async def _look_up(self, call: ToolCall, searchable: SearchableView) -> Message:
        if self.lookups >= MOST_LOOKUPS:
            return tool_result(call, LAST_LOOKUP, failed=True)
        self.lookups += 1
        return await searchable.answer(call)

    def _request(self) -> Request:
        facts = self._model.facts
        return Request(
            model=facts.name,
            messages=tuple(self.messages),
            system=self._system,
            tools=(RECALL_SPEC,) if self._searchable else (),
            max_output_tokens=limit_output(facts),
            settled=self._settled,
            sees=facts.sees,
        )


def _text_of(message: Message) -> str:
    texts = [message.text, *(call.arguments for call in message.calls)]
    return "\n".join([*texts, *(result.text for result in message.results)])
