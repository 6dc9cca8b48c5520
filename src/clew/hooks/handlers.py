"""What a hook may be: a command, a call to a server, a question to a model, an agent.

The fields are those of Claude Code's settings, by the same names.
"""

from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta, Struct, field

from clew.hooks.protocol import HookEvent

_Seconds: TypeAlias = Annotated[float, Meta(gt=0)]
_Text: TypeAlias = Annotated[str, Meta(min_length=1)]
_BRIEF = 60


class _Handler(Struct, frozen=True, kw_only=True, rename="camel"):
    """What every kind has."""

    usual_seconds: ClassVar[float]

    timeout: _Seconds | None = None
    """Seconds; None for the usual limit of the kind and the event."""
    if_: str = field(default="", name="if")
    """A permission rule: on tool events, the hook runs only for calls that it holds for."""


class CommandHook(_Handler, frozen=True, kw_only=True, rename="camel"):
    """A program that reads JSON from its standard input."""

    usual_seconds: ClassVar[float] = 60

    command: _Text
    """A line for the shell, or with `args` the program itself."""
    args: tuple[str, ...] | None = None
    shell: Literal["bash", "powershell"] | None = None
    """None for `/bin/sh`."""
    async_: bool = field(default=False, name="async")
    """Nobody waits for it, and it decides nothing."""
    async_rewake: bool = False
    """As `async`, but exit code 2 brings its words to the model at once."""
    rewake_message: str = ""
    """What the model reads before those words."""

    @property
    def brief(self) -> str:
        """The hook in a few words."""
        return _shortened(" ".join((self.command, *(self.args or ()))))


class HttpHook(_Handler, frozen=True, kw_only=True, rename="camel"):
    """A server that is sent the JSON, and may answer with some."""

    usual_seconds: ClassVar[float] = 10

    url: Annotated[str, Meta(pattern=r"^https?://[^/\s]")]
    headers: dict[str, str] = {}
    """Values may name variables of the environment: `$NAME` or `${NAME}`."""
    allowed_env_vars: tuple[str, ...] = ()
    """The only variables that headers may name; others are empty."""

    @property
    def brief(self) -> str:
        """The hook in a few words; what may hold a password is left out."""
        scheme, _, rest = self.url.partition("://")
        host, slash, path = rest.partition("/")
        return _shortened(f"{scheme}://{host.rpartition('@')[2]}{slash}{path.partition('?')[0]}")


class PromptHook(_Handler, frozen=True, kw_only=True, rename="camel"):
    """A question to a model, which answers yes or no."""

    usual_seconds: ClassVar[float] = 30

    prompt: _Text
    """`$ARGUMENTS` stands for the JSON; without it, the JSON comes last."""
    model: str = ""
    continue_on_block: bool = False
    """After a no about a tool call the run goes on, and the model reads why."""

    @property
    def brief(self) -> str:
        """The hook in a few words."""
        return _shortened(self.prompt)


class AgentHook(_Handler, frozen=True, kw_only=True, rename="camel"):
    """A question to an agent, which may look around before it answers yes or no."""

    usual_seconds: ClassVar[float] = 60

    prompt: str = ""
    """As a prompt hook's; may be empty when an agent is named."""
    agent: str = ""
    """Which agent; empty for one without special instructions."""
    model: str = ""
    max_turns: Annotated[int, Meta(gt=0)] = 50

    def __post_init__(self) -> None:
        if not (self.prompt or self.agent):
            raise ValueError("Object missing required field `prompt` or `agent`")

    @property
    def brief(self) -> str:
        """The hook in a few words."""
        return _shortened(" ".join(filter(None, (self.agent, self.prompt))))


Handler: TypeAlias = CommandHook | HttpHook | PromptHook | AgentHook

KINDS: dict[str, type[Handler]] = {
    "command": CommandHook,
    "http": HttpHook,
    "prompt": PromptHook,
    "agent": AgentHook,
}
"""By the `type` that settings give them."""

_EVENT_SECONDS = {HookEvent.USER_PROMPT_SUBMIT: 30.0, HookEvent.SESSION_END: 1.5}
"""Where a person waits, less is usual. These are Claude Code's numbers."""


def seconds_for(handler: Handler, event: HookEvent) -> float:
    """Return how long a hook may run."""
    if handler.timeout is not None:
        return handler.timeout
    return min(handler.usual_seconds, _EVENT_SECONDS.get(event, handler.usual_seconds))


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _BRIEF else line[: _BRIEF - 1] + "…"
