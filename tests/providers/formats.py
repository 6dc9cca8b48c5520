"""The five wire formats side by side, for what all of them must do alike."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clew.context.reasoning import Echoes, ReasoningReader
from clew.core.messages import Message
from clew.providers.protocol import Request
from clew.providers.wire.anthropic import decode as anthropic_decode
from clew.providers.wire.anthropic import encode as anthropic
from clew.providers.wire.base_decoder import Decoder
from clew.providers.wire.chat import decode as chat_decode
from clew.providers.wire.chat import encode as chat
from clew.providers.wire.converse import decode as converse_decode
from clew.providers.wire.converse import encode as converse
from clew.providers.wire.gemini import decode as gemini_decode
from clew.providers.wire.gemini import encode as gemini
from clew.providers.wire.message_cache import MessageCache
from clew.providers.wire.responses import decode as responses_decode
from clew.providers.wire.responses import encode as responses

READER = ReasoningReader("host", Echoes.OWN_ISSUED)


@dataclass(frozen=True, slots=True)
class Format:
    """One wire format."""

    name: str
    kept: Callable[..., MessageCache[Any]]
    encode: Callable[[Request, MessageCache[Any]], bytes]
    decoder: Callable[[str], Decoder]

    def body(self, request: Request) -> dict[str, Any]:
        """Return the body of `request` as an object."""
        found: dict[str, Any] = json.loads(self.encode(request, self.kept(READER)))
        return found

    def text(self, *messages: Message, **fields: Any) -> str:
        """Return the body that sends `messages`, as text."""
        request = Request(model="m", messages=messages, **fields)
        return json.dumps(self.body(request), ensure_ascii=False)


FORMATS = (
    Format(
        "anthropic", anthropic.message_cache, anthropic.encode, anthropic_decode.messages_decoder
    ),
    Format("chat", chat.message_cache, chat.encode, chat_decode.chat_decoder),
    Format("converse", converse.message_cache, converse.encode, converse_decode.converse_decoder),
    Format("gemini", gemini.message_cache, gemini.encode, gemini_decode.gemini_decoder),
    Format(
        "responses", responses.message_cache, responses.encode, responses_decode.responses_decoder
    ),
)


def name_of(given: object) -> str | None:
    """Name a format in the id of a test."""
    return given.name if isinstance(given, Format) else None
