"""One question to a model, outside any conversation."""

from contextlib import aclosing

from clew.core.messages import user
from clew.providers.protocol import Provider, Request, TextChunk

_MOST_TOKENS = 1_024


async def ask_model(provider: Provider, model: str, prompt: str) -> str:
    """Return what `model` answers to `prompt`; raises as `Provider.stream` does."""
    limit = min(provider.facts(model).max_output, _MOST_TOKENS)
    request = Request(model=model, messages=(user(prompt),), max_output_tokens=limit)
    async with aclosing(provider.stream(request)) as chunks:
        return "".join([chunk.text async for chunk in chunks if isinstance(chunk, TextChunk)])
