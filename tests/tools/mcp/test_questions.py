"""What servers ask in the middle of a call, and how long they may."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

import anyio
import mcp_types
import pytest
from mcp import Client

from clew.core.models import ToolSpec
from clew.core.permissions import Approval, PermissionAnswer
from clew.tools.mcp.calls import ServerCalls
from clew.tools.mcp.config import ServerConfig
from clew.tools.mcp.questions import answer_elicitation
from clew.tools.mcp.values import ServerTool
from clew.tools.protocol import ToolContext

pytestmark = [pytest.mark.anyio, pytest.mark.req("TOL-6")]

TOOL = ServerTool(
    server="one",
    own_name="go",
    spec=ToolSpec(name="mcp__one__go", description="Go.", schema={"type": "object"}),
)
YES = PermissionAnswer(approval=Approval.ONCE)
CONTEXT = cast("Any", None)


class Server:
    """A client whose calls do what a test says."""

    def __init__(self) -> None:
        self.work: Callable[[str], Awaitable[None]]

    async def call_tool(self, _: str, arguments: Mapping[str, str], **__: Any) -> Any:
        await self.work(arguments["name"])
        return mcp_types.CallToolResult(content=[])


def make_calls(server: Server, *, timeout: float = 60) -> ServerCalls:
    async def require() -> Client:
        return cast("Client", server)

    config = ServerConfig(name="one", transport="stdio", command="x", timeout=timeout)
    return ServerCalls(config, require=require, lose=lambda: None)


def make_form(**fields: Mapping[str, Any]) -> mcp_types.ElicitRequestFormParams:
    schema = {"type": "object", "properties": dict(fields)}
    return mcp_types.ElicitRequestFormParams(message="Sure?", requested_schema=schema)


async def test_a_question_ends_with_the_call_that_asks(tmp_path: Path) -> None:
    server, asked, actions = Server(), anyio.Event(), list[str]()
    calls = make_calls(server)

    async def ask(*_: Any) -> PermissionAnswer:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    async def elicit() -> None:
        answer = await calls.elicit(CONTEXT, make_form(go={"type": "boolean"}))
        actions.append(cast("mcp_types.ElicitResult", answer).action)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:

            async def work(_: str) -> None:
                tasks.start_soon(elicit)
                await asked.wait()
                # While one question is open, a second one is not asked.
                await elicit()

            server.work = work
            await calls.call_tool(TOOL, {"name": "a"}, ToolContext(cwd=tmp_path, ask=ask))

    assert actions == ["cancel", "cancel"]


async def test_a_question_stops_only_the_clock_of_its_own_call(tmp_path: Path) -> None:
    server, answered, said = Server(), anyio.Event(), dict[str, str]()
    calls = make_calls(server, timeout=0.01)

    async def ask(*_: Any) -> PermissionAnswer:
        await answered.wait()
        return YES

    async def work(name: str) -> None:
        if name == "asks":
            await calls.elicit(CONTEXT, make_form(go={"type": "boolean"}))
        else:
            await anyio.sleep_forever()

    async def call(name: str) -> None:
        output = await calls.call_tool(TOOL, {"name": name}, ToolContext(cwd=tmp_path, ask=ask))
        said[name] = output.text
        answered.set()

    server.work = work
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, "hangs")
            tasks.start_soon(call, "asks")

    assert list(said) == ["hangs", "asks"]
    assert "it made no progress" in said["hangs"]
    assert "it made no progress" not in said["asks"]


@pytest.mark.parametrize(
    ("fields", "reply", "expected"),
    [
        ({"go": {"type": "boolean", "default": False}}, "", {"go": True}),
        (
            {"go": {"type": "boolean"}, "force": {"type": "boolean", "default": False}},
            "",
            {"go": True, "force": False},
        ),
        (
            {"who": {"type": "string"}, "where": {"type": "string", "default": "here"}},
            "Ada",
            {"who": "Ada", "where": "here"},
        ),
        ({"n": {"type": "integer", "default": 3}}, "", {"n": 3}),
        ({"n": {"type": "integer", "default": 3}}, "4", {"n": 4}),
    ],
)
async def test_a_yes_is_only_about_what_has_no_default(
    fields: dict[str, Any], reply: str, expected: object
) -> None:
    shown: list[str] = []

    async def ask(_: str, described: Mapping[str, str]) -> PermissionAnswer:
        shown.extend(described.values())
        return PermissionAnswer(approval=Approval.ONCE, reply=reply)

    answer = await answer_elicitation(make_form(**fields), ask)

    assert answer.content == expected
    defaults = [one["default"] for one in fields.values() if "default" in one]
    assert [f"default {one}" in " ".join(shown) for one in defaults] == [True] * len(defaults)


CHOICES = [{"const": "lo", "title": "Low"}, {"const": "hi", "title": "High"}]


@pytest.mark.parametrize(
    ("field", "reply", "expected"),
    [
        ({"type": "string", "oneOf": CHOICES}, "hi", "hi"),
        ({"type": "string", "oneOf": CHOICES}, "low", "lo"),
        ({"type": "string", "oneOf": CHOICES}, "other", None),
        ({"type": "string", "enum": ["a"], "enumNames": ["First"]}, "first", "a"),
        ({"type": "array", "items": {"type": "string", "enum": ["r", "w"]}}, "r, w", ["r", "w"]),
        ({"type": "array", "items": {"anyOf": CHOICES}}, "High", ["hi"]),
        ({"type": "array", "items": {"anyOf": CHOICES}}, "High, other", None),
        ({"type": "array", "items": {"type": "string"}}, "one, two", ["one", "two"]),
    ],
)
async def test_a_choice_is_named_by_its_value_or_its_title(
    field: dict[str, Any], reply: str, expected: object
) -> None:
    async def ask(_: str, __: Mapping[str, str]) -> PermissionAnswer:
        return PermissionAnswer(approval=Approval.ONCE, reply=reply)

    answer = await answer_elicitation(make_form(one=field), ask)

    assert answer.content == (None if expected is None else {"one": expected})


NO = PermissionAnswer(approval=Approval.NO)
FORM: dict[str, dict[str, Any]] = {
    "name": {"type": "string"},
    "sure": {"type": "boolean"},
    "note": {"type": "string"},
    "size": {"type": "integer", "default": 3},
}


def say(reply: str) -> PermissionAnswer:
    return PermissionAnswer(approval=Approval.ONCE, reply=reply)


@pytest.mark.parametrize(
    ("answers", "action", "content"),
    [
        ([say("Ada"), YES, say("hi")], "accept", {"name": "Ada", "sure": True, "note": "hi"}),
        ([say("Ada"), NO, NO], "accept", {"name": "Ada", "sure": False}),
        ([NO], "decline", None),
        ([YES], "decline", None),
        ([say("Ada"), None], "cancel", None),
    ],
)
async def test_a_form_with_several_fields_is_asked_field_by_field(
    answers: list[PermissionAnswer | None], action: str, content: dict[str, Any] | None
) -> None:
    asked: list[str] = []

    async def ask(question: str, _: Mapping[str, str]) -> PermissionAnswer | None:
        asked.append(question)
        return answers[len(asked) - 1]

    form = make_form(**FORM)
    form.requested_schema["required"] = ["name", "sure"]
    answer = await answer_elicitation(form, ask)

    assert answer.action == action
    assert answer.content == (None if content is None else {"size": 3, **content})
    assert (
        asked
        == ["Sure? (1 of 3: name)", "Sure? (2 of 3: sure)", "Sure? (3 of 3: note)"][: len(answers)]
    )


async def test_a_very_long_form_is_declined_without_a_question() -> None:
    async def ask(*_: Any) -> PermissionAnswer:
        raise AssertionError

    form = make_form(**{f"field{number}": {"type": "string"} for number in range(13)})

    assert (await answer_elicitation(form, ask)).action == "decline"
