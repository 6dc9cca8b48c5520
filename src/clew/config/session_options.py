"""From settings to the options of a session."""

from typing import Any, cast

from msgspec import UNSET

from clew.config.providers import ResolvedProvider, window_for
from clew.config.schema import (
    CompactSection,
    LengthSection,
    SlidingWindowSection,
    StrategySection,
    SummarizeSection,
    TieredSection,
)
from clew.config.sections import Section
from clew.config.settings import Settings
from clew.context.plan import Strategy
from clew.context.policy import ContextPolicy, Thresholds
from clew.context.strategies import make_strategy
from clew.context.strategies.compact import Compact
from clew.context.strategies.sliding_window import SlidingWindow
from clew.context.strategies.tiered import Summarize, Tiered
from clew.session.config import SessionOptions

_OWN_MODEL = "default"
_POLICY = (
    "economy",
    "preserve_recent_turns",
    "compress_tool_results",
    "max_tool_output_chars",
    "protect",
    "background_compaction",
    "verify_summary",
)
_THRESHOLDS = {
    "warning_threshold": "warn",
    "compact_threshold": "compact",
    "block_threshold": "block",
}
_OPTIONS = ("compact_instructions", "preserve_reasoning_as_text", "compress_reasoning_text")


def build_session_options(
    settings: Settings, provider: ResolvedProvider | None = None, *, model: str = ""
) -> SessionOptions:
    """Return the options from the `context` and `session` settings.

    Apart from the policy, only what is set is there: for the rest, a session has its defaults.

    Args:
        settings: The settings.
        provider: The provider in use, whose profile may know the model's window.
        model: The model in use; the provider's own if it is empty.
    """
    session, context = _values(settings.session), _values(settings.context)
    options = session | {name: context[name] for name in _OPTIONS if name in context}
    if "tool_timeout" in options:
        options["tool_timeout"] /= 1000
    thresholds = {name: context[key] for key, name in _THRESHOLDS.items() if key in context}
    options["policy"] = ContextPolicy(
        thresholds=Thresholds(**thresholds),
        **{name: context[name] for name in _POLICY if name in context},
    )
    if settings.context.strategy:
        options["strategy"] = _build_strategy(settings.context.strategy)
    if summary_model := _summary_model(settings):
        options["summary_model"] = summary_model
    if window := window_for(settings, provider, model or (provider.model if provider else "")):
        options["max_context_tokens"] = window
    return cast("SessionOptions", options)


def _values(section: Section) -> dict[str, Any]:
    """Return the values of a section that are set, by the name of their field."""
    values = {name: getattr(section, name) for name in section.__struct_fields__}
    return {
        name: value.min_chars if isinstance(value, LengthSection) else value
        for name, value in values.items()
        if value is not UNSET and value != ""
    }


def _build_strategy(chosen: str | StrategySection) -> Strategy:
    if isinstance(chosen, str):
        return make_strategy(chosen.replace("-", "_"))
    options = _values(chosen)
    match chosen:
        case TieredSection():
            return Tiered(**options)
        case SlidingWindowSection():
            return SlidingWindow(**options)
        case SummarizeSection():
            options.pop("summary_model", None)
            return Summarize(**options)
        case CompactSection():
            return Compact(**options)


def _summary_model(settings: Settings) -> str:
    chosen = settings.context.strategy
    model = chosen.summary_model if isinstance(chosen, SummarizeSection) else ""
    model = model or settings.context.compaction_model or ""
    return "" if model == _OWN_MODEL else model
