"""Routes of the context window of a session."""

from clew.server.method_route import make_method_route
from clew.server.route import AnyRoute, Example

_C = "/sessions/{session_id}/context"

CONTEXT_ROUTES: tuple[AnyRoute, ...] = (
    make_method_route("GET", _C, "context.state", summary="Read how full the window is."),
    make_method_route(
        "GET",
        f"{_C}/timeline",
        "context.timeline",
        summary="Read how full the window was after each answer, and what changed it.",
        example=Example(query={"after": "0"}),
    ),
    make_method_route(
        "GET",
        f"{_C}/entries",
        "context.entries",
        summary="Read the journal, with where each entry stands now.",
        example=Example(query={"after": "0", "limit": "50"}),
    ),
)
