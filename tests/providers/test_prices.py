import subprocess
import sys
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import ConfigError
from clew.core.usage import Usage
from clew.providers.prices import Price, price
from tests.rows import each_row

MILLION = 1_000_000
NOVEMBER = datetime(2026, 11, 15, 12, tzinfo=UTC)
CACHED = Usage(
    input_tokens=10_000, output_tokens=1_000, cache_read_tokens=6_000, cache_write_tokens=1_000
)
SONNET_4_5 = (3_000 * 3 + 6_000 * 0.30 + 1_000 * 3.75 + 1_000 * 15) / MILLION
"""What `CACHED` costs with Claude Sonnet 4.5, by Anthropic's price list."""

MODELS = [
    ("anthropic", "claude-sonnet-4-5"),
    ("anthropic", "claude-opus-4-8"),
    ("azure", "gpt-5-mini"),
    ("bedrock", "us.anthropic.claude-haiku-4-5-20251001-v1:0"),
    ("deepseek", "deepseek-v4-flash"),
    ("gemini", "gemini-2.5-pro"),
    ("openai", "gpt-4.1"),
    ("openai", "gpt-5.4"),
    ("openrouter", "anthropic/claude-sonnet-4.5"),
    ("xai", "grok-4.5"),
]
"""All of them charge less for what is read from a cache, and several more for long prompts."""


@pytest.mark.req("PRV-2", "PRV-7")
@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic", "claude-sonnet-4-5"),
        ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("vertex", "claude-sonnet-4-5@20250929"),
        ("openrouter", "anthropic/claude-sonnet-4.5"),
    ],
)
def test_a_cache_write_for_an_hour_costs_twice_the_input(provider: str, model: str) -> None:
    base = Usage(input_tokens=1_000, cache_write_tokens=1_000)
    hourly = msgspec.structs.replace(base, cache_write_1h_tokens=1_000)
    mixed = msgspec.structs.replace(base, cache_write_1h_tokens=400)

    assert listed(hourly, provider, model) == pytest.approx(listed(base, provider, model) * 1.6)
    assert listed(mixed, provider, model) == pytest.approx(listed(base, provider, model) * 1.24)


@pytest.mark.parametrize(
    ("given", "dollars"),
    [
        (Price(input=3, output=15, cache_write=4, cache_write_1h=7), 7.0),
        (Price(input=3, output=15, cache_write=5), 8.0),
        (Price(input=3, output=15), 3.0),
    ],
)
def test_the_price_of_a_write_for_an_hour_can_be_given(given: Price, dollars: float) -> None:
    usage = Usage(
        input_tokens=MILLION, cache_write_tokens=MILLION, cache_write_1h_tokens=2 * MILLION
    )

    assert price(usage, provider="p", model="m", overrides={"m": given}) == pytest.approx(dollars)


