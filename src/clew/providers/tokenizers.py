"""Exact token counts for models with a public vocabulary, through the extra `tokenizers`.

Models without one (Claude, Gemini) are estimated and calibrated instead: the tokenizer of another
vendor would be a worse estimate that looks exact.
"""

import re
from functools import cache, lru_cache
from importlib import import_module
from typing import Protocol

from clew.context.estimate import Meter

PACKAGE = "splintr"
_VOCABULARIES = (
    (r"gpt-oss|gpt-4o|chatgpt-4o|gpt-4[.-][15]|gpt-5|o[1-9](?!\w)", "o200k_base"),
    (r"gpt-4|gpt-3[.-]5", "cl100k_base"),
    (r"llama-?3", "llama3"),
    (r"qwen-?(2[.-]5|2|3)(?!\.?[5-9])", "qwen3"),
    (r"deepseek-(v3|r1|chat|reasoner)(?!-distill)", "deepseek_v3"),
)
"""By name prefix, first match first. Distilled models keep the vocabulary of their base."""


class _Tokenizer(Protocol):
    def encode_ordinary(self, text: str) -> list[int]: ...


@lru_cache(maxsize=256)
def vocabulary_for(model: str) -> str:
    """Return the name of the vocabulary of `model`, or an empty string if none is public.

    A vendor prefix (`openai/…`) is ignored.
    """
    bare = model.rpartition("/")[2].lower()
    return next((name for how, name in _VOCABULARIES if re.match(how, bare)), "")


def meter_for(model: str, *, package: str = PACKAGE) -> Meter | None:
    """Return a function that counts tokens as `model` does, or None if that is unknown.

    The vocabulary is loaded by the first call. The function is thread-safe.
    """
    vocabulary = vocabulary_for(model)
    if not vocabulary or not _is_installed(package):
        return None

    def count(text: str) -> int:
        tokenizer = _load(package, vocabulary)
        try:
            return len(tokenizer.encode_ordinary(text))
        except UnicodeEncodeError:
            # A lone surrogate, which is sent to providers as a replacement character.
            return len(tokenizer.encode_ordinary(text.encode("utf-8", "replace").decode()))

    return count


def _is_installed(package: str) -> bool:
    from importlib.util import find_spec  # noqa: PLC0415 - few models have a public vocabulary

    return find_spec(package) is not None


@cache
def _load(package: str, vocabulary: str) -> _Tokenizer:
    found: _Tokenizer = import_module(package).Tokenizer.from_pretrained(vocabulary)
    return found
