"""Schemas of tools that would break every request, and what becomes of them."""

from typing import Any, cast

import mcp_types
import pytest
from mcp import Client

from clew.tools.mcp.catalogue import read_catalogue

pytestmark = [pytest.mark.anyio, pytest.mark.req("TOL-6")]


class Server:
    """A client of a server that only lists tools."""

    server_capabilities = mcp_types.ServerCapabilities(tools=mcp_types.ToolsCapability())
    instructions = ""

    def __init__(self, **schemas: dict[str, Any]) -> None:
        self._tools = [mcp_types.Tool(name=key, input_schema=one) for key, one in schemas.items()]

    async def list_tools(self, *, cursor: str | None) -> mcp_types.ListToolsResult:
        assert cursor is None
        return mcp_types.ListToolsResult(tools=self._tools)


def nest(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"inner": schema}}
    return schema


GOOD: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    "schema",
    [
        nest(400),
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": 3}},
        {"type": "object", "properties": {"not a key": {}}},
        {"type": "object", "required": "a"},
        {"type": "object", "required": [1]},
        {"type": "array"},
        {"type": "object", "anyOf": [{"properties": {"not a key": {}}}]},
    ],
)
async def test_a_tool_with_a_schema_that_breaks_requests_is_left_out(
    schema: dict[str, Any],
) -> None:
    found = await read_catalogue(cast("Client", Server(good=GOOD, bad=schema)), "one")

    assert [tool.own_name for tool in found.tools] == ["good"]
    assert found.problems[0].startswith("the tool bad has a schema that is")


async def test_the_fields_of_all_forms_are_declared() -> None:
    forms = [{"properties": {"b": {"type": "integer"}}, "required": ["b"]}, {"required": ["a"]}]
    schema = {**GOOD, "oneOf": forms, "$schema": "x"}

    found = await read_catalogue(cast("Client", Server(one=schema)), "one")

    assert found.tools[0].spec.schema == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
    }
