"""Tools on demand: many tools cost few tokens, and loading one leaves the prefix as it is."""

import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew import Session
from clew.context.estimate import tool_units
from clew.core.models import ToolSpec
from clew.core.permissions import Access, Risk
from clew.providers.protocol import Request
from clew.providers.scripted import ScriptedProvider, call_reply
from clew.providers.wire.responses import encode as responses
from clew.tools.mcp.config import ServerConfig
from clew.tools.mcp.names import MAX_NAME, name_tools
from clew.tools.mcp.pool import McpPool
from clew.tools.mcp.search import rank_tools
from clew.tools.mcp.source import McpToolSource
from clew.tools.mcp.tool import McpTool
from clew.tools.mcp.values import Catalogue, ServerState, ServerStatus, ServerTool
from clew.tools.protocol import ToolContext, ToolOutput
from tests.providers.formats import FORMATS, READER, Format

pytestmark = pytest.mark.req("TOL-8")

CONVERSATION = {"messages", "contents", "input"}
ROOM = {"max_tokens", "max_output_tokens", "inferenceConfig", "generationConfig"}
"""Fields with the longest answer, which shrinks as the window fills."""


def make_tool(server: str, name: str, description: str = "Does it.") -> ServerTool:
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The path of the file to work on."},
            "limit": {"type": "integer", "description": "The most results that are returned."},
        },
        "required": ["path"],
    }
    full = name_tools(server, [name])[name]
    spec = ToolSpec(name=full, description=description, schema=cast("Any", schema))
    return ServerTool(server=server, own_name=name, spec=spec)


@dataclass
class Calls:
    """Answers every call."""

    async def call_tool(self, tool: ServerTool, _: Any, __: ToolContext) -> ToolOutput:
        return ToolOutput(text=f"called {tool.own_name}")


@dataclass
class Connection:
    """A server that is always there."""

    config: ServerConfig
    catalogue: Catalogue
    state: ServerState = ServerState.READY
    calls: Calls = field(default_factory=Calls)


@dataclass
class Pool:
    """Servers without processes."""

    connections: dict[str, Connection] = field(default_factory=dict)
    version: int = 0

    @property
    def tools(self) -> list[tuple[ServerTool, Connection]]:
        found = [(tool, one) for one in self.connections.values() for tool in one.catalogue.tools]
        return sorted(found, key=lambda pair: pair[0].spec.name)

    async def wait_settled(self, _: float) -> bool:
        return True

    def list_status(self) -> list[ServerStatus]:
        return []

    def offer(self, server: str, *names: str) -> None:
        config = ServerConfig(name=server, transport="stdio", command="x", trusted=True)
        tools = tuple(make_tool(server, name) for name in names)
        self.connections[server] = Connection(config, Catalogue(tools=tools))
        self.version += 1


def make_source(pool: Pool, threshold: float = 0.1) -> McpToolSource:
    return McpToolSource(cast("McpPool", pool), threshold=threshold)


def split_body(body: bytes) -> tuple[dict[str, bytes], list[bytes]]:
    """Return the fields of a request beside the conversation, and its messages, as bytes."""
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    messages: list[bytes] = []
    head: dict[str, bytes] = {}
    for key, raw in fields.items():
        if key in CONVERSATION:
            messages = [bytes(one) for one in msgspec.json.decode(raw, type=list[msgspec.Raw])]
        elif key not in ROOM:
            head[key] = bytes(raw)
    return head, messages


@dataclass(frozen=True)
class Variant:
    """A wire format, with deferred tools in the API's own way or without."""

    wire: Format
    native: bool = False

    def encode(self, request: Request) -> bytes:
        if not self.native:
            request = msgspec.structs.replace(request, deferred_tools=())
        kept = self.wire.kept(READER)
        if self.native and self.wire.name == "responses":
            return responses.encode(request, kept, tool_search=True)
        return self.wire.encode(request, kept)


VARIANTS = [
    *map(Variant, FORMATS),
    *(Variant(wire, native=True) for wire in FORMATS if wire.name in ("anthropic", "responses")),
]

NAMES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12),
    min_size=1,
    max_size=6,
    unique=True,
)


@given(first=NAMES, later=NAMES, threshold=st.sampled_from([0.0, 0.1]))
@settings(max_examples=25, deadline=None)
def test_loading_a_tool_leaves_the_prefix_byte_identical_on_every_wire_format(
    first: list[str], later: list[str], threshold: float
) -> None:
    requests = anyio.run(load_tools, first, later, threshold)

    assert len(requests) == 4
    assert "mcp__two__" in str(requests[-1].messages)
    for variant in VARIANTS:
        bodies = [split_body(variant.encode(one)) for one in requests]
        for (head, messages), (next_head, next_messages) in pairwise(bodies):
            assert next_head == head, variant
            assert next_messages[: len(messages)] == messages, variant


async def load_tools(first: list[str], later: list[str], threshold: float) -> list[Request]:
    """Find and call a tool on demand, let another server come, and return all requests."""
    pool = Pool()
    pool.offer("one", *first)
    wanted = pool.tools[0][0].spec.name
    provider = ScriptedProvider(
        [
            call_reply(("ToolSearch", {"query": f"select:{wanted}"})),
            call_reply(("CallMcpTool", {"tool": wanted, "arguments": {"path": "x"}})),
            "done",
            "done again",
        ]
    )
    async with Session(provider, model="m", tool_source=make_source(pool, threshold)) as session:
        await session.run("first")
        pool.offer("two", *later)
        await session.run("second")
    return list(provider.requests)


