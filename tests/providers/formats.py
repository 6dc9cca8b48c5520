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
from clew.providers.wire.chat import decode as chat_decode
from clew.providers.wire.chat import encode as chat
from clew.providers.wire.converse import decode as converse_decode
from clew.providers.wire.converse import encode as converse
from clew.providers.wire.decoder import Decoder
from clew.providers.wire.fragments import Fragments
from clew.providers.wire.gemini import decode as gemini_decode
from clew.providers.wire.gemini import encode as gemini
from clew.providers.wire.responses import decode as responses_decode
from clew.providers.wire.responses import encode as responses

READER = ReasoningReader("host", Echoes.OWN_ISSUED)


@dataclass(frozen=True, slots=True)
class Format:
    """One wire format."""

    name: str
    kept: Callable[..., Fragments[Any]]
    encode: Callable[[Request, Fragments[Any]], bytes]
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
    Format("anthropic", anthropic.fragments, anthropic.encode, anthropic_decode.Decoder),
    Format("chat", chat.fragments, chat.encode, chat_decode.Decoder),
    Format("converse", converse.fragments, converse.encode, converse_decode.Decoder),
    Format("gemini", gemini.fragments, gemini.encode, gemini_decode.Decoder),
    Format("responses", responses.fragments, responses.encode, responses_decode.Decoder),
)


def name_of(given: object) -> str | None:
    """Name a format in the id of a test."""
    return given.name if isinstance(given, Format) else None
