"""The settings files: every key, the values it takes, and what it means.

Each setting is declared once, here or in `clew.config.sections`; validation, the editor's JSON
schema, the documentation and the options of a session are derived from it. Names are those of
JSON; `clew.toml` may spell them with underscores. A value that is not set is `UNSET`.
"""

from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import UNSET, Meta, field

from clew.config.sections import (
    Aliases,
    Maybe,
    Section,
    StatusLineSection,
    TelemetrySection,
    TerminalSection,
)
from clew.config.sections import about as _about

_Share: TypeAlias = Annotated[float, Meta(gt=0, le=1)]
_Count: TypeAlias = Annotated[int, Meta(ge=1)]
_Amount: TypeAlias = Annotated[float, Meta(gt=0)]
_Tokens: TypeAlias = Annotated[int, Meta(ge=256)]


class PermissionsSection(Section, frozen=True):
    """Permission rules and the permission mode."""

    allow: Annotated[list[str], _about("Rules for calls that run without asking.")] = []
    ask: Annotated[list[str], _about("Rules for calls that always ask.")] = []
    deny: Annotated[list[str], _about("Rules for calls that never run.")] = []
    default_mode: Maybe[
        Annotated[
            Literal["plan", "default", "acceptEdits", "bypassPermissions"],
            _about("The permission mode: what runs without asking where no rule applies."),
        ]
    ] = UNSET
    additional_directories: Annotated[
        list[str], _about("Folders outside the working folder that may be read.")
    ] = []
    disable_bypass_permissions_mode: Maybe[
        Annotated[Literal["disable"], _about("Disables the mode `bypassPermissions` here.")]
    ] = UNSET


class ModelSection(Section, frozen=True):
    """Facts about a model that replace those of the catalogue."""

    max_context_tokens: Maybe[
        Annotated[_Tokens, _about("The model's context window, in tokens.")]
    ] = UNSET


class _Connection(Section, frozen=True):
    """How to connect to a provider."""

    aliases: ClassVar[Aliases] = MappingProxyType({"baseUrl": "baseURL"})

    model: Maybe[Annotated[str, _about("The model to use.")]] = UNSET
    api_key: Maybe[Annotated[str, _about("The API key, or `$ENV:NAME` for a variable.")]] = UNSET
    base_url: Maybe[Annotated[str, _about("The URL of the server, or `$ENV:NAME`.")]] = field(
        name="baseURL", default=UNSET
    )
    timeout: Maybe[Annotated[_Amount, _about("Timeout in milliseconds without data; 120000.")]] = (
        UNSET
    )
    options: Annotated[
        dict[str, Any], _about("Fields that are passed to the provider unchanged.")
    ] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class ProfileSection(_Connection, frozen=True):
    """A provider profile."""

    type: Maybe[Annotated[str, _about("The provider type, such as `anthropic`.")]] = UNSET
    models: Annotated[
        dict[str, ModelSection], _about("Facts about its models, by model name.")
    ] = {}


class LegacySection(_Connection, frozen=True):
    """The single provider of older files."""

    name: Maybe[Annotated[str, _about("The provider type, such as `anthropic`.")]] = UNSET


_MaxTokens: TypeAlias = Annotated[
    _Tokens, _about("Compact from this number of tokens on, below the threshold.")
]


class TieredSection(Section, tag_field="type", tag="tiered", frozen=True):
    """Clear answered tool results first; summarise if that is not enough."""

    max_tokens: Maybe[_MaxTokens] = UNSET


class SlidingWindowSection(Section, tag_field="type", tag="sliding-window", frozen=True):
    """Keep the last turns and drop the rest."""

    max_turns: Maybe[Annotated[_Count, _about("Turns that are kept; 20.")]] = UNSET


class SummarizeSection(Section, tag_field="type", tag="summarize", frozen=True):
    """Let a model summarise old turns."""

    max_tokens: Maybe[_MaxTokens] = UNSET
    summary_model: Maybe[Annotated[str, _about("The model that writes summaries.")]] = UNSET


class CompactSection(Section, tag_field="type", tag="compact", frozen=True):
    """Truncate old answers and tool results by rules, without a model."""

    max_tokens: Maybe[_MaxTokens] = UNSET
    preserve_recent_turns: Maybe[Annotated[_Count, _about("Turns that stay unchanged; 4.")]] = UNSET


StrategySection: TypeAlias = (
    TieredSection | SlidingWindowSection | SummarizeSection | CompactSection
)
StrategyName: TypeAlias = Literal[
    "tiered", "sliding-window", "sliding_window", "summarize", "compact"
]


