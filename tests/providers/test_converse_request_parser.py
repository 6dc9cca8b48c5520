import json
from pathlib import Path

import pytest

from clew.context.reasoning import Echoes, ReasoningReader
from clew.core.messages import Message, Reasoning, Role
from clew.providers.protocol import Request
from clew.providers.wire.converse import encode as converse
from clew.testing.request_parsers.converse import parse_request

DATA = Path(__file__).parents[3] / "shared" / "data"
here = pytest.mark.skipif(not DATA.exists(), reason="the recordings are not here")
READER = ReasoningReader("bedrock", Echoes.OWN_ISSUED)
MARK = {"cachePoint": {"type": "default"}}


def encode(*messages: Message) -> bytes:
    return converse.encode(Request(model="m", messages=messages), converse.message_cache(READER))


def text(words: str) -> dict[str, str]:
    return {"text": words}


def test_a_recorded_request_comes_back_in_typed_parts() -> None:
    recorded = {
        "system": [text("a"), MARK],
        "toolConfig": {
            "tools": [
                {"toolSpec": {"name": "f", "inputSchema": {"json": {}}, "strict": True}},
                {"systemTool": {"name": "nova_grounding"}},
            ],
            "toolChoice": {"auto": {}},
        },
        "inferenceConfig": {"maxTokens": 9, "temperature": 0.5, "topP": 1},
        "performanceConfig": {"latency": "optimized"},
        "messages": [
            {"role": "user", "content": [text("hi"), MARK, text("\n"), {"guardContent": {}}]},
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
                    {"reasoningContent": {"reasoningText": {"text": "unsealed"}}},
                    {"toolUse": {"toolUseId": "c", "name": "f", "input": {"x": 1.0}}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "toolResult": {
                            "toolUseId": "c",
                            "content": [{"json": {"a": 1}}],
                            "status": "success",
                        }
                    },
                    text("more"),
                ],
            },
        ],
    }
    request = parse_request(json.dumps(recorded).encode(), provenance="bedrock")

    assert (request.max_output_tokens, request.temperature, request.system) == (9, 0.5, "a")
    assert [tool.name for tool in request.tools] == ["f"]
    assert request.tools[0].extra == {"strict": True}
    assert request.native_tools == ({"systemTool": {"name": "nova_grounding"}},)
    assert [message.role for message in request.messages] == [
        Role.USER,
        Role.ASSISTANT,
        Role.TOOL,
        Role.USER,
    ]
    assert request.messages[1].parts[0] == Reasoning(text="hm", signature="s", provenance="bedrock")
    assert request.messages[2].results[0].text == '{"a":1}'
    assert request.messages[2].results[0].name == "f"
    assert request.messages[2].provenance == "bedrock"
    assert json.loads(converse.encode(request, converse.message_cache(READER))) == recorded


@pytest.mark.parametrize("raw", [b"{", b'{"messages":[{"role":"user"}]}', b'{"input":{}}'])
def test_an_invalid_request_body_is_rejected(raw: bytes) -> None:
    with pytest.raises(ValueError, match="it "):
        parse_request(raw, provenance="bedrock")
