import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.models import DEFAULT_WINDOW
from clew.providers.catalogue import CATALOGUE, SMOLLM2, families, lookup
from clew.providers.catalogue_table import ROWS
from clew.providers.model_names import match_name, normalize_name

DATA = Path(__file__).parents[3] / "shared" / "data" / "wire_records.jsonl.gz"
SONNET_4_5 = (200_000, 64_000)

names = st.sampled_from(sorted(CATALOGUE))
words = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=6)


def _names(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    return [row[0] for row in rows]


KNOWN = [
    ("claude-opus-4-6", 1_000_000, 128_000),
    ("claude-sonnet-4-6", 1_000_000, 128_000),
    ("claude-opus-4-1-20250805", 200_000, 32_000),
    ("claude-sonnet-4-20250514", 200_000, 64_000),
    ("claude-3-5-sonnet-latest", 200_000, 8_192),
    ("claude-haiku-4-5-20251001", 200_000, 64_000),
    ("anthropic/claude-haiku-4.5", 200_000, 64_000),
    ("gpt-4.1-mini", 1_047_576, 32_768),
    ("gpt-4o", 128_000, 16_384),
    ("gpt-4-0613", 8_192, 4_096),
    ("gpt-35-turbo", 16_385, 4_096),
    ("gpt-5-chat-latest", 128_000, 16_384),
    ("gpt-5.3-chat-latest", 128_000, 16_384),
    ("openai/gpt-5-nano", 272_000, 128_000),
    ("gpt-5.4-2026-03-05", 1_050_000, 128_000),
    ("gpt-5.4-mini-2026-03-17", 272_000, 128_000),
    ("o3", 200_000, 100_000),
    ("o3-pro-2025-06-10", 200_000, 100_000),
    ("gemini-2.5-flash", 1_048_576, 65_536),
    ("gemini-3-pro-preview", 1_048_576, 65_536),
    ("deepseek-v4-pro", 1_000_000, 384_000),
    ("grok-4-1-fast-non-reasoning", 2_000_000, 30_000),
    ("moonshotai/kimi-k2.5-0127", 262_144, 16_384),
    ("zai/GLM-5.2", 1_000_000, 128_000),
    ("mistral-large-latest", 262_144, 32_768),
    ("meta-llama/Llama-3.3-70B-Instruct", 131_072, 4_096),
    ("Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", 131_072, 4_096),
    ("qwen3:8b", 131_072, 8_192),
    ("gpt-oss:120b", 131_072, 32_768),
    ("us.amazon.nova-2-lite-v1:0", 1_000_000, 64_000),
]


@pytest.mark.req("CTX-5")
def test_a_name_finds_the_facts_of_its_family() -> None:
    found = [(facts.name, facts.window, facts.max_output) for facts in map(lookup, _names(KNOWN))]

    assert found == KNOWN
    assert all(lookup(model).known for model in _names(KNOWN))


SPELLINGS = [
    "claude-sonnet-4-5",
    "claude-sonnet-4-5-20250929",
    "claude-sonnet-4-5@20250929",
    "claude-4.5-sonnet-20250929",
    "anthropic/claude-sonnet-4.5:thinking",
    "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/"
    "eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "projects/p/locations/l/publishers/anthropic/models/claude-sonnet-4-5@20250929",
    "databricks-claude-sonnet-4-5",
    "Claude_Sonnet_4.5",
]


@pytest.mark.req("CTX-5")
def test_names_used_by_gateways_clouds_and_hosts_find_the_same_family() -> None:
    found = [(facts.name, facts.window, facts.max_output) for facts in map(lookup, SPELLINGS)]

    assert found == [(model, *SONNET_4_5) for model in SPELLINGS]


HOSTED = [
    ("ft:gpt-4o-mini-2024-07-18:acme::B1", "gpt-4o"),
    ("accounts/fireworks/models/glm-4p7", "glm-4.7"),
    ("accounts/fireworks/models/llama-v3p1-70b-instruct", "llama-3.1"),
    ("meta.llama3-1-70b-instruct-v1:0", "llama-3.1"),
    ("hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M", "llama-3.2"),
    ("zai-glm-5-2", "glm-5.2"),
    ("us.deepseek.r1-v1:0", "deepseek-r1"),
    ("~anthropic/claude-opus-latest", "claude-opus-5-5"),
]


def test_renamed_models_of_hosts_find_their_family() -> None:
    found = [(facts.window, facts.max_output) for facts in map(lookup, _names(HOSTED))]
    families_of = [CATALOGUE[family] for _, family in HOSTED]

    assert found == [(facts.window, facts.max_output) for facts in families_of]


ABILITIES = [
    ("claude-opus-4-8", True, True, True),
    ("gpt-4o", True, True, True),
    ("o3-mini", False, True, True),
    ("o1-mini", False, False, True),
    ("deepseek-chat", False, True, True),
    ("gemma3:27b", True, False, True),
    ("gemma3:1b", False, False, False),
    ("qwen3:8b", False, True, True),
    ("qwen3:0.6b", False, True, False),
    ("llama3.2-vision:11b", True, True, True),
    ("sonar-pro", True, False, True),
    ("us.amazon.nova-micro-v1:0", False, True, True),
]


def test_the_facts_say_what_a_model_cannot_do() -> None:
    facts = [lookup(model) for model in _names(ABILITIES)]
    found = [(each.name, each.sees, each.calls_tools, each.summarises) for each in facts]

    assert found == ABILITIES


def test_a_host_that_offers_less_has_its_own_row() -> None:
    assert lookup("qwen.qwen3-32b-v1:0").window == 32_768
    assert lookup("qwen/qwen3-32b").window == 131_072


def test_the_embedded_model_is_not_asked_for_more_than_talk() -> None:
    facts = lookup("smollm2-135m")

    assert facts == SMOLLM2
    assert (facts.window, facts.max_output) == (8_192, 160)
    assert not facts.calls_tools
    assert not facts.summarises


UNKNOWN = [
    "nobody-knows",
    "o3x",
    "gpt-50",
    "gpt-4x",
    "claude",
    "claude-does-not-exist",
    "mistral/nobody-knows",
    "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/mi1dadi0g15f",
    "/",
    "",
]


@pytest.mark.req("CTX-5")
def test_an_unknown_name_gets_careful_defaults() -> None:
    found = [(facts.name, facts.known, facts.window) for facts in map(lookup, UNKNOWN)]

    assert found == [(model, False, DEFAULT_WINDOW) for model in UNKNOWN]


def test_every_row_of_the_table_is_plausible() -> None:
    faulty = [
        names
        for names, window, output, weaknesses in ROWS
        if not window >= output > 0 or set(weaknesses.split()) - {"blind", "toolless", "weak"}
    ]

    assert faulty == []


def test_no_two_names_are_spelled_alike() -> None:
    listed = [name for row in ROWS for name in row[0].split()] + [SMOLLM2.name]

    assert sorted(listed) == sorted(CATALOGUE)
    assert len({normalize_name(name) for name in listed}) == len(listed)


def test_every_family_is_listed_once_and_its_first_name_finds_it() -> None:
    listed = families()

    assert len(listed) == len({facts.name for facts in listed}) == len(ROWS) + 1
    assert all(lookup(facts.name) == facts for facts in listed)
    assert set(listed) == set(CATALOGUE.values())


def test_families_come_maker_by_maker_and_the_newest_first() -> None:
    order = [facts.name for facts in families()]
    claude = [name for name in order if name.startswith("claude")]

    assert order[: len(claude)] == claude
    assert order.index("claude-opus-5-5") < order.index("claude-opus-4-8")
    assert order.index("gpt-5.5") < order.index("gpt-4.1")
    assert order[-1] == SMOLLM2.name


@given(
    name=names,
    suffix=st.sampled_from(
        ["-2026-01-31", "-20260131", "@20260131", ":free", "[1m]", "-zz-preview"]
    ),
    prefix=st.sampled_from(["", "vendor/", "models/", "a/b/", "us.anthropic."]),
)
def test_a_dated_suffixed_or_prefixed_name_finds_what_the_bare_name_finds(
    name: str, suffix: str, prefix: str
) -> None:
    bare, dressed = lookup(name), lookup(prefix + name.upper() + suffix)

    assert (dressed.window, dressed.max_output) == (bare.window, bare.max_output)
    assert dressed.known


@given(name=names, tail=words)
def test_a_name_does_not_match_a_longer_word(name: str, tail: str) -> None:
    kept = {normalize_name(name): name}

    assert match_name(name + tail, kept) is None
    assert match_name(f"{name}-{tail}", kept) == name


@given(st.lists(words, min_size=1, max_size=5))
def test_the_longest_name_wins(parts: list[str]) -> None:
    beginnings = {"-".join(parts[:count]): count for count in range(1, len(parts) + 1)}

    assert match_name("-".join([*parts, "x1"]), beginnings) == len(parts)
    assert match_name(f"vendor/{'-'.join(parts)}", beginnings) == len(parts)


@given(st.text())
def test_any_text_may_be_asked_for(model: str) -> None:
    assert lookup(model).name == model


@pytest.mark.skipif(not DATA.exists(), reason="the recordings are not here")
def test_the_models_that_people_were_recorded_with_are_known() -> None:
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        recorded = {unquote(json.loads(line)["model"] or "") for line in lines} - {""}
    no_models = ("exist", "embedding", "sonet", "Rank", "application-inference-profile")
    too_old_or_rare = ("titan", "command-light", "groq/compound")

    unknown = {name for name in recorded if not lookup(name).known}

    assert len(recorded) > 200
    assert {name for name in unknown if not any(w in name for w in no_models)} == {
        name for name in recorded if any(word in name for word in too_old_or_rare)
    }
