"""`SessionSpec`: what another process needs to open the same session."""

from typing import Any

from msgspec import Struct

from clew.session.config import EFFORTS, DataOptions

__all__ = ["EFFORTS", "SessionSpec"]


class SessionSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session described by plain data; encodes to JSON.

    Services such as providers, stores, permission handlers and callbacks are not part of it:
    `clew.sdk.launch` makes them from the spec, the settings of the folder and the environment.
    """

    cwd: str
    """The project's folder."""
    provider: str = ""
    """A provider profile of the settings, or a provider family; empty to choose one."""
    base_url: str = ""
    """The address of an OpenAI-compatible server, or of the named provider."""
    model: str = ""
    """The model, also as `PROVIDER/NAME`; empty for the default."""
    port: int = 0
    """The port for the embedded model's server; 0 for any free one."""
    resume: str = ""
    """Continue this session: an id, the start of an id, or a name."""
    fork: str = ""
    """Continue a copy of this session."""
    latest: bool = False
    """Continue the newest session of the folder."""
    name: str = ""
    store: str = ""
    """A file or a PostgreSQL address; empty for the project's own store."""
    permission_mode: str = ""
    """Empty for the mode of the settings, or of the session that is continued."""
    sandbox: str = ""
    """`auto`, `on` or `off`; empty for what the settings say."""
    network: bool = True
    """False to run commands without network access."""
    window: int | None = None
    """The model's context window in tokens, where the catalogue is wrong."""
    budget_usd: float | None = None
    max_turns: int | None = None
    language: str = ""
    agent: str = ""
    """Be this agent of the project instead of the usual assistant."""
    agents: bool = True
    """Give the model the `Agent` tool."""
    agent_processes: bool = False
    """Run each subagent in a process of its own."""
    effort: str = ""
    """The reasoning effort; empty for that of the session that is continued, or the default."""
    allowed_tools: tuple[str, ...] = ()
    """Permission rules for calls that run without asking, beside those of the settings."""
    disallowed_tools: tuple[str, ...] = ()
    """Rules for calls that never run. A tool that a rule denies altogether is not offered."""
    append_system_prompt: str = ""
    """Instructions at the end of the system prompt."""
    add_dirs: tuple[str, ...] = ()
    """Folders outside `cwd` that tools may read."""
    plugin_folders: tuple[str, ...] = ()
    """Folders of plugins to load beside the installed ones, without asking."""
    answer_schema: dict[str, Any] = {}
    """A JSON Schema for the answers; see `clew.sdk.structured_answer`. Empty for none."""
    log_level: str = ""
    """Write a session log of this level; empty for none."""
    options: DataOptions = {}
    """Other options of the session that are plain data, such as `auto_compact_threshold`. The
    fields above count before them."""
