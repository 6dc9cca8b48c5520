"""Plan mode: what the model gets and is told, and how the user judges its plan."""

import json

import pytest

from clew.core.events import PermissionRequest
from clew.core.messages import Role
from clew.core.permissions import Approval, PermissionMode, Risk
from clew.providers.scripted import call_reply
from clew.sdk.permission_preview import preview_request
from clew.sdk.session import InteractiveSession
from clew.stores.memory import MemoryStore
from clew.tools.function import tool
from tests.sdk.places import Heard, Place

pytestmark = [pytest.mark.anyio, pytest.mark.req("TUI-3")]

PLAN = call_reply(("ExitPlanMode", {"plan": "1. Read\n2. Write"}))
WRITE = call_reply(("Write", {"file_path": "a.txt", "content": "x"}))


def answer(session: InteractiveSession, approval: Approval, reply: str = "") -> None:
    def tell(request: PermissionRequest) -> None:
        session.answer(request.request_id, approval, reply=reply)

    session.on("permission_request", tell)


def offered(place: Place, number: int) -> set[str]:
    return {spec.name for spec in place.provider.requests[number].tools}


def last_result(session: InteractiveSession) -> str:
    tools = [one for one in session.get_messages() if one.role is Role.TOOL]
    return tools[-1].results[0].text


async def test_plan_mode_offers_only_tools_that_read(place: Place) -> None:
    async with place.session(["a", "b", "c"]) as session:
        await session.run("look")
        await session.set_mode(PermissionMode.PLAN)
        await session.run("plan")
        await session.set_mode(PermissionMode.DEFAULT)
        await session.run("do")

        assert {"Write", "Edit", "Bash"} <= offered(place, 0)
        assert "ExitPlanMode" not in offered(place, 0)
        assert {"Read", "Grep", "Recall", "TodoWrite", "ExitPlanMode"} <= offered(place, 1)
        assert offered(place, 1).isdisjoint({"Write", "Edit", "Bash"})
        assert place.provider.requests[2].tools == place.provider.requests[0].tools


async def test_the_model_is_told_when_plan_mode_begins_and_ends(place: Place) -> None:
    async with place.session(["a", "b", "c"], permission_mode=PermissionMode.PLAN) as session:
        await session.run("plan")
        await session.set_mode(PermissionMode.DEFAULT)
        await session.run("do")
        await session.run("more")

        first, second, third = [one.text for one in session.get_messages()[::2]]
        assert "present your plan with ExitPlanMode" in first
        assert "Plan mode has ended" in second
        assert third == "more"


async def test_a_resumed_session_knows_that_plan_mode_ended(place: Place) -> None:
    store = MemoryStore()
    async with place.session(["a"], store=store, permission_mode=PermissionMode.PLAN) as session:
        await session.run("plan")
        session_id = session.get_session_id()

    async with place.session(["b"], store=store, resume_session_id=session_id) as session:
        await session.run("plan more")

        assert session.session.get_permission_mode() is PermissionMode.PLAN
        assert "Plan mode is active" in session.get_messages()[-2].text
        assert "Write" not in offered(place, 0)

    default = PermissionMode.DEFAULT
    async with place.session(
        ["c"], store=store, resume_session_id=session_id, permission_mode=default
    ) as session:
        await session.run("do")

        assert "Plan mode has ended" in session.get_messages()[-2].text
        assert "Write" in offered(place, 0)


@pytest.mark.parametrize(
    ("approval", "mode"),
    [
        (Approval.ONCE, PermissionMode.DEFAULT),
        (Approval.SESSION, PermissionMode.ACCEPT_EDITS),
    ],
)
async def test_an_approved_plan_is_carried_out_in_the_chosen_mode(
    place: Place, approval: Approval, mode: PermissionMode
) -> None:
    heard = Heard()
    session = place.session([PLAN, WRITE, "done"], permission_mode=PermissionMode.PLAN)
    session.on_any(heard)
    async with session:
        answer(session, approval)

        result = await session.run("plan")

        assert [state.result for state in result.tool_summaries] == ["success", "success"]
        assert session.session.get_permission_mode() is mode
        assert heard.of("session_update")[-1].mode == mode
        assert "Write" in offered(place, 1)
        assert (place.project / "a.txt").read_text() == "x"
        told = place.provider.requests[1].messages[-1]
        assert told.role is Role.USER
        assert "Plan mode has ended" in told.text


