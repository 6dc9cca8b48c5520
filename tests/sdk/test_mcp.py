"""MCP servers in a session: their tools, questions, failures, and what they leave behind."""

import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from clew.core.messages import ToolResult
from clew.core.permissions import Access, Approval, Decision, PermissionAnswer, PermissionMode
from clew.providers.scripted import ScriptedReply, call_reply
from clew.sdk.session import InteractiveSession
from clew.tui.blocks import ToolCallBlock
from clew.tui.history import make_blocks
from tests.sdk.places import Heard, Place

pytestmark = [pytest.mark.anyio, pytest.mark.req("TOL-6")]

SERVER = Path(__file__).parents[1] / "tools" / "mcp" / "plain_server.py"
PATIENT = {"startupWait": 60_000}
ALLOW = {"allow": ["mcp__plain"]}


def describe_server(*arguments: str, **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-S", str(SERVER), *arguments], **more}


def configure(place: Place, *, user: Mapping[str, Any] | None = None, **settings: Any) -> None:
    """Write the settings of the user, with one server that is called plain."""
    servers = {"plain": describe_server()} if user is None else user
    place.clew_home.mkdir(exist_ok=True)
    data = {"mcpServers": servers, "mcp": PATIENT, "permissions": ALLOW, **settings}
    (place.clew_home / "settings.json").write_text(json.dumps(data))


def call(tool: str, text: str = "") -> ScriptedReply:
    return call_reply((f"mcp__plain__{tool}", {"text": text}))


class Person:
    """Answers questions, and remembers them."""

    def __init__(self, approval: Approval = Approval.ONCE, reply: str = "") -> None:
        self.answer = PermissionAnswer(approval=approval, reply=reply)
        self.asked: list[tuple[str, str]] = []

    async def __call__(self, access: Access, question: Decision) -> PermissionAnswer:
        self.asked.append((access.tool, question.reason))
        return self.answer


def results(session: InteractiveSession) -> list[str]:
    """Return the outputs of tools as the model reads them."""
    return [
        part.text
        for message in session.get_messages()
        for part in message.parts
        if isinstance(part, ToolResult)
    ]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - another process does it
        await anyio.sleep(0.01)


async def run(place: Place, *replies: ScriptedReply, **options: Any) -> list[str]:
    """Run one prompt and return the outputs of its calls."""
    with anyio.fail_after(60):
        async with place.session([*replies, "done"], **options) as session:
            await session.run("go")
            return results(session)


async def test_the_model_calls_a_tool_of_a_server(place: Place) -> None:
    configure(place)

    assert await run(place, call("echo", "hello")) == ["hello"]

    names = [spec.name for spec in place.provider.requests[0].tools]
    assert "mcp__plain__echo" in names
    assert names[-15:] == sorted(names[-15:])


async def test_servers_get_a_clean_environment(place: Place) -> None:
    configure(place, user={"plain": describe_server(env={"OWN": "${WORD:-default}"})})
    environ = {"PATH": os.environ["PATH"], "SECRET_TOKEN": "abc", "HOME": str(place.home)}

    (names,) = await run(place, call("environment"), environ=environ)

    assert {"OWN", "PATH", "HOME"} <= set(names.split())
    assert "SECRET_TOKEN" not in names


async def test_a_call_asks_unless_a_server_of_the_user_says_that_it_only_reads(
    place: Place,
) -> None:
    configure(place, permissions={})
    person = Person(Approval.NO)

    said = await run(place, call("echo", "read"), call("pid"), permission_handler=person)

    assert [tool for tool, _ in person.asked] == ["mcp__plain__pid"]
    assert said[0] == "read"
    assert said[1].startswith("Permission denied")


async def test_plan_mode_offers_only_tools_of_servers_that_read(place: Place) -> None:
    configure(place)

    await run(place, permission_mode=PermissionMode.PLAN)

    offered = {spec.name for spec in place.provider.requests[0].tools}
    assert "mcp__plain__echo" in offered
    assert "mcp__plain__pid" not in offered


@pytest.mark.parametrize("file", [".mcp.json", ".clew/settings.json"])
async def test_a_server_of_the_project_starts_only_when_the_folder_is_trusted(
    place: Place, file: str
) -> None:
    configure(place, user={}, permissions={})
    mark = place.project / "started"
    server = describe_server(env={"MCP_NOTES": str(mark)})
    server["args"] = ["-c", f"open({str(mark)!r}, 'w'); import time; time.sleep(1000)"]
    place.write(file, json.dumps({"mcpServers": {"plain": server}}))
    heard, session = Heard(), place.session(["hi"])
    session.on_any(heard)

    async with session:
        await session.run("go")

    assert not mark.exists()
    assert any("mcpServers.plain" in one.text for one in heard.of("warning"))
    assert not [spec for spec in place.provider.requests[0].tools if "Mcp" in spec.name]


async def test_what_a_server_of_the_project_says_about_its_tools_is_not_believed(
    place: Place,
) -> None:
    configure(place, user={}, permissions={})
    place.write(".mcp.json", json.dumps({"mcpServers": {"plain": describe_server()}}))
    person = Person(Approval.NO)

    await run(place, call("echo"), permission_handler=person, accepted=True)

    assert [tool for tool, _ in person.asked] == ["mcp__plain__echo"]


async def test_hooks_and_rules_see_the_tool_of_a_call_on_demand(place: Place) -> None:
    notes = place.project / "hook"
    hook = {
        "matcher": "mcp__plain__pid",
        "hooks": [{"type": "command", "command": f"cat > {notes}"}],
    }
    configure(
        place,
        mcp={**PATIENT, "deferThreshold": 0},
        permissions={"allow": ["mcp__plain"], "deny": ["mcp__plain__fail"]},
        hooks={"PreToolUse": [hook]},
    )
    arguments = {"tool": "mcp__plain__pid", "arguments": {}}
    forbidden = {"tool": "mcp__plain__fail", "arguments": {}}

    said = await run(
        place,
        call_reply(("ToolSearch", {"query": "process id"})),
        call_reply(("CallMcpTool", arguments)),
        call_reply(("CallMcpTool", forbidden)),
    )

    assert '"name":"mcp__plain__pid"' in said[0]
    assert said[1].isdigit()
    assert "the rule mcp__plain__fail" in said[2]
    seen = json.loads(notes.read_text())
    assert (seen["tool_name"], seen["tool_input"]) == ("mcp__plain__pid", {})


async def test_a_call_on_demand_is_shown_as_that_of_its_tool(place: Place) -> None:
    configure(place, mcp={**PATIENT, "deferThreshold": 0}, permissions={})
    wanted = {"tool": "mcp__plain__progress", "arguments": {"text": "hello"}}
    heard, person = Heard(), Person()
    session = place.session(
        [call_reply(("CallMcpTool", wanted)), "done"], permission_handler=person
    )
    session.on_any(heard)

    async with session:
        await session.run("go")
        history = await session.history()

    kinds = ("tool_start", "tool_progress", "tool_end", "permission_request")
    shown = [one for kind in kinds for one in heard.of(kind)]
    names = {getattr(one, "name", "") or one.tool_name for one in shown}
    assert names == {"mcp__plain__progress"}
    assert heard.of("tool_start")[0].arguments == '{"text":"hello"}'
    assert [tool for tool, _ in person.asked] == ["mcp__plain__progress"]
    told = [one.data for one in history if one.type in ("tool-start", "tool-end")]
    assert [(one["tool_name"], one["first_arg"]) for one in told] == [
        ("mcp__plain__progress", "hello")
    ] * 2
    blocks = make_blocks(history)
    (block,) = [one for one in blocks if isinstance(one, ToolCallBlock)]
    assert (block.name, block.arguments) == ("mcp__plain__progress", '{"text":"hello"}')


async def test_images_structure_and_errors_reach_the_model(place: Place) -> None:
    configure(place)

    said = await run(place, call("image"), call("structured"), call("fail"), call("error"))

    assert said == [
        "[image: image/png, 70 bytes]",
        '{"answer":42}',
        "this did not work",
        "Error: the MCP server plain answered: there is no such method",
    ]
    images = [
        part.images
        for message in place.provider.requests[1].messages
        for part in message.parts
        if isinstance(part, ToolResult)
    ]
    assert len(images[0]) == 1


async def test_progress_is_published(place: Place) -> None:
    configure(place)
    heard, session = Heard(), place.session([call("progress"), "done"])
    session.on_any(heard)

    async with session:
        await session.run("go")

    assert heard.of("tool_progress")[0].line == "step 1 (1/3)"


async def test_long_output_is_truncated_like_any_other(place: Place) -> None:
    configure(place)

    (said,) = await run(place, call("huge"))

    assert len(said) < 40_000
    assert "entry #" in said


async def test_a_server_that_dies_in_a_call_is_started_again_and_reported(place: Place) -> None:
    configure(place)
    heard, session = Heard(), place.session([call("die"), call("echo", "alive"), "done"])
    session.on_any(heard)

    with anyio.fail_after(60):
        async with session:
            await session.run("go")
            said = results(session)

    assert said[0].startswith("Error: the MCP server plain ended during this call")
    assert said[1] == "alive"
    assert any("the MCP server plain is not available" in one.text for one in heard.of("warning"))


async def test_a_call_without_progress_ends_and_the_server_is_told(place: Place) -> None:
    notes = place.project / "cancelled"
    server = describe_server(env={"MCP_NOTES": str(notes)}, timeout=100)
    configure(place, user={"plain": server})

    with anyio.fail_after(60):
        async with place.session([call("hang"), "done"]) as session:
            await session.run("go")
            (said,) = results(session)
            await until(notes.exists)

    assert "it made no progress for 0.1 seconds" in said


async def test_an_abort_cancels_the_call_at_the_server(place: Place) -> None:
    notes = place.project / "cancelled"
    configure(place, user={"plain": describe_server(env={"MCP_NOTES": str(notes)})})
    session = place.session([call("hang")])

    async def abort() -> None:
        await until(notes.with_name("started").exists)
        session.abort()

    with anyio.fail_after(60):
        async with session, anyio.create_task_group() as tasks:
            tasks.start_soon(abort)
            result = await session.run("go")
            assert result.interrupted
            await until(notes.exists)


async def test_no_process_is_left_behind(place: Place) -> None:
    configure(place)

    server, child = await run(place, call("pid"), call("child"))

    ps = ["ps", "-o", "stat=", "-p", f"{server},{child}"]
    shown = await anyio.run_process(ps, check=False)
    # What is dead may wait for its parent to notice.
    assert all(line.startswith("Z") for line in shown.stdout.decode().split())


@pytest.mark.parametrize(
    ("schema", "person", "expected"),
    [
        ({"go": {"type": "boolean"}}, Person(), {"go": True}),
        ({"n": {"type": "integer"}}, Person(reply="7"), {"n": 7}),
        ({"c": {"type": "string", "enum": ["a", "b"]}}, Person(reply="b"), {"c": "b"}),
        ({"c": {"type": "string", "enum": ["a", "b"]}}, Person(reply="x"), None),
        ({"go": {"type": "boolean"}}, Person(Approval.NO), None),
        ({"a": {"type": "string"}, "b": {"type": "string"}}, Person(), None),
    ],
)
async def test_a_server_asks_the_user(
    place: Place, schema: dict[str, Any], person: Person, expected: object
) -> None:
    configure(place)

    (said,) = await run(place, call("ask", json.dumps(schema)), permission_handler=person)

    answer = json.loads(said)
    assert answer.get("content") == expected
    assert answer["action"] == ("decline" if expected is None else "accept")
    if len(schema) == 1:
        assert person.asked == [("mcp__plain__ask", "Which one?")]


async def test_a_server_may_ask_the_model_only_where_the_settings_allow_it(place: Place) -> None:
    configure(place)
    (refused,) = await run(place, call("sample", "say hi"))
    configure(place, mcp={**PATIENT, "sampling": True})

    with anyio.fail_after(60):
        async with place.session([call("sample", "say hi"), "hi there", "done"]) as session:
            before = session.session.get_cost().calls
            await session.run("go")
            (said,) = results(session)
            charged = session.session.get_cost().calls - before

    assert "code" in refused
    assert json.loads(said)["content"]["text"] == "hi there"
    assert charged == 3


async def test_new_tools_are_announced_and_leave_the_declarations_as_they_are(
    place: Place,
) -> None:
    configure(place)
    grown = {"tool": "mcp__plain__grown", "arguments": {}}
    replies = [call("grow"), "done", call_reply(("CallMcpTool", grown)), "done"]

    with anyio.fail_after(60):
        async with place.session(replies) as session:
            await session.run("grow")
            pool = session.parts.mcp.source.pool  # type: ignore[union-attr]
            await until(lambda: any(tool.own_name == "grown" for tool, _ in pool.tools))
            await session.run("use it")
            said = results(session)

    requests = place.provider.requests
    assert requests[0].tools == requests[-1].tools
    assert "mcp__plain__grown" in str(requests[-1].messages)
    assert said[-1] == "called grown"


async def test_a_resource_is_attached_and_a_prompt_is_a_command(place: Place) -> None:
    configure(place)
    heard, session = Heard(), place.session(["read", "reviewed"])
    session.on_any(heard)

    with anyio.fail_after(60):
        async with session:
            await session.run("look at @plain:note://one please")
            outcome = await session.execute('/mcp__plain__review "a file.py" bugs and style')
            await until(lambda: len(heard.of("complete")) == 2)
            commands = {one.name: one.argument_hint for one in await session.commands()}

    assert "content of note://one" in str(place.provider.requests[0].messages)
    assert outcome.kind == "prompt"
    assert commands["mcp__plain__review"] == "<path> [focus]"
    assert "'path': 'a file.py', 'focus': 'bugs and style'" in str(
        place.provider.requests[1].messages
    )


async def test_a_prompt_of_a_server_attaches_only_what_the_user_typed(place: Place) -> None:
    configure(place)
    place.write("notes.txt", "the words of a note")
    place.write("typed.txt", "the words that were asked for")
    heard, session = Heard(), place.session(["ready", "reviewed"])
    session.on_any(heard)

    with anyio.fail_after(60):
        async with session:
            await session.run("go")
            await session.execute("/mcp__plain__review @typed.txt")
            await until(lambda: len(heard.of("complete")) == 2)

    sent = str(place.provider.requests[-1].messages)
    assert "see @notes.txt" in sent
    assert "the words that were asked for" in sent
    assert "the words of a note" not in sent


async def test_a_denied_server_cannot_be_read(place: Place) -> None:
    configure(place, permissions={"deny": ["mcp__plain"]})
    read = call_reply(("ReadMcpResource", {"server": "plain", "uri": "note://one"}))

    with anyio.fail_after(60):
        async with place.session([read, "done"]) as session:
            await session.run("look at @plain:note://one")
            said = results(session)

    assert len(said) == 2, "one is the attachment"
    assert all("the rule mcp__plain" in one for one in said)
    assert "content of note://one" not in str(place.provider.requests[-1].messages)


async def test_subagents_use_the_same_servers_within_their_limits(place: Place) -> None:
    configure(place)
    head = "---\nname: helper\ndescription: helps\ntools: mcp__plain__pid\n---\nHelp.\n"
    place.write(".claude/agents/helper.md", head)
    replies = [
        call("pid"),
        call_reply(("Agent", {"prompt": "go", "subagent_type": "helper"})),
        call("pid"),
        "the agent is done",
        "done",
    ]

    with anyio.fail_after(60):
        async with place.session(replies, agents=True) as session:
            await session.run("go")
            first = results(session)[0]

    agent = place.provider.requests[3]
    assert first in str(agent.messages)
    names = [spec.name for spec in agent.tools]
    assert "mcp__plain__pid" in names
    assert "mcp__plain__echo" not in names


async def test_the_servers_are_shown(place: Place) -> None:
    configure(place)

    async with place.session(["hi"]) as session:
        await session.run("go")
        outcome = await session.execute("/mcp")

    assert "plain" in outcome.message
    assert "ready: 15 tools, 1 prompt, 1 resource" in outcome.message


async def test_secrets_of_servers_are_redacted(place: Place) -> None:
    secret = "correct-horse-battery"
    configure(place, user={"plain": describe_server(env={"API_TOKEN": "$ENV:TOKEN"})})

    (said,) = await run(
        place, call("echo", "correct-horse-" + "battery"), environ={"TOKEN": secret}
    )

    assert secret not in said


Check = Callable[[InteractiveSession, Heard], Awaitable[None]]


@pytest.mark.parametrize(
    ("mode", "warning"),
    [
        ("failing", "it last wrote: the database password is missing"),
        ("flood", "not available"),
    ],
)
async def test_a_server_that_cannot_start_is_reported_and_does_not_stop_the_session(
    place: Place, mode: str, warning: str
) -> None:
    configure(place, user={"plain": describe_server(mode)})
    heard, session = Heard(), place.session(["hello"])
    session.on_any(heard)

    with anyio.fail_after(60):
        async with session:
            assert (await session.run("go")).response == "hello"

    assert any(warning in one.text for one in heard.of("warning"))


async def test_a_silent_server_delays_the_first_answer_only_for_a_moment(place: Place) -> None:
    configure(place, user={"plain": describe_server("silent")}, mcp={"startupWait": 100})

    with anyio.fail_after(60):
        async with place.session(["hello"]) as session:
            assert (await session.run("go")).response == "hello"
            shown = (await session.execute("/mcp")).message

    assert "starting" in shown


async def test_a_server_of_an_old_protocol_works(place: Place) -> None:
    configure(place, user={"plain": describe_server("old")})

    assert await run(place, call("echo", "old")) == ["old"]


async def test_a_server_that_ends_at_an_unknown_question_is_asked_in_the_old_way(
    place: Place,
) -> None:
    configure(place, user={"plain": describe_server("strict")})

    assert await run(place, call("echo", "hi")) == ["hi"]


@pytest.mark.parametrize(
    ("mcp", "allowed", "seconds"),
    [
        ({}, ["Bash"], 3),
        ({}, ["Bash", "mcp__plain"], 30),
        ({"startupWait": 500}, ["mcp__plain__echo"], 0.5),
    ],
)
async def test_the_first_prompt_waits_longer_for_a_server_that_the_user_names(
    place: Place, mcp: dict[str, Any], allowed: list[str], seconds: float
) -> None:
    configure(place, mcp=mcp)

    async with place.session(["hello"], allowed_tools=allowed) as session:
        assert session.parts.mcp is not None
        assert session.parts.mcp.source.wait == seconds


async def test_a_search_waits_for_a_server_that_starts_slowly(place: Place) -> None:
    gate = place.project / "go"
    configure(
        place,
        user={"plain": describe_server("waiting", env={"MCP_GATE": str(gate)})},
        mcp={"startupWait": 0},
    )
    session = place.session([call_reply(("ToolSearch", {"query": "echo"})), "done"])
    session.on("tool_start", lambda _: gate.touch())

    with anyio.fail_after(60):
        async with session:
            await session.run("go")
            (said,) = results(session)

    (search,) = [spec for spec in place.provider.requests[0].tools if spec.name == "ToolSearch"]
    assert "plain: starting, a search waits for it" in search.description
    assert "mcp__plain__echo" in said


async def test_a_resumed_session_declares_the_same_tools(place: Place) -> None:
    configure(place)
    with anyio.fail_after(60):
        async with place.session(["one"]) as session:
            await session.run("first")
            name, first = session.get_session_id(), place.provider.requests[0]
        async with place.session(["two"], resume_session_id=name) as session:
            await session.run("second")
            kinds = [type(entry.body).__name__ for entry in session.session.journal.entries]

    assert place.provider.requests[0].tools == first.tools
    assert kinds.count("SetupChanged") == 2
    assert place.provider.requests[0].messages[: len(first.messages)] == first.messages


async def test_a_session_without_servers_does_not_load_the_sdk(place: Place) -> None:
    program = f"""
import anyio, sys
from clew.providers.scripted import ScriptedProvider
from clew.sdk.session import InteractiveSession

async def main():
    async with InteractiveSession(provider=ScriptedProvider(["hi"]), cwd={str(place.project)!r},
                                  model="m", environ={{"HOME": {str(place.home)!r}}}) as session:
        await session.run("go")
        await session.execute("/mcp")

anyio.run(main)
print(sorted(name for name in sys.modules if name.split(".")[0] in ("mcp", "pydantic", "httpx2")))
"""

    done = await anyio.run_process([sys.executable, "-c", program])

    assert done.stdout.decode().strip() == "[]"


async def test_garbage_on_standard_output_is_skipped(place: Place) -> None:
    configure(place, user={"plain": describe_server("garbage")})

    assert await run(place, call("echo", "fine")) == ["fine"]


async def test_endless_lists_are_cut_off(place: Place) -> None:
    configure(place, user={"plain": describe_server("endless")})

    with anyio.fail_after(60):
        async with place.session(["hi"]) as session:
            await session.run("go")
            tools = session.parts.mcp.source.pool.tools  # type: ignore[union-attr]

    assert len(tools) == 100


async def test_hostile_names_are_made_valid_and_stay_apart(place: Place) -> None:
    configure(place, user={"plain": describe_server("hostile")})
    heard, session = Heard(), place.session(["hi"])
    session.on_any(heard)

    async with session:
        await session.run("go")

    specs = {
        spec.name: spec
        for spec in place.provider.requests[0].tools
        if spec.name.startswith("mcp__")
    }
    assert all(len(name) <= 64 and name.replace("_", "a").isalnum() for name in specs)
    assert len(specs) == 5
    assert sum(name.startswith("mcp__plain__a_b_") for name in specs) == 2
    assert not any("\x1b" in spec.description for spec in specs.values())
    assert max(len(spec.description) for spec in specs.values()) <= 2_048
    assert specs["mcp__plain__same"].description == "first"
    assert any("left out" in one.text for one in heard.of("warning"))
