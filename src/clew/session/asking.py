"""One question to a model, outside any conversation."""

from contextlib import aclosing

from msgspec import Struct

from clew.core.messages import user
from clew.core.usage import Usage
from clew.providers.protocol import Finished, Provider, Request, TextChunk

_MOST_TOKENS = 1_024


class Reply(Struct, frozen=True, kw_only=True):
    """What a model said, and what it consumed as far as the provider tells."""

    text: str
    usage: Usage | None = None


async def ask_model(provider: Provider, model: str, prompt: str) -> Reply:
    """Return what `model` answers to `prompt`; raises as `Provider.stream` does."""
    limit = min(provider.facts(model).max_output, _MOST_TOKENS)
    request = Request(model=model, messages=(user(prompt),), max_output_tokens=limit)
    words: list[str] = []
    usage: Usage | None = None
    async with aclosing(provider.stream(request)) as chunks:
        async for chunk in chunks:
            match chunk:
                case TextChunk(text=text):
                    words.append(text)
                case Finished(usage=counted):
                    usage = counted
                case _:
                    pass
    return Reply(text="".join(words), usage=usage)
