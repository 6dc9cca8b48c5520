"""Routes of the background tasks of a session, and of their groups."""

from clew.server.method_route import make_method_route
from clew.server.route import AnyRoute, Example

_T = "/sessions/{session_id}/tasks"
_G = "/sessions/{session_id}/groups"

TASK_ROUTES: tuple[AnyRoute, ...] = (
    make_method_route("GET", _T, "tasks.list", summary="List the background tasks of a session."),
    make_method_route("GET", f"{_T}/{{task_id}}", "tasks.get", summary="Read a background task."),
    make_method_route(
        "GET",
        f"{_T}/{{task_id}}/log",
        "tasks.read_log",
        summary="Read the log of a background task, a page at a time.",
        example=Example(query={"offset": "0", "limit": "50"}),
    ),
    make_method_route(
        "POST",
        f"{_T}/{{task_id}}/send",
        "tasks.send",
        summary="Send a message to a background task.",
        example=Example(body={"text": "look at the tests too"}),
    ),
    make_method_route(
        "POST",
        f"{_T}/{{task_id}}/cancel",
        "tasks.cancel",
        summary="Cancel a background task and wait for its end.",
        example=Example(body={"reason": "not needed any more"}),
    ),
    make_method_route(
        "POST",
        f"{_T}/{{task_id}}/close",
        "tasks.close",
        summary="Remove a background task that has ended from the list.",
    ),
    make_method_route(
        "GET", _G, "tasks.list_groups", summary="List the groups of background tasks."
    ),
    make_method_route(
        "POST",
        _G,
        "tasks.create_group",
        summary="Group background tasks, to wait for all or the first of them.",
        example=Example(body={"task_ids": ["{task_id}"], "policy": "wait_all"}),
    ),
    make_method_route(
        "GET",
        f"{_G}/{{group_id}}",
        "tasks.get_group",
        summary="Read a group of background tasks.",
    ),
    make_method_route(
        "POST",
        f"{_G}/{{group_id}}/wait",
        "tasks.wait_group",
        summary="Wait until a group is complete.",
    ),
    make_method_route(
        "GET",
        f"{_G}/{{group_id}}/summary",
        "tasks.summarize_group",
        summary="Summarize how the tasks of a group stand.",
    ),
)
