"""What is known of well-known models: a table, and how a name finds its row."""

import msgspec

from clew.core.models import ModelFacts

_SIZES: dict[str, tuple[int, int]] = {
    "claude-opus-4-6": (1_000_000, 128_000),
    "claude-sonnet-4-6": (1_000_000, 64_000),
    "claude-haiku-4-5": (200_000, 64_000),
    "claude-sonnet-4-5": (200_000, 64_000),
    "claude-opus-4-5": (200_000, 64_000),
    "gpt-4.1": (1_047_576, 32_768),
    "gpt-4o": (128_000, 16_384),
    "gpt-5": (400_000, 128_000),
    "gpt-5-chat": (128_000, 16_384),
    "o3": (200_000, 100_000),
    "o4-mini": (200_000, 100_000),
    "gemini-2.5": (1_048_576, 65_536),
    "deepseek-chat": (128_000, 8_192),
    "deepseek-reasoner": (128_000, 8_192),
    "qwen3": (131_072, 8_192),
    "llama-3": (8_192, 2_048),
    "llama-3.1": (131_072, 4_096),
    "llama-3.2": (131_072, 4_096),
    "llama-3.3": (131_072, 4_096),
}
"""Window and longest answer, by the name that dated and sized variants begin with."""

_ALIASES = {
    "claude-opus-4.6": "claude-opus-4-6",
    "claude-sonnet-4.6": "claude-sonnet-4-6",
    "claude-haiku-4.5": "claude-haiku-4-5",
    "claude-sonnet-4.5": "claude-sonnet-4-5",
    "claude-opus-4.5": "claude-opus-4-5",
    "llama3": "llama-3",
    "llama3.1": "llama-3.1",
    "llama3.2": "llama-3.2",
    "llama3.3": "llama-3.3",
}
"""How gateways and local servers spell the same models."""

SMOLLM2 = ModelFacts(
    name="smollm2-135m", window=8_192, max_output=160, calls_tools=False, summarises=False
)
"""The embedded model: it talks, and no more should be asked of it."""

CATALOGUE: dict[str, ModelFacts] = {
    SMOLLM2.name: SMOLLM2,
    **{
        name: ModelFacts(name=name, window=window, max_output=output)
        for name, (window, output) in _SIZES.items()
    },
}
CATALOGUE.update({alias: CATALOGUE[name] for alias, name in _ALIASES.items()})


def lookup(model: str) -> ModelFacts:
    """Return what is known of `model`, under the name it was asked by.

    A vendor prefix (`anthropic/…`) is ignored, and the longest known beginning counts,
    so dated names find their family. An unknown name gets careful defaults.
    """
    bare = model.rpartition("/")[2].lower()
    known = [name for name in CATALOGUE if _begins(bare, name)]
    if not known:
        return ModelFacts(name=model, known=False)
    return msgspec.structs.replace(CATALOGUE[max(known, key=len)], name=model)


def _begins(model: str, name: str) -> bool:
    return model.startswith(name) and not model[len(name) : len(name) + 1].isalnum()
