"""Reasoning effort: what each provider is sent, and what happens where there is no choice."""

from typing import Any

import pytest

from clew import Session
from clew.core.errors import ConfigError, SessionError
from clew.core.events import Warned
from clew.providers.effort import effort_fields
from clew.providers.scripted import ScriptedProvider
from clew.session.conversation_edits import set_effort
from clew.stores.memory import MemoryStore
from tests.rows import each_row

pytestmark = pytest.mark.anyio


@pytest.mark.req("CLI-2")
@each_row(
    ("provider", "model", "fields"),
    [
        (
            "anthropic",
            "claude-opus-4-6",
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        ),
        (
            "anthropic",
            "claude-sonnet-4-5-20250929",
            {"thinking": {"type": "enabled", "budget_tokens": 4_096}},
        ),
        ("anthropic", "claude-3-5-sonnet", None),
        (
            "bedrock",
            "us.anthropic.claude-sonnet-4-20250514-v1:0",
            {
                "additionalModelRequestFields": {
                    "thinking": {"type": "enabled", "budget_tokens": 4_096}
                }
            },
        ),
        ("bedrock", "amazon.nova-pro", None),
        ("openai", "gpt-5.2", {"reasoning": {"effort": "low"}}),
        ("openai", "gpt-4o", None),
        ("openai_chat", "o3-mini", {"reasoning_effort": "low"}),
        ("openai_chat", "gpt-5-chat-latest", None),
        ("ollama", "gpt-oss:20b", {"reasoning_effort": "low"}),
        ("openrouter", "any/model", {"reasoning": {"effort": "low"}}),
        ("xai", "grok-3-mini", {"reasoning_effort": "low"}),
        ("xai", "grok-4", None),
        (
            "gemini",
            "gemini-3-flash",
            {"generationConfig": {"thinkingConfig": {"thinkingLevel": "low"}}},
        ),
        (
            "gemini",
            "models/gemini-2.5-pro",
            {"generationConfig": {"thinkingConfig": {"thinkingBudget": 2_048}}},
        ),
        ("gemini", "gemini-2.0-flash", None),
        ("embedded", "smollm2", None),
    ],
)
def test_each_provider_has_its_own_fields(
    provider: str, model: str, fields: dict[str, Any] | None
) -> None:
    assert effort_fields(provider, model, "low") == fields
    assert effort_fields(provider, model, "") == {}


def test_a_level_that_a_model_lacks_becomes_the_next_one() -> None:
    assert effort_fields("gemini", "gemini-3-pro", "medium") == {
        "generationConfig": {"thinkingConfig": {"thinkingLevel": "high"}}
    }
    assert effort_fields("xai", "grok-3-mini", "medium") == {"reasoning_effort": "high"}


async def test_the_effort_is_part_of_the_journal_and_of_each_request() -> None:
    store = MemoryStore()
    provider = ScriptedProvider(["a", "b", "c"], name="openai_chat")
    async with Session(provider, model="gpt-5", store=store, effort="low") as session:
        await session.run("one")
        await set_effort(session.state, "high")
        await set_effort(session.state, "high")
        await session.run("two")
        session_id = session.session_id

    options = {"reasoning_effort": "minimal"}
    async with Session(
        provider, model="gpt-5", store=store, session_id=session_id, request_options=options
    ) as session:
        assert session.journal.view.setup.effort == "high"
        await session.run("three")

    sent = [request.options["reasoning_effort"] for request in provider.requests]
    assert sent == ["low", "high", "minimal"]


async def test_a_model_without_the_choice_is_named_and_sent_nothing() -> None:
    heard: list[Warned] = []
    provider = ScriptedProvider(["a"], name="openai_chat")
    session = Session(provider, model="gpt-5", effort="low")
    session.on("warning", heard.append)
    async with session:
        await session.set_model("gpt-4o")
        await session.run("one")

        assert "the effort low is not used" in heard[-1].text
        assert provider.requests[0].options == {}
        with pytest.raises(SessionError, match="no choice of reasoning effort"):
            await set_effort(session.state, "medium")


async def test_an_unknown_effort_is_refused() -> None:
    with pytest.raises(ConfigError, match="low, medium, high"):
        Session(ScriptedProvider([]), model="m", effort="huge")
