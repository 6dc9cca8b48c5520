"""`clew mcp`: add, list, test and remove MCP servers, log in to them, and be one."""

import webbrowser
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import anyio
import msgspec
from anyio import to_thread

from clew.cli.environment import own_environment
from clew.cli.streams import print_json, print_lines, write_err
from clew.core.errors import ConfigError
from clew.core.json_text import decode_json
from clew.core.sanitize import sanitize_line
from clew.core.text import pluralize
from clew.sdk.folders import working_folder
from clew.sdk.mcp_admin import KnownServer, McpServers, make_entry

_SHOWN = 100
_MOST_NAMES = 40
_OUTPUT = 300


def run_mcp(arguments: Namespace) -> int:
    """Run one action of `clew mcp`; returns the exit code."""
    servers = McpServers(working_folder(), own_environment(arguments))
    return _ACTIONS[arguments.action](servers, arguments)


def _add(servers: McpServers, arguments: Namespace) -> int:
    entry = make_entry(
        arguments.target,
        arguments.args,
        transport=arguments.transport,
        env=arguments.env,
        headers=arguments.header,
    )
    return _store(servers, arguments, entry)


def _add_json(servers: McpServers, arguments: Namespace) -> int:
    try:
        entry = decode_json(arguments.entry)
    except msgspec.DecodeError as error:
        raise ConfigError(f"this is not JSON: {error}") from error
    if not isinstance(entry, dict):
        raise ConfigError('write an object, such as {"command": "my-server"}')
    return _store(servers, arguments, entry)


def _store(servers: McpServers, arguments: Namespace, entry: Mapping[str, object]) -> int:
    name = arguments.name
    label = servers.add(name, entry, scope=arguments.scope)
    print_lines([f"added {name} to {label}; try it with: clew mcp test {name}"])
    return 0


def _remove(servers: McpServers, arguments: Namespace) -> int:
    label = servers.remove(arguments.name, scope=arguments.scope)
    print_lines([f"removed {arguments.name} from {label}"])
    return 0


def _list(servers: McpServers, arguments: Namespace) -> int:
    found = servers.list_servers()
    if arguments.json:
        print_json(msgspec.to_builtins(found), indent=True)
    elif found:
        print_lines(_format(one) for one in found)
    else:
        print_lines(["no MCP servers; add one with: clew mcp add NAME -- COMMAND"])
    return 0


def _get(servers: McpServers, arguments: Namespace) -> int:
    one = servers.get(arguments.name)
    if arguments.json:
        print_json(msgspec.to_builtins(one), indent=True)
    else:
        print_lines([_format(one), msgspec.json.format(msgspec.json.encode(one.entry)).decode()])
    return 0


def _test(servers: McpServers, arguments: Namespace) -> int:
    found = anyio.run(servers.test, arguments.name)
    if arguments.json:
        data = msgspec.to_builtins(found)
        print_json({**data, "works": found.works}, indent=True)
    elif found.works:
        version = found.status.version
        print_lines([f"{arguments.name} works ({found.seconds:.1f} s, protocol {version})"])
        for word, names in (
            ("tool", found.tools),
            ("prompt", found.prompts),
            ("resource", found.resources),
        ):
            if names:
                print_lines([f"{pluralize(len(names), word)}:", *_indent(names)])
    else:
        write_err(f"{arguments.name} does not work ({found.status.state}): {found.status.error}")
        if found.status.output[:-1]:
            _write_output(found.status.output)
    return 0 if found.works else 1


def _write_output(lines: Sequence[str]) -> None:
    write_err("the last lines that it wrote:")
    for line in lines:
        write_err(f"  {sanitize_line(line, _OUTPUT)}")


def _login(servers: McpServers, arguments: Namespace) -> int:
    async def open_page(address: str) -> None:
        print_lines([f"log in on this page: {address}"])
        await to_thread.run_sync(webbrowser.open, address)

    anyio.run(servers.login, arguments.name, open_page)
    print_lines([f"logged in to {arguments.name}"])
    return 0


def _logout(servers: McpServers, arguments: Namespace) -> int:
    known = servers.logout(arguments.name)
    print_lines(["the tokens are removed" if known else "there were no tokens"])
    return 0


def _serve(_: McpServers, arguments: Namespace) -> int:
    from clew.sdk.mcp_memory import serve_memory  # noqa: PLC0415 - loads the SDK

    anyio.run(serve_memory, working_folder(), own_environment(arguments))
    return 0


def _format(one: KnownServer) -> str:
    problem = f"  [{one.problem}]" if one.problem else ""
    target = sanitize_line(one.target, _SHOWN)
    return f"{one.name:<18} {one.transport:<6} {target}  ({one.origin}){problem}"


def _indent(names: tuple[str, ...]) -> list[str]:
    more = len(names) - _MOST_NAMES
    return [
        *(f"  {name}" for name in names[:_MOST_NAMES]),
        *([f"  … and {more:,} more"] if more > 0 else []),
    ]


_Action: TypeAlias = Callable[[McpServers, Namespace], int]
_ACTIONS: Mapping[str, _Action] = MappingProxyType(
    {
        "add": _add,
        "add-json": _add_json,
        "get": _get,
        "list": _list,
        "login": _login,
        "logout": _logout,
        "remove": _remove,
        "serve": _serve,
        "test": _test,
    }
)
