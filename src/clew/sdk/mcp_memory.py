"""`clew mcp serve`: the sessions of a folder as an MCP server, so that other agents can read them.

Every tool only reads. Secrets were removed when the sessions were stored.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resources import Resource
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations

from clew._version import __version__
from clew.context.compaction_plan import compact_by_rules
from clew.context.plan import Stuck
from clew.context.policy import ContextPolicy
from clew.context.strategies import make_strategy
from clew.context.view import View, fold
from clew.context.window_state import compute_state
from clew.core.errors import ClewError
from clew.dict_messages.fit import fit
from clew.extensions.commands.entries import format_loss
from clew.sdk.session_admin import (
    list_sessions,
    load_transcript,
    recall_entries,
    search_sessions,
)
from clew.sdk.session_store import ProjectStore, project_store
from clew.stores.record import StoredSession

_INSTRUCTIONS = (
    "Reads the sessions that Clew stored for this folder: what was said, decided and done. Search"
    " with search_sessions, then read with recall."
)
_MOST = 50
_READ_ONLY = ToolAnnotations(read_only_hint=True, open_world_hint=False)


async def serve_memory(cwd: Path, environ: Mapping[str, str] | None = None) -> None:
    """Serve MCP on standard input and output until the client closes them."""
    place = project_store(cwd, environ)
    try:
        await make_server(place).run_stdio_async()
    finally:
        await place.store.aclose()


def make_server(place: ProjectStore) -> MCPServer:
    """Return the server of a store; the caller closes the store."""
    memory = _Memory(place)
    functions: tuple[Callable[..., Any], ...] = (
        memory.list_sessions,
        memory.search_sessions,
        memory.recall,
        memory.context_state,
        memory.preview_compaction,
        fit_messages,
    )
    tools = [
        Tool.from_function(one, annotations=_READ_ONLY, structured_output=False)
        for one in functions
    ]
    return build_server(tools, instructions=_INSTRUCTIONS)


def build_server(
    tools: Iterable[Tool],
    *,
    resources: Iterable[Resource] = (),
    prompts: Iterable[Prompt] = (),
    instructions: str = "",
) -> MCPServer:
    """Return a server of Clew that offers these parts, on any transport and protocol version."""
    server = MCPServer(
        "clew",
        instructions=instructions,
        version=__version__,
        tools=list(tools),
        resources=list(resources),
    )
    for prompt in prompts:
        server.add_prompt(prompt)
    return server


@contextmanager
def _report_errors() -> Iterator[None]:
    """Make an error of Clew the failure of the call, with its text."""
    try:
        yield
    except ClewError as error:
        raise ToolError(str(error)) from error


class _Memory:
    """The tools that read the store of one folder."""

    def __init__(self, place: ProjectStore) -> None:
        self._place = place

    async def list_sessions(self, limit: int = 20) -> str:
        """List the stored sessions of this folder, most recently used first."""
        found = await list_sessions(self._place, limit=_limit(limit))
        return _encode([_describe(one) for one in found])

    async def search_sessions(self, query: str, limit: int = 10) -> str:
        """Find sessions whose name or messages contain all words of the query."""
        hits = await search_sessions(self._place, query, limit=_limit(limit))
        return _encode(
            [
                {
                    **_describe(hit.session),
                    "entry": hit.entry_id,
                    "matches": hit.matches,
                    "excerpt": hit.excerpt,
                }
                for hit in hits
            ]
        )

    async def recall(self, text: str, session: str = "", limit: int = 8, offset: int = 0) -> str:
        """Search the entries of a session, or read them.

        `text` has words, or entries such as `#12`, `#27 #65` or `382-390`. `session` is an id, the
        start of one, or a name; without it, all sessions of the folder are searched.
        """
        with _report_errors():
            answer = await recall_entries(
                self._place, session, text, limit=_limit(limit), offset=max(0, offset)
            )
        return answer.text

    async def context_state(self, session: str) -> str:
        """Tell how full the context window of a session is, and what fills it."""
        with _report_errors():
            view = await self._view(session)
        model = view.setup.model
        state = compute_state(view, ContextPolicy().thresholds, window=model.window)
        data = msgspec.to_builtins(state)
        return _encode({"model": model.name, "used_percentage": state.used_percentage, **data})

    async def preview_compaction(self, session: str, strategy: str = "tiered") -> str:
        """Show what a compaction of a session would keep and summarise; nothing changes."""
        with _report_errors():
            view = await self._view(session)
            chosen = make_strategy(strategy.replace("-", "_"))
        body = compact_by_rules(view, ContextPolicy(), chosen, trigger="manual")
        if isinstance(body, Stuck):
            return f"nothing can be compacted: {body.why}"
        return "\n".join([*format_loss(body.report), "", body.summary])

    async def _view(self, session: str) -> View:
        return fold((await load_transcript(self._place, session)).entries)


def fit_messages(
    messages: list[dict[str, Any]], max_tokens: int, model: str = "", strategy: str = "tiered"
) -> str:
    """Reduce a message list (OpenAI's or Anthropic's format) to a number of tokens, by rules."""
    with _report_errors():
        fitted = fit(messages, max_tokens=max_tokens, model=model or None, strategy=strategy)
    return _encode({"messages": fitted.messages, "report": fitted.report})


def _describe(one: StoredSession) -> dict[str, Any]:
    return {
        "id": one.id,
        "heading": one.heading,
        "model": one.model,
        "messages": one.messages,
        "updated_at": one.updated_at,
        "last_words": one.last_words,
    }


def _limit(number: int) -> int:
    return min(max(1, number), _MOST)


def _encode(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()