@pytest.mark.anyio
async def test_sixty_tools_cost_fewer_than_a_thousand_tokens() -> None:
    pool = Pool()
    for server in ("files", "git", "issues", "mail", "calendar", "search"):
        pool.offer(server, *(f"{verb}_{server}_item" for verb in VERBS))
    direct = [tool.spec for tool, _ in pool.tools]

    specs = make_source(pool, threshold=0.0).choose_specs(200_000)

    assert len(direct) == 60
    assert tool_units(direct) > 4_000
    assert tool_units(specs) < 1_000
    declared = [spec for spec in specs if not spec.deferred]
    assert [spec.name for spec in declared] == ["CallMcpTool", "ToolSearch"]
    assert declared[-1].description.count("\n") == 7
    assert len(specs) == 62


VERBS = ["create", "read", "update", "delete", "list", "find", "move", "copy", "share", "archive"]


def test_few_tools_are_declared_and_many_are_deferred() -> None:
    pool = Pool()
    pool.offer("git", *VERBS)

    small = make_source(pool).choose_specs(200_000)
    large = make_source(pool).choose_specs(4_000)

    names = [spec.name for spec in small]
    assert [name for name in names if name.startswith("mcp__")] == sorted(
        f"mcp__git__{verb}" for verb in VERBS
    )
    assert all(spec.deferred for spec in large if spec.name.startswith("mcp__"))


@given(
    servers=st.dictionaries(
        st.text(min_size=1, max_size=80), st.lists(st.text(max_size=90)), min_size=1, max_size=4
    )
)
@settings(max_examples=100, deadline=None)
def test_names_are_valid_unique_and_stable(servers: dict[str, list[str]]) -> None:
    for server, tools in servers.items():
        names = name_tools(server, tools)

        assert names == name_tools(server, list(reversed(tools)))
        assert len(set(names.values())) == len(set(tools))
        assert all(len(name) <= MAX_NAME for name in names.values())
        assert all(name.replace("-", "_").isidentifier() for name in names.values())
        assert all(name.isascii() for name in names.values())


def test_a_server_cannot_take_the_names_of_another() -> None:
    assert name_tools("git__evil", ["push"])["push"] == "mcp__git_evil__push"
    assert not name_tools("git__evil", ["push"])["push"].startswith("mcp__git__")


def test_a_search_finds_tools_by_words_of_name_and_description() -> None:
    pool = Pool()
    pool.offer("git", "commit", "push", "log")
    tools = [McpTool(tool, cast("Any", one)) for tool, one in pool.tools]

    assert rank_tools(tools, "push it", 5)[0].spec.name == "mcp__git__push"
    assert [one.spec.name for one in rank_tools(tools, "select:mcp__git__log,x", 5)] == [
        "mcp__git__log"
    ]
    assert rank_tools(tools, "zebra", 5) == []


@pytest.mark.anyio
async def test_a_wrong_call_says_what_to_do() -> None:
    pool = Pool()
    pool.offer("git", "push")
    call = make_source(pool).find("CallMcpTool")
    assert call is not None

    missing = await call.run({"tool": "mcp__git__pull", "arguments": {}}, cast("Any", None))
    wrong = await call.run({"tool": "mcp__git__push", "arguments": 3}, cast("Any", None))
    text = await call.run(
        {"tool": "mcp__git__push", "arguments": json.dumps({"path": "x"})}, cast("Any", None)
    )

    assert missing.text == (
        "Error: there is no MCP tool mcp__git__pull. ToolSearch finds the tools."
    )
    assert wrong.failed
    assert text.text == "called push"


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ({"Read"}, set()),
        ({"mcp__git__push"}, {"mcp__git__push", "ToolSearch", "CallMcpTool"}),
        ({"ReadMcpResource"}, {"ReadMcpResource"}),
    ],
)
def test_a_subagent_has_only_the_tools_of_its_list(listed: set[str], expected: set[str]) -> None:
    pool = Pool()
    pool.offer("git", "push", "log")

    source = make_source(pool).restrict(lambda name: name in listed)

    assert set(source.list_names()) == expected
    assert {name for name in make_source(pool).list_names() if source.find(name)} == expected


@pytest.mark.anyio
async def test_a_subagent_reads_only_from_the_servers_whose_tools_it_has() -> None:
    pool = Pool()
    pool.offer("git", "push")
    pool.offer("mail", "send")
    source = make_source(pool).restrict(lambda name: name in ("ReadMcpResource", "mcp__git__push"))
    tool = source.find("ReadMcpResource")
    assert tool is not None

    said = await tool.run({"server": "mail"}, cast("Any", None))

    assert said.text == "There is no such MCP server. There are: git."
    assert not (await tool.run({"server": "git"}, cast("Any", None))).failed


def test_only_servers_of_the_user_are_believed_to_read() -> None:
    tool = msgspec.structs.replace(make_tool("git", "log"), read_only=True)
    config = ServerConfig(name="git", transport="stdio", command="x")

    risks = [
        McpTool(
            tool,
            cast("Any", Connection(msgspec.structs.replace(config, trusted=trusted), Catalogue())),
        ).access({}, cast("Any", None))
        for trusted in (True, False)
    ]

    assert risks == [
        Access(tool="mcp__git__log", risk=Risk.INSPECT),
        Access(tool="mcp__git__log", risk=Risk.EXECUTE),
    ]
