"""Reasoning effort: the fields of each provider's API that make a model think more or less."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from clew.providers.model_names import normalize_name

_Fields: TypeAlias = Mapping[str, Any] | None

_CLAUDE = re.compile(r"claude-(?:[a-z]+-)?v?(\d)(?:-(\d)(?!\d))?")
_FIRST_THINKING, _FIRST_ADAPTIVE = (3, 7), (4, 6)
_CLAUDE_BUDGETS = {"low": 4_096, "medium": 12_000, "high": 31_999}
_OPENAI = re.compile(r"(?<![a-z0-9])(?:gpt-5(?!.*chat)|gpt-oss|o[134](?![a-z0-9])|codex)")
_GROK = re.compile(r"grok-3-mini")
_GEMINI = re.compile(r"gemini-(?:(\d)|(?:pro|flash))")
_GEMINI_BUDGETS = {"low": 2_048, "medium": 8_192, "high": 24_576}


@lru_cache
def effort_fields(provider: str, model: str, effort: str) -> _Fields:
    """Return the fields of a request for an effort; None if the model has no such choice.

    Args:
        provider: The name of the provider.
        model: The name of the model, as the provider spells it.
        effort: `low`, `medium` or `high`; empty for the model's default.
    """
    if not effort:
        return {}
    find = _PROVIDERS.get(provider)
    return find(normalize_name(model), effort) if find is not None else None


def must_think_first(fields: Mapping[str, Any]) -> bool:
    """Return whether a tool loop must begin with thinking, as Claude with a budget requires.

    Args:
        fields: Fields of the Messages API, or of Bedrock's Converse API.
    """
    inner = fields.get("additionalModelRequestFields")
    found = {**fields, **inner} if isinstance(inner, Mapping) else fields
    thinking = found.get("thinking") or found.get("reasoning_config")
    return isinstance(thinking, Mapping) and thinking.get("type") == "enabled"


def _anthropic(model: str, effort: str) -> _Fields:
    found = _CLAUDE.search(model)
    version = (int(found[1]), int(found[2] or 0)) if found else (0, 0)
    if version >= _FIRST_ADAPTIVE:
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
    if version >= _FIRST_THINKING:
        return {"thinking": {"type": "enabled", "budget_tokens": _CLAUDE_BUDGETS[effort]}}
    return None


def _bedrock(model: str, effort: str) -> _Fields:
    fields = _anthropic(model, effort)
    return None if fields is None else {"additionalModelRequestFields": fields}


def _responses(model: str, effort: str) -> _Fields:
    return {"reasoning": {"effort": effort}} if _OPENAI.search(model) else None


def _chat(model: str, effort: str) -> _Fields:
    return {"reasoning_effort": effort} if _OPENAI.search(model) else None


def _xai(model: str, effort: str) -> _Fields:
    # It knows low and high only.
    level = "low" if effort == "low" else "high"
    return {"reasoning_effort": level} if _GROK.search(model) else None


def _openrouter(model: str, effort: str) -> _Fields:  # noqa: ARG001 - translated for each model
    return {"reasoning": {"effort": effort}}


def _gemini(model: str, effort: str) -> _Fields:
    found = _GEMINI.search(model)
    generation = int(found[1] or 3) if found else 0
    if generation >= 3:
        # Gemini 3 Pro knows low and high only.
        level = "high" if effort == "medium" and "gemini-3-pro" in model else effort
        return {"generationConfig": {"thinkingConfig": {"thinkingLevel": level}}}
    if found and "gemini-2-5" in model:
        budget = {"thinkingBudget": _GEMINI_BUDGETS[effort]}
        return {"generationConfig": {"thinkingConfig": budget}}
    return None


_PROVIDERS: Mapping[str, Callable[[str, str], _Fields]] = {
    "anthropic": _anthropic,
    "azure": _responses,
    "bedrock": _bedrock,
    "fireworks": _chat,
    "gemini": _gemini,
    "groq": _chat,
    "lm_studio": _chat,
    "ollama": _chat,
    "openai": _responses,
    "openai_chat": _chat,
    "openai_responses": _responses,
    "openrouter": _openrouter,
    "together": _chat,
    "vllm": _chat,
    "xai": _xai,
}
