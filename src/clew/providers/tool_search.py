"""Which models load deferred tools themselves, and where.

Elsewhere the model gets the schemas as text and calls the tools through one that never changes.
"""

import re
from urllib.parse import urlsplit

_CLAUDE = re.compile(
    r"claude-(?:(?:opus|sonnet|fable|mythos)-(\d+)|(\d+)(?:-\d+)?-(?:opus|sonnet))\b"
)
_GPT = re.compile(r"gpt-(\d+)(?:\.(\d+))?(?!.*-(?:nano|chat))")
_LEAST_CLAUDE = 4
_LEAST_GPT = (5, 4)


def has_tool_references(model: str, base_url: str) -> bool:
    """Return whether the Messages API there takes `defer_loading` and `tool_reference`."""
    found = _CLAUDE.search(model)
    if found is None or not _is_at(base_url, "anthropic.com"):
        return False
    return int(found[1] or found[2]) >= _LEAST_CLAUDE


def has_search_items(model: str, base_url: str) -> bool:
    """Return whether the Responses API there takes `tool_search` with execution by the client."""
    found = _GPT.match(model)
    if found is None or not _is_at(base_url, "openai.com"):
        return False
    return (int(found[1]), int(found[2] or 0)) >= _LEAST_GPT


def _is_at(base_url: str, domain: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    return host == domain or host.endswith(f".{domain}")
