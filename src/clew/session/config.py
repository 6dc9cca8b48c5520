"""The options of a session: declared once, with their defaults and their conversion.

`DataOptions` encode to JSON, so they can travel to another process (see `clew.sdk.session_spec`);
`SessionOptions` adds the services, which exist in one process only. `complete_options` adds the
defaults, so that the rest of the package reads `state.options["tool_timeout"]` and the like.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict, cast

from msgspec.structs import replace

from clew.checkpoints.values import DEFAULT_CHECKPOINT_LIMITS, CheckpointLimits
from clew.context.plan import Strategy
from clew.context.policy import ContextPolicy
from clew.context.reasoning import LONGEST_TEXT, ReasoningPolicy
from clew.context.strategies import make_strategy
from clew.context.strategies.tiered import Tiered
from clew.core.context_state import ContextState
from clew.core.entries import Trigger
from clew.core.errors import ConfigError
from clew.core.events import (
    CompactionEnded,
    ContextUpdated,
    ServerToolStarted,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from clew.core.ids import SessionId
from clew.core.models import ModelFacts
from clew.core.permissions import PermissionMode
from clew.hooks.protocol import Hooks, NoHooks
from clew.log.protocol import SessionLogger
from clew.providers.prices import Price
from clew.session.event_bus import EventBus
from clew.session.gate import Gate, PermissionHandler, adapt_handler
from clew.session.option_types import check_types, read_mode
from clew.stores.memory import MemoryStore
from clew.stores.protocol import Store
from clew.tools.protocol import Documents, Terminal, Tool, ToolSource

if TYPE_CHECKING:
    # Writes files, which a session without calibrations never does.
    from clew.session.calibrations import CalibrationFile

    # Few sessions are traced.
    from clew.telemetry.protocol import Telemetry

LEAST_WINDOW = 256
EFFORTS = ("low", "medium", "high")
"""How much a model reasons."""

BeforeCompact: TypeAlias = Callable[[Trigger], Awaitable[str | None]]
"""Called before each compaction; returns the reason to skip it, or None."""


ExtraFacts: TypeAlias = Callable[[], Sequence[str]]
"""Returns lines for a summary."""


class DataOptions(TypedDict, total=False):
    """The options of a session that are plain data. All of them are optional."""

    session_id: str | None
    """Continue the session with this id, or create it under this id. Default: a new id."""
    parent: str
    """The session that a new session works for. Default: none."""
    kind: str
    """What a new session is: `agent` for a subagent. Default: empty, a session of the user."""
    system_message: str
    """What every request begins with."""
    permission_mode: PermissionMode | None
    """How much runs without asking. Default: the mode that a stored session was in, otherwise
    the mode of `gate`."""
    max_context_tokens: int | None
    """The model's window. Default: the window in the model catalogue."""
    max_turns: int | None
    """Model calls that one run may make. Default: no limit."""
    max_parallel_tools: int
    """Tool calls of one answer that run at the same time. Default: 5."""
    budget_usd: float | None
    """US dollars that the session may cost; a call beyond that is not made. Default: no limit."""
    prices: Mapping[str, Price]
    """Prices by model, which take precedence over those of the catalogue."""
    tool_timeout: float | None
    """Seconds that one tool call may take. Default: the tool's own limit."""
    provider_timeout: float | None
    """Seconds without a chunk after which a model call fails. The adapter's own limit (120
    seconds unless it was set) applies as well."""
    policy: ContextPolicy
    """Thresholds and limits of the context. The options below take precedence over its fields."""
    auto_compact_threshold: float | Literal[False]
    """Share of the window at which a compaction starts; False disables it. Default: 0.835."""
    economy: str
    """How much of the window to use before old content leaves the view: `full`, `balanced` (the
    default) or `lean`."""
    compress_tool_results: bool | int
    """Replace answered tool results of more than 500 (or this many) characters by markers. False:
    never outside a compaction. Default: `economy` decides."""
    protect: Sequence[str]
    """Tools, paths and patterns whose results stay in view, such as `docs/*.md`; see
    `ContextPolicy.protect`."""
    max_tool_output_chars: int
    """Characters of one tool output that enter the conversation; the journal has the rest."""
    context_strategy: str
    """A strategy by name: `tiered` (the default), `sliding_window`, `summarize` or `compact`.
    `strategy` takes one with its own settings."""
    summary_model: str | None
    """The model that writes summaries, on the same provider. Default: the session's model."""
    compact_instructions: str
    """What every summary should keep."""
    preserve_reasoning_as_text: bool
    """Send reasoning that the provider cannot take back as `<thinking>…</thinking>` text."""
    compress_reasoning_text: bool | int
    """Truncate such text to its head and tail. Default: True, which means 1,200 characters."""
    recall: bool
    """Give the model the `Recall` tool. Default: True."""
    detect_loops: bool
    """Warn and then stop a model that repeats the same call. Default: True."""
    record_calls: bool
    """Record each tool call that may change something before it runs, so that `continue_run` can
    finish an answer that a crash interrupted: calls that had not begun and calls that only read
    run again, and none that changes something runs twice. Without it, such calls fail. Default:
    False."""
    redact: bool
    """Remove secrets from tool output before it is stored or sent. Default: True."""
    effort: str
    """How much the model reasons, where it lets you choose: `low`, `medium` or `high`. Default:
    what a stored session had, otherwise the model's own default."""
    request_options: Mapping[str, Any]
    """Fields of the provider's own API that are added to every request."""


