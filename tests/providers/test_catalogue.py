import pytest

from clew.core.models import DEFAULT_WINDOW
from clew.providers.catalogue import lookup


@pytest.mark.req("CTX-5")
@pytest.mark.parametrize(
    ("model", "window", "output"),
    [
        ("claude-opus-4-6", 1_000_000, 128_000),
        ("claude-haiku-4-5-20251001", 200_000, 64_000),
        ("anthropic/claude-haiku-4.5", 200_000, 64_000),
        ("gpt-4.1-mini", 1_047_576, 32_768),
        ("gpt-4o", 128_000, 16_384),
        ("gpt-5-chat-latest", 128_000, 16_384),
        ("openai/gpt-5-nano", 400_000, 128_000),
        ("o3", 200_000, 100_000),
        ("gemini-2.5-flash", 1_048_576, 65_536),
        ("meta-llama/Llama-3.3-70B-Instruct", 131_072, 4_096),
        ("qwen3:8b", 131_072, 8_192),
    ],
)
def test_a_name_finds_its_family(model: str, window: int, output: int) -> None:
    facts = lookup(model)

    assert (facts.name, facts.window, facts.max_output, facts.known) == (
        model,
        window,
        output,
        True,
    )


def test_the_embedded_model_is_not_asked_for_more_than_talk() -> None:
    facts = lookup("smollm2-135m")

    assert (facts.window, facts.max_output) == (8_192, 160)
    assert not facts.calls_tools
    assert not facts.summarises


@pytest.mark.req("CTX-5")
@pytest.mark.parametrize("model", ["nobody-knows", "o3x", "gpt-50", ""])
def test_an_unknown_name_gets_careful_defaults(model: str) -> None:
    facts = lookup(model)

    assert (facts.name, facts.known, facts.window) == (model, False, DEFAULT_WINDOW)
