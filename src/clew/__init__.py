"""Clew runs long LLM-agent sessions without losing the thread.

An `InteractiveSession` is a whole agent for one project, and `create_query` answers a single
prompt. A `Session` is the conversation within, with nothing around it. All else here is what
you hand to them or get from them. Providers and stores are imported from their own modules,
such as `clew.providers.openai_chat` and `clew.stores.sqlite`. Names are imported when
they are first asked for, so that `import clew` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from clew._version import __version__

if TYPE_CHECKING:
    from clew.context.policy import ContextPolicy, Thresholds
    from clew.context.strategies.compact import Compact
    from clew.context.strategies.custom import Custom
    from clew.context.strategies.sliding_window import SlidingWindow
    from clew.context.strategies.tiered import Summarize, Tiered
    from clew.core.access import Access, Approval, Decision, PermissionMode, Risk, Verdict
    from clew.core.context_state import ContextState, LossReport
    from clew.core.errors import AbortError, ClewError
    from clew.core.events import Event
    from clew.core.messages import Image, Message, Reasoning, Role, Text, ToolCall, ToolResult
    from clew.core.models import ModelFacts
    from clew.core.results import ExecutionResult as ExecutionResult
    from clew.core.results import UsageSnapshot as UsageSnapshot
    from clew.core.tool_states import ToolState as ToolState
    from clew.core.usage import Usage
    from clew.dict_messages.fit import count_tokens, fit
    from clew.extensions.agent_definitions import AgentDefinition as AgentDefinition
    from clew.extensions.commands.protocol import CommandModule as CommandModule
    from clew.extensions.commands.protocol import CommandResult as CommandResult
    from clew.extensions.commands.registry import CommandRegistry as CommandRegistry
    from clew.extensions.memory import ProjectMemory as ProjectMemory
    from clew.extensions.project.tasks import load_task_context as load_task_context
    from clew.extensions.project.tasks import update_task_file_status as update_task_file_status
    from clew.extensions.skills import Skill as Skill
    from clew.importers.reader import read_session
    from clew.providers.protocol import Provider
    from clew.sdk.query import create_query as create_query
    from clew.sdk.self_hosting import (
        plan_self_hosting_verification as plan_self_hosting_verification,
    )
    from clew.sdk.self_hosting import transition_self_hosting_loop as transition_self_hosting_loop
    from clew.sdk.session import InteractiveSession
    from clew.session.gate import Gate
    from clew.session.history import HistoryEntry as HistoryEntry
    from clew.session.history import chat_entry_to_message as chat_entry_to_message
    from clew.session.history import get_messages_for_api as get_messages_for_api
    from clew.session.history import is_chat_entry as is_chat_entry
    from clew.session.history import message_to_history_entry as message_to_history_entry
    from clew.session.session import Session
    from clew.stores.memory import MemoryStore
    from clew.tools.function import tool
    from clew.tools.protocol import Tool, ToolContext, ToolOutput

_LATER = {
    "AbortError": "clew.core.errors",
    "Access": "clew.core.access",
    "AgentDefinition": "clew.extensions.agent_definitions",
    "Approval": "clew.core.access",
    "ClewError": "clew.core.errors",
    "CommandModule": "clew.extensions.commands.protocol",
    "CommandRegistry": "clew.extensions.commands.registry",
    "CommandResult": "clew.extensions.commands.protocol",
    "Compact": "clew.context.strategies.compact",
    "ContextPolicy": "clew.context.policy",
    "ContextState": "clew.core.context_state",
    "Custom": "clew.context.strategies.custom",
    "Decision": "clew.core.access",
    "Event": "clew.core.events",
    "ExecutionResult": "clew.core.results",
    "Gate": "clew.session.gate",
    "HistoryEntry": "clew.session.history",
    "Image": "clew.core.messages",
    "InteractiveSession": "clew.sdk.session",
    "LossReport": "clew.core.context_state",
    "MemoryStore": "clew.stores.memory",
    "Message": "clew.core.messages",
    "ModelFacts": "clew.core.models",
    "PermissionMode": "clew.core.access",
    "ToolContext": "clew.tools.protocol",
    "ProjectMemory": "clew.extensions.memory",
    "Provider": "clew.providers.protocol",
    "Reasoning": "clew.core.messages",
    "Risk": "clew.core.access",
    "Role": "clew.core.messages",
    "Session": "clew.session.session",
    "Skill": "clew.extensions.skills",
    "SlidingWindow": "clew.context.strategies.sliding_window",
    "Summarize": "clew.context.strategies.tiered",
    "Text": "clew.core.messages",
    "Thresholds": "clew.context.policy",
    "Tiered": "clew.context.strategies.tiered",
    "Tool": "clew.tools.protocol",
    "ToolCall": "clew.core.messages",
    "ToolOutput": "clew.tools.protocol",
    "ToolResult": "clew.core.messages",
    "ToolState": "clew.core.tool_states",
    "Usage": "clew.core.usage",
    "UsageSnapshot": "clew.core.results",
    "Verdict": "clew.core.access",
    "chat_entry_to_message": "clew.session.history",
    "count_tokens": "clew.dict_messages.fit",
    "create_query": "clew.sdk.query",
    "fit": "clew.dict_messages.fit",
    "get_messages_for_api": "clew.session.history",
    "is_chat_entry": "clew.session.history",
    "load_task_context": "clew.extensions.project.tasks",
    "message_to_history_entry": "clew.session.history",
    "plan_self_hosting_verification": "clew.sdk.self_hosting",
    "read_session": "clew.importers.reader",
    "tool": "clew.tools.function",
    "transition_self_hosting_loop": "clew.sdk.self_hosting",
    "update_task_file_status": "clew.extensions.project.tasks",
}
"""Where each name lives: imported when it is first asked for, so that nobody pays for more."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'clew' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_LATER[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


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
    "InteractiveSession",
    "LossReport",
    "MemoryStore",
    "Message",
    "ModelFacts",
    "PermissionMode",
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
    "ToolContext",
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
