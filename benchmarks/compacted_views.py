"""Compacted views of a conversation: by rules, with a model's summary, and newest text alone.

Sizes are in characters of the readable text, so that all kinds of views are cut to one measure.
"""

from collections.abc import Callable, Sequence
from itertools import repeat

import anyio
from msgspec.structs import replace

from benchmarks.recordings import CHARS_PER_TOKEN
from clew.context.plan import Budget
from clew.context.summary_prompt import SUMMARY_SYSTEM, build_summary_prompt, format_transcript
from clew.context.view import fold
from clew.core.entries import Entry, MessageAdded
from clew.core.errors import ContextFull, NothingToDrop
from clew.core.ids import EntryId
from clew.core.messages import Message
from clew.core.models import ModelFacts
from clew.dict_messages.fit import fit
from clew.providers.catalogue import lookup
from clew.providers.scripted import ScriptedProvider
from clew.session.session import Session
from clew.simulation.blind_test.transcript import readable

MODEL = "claude-opus-4-5"
"""Recorded by most sessions; decides how many tokens a text is estimated at."""
_CHARS_PER_TOKEN = (1, 8)
"""Fewest and most that a view can have; a search for its size begins in between."""
_STEPS = 9
"""Halvings in that search; what is asked for is within 0.2 % of the largest that fits."""
_WINDOW_TIMES = 2
"""A session's window is at least this many times as large as what a compaction leaves."""


def newest_text(messages: Sequence[Message], chars: int) -> str:
    """Return the end of the readable text."""
    return readable(messages)[-chars:]


def view_by_rules(messages: Sequence[Message], chars: int) -> str:
    """Return the largest view of at most `chars` characters that `clew.fit` makes.

    An empty text when even the smallest view is larger.
    """

    def view(tokens: int) -> str | None:
        try:
            return readable(fit(messages, max_tokens=tokens).messages)
        except ContextFull:
            return None

    return _largest(view, chars=chars)


def view_with_summary(messages: Sequence[Message], summary: str, chars: int) -> str:
    """Return the largest view of at most `chars` characters in a session with a model's summary.

    An empty text when even the smallest view is larger.
    """

    def view(window: int) -> str | None:
        return session_view(messages, window=window, summary=summary) or None

    return _largest(view, chars=chars, times=_WINDOW_TIMES)


def ask_for_notes(messages: Sequence[Message], chars: int) -> str:
    """Return how Clew asks for notes, if it leaves `chars` and the model can read everything."""
    entries = [
        Entry(id=EntryId(number), at=0.0, body=MessageAdded(message=message))
        for number, message in enumerate(messages, start=1)
    ]
    view = fold(entries)
    budget = Budget.of(view, tokens=chars // CHARS_PER_TOKEN)
    prompt = build_summary_prompt(format_transcript(view.items), max_units=budget.notes)
    return f"{SUMMARY_SYSTEM}\n\n{prompt.text}"


def session_view(messages: Sequence[Message], *, window: int, summary: str | None) -> str:
    """Return the view of a session in a window of that size after one compaction.

    Args:
        messages: The conversation before it.
        window: Tokens.
        summary: What the model answers when it is asked for a summary; None for a model that
            writes none, so that rules do.
    """
    return readable(anyio.run(_compact_once, messages, window, summary))


async def _compact_once(
    messages: Sequence[Message], window: int, summary: str | None
) -> list[Message]:
    async with make_session(window=window, summary=summary) as session:
        for message in messages:
            await session.journal.append(MessageAdded(message=message))
        try:
            await session.compact(force=True)
        except NothingToDrop:
            return []
        return session.get_history()


def make_session(*, window: int, summary: str | None) -> Session:
    """Return a session with default options and a model that always writes the same summary."""
    facts = model_facts(window, summarises=summary is not None)
    provider = ScriptedProvider(repeat(summary or ""), facts)
    return Session(provider, model=facts.name)


def model_facts(window: int, *, summarises: bool) -> ModelFacts:
    """Return the facts of the recorded model with another window."""
    return replace(lookup(MODEL), window=window, summarises=summarises)


def _largest(view: Callable[[int], str | None], *, chars: int, times: int = 1) -> str:
    """Return the longest view of at most `chars`, searching the tokens to ask for by halving.

    Args:
        view: Makes a view for that many tokens; None when it needs more.
        chars: The limit.
        times: How many tokens to ask for, for each token of the view.
    """
    fewest, most = _CHARS_PER_TOKEN
    low, high = times * chars // most, times * chars // fewest
    best = ""
    for _ in range(_STEPS):
        middle = (low + high) // 2
        text = view(middle)
        if text is not None and len(text) > chars:
            high = middle
        else:
            best = max(best, text or "", key=len)
            low = middle + 1
    return best
