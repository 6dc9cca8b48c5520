"""What may be said when an interactive session is made."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, TypedDict

from clew.core.access import Access, Decision, PermissionMode
from clew.core.events import Event
from clew.extensions.commands.protocol import CommandModule
from clew.log.protocol import SessionLogger
from clew.session.config import SessionOptions
from clew.session.gate import Ask
from clew.stores.protocol import Store
from clew.tools.protocol import Tool
from clew.tools.sandbox import Sandbox

OnDenied: TypeAlias = Callable[[Access, Decision, str], object]
"""Told of each call that was denied: what it wanted, why not, and what would allow it."""


class InteractiveOptions(TypedDict, total=False):
    """Each has a sensible default; what the settings files say counts below what is said here."""

    model: str
    """Which model answers; else the settings', else the provider's usual one."""
    store: Store
    """Where sessions are kept; the project's own SQLite file unless one is given."""
    resume_session_id: str | None
    """Go on with this session."""
    fork_session: bool
    """Go on with a copy of it instead; the original stays as it is."""
    name: str
    """What to call the session."""
    permission_mode: PermissionMode | None
    permission_handler: Ask | None
    """Whom to ask; without one, clients that listen to `permission_request` are asked."""
    on_denied: OnDenied | None
    accepted: bool | None
    """Take the project's own settings in full, or only what they may say unasked; as the user
    once decided for this folder, unless it is said here."""
    command_modules: Sequence[CommandModule]
    agents: bool
    """Give the model the `Agent` tool; off unless asked for, or a command module needs it."""
    tools: Sequence[Tool]
    """In place of the built-in ones."""
    extra_tools: Sequence[Tool]
    """Beside them."""
    sandbox: Sandbox | None
    """What commands run in."""
    identity: str
    """The first words of the system prompt."""
    language: str
    """The language to answer in."""
    on_event: Callable[[Event], None] | None
    """Hears the session's own events, from which those of `on` are made: each entry too."""
    log: SessionLogger | None
    checkpoints: bool
    """Keep files before tools change them, so that a rewind can restore them; on unless
    switched off."""
    session_options: SessionOptions
    """Anything else that `Session` takes; counts above all that is found. What has an option of
    its own here is not taken from there."""
    user_home: Path
    clew_home: Path
    environ: Mapping[str, str]
