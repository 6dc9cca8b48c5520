"""Collect `reasoning_details`, the blocks of reasoning that gateways need back unchanged.

OpenRouter and others forward a provider's signed or encrypted reasoning as a list of blocks, and
need the complete list with the next request. The list as JSON serves as the signature of the
reasoning. A stream delivers it in deltas.
"""

from typing import Any

import msgspec

_json = msgspec.json.Encoder()
_WORDS = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The block types that arrive in deltas, and the field that grows."""


class ReasoningDetails:
    """Assembles the list from its deltas."""

    def __init__(self) -> None:
        self._blocks: list[dict[str, Any]] = []

    def add(self, blocks: list[dict[str, Any]]) -> str:
        """Add the next blocks or deltas and return their text."""
        for block in blocks:
            last = self._blocks[-1] if self._blocks else {}
            if _continues(last, block):
                _join(last, block)
            else:
                self._blocks.append(dict(block))
        return readable_text(blocks)

    def whole(self) -> str:
        """Return the list as JSON; empty if there was none."""
        return _json.encode(self._blocks).decode() if self._blocks else ""


def readable_text(blocks: list[dict[str, Any]]) -> str:
    """Return the readable text of a list of blocks."""
    return "".join(map(_words, blocks))


def _continues(last: dict[str, Any], block: dict[str, Any]) -> bool:
    kind = str(block.get("type"))
    if kind not in _WORDS or (last.get("signature") and block.get(_WORDS[kind])):
        return False
    return all(last.get(key) == block.get(key) for key in ("type", "index", "id"))


def _join(last: dict[str, Any], piece: dict[str, Any]) -> None:
    grows = _WORDS[piece["type"]]
    for key, value in piece.items():
        if key == grows:
            last[key] = _text(last.get(key)) + _text(value)
        elif value is not None or key not in last:
            last[key] = value


def _words(block: dict[str, Any]) -> str:
    return _text(block.get(_WORDS.get(str(block.get("type")), "")))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
