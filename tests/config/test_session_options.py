"""The `context` and `session` settings as a session's options."""

from typing import Any

import pytest

from clew.config.providers import resolve_provider
from clew.config.schema import SessionSection
from clew.config.session_options import build_session_options
from clew.context.policy import ContextPolicy, Thresholds
from clew.context.strategies.compact import Compact
from clew.context.strategies.sliding_window import SlidingWindow
from clew.context.strategies.tiered import Summarize, Tiered
from clew.providers.scripted import ScriptedProvider
from clew.session.config import SessionOptions
from clew.session.session import Session
from tests.config.folders import Folders

pytestmark = [pytest.mark.anyio, pytest.mark.req("CFG-1")]


def options(folders: Folders, context: dict[str, Any]) -> dict[str, Any]:
    folders.put("~/.clew/settings.json", {"context": context})
    return dict(build_session_options(folders.load().settings))


def test_without_settings_only_the_default_policy_is_there(folders: Folders) -> None:
    assert options(folders, {}) == {"policy": ContextPolicy()}


def test_the_table_of_the_seed_is_read_from_toml(folders: Folders) -> None:
    folders.put(
        "clew.toml",
        """
        [context]
        warning_threshold = 0.6
        critical_threshold = 0.9
        preserve_recent_turns = 4
        compaction_model = "default"
        """,
    )

    assert build_session_options(folders.load().settings) == {
        "policy": ContextPolicy(
            thresholds=Thresholds(warn=0.6, compact=0.9), preserve_recent_turns=4
        )
    }


@pytest.mark.parametrize("name", ["compactThreshold", "critical_threshold", "autoCompactThreshold"])
def test_false_switches_compaction_off(folders: Folders, name: str) -> None:
    assert options(folders, {name: False})["policy"].thresholds.compact is False


@pytest.mark.parametrize(
    ("written", "made"),
    [
        ("tiered", Tiered()),
        ("sliding-window", SlidingWindow()),
        ("sliding_window", SlidingWindow()),
        ({"type": "tiered", "maxTokens": 900}, Tiered(max_tokens=900)),
        ({"type": "sliding-window", "maxTurns": 7}, SlidingWindow(max_turns=7)),
        ({"type": "sliding_window"}, SlidingWindow()),
        ({"type": "summarize", "max_tokens": 900}, Summarize(max_tokens=900)),
        (
            {"type": "compact", "maxTokens": 900, "preserveRecentTurns": 2},
            Compact(max_tokens=900, preserve_recent_turns=2),
        ),
        ({"type": "compact"}, Compact()),
    ],
)
def test_strategies_are_named_or_described(folders: Folders, written: Any, made: object) -> None:
    assert options(folders, {"strategy": written})["strategy"] == made


def test_the_model_of_a_strategy_comes_before_the_general_one(folders: Folders) -> None:
    strategy = {"type": "summarize", "summaryModel": "small"}

    assert options(folders, {"compactionModel": "large"})["summary_model"] == "large"
    assert (
        options(folders, {"compactionModel": "large", "strategy": strategy})["summary_model"]
        == "small"
    )


@pytest.mark.parametrize(
    ("written", "length"), [(True, True), (False, False), (900, 900), ({"minChars": 900}, 900)]
)
def test_lengths_are_written_in_three_ways(folders: Folders, written: Any, length: int) -> None:
    made = options(folders, {"compressToolResults": written, "compressReasoningText": written})

    assert made["policy"].compress_tool_results == length
    assert made["compress_reasoning_text"] == length


async def test_a_session_takes_everything_that_can_be_set(folders: Folders) -> None:
    folders.put(
        "~/.clew/settings.json",
        {
            "context": {
                "blockThreshold": 0.9,
                "strategy": "compact",
                "compactionModel": "small",
                "compactInstructions": "keep the ports",
                "maxContextTokens": 9_000,
                "maxToolOutputChars": 500,
                "backgroundCompaction": "auto",
                "verifySummary": True,
                "preserveReasoningAsText": True,
                "compressReasoningText": 300,
            },
            "session": {
                "budgetUsd": 2.5,
                "maxTurns": 9,
                "toolTimeout": 1500,
                "detectLoops": False,
                "recall": False,
                "redact": False,
            },
        },
    )

    made = build_session_options(folders.load().settings)

    assert dict(made) == {
        "policy": ContextPolicy(
            thresholds=Thresholds(block=0.9),
            max_tool_output_chars=500,
            background_compaction="auto",
            verify_summary=True,
        ),
        "strategy": Compact(),
        "summary_model": "small",
        "compact_instructions": "keep the ports",
        "max_context_tokens": 9_000,
        "preserve_reasoning_as_text": True,
        "compress_reasoning_text": 300,
        "budget_usd": 2.5,
        "max_turns": 9,
        "tool_timeout": 1.5,
        "detect_loops": False,
        "recall": False,
        "redact": False,
    }
    async with Session(ScriptedProvider(["hi"]), model="m", **made) as session:
        assert session.get_context_state().max_tokens == 9_000


def test_the_window_of_the_profile_comes_before_the_general_one(folders: Folders) -> None:
    models = {"m": {"maxContextTokens": 4_000}}
    folders.put(
        "~/.clew/settings.json",
        {
            "currentProvider": "a",
            "providers": {"a": {"type": "ollama", "model": "m", "models": models}},
            "context": {"maxContextTokens": 9_000},
        },
    )
    settings = folders.load().settings

    assert build_session_options(settings)["max_context_tokens"] == 9_000
    provider = resolve_provider(settings, {})
    assert build_session_options(settings, provider)["max_context_tokens"] == 4_000
    assert build_session_options(settings, provider, model="other")["max_context_tokens"] == 9_000


def test_every_setting_of_a_session_is_an_option_of_the_same_name() -> None:
    assert set(SessionSection.__struct_fields__) <= SessionOptions.__annotations__.keys()
