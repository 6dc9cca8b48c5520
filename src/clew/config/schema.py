"""The settings files as they are written: every key, what it may hold and what it means.

The names are those of JSON; `clew.toml` may spell them with underscores. A value that is not
set is `UNSET`. Descriptions stand here once, for the editor's schema and the documentation.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

_Share: TypeAlias = Annotated[float, Meta(gt=0, le=1)]
_Count: TypeAlias = Annotated[int, Meta(ge=1)]
_Amount: TypeAlias = Annotated[float, Meta(gt=0)]
Aliases: TypeAlias = Mapping[str, str]
"""Other names of keys, each with the one that counts."""


class Section(
    Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """An object in a settings file."""

    aliases: ClassVar[Aliases] = MappingProxyType({})


class PermissionsSection(Section, frozen=True):
    """Rules about tool calls, and how much runs without asking."""

    allow: Annotated[list[str], Meta(description="Rules for calls that run without asking.")] = []
    ask: Annotated[list[str], Meta(description="Rules for calls that are always asked about.")] = []
    deny: Annotated[list[str], Meta(description="Rules for calls that never run.")] = []
    default_mode: (
        Annotated[
            Literal["plan", "default", "acceptEdits", "bypassPermissions"],
            Meta(description="How much runs without asking where no rule speaks."),
        ]
        | UnsetType
    ) = UNSET
    additional_directories: Annotated[
        list[str], Meta(description="Folders outside the working folder that may be read.")
    ] = []
    disable_bypass_permissions_mode: (
        Annotated[
            Literal["disable"], Meta(description="Refuses the mode `bypassPermissions` here.")
        ]
        | UnsetType
    ) = UNSET


class ModelSection(Section, frozen=True):
    """What you know of a model better than the catalogue."""

    max_context_tokens: (
        Annotated[int, Meta(ge=256, description="The model's window, in tokens.")] | UnsetType
    ) = UNSET


class _Reached(Section, frozen=True):
    """How a provider is reached."""

    aliases: ClassVar[Aliases] = MappingProxyType({"baseUrl": "baseURL"})

    model: Annotated[str, Meta(description="The model to use.")] | UnsetType = UNSET
    api_key: (
        Annotated[str, Meta(description="The key, or `$ENV:NAME` for one in a variable.")]
        | UnsetType
    ) = UNSET
    base_url: (
        Annotated[str, Meta(description="The server's address, or `$ENV:NAME`.")] | UnsetType
    ) = field(name="baseURL", default=UNSET)
    timeout: (
        Annotated[_Amount, Meta(description="Milliseconds without a sign of life; 120000.")]
        | UnsetType
    ) = UNSET
    options: Annotated[
        dict[str, Any], Meta(description="Fields for the provider itself, passed on unread.")
    ] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class ProfileSection(_Reached, frozen=True):
    """One way to reach a model, under a name of your own."""

    type: (
        Annotated[str, Meta(description="The kind of provider, such as `anthropic`.")] | UnsetType
    ) = UNSET
    models: Annotated[
        dict[str, ModelSection], Meta(description="What you know of its models, by name.")
    ] = {}


class LegacySection(_Reached, frozen=True):
    """The one provider of older files."""

    name: (
        Annotated[str, Meta(description="The kind of provider, such as `anthropic`.")] | UnsetType
    ) = UNSET


_MaxTokens: TypeAlias = Annotated[
    int, Meta(ge=256, description="Compact from here on, below the threshold.")
]


class TieredSection(Section, tag_field="type", tag="tiered", frozen=True):
    """Clear tool results that were answered; summarise when that is too little."""

    max_tokens: _MaxTokens | UnsetType = UNSET


class SlidingWindowSection(Section, tag_field="type", tag="sliding-window", frozen=True):
    """Keep the last turns and drop the rest."""

    max_turns: Annotated[_Count, Meta(description="Turns that are kept; 20.")] | UnsetType = UNSET


class SummarizeSection(Section, tag_field="type", tag="summarize", frozen=True):
    """Have a model put old turns into words."""

    max_tokens: _MaxTokens | UnsetType = UNSET
    summary_model: Annotated[str, Meta(description="Who writes the summaries.")] | UnsetType = UNSET


class CompactSection(Section, tag_field="type", tag="compact", frozen=True):
    """Shorten old answers and tool results by rules; no model is called."""

    max_tokens: _MaxTokens | UnsetType = UNSET
    preserve_recent_turns: (
        Annotated[_Count, Meta(description="Turns that stay as they are; 4.")] | UnsetType
    ) = UNSET


StrategySection: TypeAlias = (
    TieredSection | SlidingWindowSection | SummarizeSection | CompactSection
)
StrategyName: TypeAlias = Literal[
    "tiered", "sliding-window", "sliding_window", "summarize", "compact"
]


class LengthSection(Section, frozen=True):
    """A length from which something is shortened."""

    min_chars: Annotated[int, Meta(ge=1, description="Shorten what is longer than this.")]


class ContextSection(Section, frozen=True):
    """How the context window is kept from overflowing."""

    aliases: ClassVar[Aliases] = MappingProxyType(
        {
            "criticalThreshold": "compactThreshold",
            "autoCompactThreshold": "compactThreshold",
            "summaryModel": "compactionModel",
        }
    )

    warning_threshold: (
        Annotated[_Share, Meta(description="Share of the window from which to warn; 0.7.")]
        | UnsetType
    ) = UNSET
    compact_threshold: (
        Annotated[
            _Share | Literal[False],
            Meta(description="Share of the window from which to compact; 0.835. False: never."),
        ]
        | UnsetType
    ) = UNSET
    block_threshold: (
        Annotated[_Share, Meta(description="Share above which nothing is sent; 0.95.")] | UnsetType
    ) = UNSET
    preserve_recent_turns: (
        Annotated[_Count, Meta(description="Turns that a compaction keeps as they are; 3.")]
        | UnsetType
    ) = UNSET
    compaction_model: (
        Annotated[str, Meta(description="Who writes summaries; `default` is the session's model.")]
        | UnsetType
    ) = UNSET
    compact_instructions: (
        Annotated[str, Meta(description="What every summary should keep.")] | UnsetType
    ) = UNSET
    strategy: (
        Annotated[
            StrategyName | StrategySection,
            Meta(description="What goes first: a name, or an object with a type and options."),
        ]
        | UnsetType
    ) = UNSET
    max_context_tokens: (
        Annotated[int, Meta(ge=256, description="The window, whatever the catalogue says.")]
        | UnsetType
    ) = UNSET
    compress_tool_results: (
        Annotated[
            bool | _Count | LengthSection,
            Meta(description="Show answered tool results as markers: true, or from a length on."),
        ]
        | UnsetType
    ) = UNSET
    max_tool_output_chars: (
        Annotated[int, Meta(ge=200, description="Longest tool output in a prompt; 30000.")]
        | UnsetType
    ) = UNSET
    preserve_reasoning_as_text: (
        Annotated[bool, Meta(description="Send thinking on as text where it must not go as such.")]
        | UnsetType
    ) = UNSET
    compress_reasoning_text: (
        Annotated[
            bool | _Count | LengthSection,
            Meta(description="Cut such text to its head and tail; true is 1200 characters."),
        ]
        | UnsetType
    ) = UNSET


class SessionSection(Section, frozen=True):
    """Limits and habits of a session."""

    budget_usd: (
        Annotated[_Amount, Meta(description="What a session may cost, in US dollars.")] | UnsetType
    ) = UNSET
    max_turns: (
        Annotated[_Count, Meta(description="Model calls that one run may make.")] | UnsetType
    ) = UNSET
    tool_timeout: (
        Annotated[_Amount, Meta(description="Milliseconds that one tool call may take.")]
        | UnsetType
    ) = UNSET
    detect_loops: (
        Annotated[bool, Meta(description="Stop a model that repeats one call; true.")] | UnsetType
    ) = UNSET
    recall: (
        Annotated[bool, Meta(description="Let the model look up what left the window; true.")]
        | UnsetType
    ) = UNSET
    redact: (
        Annotated[bool, Meta(description="Take secrets out of what tools say; true.")] | UnsetType
    ) = UNSET


class SandboxSection(Section, frozen=True):
    """What commands can reach."""

    mode: (
        Annotated[
            Literal["auto", "on", "off"],
            Meta(description="Run commands in a sandbox: where it works, always, or never."),
        ]
        | UnsetType
    ) = UNSET
    allow_network: (
        Annotated[bool, Meta(description="Whether commands in the sandbox have a network; true.")]
        | UnsetType
    ) = UNSET


class SettingsFile(Section, frozen=True):
    """Settings of Clew. See docs/settings.md."""

    schema_: (
        Annotated[str, Meta(description="The address of this schema, for editors.")] | UnsetType
    ) = field(name="$schema", default=UNSET)
    permissions: PermissionsSection = PermissionsSection()
    hooks: Annotated[
        dict[str, Any],
        Meta(description="What runs at each event, in the format of Claude Code."),
    ] = {}
    disable_all_hooks: (
        Annotated[bool, Meta(description="Runs no hooks; in a project, none of the project's.")]
        | UnsetType
    ) = UNSET
    current_provider: (
        Annotated[str, Meta(description="The name of the profile in use.")] | UnsetType
    ) = UNSET
    providers: Annotated[
        dict[str, ProfileSection], Meta(description="Profiles, by names of your own.")
    ] = {}
    provider: LegacySection | UnsetType = UNSET
    model: (
        Annotated[str, Meta(description="The model, where the profile in use names none.")]
        | UnsetType
    ) = UNSET
    language: (
        Annotated[
            str, Meta(min_length=1, max_length=100, description="The language of the answers.")
        ]
        | UnsetType
    ) = UNSET
    env: Annotated[
        dict[str, str | bool | int | float],
        Meta(description="Variables for commands and for `$ENV:` references."),
    ] = {}
    context: ContextSection = ContextSection()
    session: SessionSection = SessionSection()
    sandbox: SandboxSection = SandboxSection()
