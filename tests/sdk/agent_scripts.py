"""A provider that answers each agent from a script of its own."""

from collections.abc import AsyncGenerator, Mapping, Sequence

from clew.core.models import ModelFacts
from clew.providers.protocol import Chunk, Request
from clew.providers.scripted import ScriptedProvider, ScriptedReply


class ScriptedAgents:
    """Answers by the first prompt of a conversation, so that agents can run in any order."""

    name = "scripted"

    def __init__(self, scripts: Mapping[str, Sequence[ScriptedReply]]) -> None:
        self._scripts = {key: ScriptedProvider(replies) for key, replies in scripts.items()}

    def facts(self, model: str) -> ModelFacts:
        return ModelFacts(name=model)

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        asked = request.messages[0].text
        (key,) = [key for key in self._scripts if key in asked]
        return self._scripts[key].stream(request)

    def requests(self, key: str) -> list[Request]:
        """Return the requests of the conversation that began with this text."""
        return self._scripts[key].requests

    async def aclose(self) -> None:
        """Do nothing: a script holds no resources."""