class SessionOptions(DataOptions, total=False):
    """The options of `Session`: plain data (see `DataOptions`) and services. All are optional."""

    tools: Sequence[Tool]
    """The tools that the model can call. Default: none but `Recall`."""
    tool_source: ToolSource | None
    """Tools that come and go, such as those of MCP servers. Default: none."""
    store: Store
    """Where the journal is kept; the caller closes it. Default: in memory."""
    cwd: Path | str
    """The folder in which the tools work. Default: the current folder of the process."""
    env: Mapping[str, str]
    """Environment variables for the commands of tools, in addition to those of the process."""
    documents: Documents | None
    """Text files as an editor has them, which the file tools read and write instead of the disk.
    Default: the disk alone."""
    terminal: Terminal | None
    """Where the Bash tool runs commands, such as a terminal of an editor. Default: in child
    processes."""
    redact_values: Sequence[str]
    """Texts to redact besides those that look like secrets, such as keys of your own. Default:
    none."""
    gate: Gate
    """The permission rules. Default: no rules, so that writing and executing are denied."""
    permission_handler: PermissionHandler | None
    """Answers when a tool call needs permission. Default: `ask` of `gate`."""
    strategy: Strategy
    """Decides what a compaction removes. Default: `Tiered()`."""
    extra_facts: ExtraFacts | None
    """Returns lines that every summary must contain, such as running background tasks."""
    before_compact: BeforeCompact | None
    """May refuse a compaction. The `compaction` event reports those that were done."""
    calibrations: "CalibrationFile | None"
    """Keeps the token counts that were learned per model for later sessions. Default: nothing."""
    hooks: Hooks
    """Called at each point of the session's life. Default: no hooks."""
    checkpoints: Path | None
    """A folder for copies of the files that tools change, so that `rewind` can restore them.
    Default: no copies."""
    checkpoint_limits: CheckpointLimits
    """How much is kept there for one session."""
    telemetry: "Telemetry | None"
    """Makes OpenTelemetry spans and metrics, for the session and its subagents. Default: none."""
    session_log: SessionLogger | None
    """Writes the session log; one logger per session. Default: no log."""
    event_bus: EventBus
    """Where events are published. Default: a bus of the session's own."""
    on_text_delta: Callable[[str], object] | None
    """Called with each piece of text, like a listener to the event `text_delta`."""
    on_tool_execution: Callable[[ToolStarted | ToolEnded], object] | None
    """Called with the events `tool_start` and `tool_end`."""
    on_server_tool_use: Callable[[ServerToolStarted], object] | None
    """Called with the event `server_tool_start`."""
    on_context_update: Callable[[ContextState], object] | None
    """Called with the context state of each `context_update`."""
    on_compact: Callable[[CompactionEnded], object] | None
    """Called with the event `compaction`: trigger, state before and after, summary."""


