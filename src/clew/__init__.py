"""Clew runs long LLM-agent sessions without losing the thread.

A `Session` holds one conversation; everything else here is what you hand to it or get
from it. Providers and stores are imported from their own modules, such as
`clew.providers.openai_chat` and `clew.session.stores.sqlite`, so that `import clew` stays
light.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from clew._version import __version__
from clew.context.policy import ContextPolicy, Thresholds
from clew.context.rewriting import Custom
from clew.context.strategies.tiered import Tiered
from clew.core.access import Access, Approval, Decision, PermissionMode, Risk, Verdict
from clew.core.errors import AbortError, ClewError
from clew.core.events import Event
from clew.core.messages import Image, Message, Reasoning, Role, Text, ToolCall, ToolResult
from clew.core.models import ModelFacts
from clew.core.report import LossReport
from clew.core.state import ContextState
from clew.core.usage import Usage
from clew.providers.protocol import Provider
from clew.session.gate import Gate
from clew.session.session import Session
from clew.session.stores.memory import MemoryStore
from clew.tools.function import tool
from clew.tools.protocol import Place, Tool, ToolOutput

if TYPE_CHECKING:
    from clew.context.strategies.compact import Compact
    from clew.context.strategies.sliding_window import SlidingWindow
    from clew.context.strategies.summarize import Summarize
    from clew.session.importers.reading import read_session
    from clew.session.plain.fit import count_tokens, fit

_LATER = {
    "Summarize": "clew.context.strategies.summarize",
    "SlidingWindow": "clew.context.strategies.sliding_window",
    "Compact": "clew.context.strategies.compact",
    "count_tokens": "clew.session.plain.fit",
    "fit": "clew.session.plain.fit",
    "read_session": "clew.session.importers.reading",
}
"""Imported when first asked for: whoever runs a session does not pay for them."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'clew' has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


__all__ = [
    "AbortError",
    "Access",
    "Approval",
    "ClewError",
    "Compact",
    "ContextPolicy",
    "ContextState",
    "Custom",
    "Decision",
    "Event",
    "Gate",
    "Image",
    "LossReport",
    "MemoryStore",
    "Message",
    "ModelFacts",
    "PermissionMode",
    "Place",
    "Provider",
    "Reasoning",
    "Risk",
    "Role",
    "Session",
    "SlidingWindow",
    "Summarize",
    "Text",
    "Thresholds",
    "Tiered",
    "Tool",
    "ToolCall",
    "ToolOutput",
    "ToolResult",
    "Usage",
    "Verdict",
    "__version__",
    "count_tokens",
    "fit",
    "read_session",
    "tool",
]
