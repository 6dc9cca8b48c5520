"""Arguments that are nested too deeply to decode, in APIs that send them as JSON and not as text.

No decoder reads such a response. The deep parts are cut out before it is decoded, and put back into
the arguments of the calls that had them. The session then tells the model that these arguments are
invalid, as it does for APIs that send arguments as text.
"""

import re
from secrets import token_hex

from msgspec import Struct
from msgspec.structs import replace

from clew.core.json_text import NestedTooDeeply
from clew.providers.protocol import CallChunk, Chunk

_KEPT = 32
"""Levels that stay: more than any API puts around arguments."""
_TOKEN = re.compile(r'(?s)"(?:[^"\\]+|\\.)*+"|[\[\]{}]')


class ShallowJson(Struct, frozen=True):
    """A JSON text without its deep parts."""

    text: str
    parts: dict[str, str]
    """What was cut out, by the JSON string that stands in its place."""

    def restore(self, chunks: list[Chunk]) -> list[Chunk]:
        """Return chunks with the deep parts in the arguments of calls.

        Raises:
            NestedTooDeeply: Another part of the response was nested deeply.
        """
        missing = set(self.parts)
        restored: list[Chunk] = []
        for chunk in chunks:
            made = chunk
            if isinstance(made, CallChunk):
                for mark in [each for each in missing if each in made.arguments]:
                    arguments = made.arguments.replace(mark, self.parts[mark])
                    made = replace(made, arguments=arguments)
                    missing.discard(mark)
            restored.append(made)
        if missing:
            raise NestedTooDeeply
        return restored


def cut_deep_parts(text: str) -> ShallowJson:
    """Replace what is nested deeply in a JSON text by strings."""
    pieces, parts = list[str](), dict[str, str]()
    depth = done = start = 0
    for token in _TOKEN.finditer(text):
        if token[0] in "[{":
            depth += 1
            start = token.start() if depth == _KEPT else start
        elif token[0] in "]}":
            depth -= 1
            if depth == _KEPT - 1:
                mark = f'"{token_hex(16)}"'
                parts[mark] = text[start : token.end()]
                pieces += (text[done:start], mark)
                done = token.end()
    return ShallowJson("".join((*pieces, text[done:])), parts)
