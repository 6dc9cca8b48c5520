"""Facts about well-known models: windows, outputs, and what a model cannot do."""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

from msgspec.structs import replace

from clew.core.models import ModelFacts
from clew.providers.catalogue_table import ROWS, ModelRow
from clew.providers.model_names import match_name, normalize_name

SMOLLM2 = ModelFacts(
    name="smollm2-135m", window=8_192, max_output=160, calls_tools=False, summarises=False
)
"""The embedded model: it can chat, but neither call tools nor summarize."""


def _facts(row: ModelRow) -> ModelFacts:
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
"""The facts under every name of the table; several names may share them."""


@cache
def _normalize_catalogue() -> Mapping[str, ModelFacts]:
    return {normalize_name(name): facts for name, facts in CATALOGUE.items()}


@lru_cache(maxsize=1_024)
def lookup(model: str) -> ModelFacts:
    """Return the facts about `model`, with the given name.

    The longest known prefix applies, so names with dates, sizes, suffixes and vendor prefixes match
    their family. An unknown name gets conservative defaults.
    """
    facts = match_name(model, _normalize_catalogue())
    return replace(facts, name=model) if facts else ModelFacts(name=model, known=False)


def families() -> Sequence[ModelFacts]:
    """Return the facts of every family once, grouped by vendor, newest first."""
    return tuple(facts for name, facts in CATALOGUE.items() if name == facts.name)
