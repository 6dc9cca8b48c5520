"""From settings to the options of a session."""

from clew.config.providers import ResolvedProvider, window_of
from clew.config.schema import (
    CompactSection,
    LengthSection,
    SlidingWindowSection,
    StrategySection,
    SummarizeSection,
    TieredSection,
)
from clew.config.settings import Settings
from clew.context.plan import Strategy
from clew.context.policy import ContextPolicy, Thresholds
from clew.context.strategies import make_strategy
from clew.context.strategies.compact import Compact
from clew.context.strategies.sliding_window import SlidingWindow
from clew.context.strategies.tiered import Summarize, Tiered
from clew.session.config import SessionOptions

_OWN_MODEL = "default"


def context_options(
    settings: Settings, provider: ResolvedProvider | None = None, *, model: str = ""
) -> SessionOptions:
    """Return the options that the `context` and `session` settings stand for.

    Beside the policy only what is set is there: a session's own defaults hold for the rest.

    Args:
        settings: The settings.
        provider: The provider in use, whose profile may know the model's window.
        model: The model in use; the provider's own if it is empty.
    """
    context, session = settings.context, settings.session
    options = SessionOptions(policy=_policy(settings))
    if context.strategy:
        options["strategy"] = _strategy(context.strategy)
    if summary_model := _summary_model(settings):
        options["summary_model"] = summary_model
    if window := window_of(settings, provider, model or (provider.model if provider else "")):
        options["max_context_tokens"] = window
    if context.compact_instructions:
        options["compact_instructions"] = context.compact_instructions
    if isinstance(context.preserve_reasoning_as_text, bool):
        options["preserve_reasoning_as_text"] = context.preserve_reasoning_as_text
    if (length := _length(context.compress_reasoning_text)) is not None:
        options["compress_reasoning_text"] = length
    if session.budget_usd:
        options["budget_usd"] = session.budget_usd
    if session.max_turns:
        options["max_turns"] = session.max_turns
    if session.tool_timeout:
        options["tool_timeout"] = session.tool_timeout / 1000
    return _with_switches(options, settings)


def _with_switches(options: SessionOptions, settings: Settings) -> SessionOptions:
    session = settings.session
    if isinstance(session.detect_loops, bool):
        options["detect_loops"] = session.detect_loops
    if isinstance(session.recall, bool):
        options["recall"] = session.recall
    if isinstance(session.redact, bool):
        options["redact"] = session.redact
    return options


def _policy(settings: Settings) -> ContextPolicy:
    context, default = settings.context, ContextPolicy()
    limits = default.thresholds
    compact = context.compact_threshold
    return ContextPolicy(
        thresholds=Thresholds(
            warn=context.warning_threshold or limits.warn,
            compact=compact if isinstance(compact, bool | float) else limits.compact,
            block=context.block_threshold or limits.block,
        ),
        preserve_recent_turns=context.preserve_recent_turns or default.preserve_recent_turns,
        compress_tool_results=_length(context.compress_tool_results) or False,
        max_tool_output_chars=context.max_tool_output_chars or default.max_tool_output_chars,
    )


def _strategy(chosen: str | StrategySection) -> Strategy:
    match chosen:
        case str():
            return make_strategy(chosen.replace("-", "_"))
        case TieredSection():
            return Tiered(max_tokens=chosen.max_tokens or None)
        case SlidingWindowSection():
            return SlidingWindow(max_turns=chosen.max_turns or SlidingWindow().max_turns)
        case SummarizeSection():
            return Summarize(max_tokens=chosen.max_tokens or None)
        case CompactSection():
            turns = chosen.preserve_recent_turns or Compact().preserve_recent_turns
            return Compact(max_tokens=chosen.max_tokens or None, preserve_recent_turns=turns)


def _summary_model(settings: Settings) -> str:
    chosen = settings.context.strategy
    model = chosen.summary_model if isinstance(chosen, SummarizeSection) else ""
    model = model or settings.context.compaction_model or ""
    return "" if model == _OWN_MODEL else model


def _length(value: object) -> bool | int | None:
    """Return a switch or a length, however it is written; None if it is not set."""
    match value:
        case bool() | int():
            return value
        case LengthSection():
            return value.min_chars
        case _:
            return None
