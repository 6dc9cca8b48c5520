"""`SessionSpec`: what another process needs to open the same session, as plain data.

A session is made of data (folder, model, limits, switches) and services (provider, store, hooks,
callbacks). The data is declared here and encodes to JSON; the services are declared in
`clew.session.config` and exist in one process only:

    data = msgspec.json.encode(spec)
    spec = msgspec.json.decode(data, type=SessionSpec)
    session = Session(provider, model=spec.model, store=store, cwd=Path(spec.cwd), **spec.options)
"""

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypedDict

from msgspec import Struct

from clew.context.policy import ContextPolicy
from clew.core.access import PermissionMode
from clew.core.ids import SessionId
from clew.providers.prices import Price


class DataOptions(TypedDict, total=False):
    """The options of a session that are plain data. All of them are optional."""

    session_id: str | None
    """Continue the session with this id, or create it under this id. Default: a new id."""
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
    """Prices by model, which count before those of the catalogue."""
    tool_timeout: float | None
    """Seconds that one tool call may take. Default: the tool's own limit."""
    provider_timeout: float | None
    """Seconds without a chunk after which a model call fails. The adapter's own limit (120
    seconds unless it was set) applies as well."""
    policy: ContextPolicy
    """Thresholds and limits of the context. The options below count before its fields."""
    auto_compact_threshold: float | Literal[False]
    """Share of the window at which a compaction starts; False disables it. Default: 0.835."""
    compress_tool_results: bool | int
    """Replace answered tool results of more than 500 (or this many) characters by markers."""
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
    redact: bool
    """Remove secrets from tool output before it is stored or sent. Default: True."""
    request_options: Mapping[str, Any]
    """Fields of the provider's own API that are added to every request."""


class SessionSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All the data that it takes to open a session, here or in another process.

    It holds no secrets by itself: API keys belong to the provider, which the opening process
    makes from `provider` and `base_url` and its own settings.
    """

    cwd: str
    """The folder in which the tools work."""
    model: str
    provider: str = ""
    """The provider's name in the settings or the registry; empty for the default."""
    base_url: str = ""
    """The server's address, where it is not the provider's usual one."""
    name: str = ""
    """What lists of sessions show."""
    options: DataOptions = {}
    """Everything else, such as `session_id`, `permission_mode`, `max_context_tokens`."""

    @property
    def session_id(self) -> SessionId | None:
        """The session to continue; None for a new one."""
        found = self.options.get("session_id")
        return SessionId(found) if found else None


class SessionRef(Protocol):
    """Anything that belongs to one session: the least that a transport has to know."""

    @property
    def session_id(self) -> SessionId:
        """The id of the session in its store."""
        ...
