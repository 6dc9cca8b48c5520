"""An exact count where the vocabulary is public and installed, and none elsewhere."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from clew.providers.tokenizers import meter_for, vocabulary_for
from tests.rows import each_row


@pytest.mark.req("CTX-3")
@pytest.mark.parametrize(
    ("model", "text", "tokens"),
    [
        # From OpenAI's cookbook, "How to count tokens with tiktoken".
        ("gpt-4", "antidisestablishmentarianism", 6),
        ("gpt-4", "2 + 2 = 4", 7),
        ("gpt-4", "お誕生日おめでとう", 9),
        ("gpt-4", "tiktoken is great!", 6),
        ("gpt-4o", "antidisestablishmentarianism", 6),
        ("gpt-4o", "2 + 2 = 4", 7),
        ("gpt-4o", "お誕生日おめでとう", 8),
        ("gpt-5.4", "", 0),
    ],
)
def test_the_count_is_the_makers_own(model: str, text: str, tokens: int) -> None:
    pytest.importorskip("splintr")
    meter = meter_for(model)

    assert meter is not None
    assert meter(text) == tokens


@each_row(
    ("model", "vocabulary"),
    [
        ("gpt-4.1-mini", "o200k_base"),
        ("openai/gpt-5", "o200k_base"),
        ("o3", "o200k_base"),
        ("o4-mini-2025-04-16", "o200k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama3"),
        ("llama3.1:8b", "llama3"),
        ("ollama_chat/qwen2.5:7b", "qwen3"),
        ("Qwen3-235B-A22B", "qwen3"),
        ("deepseek-chat", "deepseek_v3"),
        ("qwen3.5-plus", ""),
        ("llama-4-scout", ""),
        ("claude-opus-4-6", ""),
        ("gemini-2.5-pro", ""),
        ("orca-mini", ""),
        ("", ""),
    ],
)
def test_a_vocabulary_is_found_by_the_models_name(model: str, vocabulary: str) -> None:
    assert vocabulary_for(model) == vocabulary


def test_there_is_no_meter_for_a_maker_who_keeps_the_vocabulary_private() -> None:
    assert meter_for("claude-opus-4-6") is None
    assert meter_for("gemini-2.5-pro") is None


def test_without_the_package_there_is_no_meter() -> None:
    assert meter_for("gpt-4o", package="no_such_tokenizer_package") is None


def test_half_a_character_and_control_words_are_counted_as_text() -> None:
    pytest.importorskip("splintr")
    meter = meter_for("gpt-4o")

    assert meter is not None
    assert meter("a \ud800 b") > 0
    assert meter("<|endoftext|>") == 7


def test_many_threads_may_count_at_once() -> None:
    pytest.importorskip("splintr")
    meter = meter_for("gpt-4o")
    assert meter is not None

    with ThreadPoolExecutor(8) as pool:
        counts = set(pool.map(meter, ["word " * 5_000] * 32))

    assert counts == {meter("word " * 5_000)}