class SessionRef(Protocol):
    """Anything that belongs to one session: the least that a transport has to know."""

    @property
    def session_id(self) -> SessionId:
        """The id of the session in its store."""
        ...


CALLBACKS = frozenset(
    {"on_text_delta", "on_tool_execution", "on_server_tool_use", "on_context_update", "on_compact"}
)
"""The options that subscribe to events of the session."""
_DEFAULTS: SessionOptions = {
    "session_id": None,
    "parent": "",
    "kind": "",
    "system_message": "",
    "max_context_tokens": None,
    "max_turns": None,
    "max_parallel_tools": 5,
    "budget_usd": None,
    "prices": {},
    "tool_timeout": None,
    "provider_timeout": None,
    "summary_model": None,
    "compact_instructions": "",
    "preserve_reasoning_as_text": False,
    "compress_reasoning_text": True,
    "recall": True,
    "detect_loops": True,
    "record_calls": False,
    "redact": True,
    "documents": None,
    "terminal": None,
    "redact_values": (),
    "effort": "",
    "request_options": {},
    "tools": (),
    "tool_source": None,
    "env": {},
    "extra_facts": None,
    "before_compact": None,
    "calibrations": None,
    "hooks": NoHooks(),
    "checkpoints": None,
    "checkpoint_limits": DEFAULT_CHECKPOINT_LIMITS,
    "session_log": None,
    "telemetry": None,
}


_KNOWN = SessionOptions.__annotations__.keys() | DataOptions.__annotations__.keys()
_DEFAULT_STRATEGY = Tiered()
_DEFAULT_POLICY = ContextPolicy()


def complete_options(given: SessionOptions) -> SessionOptions:
    """Return the options with all defaults filled in; None counts as not given.

    Options that are made into another object here (`auto_compact_threshold`, `permission_mode`
    and so on) have no default of their own.

    Raises:
        TypeError: There is no such option, or it has the wrong type.
    """
    if unknown := given.keys() - _KNOWN:
        raise TypeError(f"Session has no option {', '.join(sorted(unknown))}")
    check_types(given)
    present = {name: value for name, value in given.items() if value is not None}
    options = cast("SessionOptions", {**_DEFAULTS, **present})
    cwd = options["cwd"] = Path(options["cwd"]) if "cwd" in options else Path.cwd()
    if "store" not in options:
        options["store"] = MemoryStore()
    if "gate" not in options:
        options["gate"] = Gate(cwd=cwd)
    if "event_bus" not in options:
        options["event_bus"] = EventBus()
    if options["max_parallel_tools"] < 1:
        raise ConfigError("max_parallel_tools must be at least 1")
    check_effort(options["effort"])
    return options


def check_effort(effort: str) -> None:
    """Raise `ConfigError` when there is no such reasoning effort; empty is the default."""
    if effort and effort not in EFFORTS:
        raise ConfigError(f"there is no effort {effort!r}; choose one of: {', '.join(EFFORTS)}")