async def test_a_session_that_asked_nothing_continues_so_after_a_plan(place: Place) -> None:
    bypass = PermissionMode.BYPASS
    async with place.session([PLAN, "done"], permission_mode=bypass) as session:
        await session.set_mode(PermissionMode.PLAN)
        answer(session, Approval.SESSION)

        await session.run("plan")

        assert session.session.get_permission_mode() is bypass


async def test_only_the_mode_before_the_plan_decides_how_a_session_continues(place: Place) -> None:
    bypass = PermissionMode.BYPASS
    async with place.session([PLAN, "done"], permission_mode=bypass) as session:
        for mode in (PermissionMode.PLAN, PermissionMode.DEFAULT, PermissionMode.PLAN):
            await session.set_mode(mode)
        answer(session, Approval.SESSION)

        await session.run("plan")

        assert session.session.get_permission_mode() is PermissionMode.ACCEPT_EDITS


@pytest.mark.parametrize("approval", [Approval.NO, None])
async def test_a_hook_that_allows_every_call_does_not_approve_a_plan(
    place: Place, approval: Approval | None
) -> None:
    output = {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
    hook = {"type": "command", "command": f"echo '{json.dumps({'hookSpecificOutput': output})}'"}
    hooks = {"PreToolUse": [{"hooks": [hook]}]}
    place.write(".clew/settings.json", json.dumps({"hooks": hooks}))
    session = place.session([PLAN, "ok"], accepted=True, permission_mode=PermissionMode.PLAN)
    async with session:
        if approval is not None:
            answer(session, approval)

        await session.run("plan")

        assert session.session.get_permission_mode() is PermissionMode.PLAN
        said = "did not approve" if approval else "there is no user to ask"
        assert said in last_result(session)


async def test_an_edited_plan_goes_back_to_the_model(place: Place) -> None:
    async with place.session([PLAN, "done"], permission_mode=PermissionMode.PLAN) as session:
        answer(session, Approval.ONCE, "1. Only read")

        await session.run("plan")

        assert "Carry out this plan:\n\n1. Only read" in last_result(session)


@pytest.mark.parametrize(
    ("reply", "said"),
    [("Use SQLite.", "The user said: Use SQLite."), ("", "Ask what to change.")],
)
async def test_a_rejected_plan_stays_in_plan_mode(place: Place, reply: str, said: str) -> None:
    async with place.session([PLAN, "ok"], permission_mode=PermissionMode.PLAN) as session:
        answer(session, Approval.NO, reply)

        await session.run("plan")

        assert session.session.get_permission_mode() is PermissionMode.PLAN
        assert "did not approve" in last_result(session)
        assert said in last_result(session)


async def test_a_plan_without_anyone_to_ask_is_denied(place: Place) -> None:
    async with place.session([PLAN, "my plan"], permission_mode=PermissionMode.PLAN) as session:
        result = await session.run("plan")

        assert [state.result for state in result.tool_summaries] == ["denied"]
        assert session.session.get_permission_mode() is PermissionMode.PLAN


async def test_a_call_without_a_plan_or_outside_plan_mode_asks_nobody(place: Place) -> None:
    empty = call_reply(("ExitPlanMode", {"plan": " "}))
    async with place.session([PLAN, empty, "x"]) as session:
        asked: list[object] = []
        session.on("permission_request", asked.append)

        result = await session.run("go")

        assert [state.result for state in result.tool_summaries] == ["error", "error"]
        assert asked == []


async def test_a_question_about_a_plan_previews_it(place: Place) -> None:
    shown: list[list[str]] = []
    async with place.session([PLAN, "ok"], permission_mode=PermissionMode.PLAN) as session:
        session.on("permission_request", lambda request: shown.append(preview_request(request)))
        answer(session, Approval.NO)

        await session.run("plan")

        assert shown == [["1. Read", "2. Write"]]


async def test_a_mode_that_changes_during_a_run_is_announced_before_the_next_call(
    place: Place,
) -> None:
    @tool(risk=Risk.INSPECT)
    async def switch() -> str:
        """Have the user press the key for plan mode."""
        await session.set_mode(PermissionMode.PLAN)
        return "switched"

    session = place.session([call_reply(("switch", {})), "done"], extra_tools=[switch])
    async with session:
        await session.run("go")

        assert "Plan mode is active" in place.provider.requests[1].messages[-1].text
        assert "Write" not in offered(place, 1)
