"""What is known of well-known models, and how a name finds it."""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

from msgspec.structs import replace

from clew.core.models import ModelFacts
from clew.providers.catalogue.names import match, spell
from clew.providers.catalogue.table import ROWS, Row

SMOLLM2 = ModelFacts(
    name="smollm2-135m", window=8_192, max_output=160, calls_tools=False, summarises=False
)
"""The embedded model: it talks, and no more should be asked of it."""


def _facts(row: Row) -> ModelFacts:
    names, window, max_output, weaknesses = row
    return ModelFacts(
        name=names.partition(" ")[0],
        window=window,
        max_output=max_output,
        calls_tools="toolless" not in weaknesses,
        summarises="weak" not in weaknesses,
        sees="blind" not in weaknesses,
    )


CATALOGUE: dict[str, ModelFacts] = {
    name: facts for row in ROWS for facts in [_facts(row)] for name in row[0].split()
} | {SMOLLM2.name: SMOLLM2}
"""Facts under every name of the table; several names may share theirs."""


@cache
def _spelled() -> Mapping[str, ModelFacts]:
    return {spell(name): facts for name, facts in CATALOGUE.items()}


@lru_cache(maxsize=1_024)
def lookup(model: str) -> ModelFacts:
    """Return what is known of `model`, under the name it was asked by.

    The longest known beginning counts, so dated, sized and suffixed names find their
    family, however a gateway or a cloud dresses them. An unknown name gets careful defaults.
    """
    facts = match(model, _spelled())
    return replace(facts, name=model) if facts else ModelFacts(name=model, known=False)


def families() -> Sequence[ModelFacts]:
    """Return the facts of every family once, maker by maker, the newest first."""
    return tuple(facts for name, facts in CATALOGUE.items() if name == facts.name)