def make_policy(options: SessionOptions) -> ContextPolicy:
    """Return the context policy: `policy`, changed by the options that name one of its fields.

    Raises:
        ConfigError: A threshold or limit is out of range.
    """
    policy = options.get("policy") or _DEFAULT_POLICY
    if (share := options.get("auto_compact_threshold")) is not None:
        policy = replace(policy, thresholds=replace(policy.thresholds, compact=share))
    if (economy := options.get("economy")) is not None:
        policy = replace(policy, economy=economy)
    if (compress := options.get("compress_tool_results")) is not None:
        policy = replace(policy, compress_tool_results=compress)
    if (protect := options.get("protect")) is not None:
        policy = replace(policy, protect=tuple(protect))
    if (chars := options.get("max_tool_output_chars")) is not None:
        policy = replace(policy, max_tool_output_chars=chars)
    return policy


def choose_strategy(options: SessionOptions) -> Strategy:
    """Return `strategy`, or the strategy that `context_strategy` names.

    Raises:
        ConfigError: There is no strategy of that name, or both options are given.
    """
    name, strategy = options.get("context_strategy"), options.get("strategy")
    if name and strategy is not None:
        raise ConfigError("give either strategy or context_strategy, not both")
    if name:
        return make_strategy(name)
    return strategy or _DEFAULT_STRATEGY


def make_gate(options: SessionOptions) -> Gate:
    """Return the gate, with the mode and the handler that were given beside it.

    Raises:
        ConfigError: There is no such mode, or the gate does not allow it.
    """
    gate = options["gate"]
    if (name := options.get("permission_mode")) is not None:
        mode = read_mode(name)
        check_mode(gate, mode)
        gate.mode = mode
    if (handler := options.get("permission_handler")) is not None:
        gate.ask = adapt_handler(handler)
    return gate


def check_mode(gate: Gate, mode: PermissionMode) -> None:
    """Raise `ConfigError` when the settings do not allow a permission mode."""
    if mode is PermissionMode.BYPASS and gate.bypass_disabled:
        raise ConfigError("the settings do not allow the mode bypassPermissions")


def make_reasoning_policy(options: SessionOptions) -> ReasoningPolicy:
    """Return how to send reasoning that the provider cannot take back."""
    limit = options["compress_reasoning_text"]
    longest = LONGEST_TEXT if limit is True else limit or None
    return ReasoningPolicy(as_text=options["preserve_reasoning_as_text"], longest_text=longest)


def subscribe_callbacks(options: SessionOptions) -> None:
    """Subscribe the log and the callbacks among the options to the event bus."""
    bus = options["event_bus"]
    if (log := options["session_log"]) is not None:
        bus.on_own(log)
    if (on_text := options.get("on_text_delta")) is not None:

        def pass_text(event: TextDelta) -> None:
            on_text(event.text)

        bus.on("text_delta", pass_text)
    if (on_tool := options.get("on_tool_execution")) is not None:
        bus.on("tool_start", on_tool)
        bus.on("tool_end", on_tool)
    if (on_server_tool := options.get("on_server_tool_use")) is not None:
        bus.on("server_tool_start", on_server_tool)
    if (on_context := options.get("on_context_update")) is not None:

        def pass_state(event: ContextUpdated) -> None:
            on_context(event.state)

        bus.on("context_update", pass_state)
    if (on_compact := options.get("on_compact")) is not None:
        bus.on("compaction", on_compact)


def override_window(facts: ModelFacts, window: int | None) -> ModelFacts:
    """Return the facts of a model with another window; with None, as they are.

    Raises:
        ConfigError: The window is too small to work with.
    """
    if window is None:
        return facts
    if window < LEAST_WINDOW:
        raise ConfigError(f"a window of {window} tokens is too small; the least is {LEAST_WINDOW}")
    return replace(
        facts, window=window, max_output=min(facts.max_output, max(64, window // 4)), known=True
    )


def index_tools(tools: Sequence[Tool]) -> dict[str, Tool]:
    """Return the tools by name.

    Raises:
        ConfigError: Two tools have the same name.
    """
    named: dict[str, Tool] = {}
    for tool in tools:
        if tool.spec.name in named:
            raise ConfigError(f"two tools are called {tool.spec.name}; rename one of them")
        named[tool.spec.name] = tool
    return named
