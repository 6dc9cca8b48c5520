"""`clew --connect`: the flags of a session on a server."""

import os
from argparse import Namespace
from collections.abc import Sequence

from clew.cli.argument_parser import UsageError
from clew.cli.environment import own_environment
from clew.core.permissions import PermissionMode
from clew.sdk.remote.opened import RemoteChoice
from clew.sdk.remote.server import RemoteServer, find_token
from clew.sdk.server_values import SessionRequest, SessionSummary

_OF_THE_SERVER = {
    "provider": "--provider",
    "base_url": "--base-url",
    "window": "--window",
    "sandbox": "--sandbox",
    "add_dirs": "--add-dir",
    "plugin_folders": "--plugin-dir",
    "agent_processes": "--agent-processes",
    "log_level": "--log",
    "detach": "--detach",
    "port": "--port",
}


def connect(arguments: Namespace) -> RemoteServer:
    """Return the server that the flags name.

    Raises:
        UsageError: A flag is about what the server decides.
        ConfigError: The address or the token cannot be used.
    """
    for name, flag in _OF_THE_SERVER.items():
        if getattr(arguments, name, None):
            raise UsageError(f"{flag} is for the server: pass it to `clew serve`, or leave it out")
    if not arguments.network:
        raise UsageError("--no-network is for the server: pass it to `clew serve`, or leave it out")
    token = find_token(arguments.connect, own_environment(arguments) or os.environ)
    return RemoteServer(arguments.connect, token=token)


def remote_choice(arguments: Namespace) -> RemoteChoice:
    """Return which session of the server the flags ask for."""
    mode = arguments.permission_mode
    request = SessionRequest(
        model=arguments.model or "",
        permission_mode=PermissionMode(mode) if mode else None,
        effort=arguments.effort or "",
        append_system_prompt=arguments.append_system_prompt or "",
        allowed_tools=tuple(arguments.allowed_tools),
        disallowed_tools=tuple(arguments.disallowed_tools),
        max_turns=arguments.max_turns,
        budget_usd=arguments.budget,
    )
    return RemoteChoice(
        resume=arguments.resume or "",
        fork=arguments.fork or "",
        latest=arguments.latest,
        request=request,
    )


async def list_remote(server: RemoteServer) -> Sequence[SessionSummary]:
    """Return the sessions of a server, the newest first."""
    async with server:
        return await server.list()
