"""The types of hook handlers: a command, an HTTP request, a prompt to a model, an agent.

The fields and their names are those of Claude Code's settings.
"""

from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta, Struct, field

from clew.hooks.protocol import HookEvent

_Seconds: TypeAlias = Annotated[float, Meta(gt=0)]
_Text: TypeAlias = Annotated[str, Meta(min_length=1)]
_MAX_DESCRIPTION = 60


class _Handler(Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields that all handler types share."""

    default_timeout: ClassVar[float]

    timeout: _Seconds | None = None
    """In seconds; None for the default of the handler type and the event."""
    if_: str = field(default="", name="if")
    """A permission rule: on tool events, the hook runs only for calls that match it."""


class CommandHook(_Handler, frozen=True, kw_only=True, rename="camel"):
    """A program that reads the event as JSON from its standard input."""

    default_timeout: ClassVar[float] = 60

    command: _Text
    """A shell command line, or with `args` the program itself."""
    args: tuple[str, ...] | None = None
    shell: Literal["bash", "powershell"] | None = None
    """None for `/bin/sh`."""
    async_: bool = field(default=False, name="async")
    """Run it in the background: the session does not wait, and the hook decides nothing."""
    async_rewake: bool = False
    """As `async`, but on exit code 2 the model reads its output with the next prompt."""
    rewake_message: str = ""
    """What the model reads before that output."""

    @property
    def brief(self) -> str:
        """A short description of the hook."""
        return _truncate(" ".join((self.command, *(self.args or ()))))


class HttpHook(_Handler, frozen=True, kw_only=True, rename="camel"):
    """A server that receives the event as JSON, and may answer with JSON."""

    default_timeout: ClassVar[float] = 10

    url: Annotated[str, Meta(pattern=r"^https?://[^/\s]")]
    headers: dict[str, str] = {}
    """Values may refer to environment variables: `$NAME` or `${NAME}`."""
    allowed_env_vars: tuple[str, ...] = ()
    """The only variables that headers may refer to; others are empty."""

    @property
    def brief(self) -> str:
        """A short description of the hook, without user name and query, which may hold secrets."""
        scheme, _, rest = self.url.partition("://")
        host, slash, path = rest.partition("/")
        return _truncate(f"{scheme}://{host.rpartition('@')[2]}{slash}{path.partition('?')[0]}")


class PromptHook(_Handler, frozen=True, kw_only=True, rename="camel"):
    """A prompt to a model, which answers yes or no."""

    default_timeout: ClassVar[float] = 30

    prompt: _Text
    """`$ARGUMENTS` is replaced by the event as JSON; without it, the JSON follows the prompt."""
    model: str = ""
    continue_on_block: bool = False
    """If the model denies a tool call, the run continues and the model of the session reads why."""

    @property
    def brief(self) -> str:
        """A short description of the hook."""
        return _truncate(self.prompt)


class AgentHook(_Handler, frozen=True, kw_only=True, rename="camel"):
    """A prompt to an agent, which may use tools before it answers yes or no."""

    default_timeout: ClassVar[float] = 60

    prompt: str = ""
    """As for a prompt hook; may be empty if `agent` is set."""
    agent: str = ""
    """The name of the agent; empty for the general-purpose one."""
    model: str = ""
    max_turns: Annotated[int, Meta(gt=0)] = 50

    def __post_init__(self) -> None:
        if not (self.prompt or self.agent):
            raise ValueError("Object missing required field `prompt` or `agent`")

    @property
    def brief(self) -> str:
        """A short description of the hook."""
        return _truncate(" ".join(filter(None, (self.agent, self.prompt))))


HookHandler: TypeAlias = CommandHook | HttpHook | PromptHook | AgentHook

HANDLER_TYPES: dict[str, type[HookHandler]] = {
    "command": CommandHook,
    "http": HttpHook,
    "prompt": PromptHook,
    "agent": AgentHook,
}
"""Handler classes by their `type` in the settings."""

_EVENT_TIMEOUTS = {HookEvent.USER_PROMPT_SUBMIT: 30.0, HookEvent.SESSION_END: 1.5}
"""Shorter defaults where the user waits. These are Claude Code's numbers."""


def timeout_of(handler: HookHandler, event: HookEvent) -> float:
    """Return the timeout of a hook in seconds."""
    if handler.timeout is not None:
        return handler.timeout
    return min(handler.default_timeout, _EVENT_TIMEOUTS.get(event, handler.default_timeout))


def _truncate(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_DESCRIPTION else line[: _MAX_DESCRIPTION - 1] + "…"
