"""The BackgroundProcess tool: starts a command that the model does not wait for.

The same tool reads the output of a process, writes to it and stops it, so that a model finds
everything about processes in one place. Starting one is judged like a call of Bash: the rules of
`Bash` apply, and the same sandbox. What is written to a process may be a command for it, so it is
judged too, as `BackgroundProcess.send`; a rule that allows some commands of Bash does not allow
it. Reading, listing and stopping concern nothing but the processes of the session.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from clew.core.errors import BackgroundTaskError
from clew.core.ids import SessionId
from clew.core.models import ToolSpec
from clew.core.permissions import Access, Risk, TargetKind
from clew.core.tasks import LogPage, TaskKind, TaskState, TaskStatus
from clew.core.text import one_line
from clew.runtime.protocol import LOG_PAGE_LINES, TaskRequest
from clew.tools.builtin.files import ToolFailure, failure
from clew.tools.builtin.shell import find_start
from clew.tools.protocol import ToolContext, ToolOutput

if TYPE_CHECKING:
    from clew.runtime.manager import BackgroundTaskManager

BACKGROUND_PROCESS = "BackgroundProcess"
_ACTIONS = ("start", "read", "send", "stop", "list")
_MAX_LABEL = 60
_MAX_COMMAND = 120
_NEWEST = 10

PROCESS_SPEC = ToolSpec(
    name=BACKGROUND_PROCESS,
    description=(
        "Run a command line in the background: a server, a watcher, a long build or test run. It "
        "starts in the same folder and sandbox as Bash, returns at once with a task_id, and runs "
        "until it ends or you stop it; do not add `&`. You are told when it ends. Actions: `start` "
        "(needs `command`), `read` (its output, the newest lines first asked for), `send` (a line "
        "for its input), `stop`, `list`. Use Bash for commands whose result you need now."
    ),
    schema={
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The command line to start."},
            "action": {"type": "string", "enum": list(_ACTIONS), "default": "start"},
            "task_id": {"type": "string", "description": "The process to read, stop or write to."},
            "offset": {
                "type": "integer",
                "description": (
                    f"`read`: the first line to return, counted from 0; default: the last "
                    f"{LOG_PAGE_LINES} lines."
                ),
            },
            "text": {
                "type": "string",
                "description": "`send`: the line; \\u0004 (Ctrl-D) closes the input.",
            },
            "label": {"type": "string", "description": "`start`: a few words for lists."},
        },
        "additionalProperties": False,
    },
)


class ProcessCall(Struct, frozen=True, kw_only=True):
    """The arguments of a call, checked."""

    action: str
    command: str = ""
    task_id: str = ""
    text: str = ""
    label: str = ""
    offset: int = -LOG_PAGE_LINES


def parse_call(arguments: dict[str, Any]) -> ProcessCall:
    """Return what a call asks for.

    Raises:
        ToolFailure: An argument is missing or wrong.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    action = given.get("action", "start")
    if action not in _ACTIONS:
        raise ToolFailure(f"There is no action {action!r}; there are: {', '.join(_ACTIONS)}.")
    needed = {"start": "command", "read": "task_id", "stop": "task_id", "send": "task_id"}
    for name in ("command", "task_id", "text", "label"):
        if not isinstance(given.get(name, ""), str):
            raise ToolFailure(f"`{name}` must be a text.")
    name = needed.get(action, "")
    if name and not given.get(name, "").strip():
        raise ToolFailure(f"`{name}` is missing: the action `{action}` needs it.")
    if action == "send" and "text" not in given:
        raise ToolFailure("`text` is missing: the action `send` needs it.")
    offset = given.get("offset", -LOG_PAGE_LINES)
    if not isinstance(offset, int) or isinstance(offset, bool):
        raise ToolFailure("`offset` must be a whole number.")
    return ProcessCall(
        action=action,
        command=given.get("command", ""),
        task_id=given.get("task_id", ""),
        text=given.get("text", ""),
        label=given.get("label", ""),
        offset=offset,
    )


