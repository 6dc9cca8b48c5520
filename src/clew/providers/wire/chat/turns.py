"""Messages in an order that strict servers take.

Most take any. Mistral rejects what a user says right behind the results of tools, which is how
a conversation goes on after an abort; and the templates of some models want the user and the
assistant to alternate. This moves bytes and reads no more of them than it must.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from msgspec import Raw

from clew.providers.wire.chat.dialect import Dialect

USER, ASSISTANT, TOOL = "user", "assistant", "tool"
BRIDGE = "I have read the results."
"""What the assistant is taken to have said between results and the user's next words."""

_CALLS = "tool_calls"
_PLAIN = frozenset({"role", "content"})
_json = msgspec.json.Encoder()
_fields = msgspec.json.Decoder(dict[str, Raw])


class Sent(NamedTuple):
    """One message of the API, encoded."""

    role: str
    data: bytes


_bridge = Sent(ASSISTANT, _json.encode({"role": ASSISTANT, "content": BRIDGE}))


def lay_out(messages: Iterable[Sent], dialect: Dialect, model: str) -> list[bytes]:
    """Return `messages` in an order that the server takes for `model`."""
    bridges = dialect.bridges(model)
    if not bridges and not dialect.merges:
        return [message.data for message in messages]
    found: list[Sent] = []
    for message in messages:
        last = found[-1] if found else None
        if last is not None:
            if bridges and last.role == TOOL and message.role == USER:
                found.append(_bridge)
            elif dialect.merges and (both := _merged(last, message)) is not None:
                found[-1] = both
                continue
        found.append(message)
    return [message.data for message in found]


def _merged(first: Sent, second: Sent) -> Sent | None:
    """Return two messages as one; None where they cannot be one."""
    if first.role != second.role or first.role not in {USER, ASSISTANT}:
        return None
    one, other = _fields.decode(first.data), _fields.decode(second.data)
    # Results must follow calls, and what else stands in a message cannot be joined.
    if one.keys() != _PLAIN or other.keys() - {_CALLS} != _PLAIN:
        return None
    content = _joined(bytes(one["content"]), bytes(other["content"]))
    return Sent(first.role, _json.encode({**other, "content": Raw(content)}))


def _joined(one: bytes, other: bytes) -> bytes:
    """Return two contents as one: texts with a blank line between, else a list of pieces."""
    if b"null" in {one, other}:
        return other if one == b"null" else one
    if one.startswith(b'"') and other.startswith(b'"'):
        return b"".join((one[:-1], rb"\n\n", other[1:]))
    pieces = (_inside(content) for content in (one, other))
    return b"[" + b",".join(filter(None, pieces)) + b"]"


def _inside(content: bytes) -> bytes:
    if content.startswith(b"["):
        return content[1:-1]
    return _json.encode({"type": "text", "text": Raw(content)})