@st.composite
def usages(draw: st.DrawFn, most: int = 400_000) -> Usage:
    fresh, read, written, output = (draw(st.integers(0, most // 3)) for _ in range(4))
    return Usage(
        input_tokens=fresh + read + written,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def listed(usage: Usage, provider: str, model: str) -> float:
    cost = price(usage, provider=provider, model=model, at=NOVEMBER)
    assert cost is not None
    return cost


@pytest.mark.req("PRV-7")
@each_row(
    ("provider", "model"),
    [
        ("anthropic", "claude-sonnet-4-5"),
        ("anthropic", "claude-sonnet-4-5-20250929"),
        ("gemini", "claude-sonnet-4-5@20250929"),
        ("gemini", "publishers/anthropic/models/claude-sonnet-4-5@20250929"),
        ("bedrock", "global.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("openrouter", "anthropic/claude-sonnet-4.5"),
        ("openai_chat", "claude-sonnet-4-5"),
        ("a gateway", "anthropic/claude-sonnet-4.5"),
    ],
)
def test_reads_and_writes_of_the_cache_have_their_own_prices(provider: str, model: str) -> None:
    assert listed(CACHED, provider, model) == pytest.approx(SONNET_4_5)


@pytest.mark.req("PRV-7")
@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-4.1"),
        ("openai", "gpt-4.1-2025-04-14"),
        ("openai_chat", "gpt-4.1"),
        ("azure", "gpt-4.1"),
        ("azure_chat", "gpt-4.1"),
        ("openrouter", "openai/gpt-4.1"),
    ],
)
def test_what_has_no_write_price_is_written_at_the_price_of_input(
    provider: str, model: str
) -> None:
    by_hand = (4_000 * 2 + 6_000 * 0.50 + 1_000 * 8) / MILLION

    assert listed(CACHED, provider, model) == pytest.approx(by_hand)


@pytest.mark.req("PRV-7")
def test_a_long_prompt_makes_the_whole_call_dearer() -> None:
    short = Usage(input_tokens=200_000, output_tokens=1_000, cache_read_tokens=100_000)
    long = Usage(input_tokens=300_000, output_tokens=1_000, cache_read_tokens=100_000)

    below = (100_000 * 3 + 100_000 * 0.30 + 1_000 * 15) / MILLION
    above = (200_000 * 6 + 100_000 * 0.60 + 1_000 * 22.50) / MILLION

    assert listed(short, "anthropic", "claude-sonnet-4-5") == pytest.approx(below)
    assert listed(long, "anthropic", "claude-sonnet-4-5") == pytest.approx(above)


def test_a_region_of_bedrock_costs_a_tenth_more() -> None:
    model = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
    arn = f"arn:aws:bedrock:us-east-1:123456789012:inference-profile/{model}"

    assert listed(CACHED, "bedrock", model) == pytest.approx(SONNET_4_5 * 1.1)
    assert listed(CACHED, "bedrock", arn) == pytest.approx(SONNET_4_5 * 1.1)


def test_the_price_is_that_of_the_day() -> None:
    usage = Usage(input_tokens=300_000)
    early = datetime(2026, 3, 1, tzinfo=UTC)

    before = price(usage, provider="anthropic", model="claude-opus-4-6", at=early)
    after = price(usage, provider="anthropic", model="claude-opus-4-6", at=NOVEMBER)

    assert before == pytest.approx(300_000 * 10 / MILLION)
    assert after == pytest.approx(300_000 * 5 / MILLION)


def test_without_a_day_it_is_the_price_of_now() -> None:
    now = price(CACHED, provider="anthropic", model="claude-sonnet-4-5")

    assert now == pytest.approx(SONNET_4_5)


@each_row(
    ("provider", "model"),
    [
        ("anthropic", "claude-nobody-knows"),
        ("azure", "our-own-deployment"),
        ("azure", "gpt-oss-120b"),
        ("azure", "deepseek-r1"),
        ("bedrock", "arn:aws:bedrock:us-east-1:1:application-inference-profile/mi1dadi0g15f"),
        ("openai", "gpt-transcribe"),
        ("openai_chat", "gpt-oss-120b"),
        ("openai_chat", "llama-3.3-70b"),
        ("a gateway", "qwen3-max"),
        ("a gateway", "o3x"),
        ("qwen", "qwen3-max"),
        ("scripted", "claude-opus-4-6"),
        ("", ""),
    ],
)
def test_an_ambiguous_price_is_unknown(provider: str, model: str) -> None:
    assert price(CACHED, provider=provider, model=model, at=NOVEMBER) is None


@pytest.mark.parametrize("provider", ["embedded", "llamacpp", "lmstudio", "ollama", "vllm"])
def test_local_models_cost_nothing(provider: str) -> None:
    assert price(CACHED, provider=provider, model="gpt-oss:20b") == 0.0


@pytest.mark.parametrize("model", ["gpt-oss:120b-cloud", "glm-4.7:cloud"])
def test_what_ollama_passes_on_to_its_cloud_is_not_free(model: str) -> None:
    assert price(CACHED, provider="ollama", model=model) is None


def test_a_model_that_is_given_away_costs_nothing() -> None:
    assert listed(CACHED, "openrouter", "openai/gpt-oss-20b:free") == 0.0


@pytest.mark.req("PRV-7")
def test_a_price_of_ones_own_counts_before_any_other() -> None:
    own = {"claude-sonnet": Price(input=1, output=2, cache_read=0.5, cache_write=4)}
    by_hand = (3_000 * 1 + 6_000 * 0.5 + 1_000 * 4 + 1_000 * 2) / MILLION

    for provider in ("anthropic", "bedrock", "ollama", "scripted"):
        cost = price(
            CACHED,
            provider=provider,
            model="us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            overrides=own,
        )
        assert cost == pytest.approx(by_hand)


def test_of_several_prices_of_ones_own_the_longest_name_counts() -> None:
    own = {
        "our": Price(input=1, output=0),
        "our-model.5": Price(input=2, output=0),
        "host/our-model.5": Price(input=3, output=0),
        "our-model-50": Price(input=4, output=0),
    }
    usage = Usage(input_tokens=MILLION)

    costs = {
        model: price(usage, provider="x", model=model, overrides=own)
        for model in ("our-model-5-large", "host/Our-Model.5", "our-thing", "ours")
    }

    assert costs == {
        "our-model-5-large": 2.0,
        "host/Our-Model.5": 3.0,
        "our-thing": 1.0,
        "ours": None,
    }


def test_the_cache_costs_as_much_as_input_unless_a_price_says_otherwise() -> None:
    own = {"m": Price(input=2, output=8)}

    cost = price(CACHED, provider="x", model="m", overrides=own)

    assert cost == pytest.approx((10_000 * 2 + 1_000 * 8) / MILLION)


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_a_price_that_is_none_is_refused(wrong: float) -> None:
    with pytest.raises(ConfigError, match="cache_read price"):
        Price(input=1, output=1, cache_read=wrong)


def test_a_price_can_be_read_from_a_configuration() -> None:
    found = msgspec.convert({"input": 3, "output": 15, "cache_read": 0.3}, Price)

    assert found == Price(input=3, output=15, cache_read=0.3)


@pytest.mark.parametrize(("provider", "model"), MODELS)
@given(usage=usages(), more=usages())
def test_more_tokens_never_cost_less(provider: str, model: str, usage: Usage, more: Usage) -> None:
    assert listed(usage + more, provider, model) >= listed(usage, provider, model) >= 0


@pytest.mark.parametrize(("provider", "model"), MODELS)
@given(one=usages(50_000), two=usages(50_000))
def test_two_calls_cost_what_both_cost_while_the_prompt_is_short(
    provider: str, model: str, one: Usage, two: Usage
) -> None:
    both = listed(one, provider, model) + listed(two, provider, model)

    assert listed(one + two, provider, model) == pytest.approx(both)


@pytest.mark.parametrize(("provider", "model"), MODELS)
@given(tokens=st.integers(1, 500_000))
def test_reading_the_cache_costs_less_than_fresh_input(
    provider: str, model: str, tokens: int
) -> None:
    fresh = Usage(input_tokens=tokens)
    cached = Usage(input_tokens=tokens, cache_read_tokens=tokens)

    assert 0 < listed(cached, provider, model) < listed(fresh, provider, model)


@given(
    counts=st.tuples(*[st.integers(-1_000, MILLION)] * 4),
    own=st.builds(Price, input=st.floats(0, 100), output=st.floats(0, 100)),
)
def test_whatever_a_server_counts_the_cost_is_not_negative(
    counts: tuple[int, int, int, int], own: Price
) -> None:
    usage = Usage(
        input_tokens=counts[0],
        output_tokens=counts[1],
        cache_read_tokens=counts[2],
        cache_write_tokens=counts[3],
    )

    assert listed(usage, "anthropic", "claude-sonnet-4-5") >= 0
    mine = price(usage, provider="x", model="m", overrides={"m": own})
    assert mine is not None
    assert mine >= 0


@pytest.mark.slow("starts a process")
def test_the_price_list_is_loaded_only_when_it_is_asked() -> None:
    code = """
import sys
import clew.session.session
from clew.core.usage import Usage
from clew.providers.prices import Price, price

price(Usage(), provider="ollama", model="qwen3:8b")
price(Usage(), provider="x", model="m", overrides={"m": Price(input=1, output=1)})
price(Usage(), provider="x", model="nobody-knows")
before = {"genai_prices", "pydantic", "httpx2"} & set(sys.modules)
price(Usage(), provider="openai", model="gpt-4.1")
print(before or "none", "genai_prices" in sys.modules)
"""
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert child.stdout.split() == ["none", "True"]
