"""Track the tools that Google runs itself, for display.

Some appear as parts of the response (executed code, a search), others only in a candidate's
metadata (grounding).
"""

from typing import Any

from msgspec import Struct

from clew.providers.protocol import ServerToolChunk

LONGEST_NOTE = 200
"""Characters of code or output in the note for other providers."""

_NAMES = {
    "GOOGLE_SEARCH_WEB": "web_search",
    "URL_CONTEXT": "web_fetch",
}
_CODE = "code_execution"
_FETCHED = "URL_RETRIEVAL_STATUS_SUCCESS"


class ExecutableCode(Struct):
    """Code that the model runs."""

    code: str = ""
    id: str | None = None


class CodeExecutionResult(Struct):
    """The result of executed code."""

    outcome: Any = None
    output: str | None = None
    id: str | None = None


class ToolInvocation(Struct, rename="camel"):
    """A tool call or its result."""

    tool_type: Any = None
    args: Any = None
    id: str | None = None


class _Source(Struct):
    uri: str | None = None
    title: str | None = None


class _Ground(Struct, rename="camel"):
    web: _Source | None = None
    retrieved_context: _Source | None = None


class GroundingMetadata(Struct, rename="camel"):
    """The sources of a response."""

    web_search_queries: list[str] | None = None
    grounding_chunks: list[_Ground] | None = None


class _Page(Struct, rename="camel"):
    retrieved_url: str = ""
    url_retrieval_status: Any = None


class UrlContextMetadata(Struct, rename="camel"):
    """The pages that were fetched."""

    url_metadata: list[_Page] | None = None


class GoogleToolTracker:
    """Tracks the tools of one response and reports each once."""

    def __init__(self) -> None:
        self._count = 0
        self._open: dict[str, str] = {}
        self._begun: set[str] = set()
        self._reported: set[str] = set()

    def start_code(self, code: ExecutableCode) -> ServerToolChunk:
        """Return the start of a code execution."""
        return self._begin(_CODE, code.code, code.id)

    def end_code(self, result: CodeExecutionResult) -> ServerToolChunk:
        """Return the end of a code execution."""
        failed = str(result.outcome) not in {"OUTCOME_OK", "1"}
        return self._end(_CODE, result.output or "", result.id, failed=failed)

    def start_tool(self, invocation: ToolInvocation) -> ServerToolChunk:
        """Return the start of a tool call."""
        told = readable_args(invocation.args)
        self._reported.update(told)
        return self._begin(_name(invocation), "; ".join(told), invocation.id)

    def end_tool(self, invocation: ToolInvocation) -> ServerToolChunk:
        """Return the end of a tool call."""
        return self._end(_name(invocation), "", invocation.id)

    def read_grounding(self, grounding: GroundingMetadata) -> list[ServerToolChunk]:
        """Return the searches that appear only in the grounding metadata."""
        chunks = grounding.grounding_chunks or []
        queries = self._fresh(grounding.web_search_queries or [])
        found: list[ServerToolChunk] = []
        if queries:
            found += self._both("web_search", queries, [each.web for each in chunks if each.web])
        passages = [each.retrieved_context for each in chunks if each.retrieved_context]
        if passages and "file_search" not in self._begun:
            found += self._both("file_search", [], passages)
        return found

    def read_url_context(self, pages: UrlContextMetadata) -> list[ServerToolChunk]:
        """Return the fetched pages that appear only in the metadata."""
        found: list[ServerToolChunk] = []
        for page in pages.url_metadata or []:
            if self._fresh([page.retrieved_url]):
                failed = str(page.url_retrieval_status) not in {_FETCHED, "1"}
                found.append(self._begin("web_fetch", page.retrieved_url))
                found.append(self._end("web_fetch", "", failed=failed))
        return found

    def close(self) -> list[ServerToolChunk]:
        """End the open tools: not every tool reports its end."""
        return [self._end(name, "") for name in list(self._open)]

    def _both(self, name: str, queries: list[str], sources: list[_Source]) -> list[ServerToolChunk]:
        lines = (" ".join(filter(None, (each.title, each.uri))) for each in sources)
        return [
            self._begin(name, "; ".join(queries)),
            self._end(name, "\n".join(filter(None, lines))),
        ]

    def _fresh(self, readable_args: list[str]) -> list[str]:
        found = [word for word in readable_args if word and word not in self._reported]
        self._reported.update(found)
        return found

    def _begin(self, name: str, text: str, given: str | None = None) -> ServerToolChunk:
        self._count += 1
        self._begun.add(name)
        self._open[name] = given or f"{name}_{self._count}"
        return ServerToolChunk(call_id=self._open[name], name=name, text=text)

    def _end(
        self, name: str, text: str, given: str | None = None, *, failed: bool = False
    ) -> ServerToolChunk:
        known = self._open.pop(name, name)
        return ServerToolChunk(
            call_id=given or known, name=name, text=text, ended=True, failed=failed
        )


def readable_args(args: Any) -> list[str]:
    """Return the readable texts in a tool's arguments."""
    if isinstance(args, str):
        return [args]
    inner = args.values() if isinstance(args, dict) else args if isinstance(args, list) else ()
    return [word for each in inner for word in readable_args(each)]


def summarize_tool(text: str, kind: str) -> str:
    """Return a one-line note that replaces a block for other providers."""
    line = " ".join(text.split())
    line = line if len(line) <= LONGEST_NOTE else line[:LONGEST_NOTE] + "…"
    return f"[{kind}: {line}]" if line else ""


def _name(invocation: ToolInvocation) -> str:
    kind = str(invocation.tool_type or "tool")
    return _NAMES.get(kind, kind.lower())
