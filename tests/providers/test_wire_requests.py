"""A request that was parsed is encoded as it was, also where Clew would not write it so."""

from types import ModuleType
from typing import Any

import pytest

from tests.recordings import anthropic, chat, gemini, responses

THINKING = {"type": "enabled", "budget_tokens": 2_000}
BODIES: list[tuple[ModuleType, dict[str, Any]]] = [
    (
        anthropic,
        {
            "model": "m",
            "max_tokens": 4_096,
            "temperature": 1.0,
            "thinking": THINKING,
            "tools": [],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        },
    ),
    (
        chat,
        {
            "model": "m",
            "temperature": 1.0,
            "tools": [],
            "messages": [{"role": "user", "content": "hi"}],
        },
    ),
    (
        responses,
        {
            "model": "m",
            "temperature": 1.0,
            "tools": [],
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        },
    ),
    (
        gemini,
        {
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "tools": [],
            "generationConfig": {"temperature": 1.0},
        },
    ),
]


@pytest.mark.req("PRV-1")
@pytest.mark.parametrize(("wire", "body"), BODIES, ids=["anthropic", "chat", "responses", "gemini"])
def test_an_empty_list_of_tools_and_the_default_temperature_are_kept(
    wire: ModuleType, body: dict[str, Any]
) -> None:
    again = wire.encode_again(body, streaming=False)

    kept = {name: again.get(name) for name in body if name not in {"messages", "input", "contents"}}
    assert kept == {name: body[name] for name in kept}
