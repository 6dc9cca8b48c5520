"""Routes of the context window of a session."""

from clew.server.method_route import make_method_route
from clew.server.route import AnyRoute, Example

CONTEXT_ROUTES: tuple[AnyRoute, ...] = (
    make_method_route("context.state", summary="Read how full the window is."),
    make_method_route(
        "context.timeline",
        summary="Read how full the window was after each answer, and what changed it.",
        example=Example(query={"after": "0"}),
    ),
    make_method_route(
        "context.entries",
        summary="Read the journal, with where each entry stands now.",
        example=Example(query={"after": "0", "limit": "50"}),
    ),
    make_method_route(
        "context.compaction", summary="Read what a compaction removed, and its summary."
    ),
    make_method_route(
        "context.preview",
        summary="Show what a compaction would do now, without doing it.",
        example=Example(body={}),
    ),
    make_method_route(
        "context.compact",
        summary="Compact the window now.",
        example=Example(body={"instructions": "Keep the names of all files."}),
    ),
    make_method_route(
        "context.undo",
        summary="Undo the last compaction, clearing, clear or rewind in force.",
        example=Example(body={}),
    ),
    make_method_route("context.pin", summary="Keep an entry in the window, whatever is compacted."),
    make_method_route("context.unpin", summary="Stop keeping an entry in the window."),
    make_method_route(
        "context.recall",
        summary="Search the whole journal, including what has left the window.",
        example=Example(query={"query": "parser", "limit": "5"}),
    ),
    make_method_route(
        "context.simulate",
        summary="Run the session again with other strategies, and compare size and cost.",
        example=Example(body={}),
    ),
)
