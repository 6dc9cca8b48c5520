"""The views that a blind test compares: what a reader gets instead of the whole conversation."""

import re
from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType

from msgspec import Struct

from clew.context.render import render
from clew.context.view import fold
from clew.core.entries import Entry
from clew.core.errors import ConfigError, ContextFull
from clew.core.models import ModelFacts
from clew.dict_messages.fit import fit, fit_view
from clew.simulation.blind_test.cases import Case
from clew.simulation.blind_test.questions import digest
from clew.simulation.blind_test.transcript import CountTokens, find_newest, readable

VIEWS = ("full", "recall-4k", "summary-16k", "rules-16k", "rules-4k", "recorded", "newest-16k")
"""The views that are compared unless others are named."""
_NAME = re.compile(r"(full|recorded)|(newest|rules|recall|summary)-(\d{1,4})k")
_HELP = "full, recorded, newest-Nk, rules-Nk, summary-Nk or recall-Nk, with N thousand tokens"


class ViewKind(Struct, frozen=True, kw_only=True):
    """A way to compact, and the size that it leaves."""

    name: str
    form: str
    tokens: int = 0

    @property
    def can_search(self) -> bool:
        """True when the reader may call `Recall`."""
        return self.form == "recall"

    @property
    def has_summary(self) -> bool:
        """True when a model writes part of the view."""
        return self.form == "summary"


class ComparedView(Struct, frozen=True, kw_only=True):
    """A view of one case."""

    kind: ViewKind
    text: str = ""
    tokens: int = 0
    missing: str = ""
    """Why there is no such view; empty when there is one."""
    entries: tuple[Entry, ...] = ()
    """What the reader may search with `Recall`."""
    key: str = ""
    """Identifies the view and its text."""
    summary_prompt: str = ""
    """What a model must answer before there is a text; empty when nothing is missing."""


def parse_views(names: Iterable[str]) -> tuple[ViewKind, ...]:
    """Return the views with these names, each once.

    Raises:
        ConfigError: A name is unknown, or there is none.
    """
    found = tuple(_parse(name) for name in dict.fromkeys(names))
    if not found:
        raise ConfigError(f"name at least one view: {_HELP}")
    return found


def _parse(name: str) -> ViewKind:
    match = _NAME.fullmatch(name)
    if match is None or match[3] == "0" * len(match[3] or ""):
        raise ConfigError(f"unknown view {name!r}; choose from {_HELP}")
    return ViewKind(name=name, form=match[1] or match[2], tokens=int(match[3] or 0) * 1_000)


class _SummaryNeeded(Exception):
    """A view needs a summary by a model."""

    def __init__(self, prompt: str) -> None:
        super().__init__(prompt)
        self.prompt = prompt


def make_view(
    kind: ViewKind,
    case: Case,
    model: ModelFacts,
    *,
    count: CountTokens,
    summaries: Mapping[str, str] = MappingProxyType({}),
) -> ComparedView:
    """Return the view of a case.

    Args:
        kind: What to make.
        case: The conversation.
        model: Reads the view; sizes are in its tokens.
        count: Counts them.
        summaries: What a model wrote, by the digest of its prompt. A view that needs another one
            has only the prompt for it, and the size that it will have.
    """
    view = partial(ComparedView, kind=kind)
    if kind.can_search and not model.calls_tools:
        return view(missing=f"{model.name} cannot call tools")
    if kind.has_summary and not model.summarises:
        return view(missing=f"Clew uses no summaries of {model.name}")
    entries = case.with_setup(model) if kind.can_search else ()
    try:
        text = _make_text(kind, case, model, count=count, summaries=summaries)
    except ContextFull as error:
        return view(missing=f"no view of {kind.tokens:,} tokens: {error}")
    except _SummaryNeeded as needed:
        return view(tokens=kind.tokens, summary_prompt=needed.prompt)
    if not text:
        return view(missing="the recording has no summary at this point")
    key = digest(kind.form, text, case.text if kind.can_search else "")
    return view(text=text, tokens=count(text), entries=entries, key=key)


def _make_text(
    kind: ViewKind,
    case: Case,
    model: ModelFacts,
    *,
    count: CountTokens,
    summaries: Mapping[str, str],
) -> str:
    def find_summary(prompt: str) -> str:
        if digest(prompt) not in summaries:
            raise _SummaryNeeded(prompt)
        return summaries[digest(prompt)]

    match kind.form:
        case "full":
            return case.text
        case "recorded":
            return case.summary
        case "newest":
            return find_newest(case.text, tokens=kind.tokens, count=count)
        case "recall":
            view = fit_view(fold(case.with_setup(model)), max_tokens=kind.tokens)
            return readable(render(view))
        case _:
            summarize = find_summary if kind.has_summary else None
            fitted = fit(
                case.messages, max_tokens=kind.tokens, model=model.name, summarize=summarize
            )
            return readable(fitted.messages)
