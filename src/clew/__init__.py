"""Clew runs long LLM-agent sessions without losing the thread.

An `InteractiveSession` is a whole agent for one project, and `create_query` answers a single
prompt. A `Session` is the conversation alone. `launch` opens the session that a `SessionSpec`
describes. The other names are values that you pass to them or get from them. Providers and
stores are imported from their own modules, such as `clew.providers.openai_chat` and
`clew.stores.sqlite`. Each name is imported on first use, so `import clew` is fast.
"""

from clew import _safe_path as _safe_path  # before all others: see there

# isort: split
from importlib import import_module
from typing import TYPE_CHECKING

from clew._version import __version__

if TYPE_CHECKING:
    from clew.context.policy import ContextPolicy, Thresholds
    from clew.context.strategies.compact import Compact
    from clew.context.strategies.custom import Custom
    from clew.context.strategies.sliding_window import SlidingWindow
    from clew.context.strategies.tiered import Summarize, Tiered
    from clew.core.context_state import ContextState, LossReport
    from clew.core.errors import AbortError, ClewError
    from clew.core.events import Envelope, Event, PermissionRequest
    from clew.core.messages import Image, Message, Reasoning, Role, Text, ToolCall, ToolResult
    from clew.core.models import ModelFacts
    from clew.core.permissions import Access, Approval, Decision, PermissionMode, Risk, Verdict
    from clew.core.results import ExecutionResult, UsageSnapshot
    from clew.core.tool_states import ToolState
    from clew.core.usage import Usage
    from clew.dict_messages.fit import count_tokens, fit
    from clew.extensions.agent_definitions import AgentDefinition
    from clew.extensions.commands.protocol import Command, CommandModule, CommandResult
    from clew.extensions.commands.registry import CommandRegistry
    from clew.extensions.memory import ProjectMemory
    from clew.extensions.project.tasks import load_task_context, update_task_file_status
    from clew.extensions.skills import Skill
    from clew.importers.reader import read_session
    from clew.providers.protocol import Provider
    from clew.sdk.client import (
        CommandOutcome,
        PromptInput,
        SessionClient,
        SessionSnapshot,
        wait_for_run,
    )
    from clew.sdk.host import Host
    from clew.sdk.launch import launch
    from clew.sdk.query import create_query
    from clew.sdk.remote.server import RemoteServer
    from clew.sdk.self_hosting import plan_self_hosting_verification, transition_self_hosting_loop
    from clew.sdk.session import InteractiveSession
    from clew.sdk.session_spec import SessionSpec
    from clew.session.gate import Gate
    from clew.session.history import (
        HistoryEntry,
        chat_entry_to_message,
        get_messages_for_api,
        is_chat_entry,
        message_to_history_entry,
    )
    from clew.session.session import Session
    from clew.stores.memory import MemoryStore
    from clew.tools.function import tool
    from clew.tools.protocol import Tool, ToolContext, ToolOutput

_EXPORTS = {
    "clew.context.policy": "ContextPolicy Thresholds",
    "clew.context.strategies.compact": "Compact",
    "clew.context.strategies.custom": "Custom",
    "clew.context.strategies.sliding_window": "SlidingWindow",
    "clew.context.strategies.tiered": "Summarize Tiered",
    "clew.core.permissions": "Access Approval Decision PermissionMode Risk Verdict",
    "clew.core.context_state": "ContextState LossReport",
    "clew.core.errors": "AbortError ClewError",
    "clew.core.events": "Envelope Event PermissionRequest",
    "clew.core.messages": "Image Message Reasoning Role Text ToolCall ToolResult",
    "clew.core.models": "ModelFacts",
    "clew.core.results": "ExecutionResult UsageSnapshot",
    "clew.core.tool_states": "ToolState",
    "clew.core.usage": "Usage",
    "clew.dict_messages.fit": "count_tokens fit",
    "clew.extensions.agent_definitions": "AgentDefinition",
    "clew.extensions.commands.protocol": "Command CommandModule CommandResult",
    "clew.extensions.commands.registry": "CommandRegistry",
    "clew.extensions.memory": "ProjectMemory",
    "clew.extensions.project.tasks": "load_task_context update_task_file_status",
    "clew.extensions.skills": "Skill",
    "clew.importers.reader": "read_session",
    "clew.providers.protocol": "Provider",
    "clew.sdk.client": "CommandOutcome PromptInput SessionClient SessionSnapshot wait_for_run",
    "clew.sdk.host": "Host",
    "clew.sdk.launch": "launch",
    "clew.sdk.query": "create_query",
    "clew.sdk.remote.server": "RemoteServer",
    "clew.sdk.self_hosting": "plan_self_hosting_verification transition_self_hosting_loop",
    "clew.sdk.session": "InteractiveSession",
    "clew.sdk.session_spec": "SessionSpec",
    "clew.session.gate": "Gate",
    "clew.session.history": "HistoryEntry chat_entry_to_message get_messages_for_api"
    " is_chat_entry message_to_history_entry",
    "clew.session.session": "Session",
    "clew.stores.memory": "MemoryStore",
    "clew.tools.function": "tool",
    "clew.tools.protocol": "Tool ToolContext ToolOutput",
}
"""The public names of each module; the block above says the same to type checkers."""

_MODULES = {name: module for module, names in _EXPORTS.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'clew' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "AbortError",
    "Access",
    "AgentDefinition",
    "Approval",
    "ClewError",
    "Command",
    "CommandModule",
    "CommandOutcome",
    "CommandRegistry",
    "CommandResult",
    "Compact",
    "ContextPolicy",
    "ContextState",
    "Custom",
    "Decision",
    "Envelope",
    "Event",
    "ExecutionResult",
    "Gate",
    "HistoryEntry",
    "Host",
    "Image",
    "InteractiveSession",
    "LossReport",
    "MemoryStore",
    "Message",
    "ModelFacts",
    "PermissionMode",
    "PermissionRequest",
    "ProjectMemory",
    "PromptInput",
    "Provider",
    "Reasoning",
    "RemoteServer",
    "Risk",
    "Role",
    "Session",
    "SessionClient",
    "SessionSnapshot",
    "SessionSpec",
    "Skill",
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
    "ToolState",
    "Usage",
    "UsageSnapshot",
    "Verdict",
    "__version__",
    "chat_entry_to_message",
    "count_tokens",
    "create_query",
    "fit",
    "get_messages_for_api",
    "is_chat_entry",
    "launch",
    "load_task_context",
    "message_to_history_entry",
    "plan_self_hosting_verification",
    "read_session",
    "tool",
    "transition_self_hosting_loop",
    "update_task_file_status",
    "wait_for_run",
]
