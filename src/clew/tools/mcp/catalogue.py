"""Lists what a server offers: all pages, within limits, sanitized and in a stable order."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import mcp_types
from mcp import Client, MCPError

from clew.core.models import ToolSpec
from clew.core.sanitize import sanitize_line
from clew.tools.mcp.names import clean_text, name_tools, server_prefix
from clew.tools.mcp.schemas import convert_schema, find_schema_problem
from clew.tools.mcp.values import (
    Catalogue,
    PromptArgument,
    ServerPrompt,
    ServerResource,
    ServerTool,
)

MAX_ITEMS = 1_000
"""The most tools, prompts or resources of one server."""
_MAX_PAGES = 100
_SHOWN = 80
_INSTRUCTIONS = 500

_Item = TypeVar("_Item")


async def read_catalogue(client: Client, server: str) -> Catalogue:
    """Ask a server for its tools, prompts and resources.

    Raises:
        MCPError: The server cannot list its tools. Other lists may fail: they are then empty.
    """
    problems: list[str] = []
    can = client.server_capabilities
    tools = await _list_tools(client) if can.tools is not None else []
    prompts = await _try(_list_prompts(client), problems) if can.prompts is not None else []
    resources = await _try(_list_resources(client), problems) if can.resources is not None else []
    return Catalogue(
        tools=_convert_tools(server, tools, problems),
        prompts=_convert_prompts(server, prompts),
        resources=tuple(sorted(resources, key=lambda one: (one.is_template, one.uri))),
        instructions=clean_text(client.instructions, _INSTRUCTIONS),
        problems=tuple(problems),
    )


async def _try(listing: Awaitable[list[_Item]], problems: list[str]) -> list[_Item]:
    try:
        return await listing
    except MCPError as error:
        problems.append(sanitize_line(str(error), _SHOWN))
        return []


async def _collect(
    fetch: Callable[[str | None], Awaitable[tuple[Sequence[_Item], str | None]]],
) -> list[_Item]:
    """Read all pages of a list; a list that does not end is cut off."""
    found: list[_Item] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(_MAX_PAGES):
        page, cursor = await fetch(cursor)
        found += page
        if not cursor or cursor in seen or len(found) >= MAX_ITEMS:
            break
        seen.add(cursor)
    return found[:MAX_ITEMS]


async def _list_tools(client: Client) -> list[mcp_types.Tool]:
    async def fetch(cursor: str | None) -> tuple[Sequence[mcp_types.Tool], str | None]:
        page = await client.list_tools(cursor=cursor)
        return page.tools, page.next_cursor

    return await _collect(fetch)


async def _list_prompts(client: Client) -> list[mcp_types.Prompt]:
    async def fetch(cursor: str | None) -> tuple[Sequence[mcp_types.Prompt], str | None]:
        page = await client.list_prompts(cursor=cursor)
        return page.prompts, page.next_cursor

    return await _collect(fetch)


async def _list_resources(client: Client) -> list[ServerResource]:
    async def fetch(cursor: str | None) -> tuple[Sequence[mcp_types.Resource], str | None]:
        page = await client.list_resources(cursor=cursor)
        return page.resources, page.next_cursor

    async def fetch_templates(
        cursor: str | None,
    ) -> tuple[Sequence[mcp_types.ResourceTemplate], str | None]:
        page = await client.list_resource_templates(cursor=cursor)
        return page.resource_templates, page.next_cursor

    found = [_resource(one, one.uri) for one in await _collect(fetch)]
    try:
        templates = await _collect(fetch_templates)
    except MCPError:
        # Servers of older versions have no templates.
        templates = []
    return [*found, *(_resource(one, one.uri_template, is_template=True) for one in templates)]


def _resource(
    one: mcp_types.Resource | mcp_types.ResourceTemplate, uri: str, *, is_template: bool = False
) -> ServerResource:
    return ServerResource(
        uri=clean_text(uri, 1_000),
        name=clean_text(one.title or one.name, 200),
        description=clean_text(one.description, 200),
        is_template=is_template,
    )


def _convert_tools(
    server: str, tools: Iterable[mcp_types.Tool], problems: list[str]
) -> tuple[ServerTool, ...]:
    unique: dict[str, mcp_types.Tool] = {}
    for tool in tools:
        if tool.name in unique:
            problems.append(f"two tools are called {sanitize_line(tool.name, _SHOWN)}")
        elif why := _find_problem(tool):
            problems.append(f"the tool {sanitize_line(tool.name, _SHOWN)} {why}")
        else:
            unique[tool.name] = tool
    names = name_tools(server, unique)
    found = [_convert_tool(server, tool, names[own]) for own, tool in unique.items()]
    return tuple(sorted(found, key=lambda one: one.spec.name))


def _find_problem(tool: mcp_types.Tool) -> str:
    if not tool.name:
        return "has no name"
    return find_schema_problem(tool.input_schema)


def _convert_tool(server: str, tool: mcp_types.Tool, name: str) -> ServerTool:
    hints = tool.annotations
    text = clean_text(tool.description or tool.title)
    return ServerTool(
        server=server,
        own_name=tool.name,
        spec=ToolSpec(
            name=name,
            description=text or f"{tool.name} of {server}",
            schema=convert_schema(tool.input_schema),
        ),
        read_only=bool(hints is not None and hints.read_only_hint),
    )


def _convert_prompts(server: str, prompts: Iterable[mcp_types.Prompt]) -> tuple[ServerPrompt, ...]:
    unique = {prompt.name: prompt for prompt in prompts if prompt.name}
    names = name_tools(server, unique)
    found = [
        ServerPrompt(
            server=server,
            own_name=own,
            name=names[own],
            description=clean_text(prompt.description or prompt.title, 200)
            or f"a prompt of {server_prefix(server).strip('_')}",
            arguments=tuple(
                PromptArgument(name=clean_text(one.name, 60), required=bool(one.required))
                for one in prompt.arguments or ()
            ),
        )
        for own, prompt in unique.items()
    ]
    return tuple(sorted(found, key=lambda one: one.name))