class LengthSection(Section, frozen=True):
    """A length above which text is compressed."""

    min_chars: Annotated[_Count, _about("Compress text that is longer than this.")]


class ContextSection(Section, frozen=True):
    """How Clew manages the context window."""

    aliases: ClassVar[Aliases] = MappingProxyType(
        {
            "criticalThreshold": "compactThreshold",
            "autoCompactThreshold": "compactThreshold",
            "summaryModel": "compactionModel",
        }
    )

    warning_threshold: Maybe[
        Annotated[_Share, _about("Share of the context window at which to warn; 0.7.")]
    ] = UNSET
    compact_threshold: Maybe[
        Annotated[
            _Share | Literal[False],
            _about("Share of the context window at which to compact; 0.835. False: never."),
        ]
    ] = UNSET
    block_threshold: Maybe[
        Annotated[_Share, _about("Share of the context window above which nothing is sent; 0.95.")]
    ] = UNSET
    preserve_recent_turns: Maybe[
        Annotated[_Count, _about("Turns that a compaction keeps unchanged; 3.")]
    ] = UNSET
    compaction_model: Maybe[
        Annotated[str, _about("The model that writes summaries; `default` is the session's.")]
    ] = UNSET
    compact_instructions: Maybe[
        Annotated[str, _about("Instructions for every summary: what it should keep.")]
    ] = UNSET
    strategy: Maybe[
        Annotated[
            StrategyName | StrategySection,
            _about("The compaction strategy: a name, or an object with a type and options."),
        ]
    ] = UNSET
    max_context_tokens: Maybe[
        Annotated[_Tokens, _about("The context window in tokens, instead of the catalogue's.")]
    ] = UNSET
    economy: Maybe[
        Annotated[
            Literal["full", "balanced", "lean"],
            _about("How much of the window to use before old content leaves it; balanced."),
        ]
    ] = UNSET
    compress_tool_results: Maybe[
        Annotated[
            bool | _Count | LengthSection,
            _about(
                "Replace answered tool results by markers: true, or above a length. False: only"
                " in a compaction. Unset: `economy` decides."
            ),
        ]
    ] = UNSET
    max_tool_output_chars: Maybe[
        Annotated[int, Meta(ge=200), _about("Longest tool output in a prompt; 30000.")]
    ] = UNSET
    protect: Annotated[
        list[str],
        _about(
            "Tools, paths and patterns whose results stay in view, such as `WebFetch`,"
            " `docs/*.md` or `Bash(git diff*)`."
        ),
    ] = []
    background_compaction: Maybe[
        Annotated[
            Literal["off", "on", "auto"],
            _about(
                "Prepare summaries while the session continues: off (the default), on from the"
                " warning threshold on, auto where that costs little."
            ),
        ]
    ] = UNSET
    verify_summary: Maybe[
        Annotated[bool, _about("Let a second call add what a summary left out; false.")]
    ] = UNSET
    preserve_reasoning_as_text: Maybe[
        Annotated[bool, _about("Send reasoning as text where a provider does not accept it.")]
    ] = UNSET
    compress_reasoning_text: Maybe[
        Annotated[
            bool | _Count | LengthSection,
            _about("Truncate such text to its head and tail; true means 1200 characters."),
        ]
    ] = UNSET


class SessionSection(Section, frozen=True):
    """Limits and features of a session. Each is the session option of the same name."""

    budget_usd: Maybe[Annotated[_Amount, _about("Cost limit of a session, in US dollars.")]] = UNSET
    max_turns: Maybe[Annotated[_Count, _about("Limit of model calls in one run.")]] = UNSET
    tool_timeout: Maybe[
        Annotated[_Amount, _about("Timeout of one tool call, in milliseconds.")]
    ] = UNSET
    detect_loops: Maybe[
        Annotated[bool, _about("Stop a model that repeats the same call; true.")]
    ] = UNSET
    effort: Maybe[
        Annotated[
            Literal["low", "medium", "high"],
            _about("How much the model reasons, where it has that choice."),
        ]
    ] = UNSET
    recall: Maybe[
        Annotated[bool, _about("Let the model look up what left the context window; true.")]
    ] = UNSET
    redact: Maybe[Annotated[bool, _about("Remove secrets from tool output; true.")]] = UNSET


class SandboxSection(Section, frozen=True):
    """The sandbox for commands."""

    mode: Maybe[
        Annotated[
            Literal["auto", "on", "off"],
            _about("Run commands in a sandbox: if it is available, always, or never."),
        ]
    ] = UNSET
    allow_network: Maybe[
        Annotated[bool, _about("Give commands in the sandbox network access; true.")]
    ] = UNSET


