"""What a session is made of, before its journal is open."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from clew.checkpoints.values import DEFAULT_CHECKPOINT_LIMITS, CheckpointLimits
from clew.context.plan import Strategy
from clew.context.policy import ContextPolicy
from clew.context.reasoning import LONGEST_TEXT, ReasoningPolicy
from clew.context.strategies.tiered import Tiered
from clew.core.entries import SetupChanged
from clew.core.errors import ConfigError
from clew.core.ids import SessionId
from clew.core.models import ModelFacts
from clew.hooks.protocol import Hooks, NoHooks
from clew.log.protocol import SessionLogger
from clew.providers.prices import Price
from clew.providers.protocol import Provider
from clew.session.calibrations import CalibrationFile
from clew.session.cost_limit import CostLimit, cost_limit_for
from clew.session.event_bus import EventBus
from clew.session.gate import Gate
from clew.session.recall_tool import RECALL_SPEC
from clew.session.state import BeforeCompact
from clew.stores.memory import MemoryStore
from clew.stores.protocol import Store
from clew.tools.protocol import Tool

LEAST_WINDOW = 256


class SessionOptions(TypedDict, total=False):
    """What may be said when a session is made; each has a sensible default."""

    system_message: str
    tools: Sequence[Tool]
    store: Store
    """Where the journal is kept; in memory unless one is given."""
    session_id: str | None
    """Go on with the session of this id, or begin it under this id."""
    cwd: Path | str
    """Where tools work; the process's own folder unless one is given."""
    env: Mapping[str, str]
    """Variables that commands get beside those of the process."""
    gate: Gate
    """Permissions; by default writing and executing are denied, as nobody is there to ask."""
    policy: ContextPolicy
    strategy: Strategy
    summary_model: str | None
    """Who writes summaries, on the same provider; the session's own model if not given."""
    extra_facts: Callable[[], Sequence[str]] | None
    """Lines that every summary must carry, such as what runs in the background."""
    before_compact: BeforeCompact | None
    """Asked before each compaction, and may refuse it; afterwards there is an event."""
    compact_instructions: str
    """What every summary should keep; see `clew.context.summary` for where projects say so."""
    recall: bool
    """Give the model the `Recall` tool; on unless switched off."""
    max_context_tokens: int | None
    """The model's window, where the catalogue does not know better than you."""
    calibrations: CalibrationFile | None
    """Where what is learned of a model's token counts is kept between sessions."""
    max_turns: int | None
    """How many model calls one run may make."""
    budget_usd: float | None
    """What the session may cost; the call after that is not made."""
    prices: Mapping[str, Price]
    """Prices by model, where you know better than the catalogue."""
    preserve_reasoning_as_text: bool
    """Send thinking that the model's provider cannot be sent back as `<thinking>…</thinking>`."""
    compress_reasoning_text: bool | int
    """Cut such a text to its head and tail: 1,200 characters unless a number is given."""
    hooks: Hooks
    """Who is told and asked at each point of the session's life; nobody unless given."""
    tool_timeout: float | None
    """Seconds that one tool call may take; it is left to the tool unless given."""
    provider_timeout: float | None
    """Seconds that a provider may be silent; each word begins them anew. The adapter's own
    limit, which is 120 unless it was told otherwise, holds beside it."""
    detect_loops: bool
    """Warn, then stop a model that makes the same call again and again; on unless switched off."""
    redact: bool
    """Take secrets out of what tools say before it is stored or sent; on unless switched off."""
    checkpoints: Path | None
    """A folder in which files are kept before tools change them, so that `rewind` can restore
    them; nothing is kept unless one is given."""
    checkpoint_limits: CheckpointLimits
    """How much is kept there for one session."""
    log: SessionLogger | None
    """Writes down what happens; nobody does unless given. One for each session."""
    request_options: Mapping[str, Any]
    """Fields of the provider's own API for every request of this session."""
    event_bus: EventBus
    """Where events are published; the session makes its own unless one is given."""