class BackgroundProcessTool:
    """Starts processes of a session, and reads, writes to and stops them.

    Args:
        manager: Returns the manager of the session's tasks, which needs a runner for processes.
        session_id: Returns the id of the session.
    """

    spec = PROCESS_SPEC
    max_output_chars: int | None = None

    def __init__(
        self,
        manager: Callable[[], "BackgroundTaskManager"],
        *,
        session_id: Callable[[], SessionId] = lambda: SessionId(""),
    ) -> None:
        self._manager = manager
        self._session_id = session_id

    def access(self, arguments: dict[str, Any], context: ToolContext) -> Access:
        """Return the access of a call: that of its command line, or of the line for a process."""
        try:
            call = parse_call(arguments)
        except ToolFailure:
            # The call fails before it does anything. Without arguments it stands for the tool.
            risk = Risk.INSPECT if arguments else Risk.EXECUTE
            return Access(tool=BACKGROUND_PROCESS, risk=risk)
        match call.action:
            case "start":
                return Access(
                    tool=BACKGROUND_PROCESS,
                    risk=Risk.EXECUTE,
                    target=call.command,
                    kind=TargetKind.COMMAND,
                    start=str(context.shell.cwd or ""),
                )
            case "send":
                return Access(
                    tool=f"{BACKGROUND_PROCESS}.send",
                    risk=Risk.EXECUTE,
                    target=call.text,
                    kind=TargetKind.COMMAND,
                )
            case _:
                target = call.task_id or call.action
                return Access(tool=BACKGROUND_PROCESS, risk=Risk.INSPECT, target=target)

    def check(self, arguments: dict[str, Any]) -> ToolOutput | None:
        """Return the failure of a call with wrong arguments, or None."""
        try:
            parse_call(arguments)
        except ToolFailure as error:
            return failure(str(error))
        return None

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """Carry out the action; a failure is a result that the model reads."""
        try:
            call = parse_call(arguments)
            match call.action:
                case "start":
                    return await self._start(call, context)
                case "read":
                    return await self._read(call)
                case "send":
                    return await self._send(call)
                case "stop":
                    return await self._stop(call)
                case _:
                    return self._list()
        except (ToolFailure, BackgroundTaskError) as error:
            return failure(str(error))

    async def _start(self, call: ProcessCall, context: ToolContext) -> ToolOutput:
        state = await self._manager().spawn(
            TaskRequest(
                kind=TaskKind.PROCESS,
                prompt=call.command,
                label=one_line(call.label, _MAX_LABEL),
                session_id=self._session_id(),
                cwd=str(find_start(context)),
            )
        )
        text = (
            f"Started as {state.task_id} ({state.status}). It runs in the background; you are told "
            f"when it ends. Read its output with action `read` and task_id `{state.task_id}`; "
            "`send` writes to its input, `stop` ends it."
        )
        data: dict[str, object] = {
            "success": True,
            "background": True,
            "task_id": state.task_id,
            "status": str(state.status),
            "command": call.command,
        }
        return ToolOutput(text=text, data=data)

    async def _read(self, call: ProcessCall) -> ToolOutput:
        state = self._find(call.task_id)
        if state.status is TaskStatus.QUEUED:
            return ToolOutput(text=describe_process(state), data=_facts(state))
        try:
            page = await self._manager().read_log(call.task_id, offset=call.offset)
        except BackgroundTaskError:
            if state.started_at is not None:
                raise
            return ToolOutput(text=describe_process(state), data=_facts(state))
        lines = [describe_process(state), *_describe_page(page, state)]
        data = {**_facts(state), "offset": page.offset, "next_offset": page.next_offset}
        return ToolOutput(text="\n".join(lines), data=data)

    async def _send(self, call: ProcessCall) -> ToolOutput:
        self._find(call.task_id)
        await self._manager().send(call.task_id, call.text)
        return ToolOutput(text=f"Sent to {call.task_id}. Read its output to see what it does.")

    async def _stop(self, call: ProcessCall) -> ToolOutput:
        state = self._find(call.task_id)
        if not state.status.is_terminal:
            state = await self._manager().cancel(call.task_id, "stopped by the model")
        return ToolOutput(text=describe_process(state), data=_facts(state))

    def _list(self) -> ToolOutput:
        states = self._manager().list(kind=TaskKind.PROCESS)
        text = "\n".join(map(describe_process, states))
        return ToolOutput(text=text or "There are no background processes.")

    def _find(self, task_id: str) -> TaskState:
        state = self._manager().get(task_id)
        if state.kind is not TaskKind.PROCESS:
            raise ToolFailure(f"{task_id} is not a process.")
        return state


def describe_process(state: TaskState) -> str:
    """Return one line about a process: its id, how it stands, and its command."""
    status = str(state.status)
    if state.status.is_terminal and state.exit_code is not None:
        status += f", exit code {state.exit_code}"
    elif state.error:
        status += f": {one_line(state.error, _MAX_COMMAND)}"
    return f"{state.task_id} [{status}] {one_line(state.prompt, _MAX_COMMAND)}"


def _describe_page(page: LogPage, state: TaskState) -> list[str]:
    end = page.offset + len(page.lines)
    if not page.lines:
        lines = ["[no output yet]" if page.offset == 0 else "[no more output]"]
    else:
        lines = [f"[lines {page.offset}-{end - 1}]", *page.lines]
    is_open = not state.status.is_terminal
    if page.next_offset is not None:
        lines.append(f"[more lines follow: offset={page.next_offset}]")
    elif is_open:
        # The newest line is not in the log before it is complete.
        start = state.preview.removesuffix("…")
        if start and not any(start in one_line(line) for line in page.lines[-_NEWEST:]):
            lines.append(f"[unfinished line: {state.preview}]")
        lines.append(f"[new lines will start at offset={end}]")
    return lines


def _facts(state: TaskState) -> dict[str, object]:
    return {
        "task_id": state.task_id,
        "status": str(state.status),
        "exit_code": state.exit_code,
        "log_path": state.log_path,
    }
