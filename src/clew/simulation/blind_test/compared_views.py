"""The views that a blind test compares: what a reader gets instead of the whole conversation."""

import re
from collections.abc import Iterable
from functools import partial

from msgspec import Struct

from clew.context.render import render
from clew.context.view import fold
from clew.core.entries import Entry, SetupChanged
from clew.core.errors import ConfigError, ContextFull
from clew.core.ids import EntryId
from clew.core.models import ModelFacts
from clew.dict_messages.fit import fit, fit_view
from clew.simulation.blind_test.cases import Case
from clew.simulation.blind_test.questions import digest
from clew.simulation.blind_test.transcript import CountTokens, find_newest, readable

VIEWS = ("full", "recall-4k", "rules-16k", "rules-4k", "recorded", "newest-16k")
"""The views that are compared unless others are named."""
_NAME = re.compile(r"(full|recorded)|(newest|rules|recall)-(\d{1,4})k")
_HELP = "full, recorded, newest-Nk, rules-Nk or recall-Nk, with N thousand tokens"


class ViewKind(Struct, frozen=True, kw_only=True):
    """A way to compact, and the size that it leaves."""

    name: str
    form: str
    tokens: int = 0

    @property
    def can_search(self) -> bool:
        """True when the reader may call `Recall`."""
        return self.form == "recall"


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


def make_view(kind: ViewKind, case: Case, model: ModelFacts, count: CountTokens) -> ComparedView:
    """Return the view of a case; sizes are in tokens of `model`, which will read it."""
    view = partial(ComparedView, kind=kind)
    entries: tuple[Entry, ...] = ()
    try:
        match kind.form:
            case "full":
                text = case.text
            case "recorded":
                text = case.summary
            case "newest":
                text = find_newest(case.text, tokens=kind.tokens, count=count)
            case "rules":
                fitted = fit(case.messages, max_tokens=kind.tokens, model=model.name)
                text = readable(fitted.messages)
            case _:
                setup = Entry(id=EntryId(1), at=0.0, body=SetupChanged(model=model))
                entries = (setup, *case.entries)
                text = readable(render(fit_view(fold(entries), max_tokens=kind.tokens)))
    except ContextFull as error:
        return view(missing=f"no view of {kind.tokens:,} tokens: {error}")
    if not text:
        return view(missing="the recording has no summary at this point")
    if kind.can_search and not model.calls_tools:
        return view(missing=f"{model.name} cannot call tools")
    key = digest(kind.form, text, case.text if kind.can_search else "")
    return view(text=text, tokens=count(text), entries=entries, key=key)
