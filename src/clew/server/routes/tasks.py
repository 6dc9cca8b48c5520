"""Routes of the background tasks of a session, and of their groups."""

from clew.server.method_route import make_method_route
from clew.server.route import AnyRoute, Example

TASK_ROUTES: tuple[AnyRoute, ...] = (
    make_method_route("tasks.list", summary="List the background tasks of a session."),
    make_method_route("tasks.get", summary="Read a background task."),
    make_method_route(
        "tasks.read_log",
        summary="Read the log of a background task, a page at a time.",
        example=Example(query={"offset": "0", "limit": "50"}),
    ),
    make_method_route(
        "tasks.send",
        summary="Send a message to a background task.",
        example=Example(body={"text": "look at the tests too"}),
    ),
    make_method_route(
        "tasks.cancel",
        summary="Cancel a background task and wait for its end.",
        example=Example(body={"reason": "not needed any more"}),
    ),
    make_method_route(
        "tasks.close", summary="Remove a background task that has ended from the list."
    ),
    make_method_route("tasks.list_groups", summary="List the groups of background tasks."),
    make_method_route(
        "tasks.create_group",
        summary="Group background tasks, to wait for all or the first of them.",
        example=Example(body={"task_ids": ["{task_id}"], "policy": "wait_all"}),
    ),
    make_method_route("tasks.get_group", summary="Read a group of background tasks."),
    make_method_route("tasks.wait_group", summary="Wait until a group is complete."),
    make_method_route("tasks.summarize_group", summary="Summarize how the tasks of a group stand."),
)