class McpOAuthSection(Section, frozen=True):
    """How to log in to an MCP server."""

    client_id: Maybe[Annotated[str, _about("The id of a client that you registered.")]] = UNSET
    callback_port: Maybe[
        Annotated[int, Meta(ge=1, le=65_535), _about("The port for the browser's answer.")]
    ] = UNSET
    scope: Maybe[Annotated[str, _about("The scopes to ask for, separated by blanks.")]] = UNSET


class McpServerSection(Section, frozen=True):
    """An MCP server, in the format of Claude Code."""

    type: Maybe[
        Annotated[Literal["stdio", "http", "streamable-http", "sse"], _about("The transport.")]
    ] = UNSET
    command: Maybe[Annotated[str, Meta(min_length=1), _about("The program to start.")]] = UNSET
    args: Annotated[list[str], _about("Its arguments.")] = []
    env: Annotated[
        dict[str, str | bool | int | float],
        _about("Environment variables of the program; it gets few others."),
    ] = {}
    cwd: Maybe[Annotated[str, _about("Where it runs; by default the project's folder.")]] = UNSET
    url: Maybe[Annotated[str, Meta(min_length=1), _about("The address of a server.")]] = UNSET
    headers: Annotated[dict[str, str], _about("HTTP headers of every request to it.")] = {}
    timeout: Maybe[
        Annotated[_Amount, _about("Milliseconds that a call may take without progress; 120000.")]
    ] = UNSET
    disabled: Maybe[Annotated[bool, _about("Do not start this server; false.")]] = UNSET
    oauth: Maybe[McpOAuthSection] = UNSET


class McpSection(Section, frozen=True):
    """How Clew uses MCP servers."""

    defer_threshold: Maybe[
        Annotated[
            float,
            Meta(ge=0, le=1),
            _about("Share of the context window above which tools are loaded on demand; 0.1."),
        ]
    ] = UNSET
    startup_wait: Maybe[
        Annotated[
            int,
            Meta(ge=0, le=60_000),
            _about(
                "Milliseconds that the first prompt waits for servers to start; 3000, or 30000 if"
                " --allowed-tools names one."
            ),
        ]
    ] = UNSET
    sampling: Maybe[
        Annotated[bool, _about("Let servers ask the session's model, at your cost; false.")]
    ] = UNSET
    disabled: Annotated[list[str], _about("Names of servers that are not started.")] = []


class MarketplaceSection(Section, frozen=True):
    """A marketplace of plugins, in the format of Claude Code."""

    source: Annotated[
        dict[str, Any],
        _about("Where it comes from, such as `github` and `repo`, or `git` and `url`."),
    ]


class SettingsFile(Section, frozen=True):
    """Settings of Clew. See docs/settings.md."""

    schema_: Maybe[Annotated[str, _about("The URL of this schema, for editors.")]] = field(
        name="$schema", default=UNSET
    )
    permissions: PermissionsSection = PermissionsSection()
    hooks: Annotated[dict[str, Any], _about("Hooks by event, in the format of Claude Code.")] = {}
    disable_all_hooks: Maybe[
        Annotated[bool, _about("Disables all hooks; in a project, only the project's own.")]
    ] = UNSET
    current_provider: Maybe[Annotated[str, _about("The name of the profile in use.")]] = UNSET
    providers: Annotated[dict[str, ProfileSection], _about("Provider profiles by name.")] = {}
    provider: Maybe[LegacySection] = UNSET
    model: Maybe[Annotated[str, _about("The model, if the profile in use names none.")]] = UNSET
    language: Maybe[
        Annotated[str, Meta(min_length=1, max_length=100), _about("The language of answers.")]
    ] = UNSET
    env: Annotated[
        dict[str, str | bool | int | float],
        _about("Environment variables for commands and for `$ENV:` references."),
    ] = {}
    context: ContextSection = ContextSection()
    session: SessionSection = SessionSection()
    sandbox: SandboxSection = SandboxSection()
    terminal: TerminalSection = TerminalSection()
    telemetry: TelemetrySection = TelemetrySection()
    status_line: Maybe[StatusLineSection] = UNSET
    mcp_servers: Annotated[
        dict[str, McpServerSection], _about("MCP servers by name, in the format of Claude Code.")
    ] = {}
    mcp: McpSection = McpSection()
    enabled_plugins: Annotated[
        dict[str, bool], _about("Plugins, as `name@marketplace`, that are on or off here.")
    ] = {}
    extra_known_marketplaces: Annotated[
        dict[str, MarketplaceSection], _about("Marketplaces to install plugins from, by name.")
    ] = {}