class SessionConfig(Struct, frozen=True, kw_only=True):
    """The options of one session, made definite."""

    provider: Provider
    setup: SetupChanged
    tools: Mapping[str, Tool]
    store: Store
    session_id: SessionId | None
    cwd: Path
    env: Mapping[str, str]
    gate: Gate
    policy: ContextPolicy
    strategy: Strategy
    summary_model: ModelFacts | None
    extra_facts: Callable[[], Sequence[str]] | None
    before_compact: BeforeCompact | None
    compact_instructions: str
    recall: bool
    calibrations: CalibrationFile | None
    max_turns: int | None
    purse: CostLimit
    reasoning: ReasoningPolicy
    request_options: Mapping[str, Any]
    hooks: Hooks
    tool_timeout: float | None
    provider_timeout: float | None
    detect_loops: bool
    redact: bool
    checkpoints: Path | None
    checkpoint_limits: CheckpointLimits
    log: SessionLogger | None
    event_bus: EventBus

    @classmethod
    def of(cls, provider: Provider, model: str, options: SessionOptions) -> "SessionConfig":
        """Put a provider, a model and options together.

        Raises:
            ConfigError: They do not go together.
        """
        unknown = options.keys() - SessionOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"Session has no option {', '.join(sorted(unknown))}")
        cwd = Path(options.get("cwd") or Path.cwd())
        tools = options.get("tools", ())
        recall = options.get("recall", True)
        window = options.get("max_context_tokens")
        session_id = options.get("session_id")
        summary_model = options.get("summary_model")
        setup = SetupChanged(
            model=facts_for(provider.facts(model), max_context_tokens=window),
            system=options.get("system_message", ""),
            tools=(*(tool.spec for tool in tools), *([RECALL_SPEC] if recall else [])),
        )
        return cls(
            provider=provider,
            setup=setup,
            tools=_by_name(tools),
            store=options.get("store") or MemoryStore(),
            session_id=SessionId(session_id) if session_id else None,
            cwd=cwd,
            env=options.get("env", {}),
            gate=options.get("gate") or Gate(cwd=cwd),
            policy=options.get("policy") or ContextPolicy(),
            strategy=options.get("strategy") or Tiered(),
            summary_model=provider.facts(summary_model) if summary_model else None,
            extra_facts=options.get("extra_facts"),
            before_compact=options.get("before_compact"),
            compact_instructions=options.get("compact_instructions", ""),
            recall=recall,
            calibrations=options.get("calibrations"),
            max_turns=options.get("max_turns"),
            purse=cost_limit_for(options.get("budget_usd"), options.get("prices", {})),
            reasoning=_reasoning(options),
            request_options=options.get("request_options", {}),
            hooks=options.get("hooks") or NoHooks(),
            tool_timeout=options.get("tool_timeout"),
            provider_timeout=options.get("provider_timeout"),
            detect_loops=options.get("detect_loops", True),
            redact=options.get("redact", True),
            log=options.get("log"),
            event_bus=options.get("event_bus") or EventBus(),
            checkpoints=options.get("checkpoints"),
            checkpoint_limits=options.get("checkpoint_limits") or DEFAULT_CHECKPOINT_LIMITS,
        )


def _reasoning(options: SessionOptions) -> ReasoningPolicy:
    cut = options.get("compress_reasoning_text", True)
    if cut is True:
        longest: int | None = LONGEST_TEXT
    else:
        longest = cut or None
    return ReasoningPolicy(
        as_text=options.get("preserve_reasoning_as_text", False), longest_text=longest
    )


def facts_for(facts: ModelFacts, *, max_context_tokens: int | None) -> ModelFacts:
    """Apply a user's own window to what is known of a model.

    Raises:
        ConfigError: The window is too small to work with.
    """
    if max_context_tokens is None:
        return facts
    if max_context_tokens < LEAST_WINDOW:
        raise ConfigError(
            f"a window of {max_context_tokens} tokens is too small; the least is {LEAST_WINDOW}"
        )
    return replace(
        facts,
        window=max_context_tokens,
        max_output=min(facts.max_output, max(64, max_context_tokens // 4)),
        known=True,
    )


def _by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    named: dict[str, Tool] = {}
    for tool in tools:
        if tool.spec.name in named:
            raise ConfigError(f"two tools are called {tool.spec.name}; rename one of them")
        named[tool.spec.name] = tool
    return named
