"""An editor that drives Clew with the official SDK, and checks every line that it gets."""

import json
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import acp.schema
import anyio
from acp import connect_to_agent
from acp.client.connection import ClientSideConnection
from acp.connection import StreamDirection, StreamEvent
from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    ReadTextFileResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SessionNotification,
    TextContentBlock,
    WriteTextFileResponse,
)
from anyio.abc import Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from pydantic import BaseModel

from clew.acp.agent import serve
from clew.sdk.session_spec import SessionSpec
from clew.sdk.stdio import split_lines

RESULTS: Mapping[str, type[BaseModel]] = {
    "initialize": acp.schema.InitializeResponse,
    "session/new": acp.schema.NewSessionResponse,
    "session/load": acp.schema.LoadSessionResponse,
    "session/resume": acp.schema.ResumeSessionResponse,
    "session/fork": acp.schema.ForkSessionResponse,
    "session/close": acp.schema.CloseSessionResponse,
    "session/list": acp.schema.ListSessionsResponse,
    "session/set_mode": acp.schema.SetSessionModeResponse,
    "session/set_config_option": acp.schema.SetSessionConfigOptionResponse,
    "session/prompt": acp.schema.PromptResponse,
}
PARAMS: Mapping[str, type[BaseModel]] = {
    "session/update": SessionNotification,
    "session/request_permission": RequestPermissionRequest,
    "fs/read_text_file": acp.schema.ReadTextFileRequest,
    "fs/write_text_file": acp.schema.WriteTextFileRequest,
    "terminal/create": acp.schema.CreateTerminalRequest,
    "terminal/output": acp.schema.TerminalOutputRequest,
    "terminal/wait_for_exit": acp.schema.WaitForTerminalExitRequest,
    "terminal/kill": acp.schema.KillTerminalRequest,
    "terminal/release": acp.schema.ReleaseTerminalRequest,
    "$/cancel_request": acp.schema.CancelRequestNotification,
}


def check_against(model: type[BaseModel], value: Any) -> None:
    """Fail unless the SDK reads the value and loses nothing of it.

    The SDK replaces optional fields that it cannot read, so a comparison is needed.
    """
    read = model.model_validate(value)
    assert read.model_dump(mode="json", by_alias=True, exclude_unset=True) == value


@dataclass
class LineChecker:
    """Checks every line of the agent against the schema of the SDK."""

    methods: dict[Any, str] = field(default_factory=dict)
    """The methods of the requests that were sent, by id."""
    lines: int = 0
    failures: list[Exception] = field(default_factory=list)

    def observe(self, event: StreamEvent) -> None:
        """Check what the SDK receives, and remember what it sends."""
        message = event.message
        if event.direction is StreamDirection.INCOMING:
            try:
                self.check(message)
            except (AssertionError, ValueError, KeyError) as error:
                # The SDK only logs what an observer raises.
                self.failures.append(error)
        elif "method" in message and "id" in message:
            self.methods[message["id"]] = message["method"]

    def check(self, message: dict[str, Any]) -> None:
        """Fail if the line is wrong."""
        self.lines += 1
        assert message.pop("jsonrpc") == "2.0"
        if "method" in message:
            check_against(PARAMS[message["method"]], message["params"])
        elif "error" in message:
            check_against(acp.schema.Error, message["error"])
        else:
            check_against(RESULTS[self.methods[message["id"]]], message["result"])


class MemoryTransport:
    """Connects the SDK with Clew's connection without a process."""

    def __init__(self, checker: LineChecker) -> None:
        self._checker = checker
        self._to_agent, self.pieces = anyio.create_memory_object_stream[bytes](inf)
        self._written, self._from_agent = anyio.create_memory_object_stream[bytes](inf)

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message to the agent."""
        if "method" in message and "id" in message:
            self._checker.methods[message["id"]] = message["method"]
        await self.send_raw(json.dumps(message).encode() + b"\n")

    async def send_raw(self, data: bytes) -> None:
        """Send bytes to the agent."""
        await self._to_agent.send(data)

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message of the agent; None when it has left."""
        try:
            line = await self._from_agent.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return None
        self._checker.check(json.loads(line))
        message: dict[str, Any] = json.loads(line)
        return message

    async def close(self) -> None:
        """Close the editor's end."""
        self._to_agent.close()

    async def write(self, data: bytes) -> None:
        """Take lines of the agent."""
        for line in data.splitlines():
            await self._written.send(line)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        streams: tuple[MemoryObjectSendStream[bytes] | MemoryObjectReceiveStream[bytes], ...] = (
            self._to_agent,
            self.pieces,
            self._written,
            self._from_agent,
        )
        for stream in streams:
            stream.close()


@dataclass
class Editor:
    """The client of the SDK: remembers updates, and answers questions with `answer`."""

    answer: str = "once"
    """The id of the option to choose; `cancelled` for none."""
    files: dict[str, str] = field(default_factory=dict)
    """Unsaved buffers by path."""
    updates: list[dict[str, Any]] = field(default_factory=list)
    questions: list[RequestPermissionRequest] = field(default_factory=list)
    terminals: list[Process] = field(default_factory=list)
    started: anyio.Event = field(default_factory=anyio.Event)
    """Set when a terminal runs a command."""
    closed: list[str] = field(default_factory=list)
    """Which terminals were killed and released."""
    asked: anyio.Event = field(default_factory=anyio.Event)
    answering: anyio.Event = field(default_factory=anyio.Event)
    """Questions wait for it."""

    def __post_init__(self) -> None:
        self.answering.set()

    async def session_update(self, session_id: str, update: BaseModel, **_: Any) -> None:
        self.updates.append(
            update.model_dump(mode="json", by_alias=True, exclude_unset=True)
            | {"sessionId": session_id}
        )

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> RequestPermissionResponse:
        self.questions.append(
            RequestPermissionRequest(session_id=session_id, tool_call=tool_call, options=options)
        )
        self.asked.set()
        await self.answering.wait()
        if self.answer == "cancelled":
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        outcome = AllowedOutcome(outcome="selected", option_id=self.answer)
        return RequestPermissionResponse(outcome=outcome)

    async def read_text_file(self, path: str, **_: Any) -> ReadTextFileResponse:
        if path not in self.files:
            raise acp.RequestError.resource_not_found(path)
        return ReadTextFileResponse(content=self.files[path])

    async def write_text_file(self, path: str, content: str, **_: Any) -> WriteTextFileResponse:
        self.files[path] = content
        Path(path).write_text(content, encoding="utf-8")
        return WriteTextFileResponse()

    async def create_terminal(
        self, command: str, args: list[str], env: list[Any], cwd: str, **_: Any
    ) -> acp.schema.CreateTerminalResponse:
        """Run the command with the variables of the editor, one of which is a secret."""
        given = {one.name: one.value for one in env}
        process = await anyio.open_process(
            [command, *args],
            cwd=cwd,
            env={"PATH": "/usr/bin:/bin", "EDITOR_TOKEN": "hidden", **given},
            stderr=subprocess.STDOUT,
        )
        self.terminals.append(process)
        self.started.set()
        return acp.schema.CreateTerminalResponse(terminal_id=str(len(self.terminals) - 1))

    async def terminal_output(self, terminal_id: str, **_: Any) -> Any:
        process = self.terminals[int(terminal_id)]
        if process.returncode is None:
            return acp.schema.TerminalOutputResponse(output="", truncated=False)
        assert process.stdout is not None
        output = b"".join([piece async for piece in process.stdout])
        return acp.schema.TerminalOutputResponse(output=output.decode(), truncated=False)

    async def wait_for_terminal_exit(self, terminal_id: str, **_: Any) -> Any:
        code = await self.terminals[int(terminal_id)].wait()
        return acp.schema.WaitForTerminalExitResponse(exit_code=code)

    async def kill_terminal(self, terminal_id: str, **_: Any) -> None:
        self.closed.append(f"kill {terminal_id}")
        self.terminals[int(terminal_id)].kill()

    async def release_terminal(self, terminal_id: str, **_: Any) -> None:
        self.closed.append(f"release {terminal_id}")
        process = self.terminals[int(terminal_id)]
        await process.wait()
        await process.aclose()

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the updates of one kind."""
        return [one for one in self.updates if one["sessionUpdate"] == kind]

    def text(self, kind: str = "agent_message_chunk") -> str:
        """Return the text of all chunks."""
        return "".join(one["content"]["text"] for one in self.of(kind))


@dataclass
class Desk:
    """An editor that is connected to the agent."""

    editor: Editor
    agent: ClientSideConnection
    transport: MemoryTransport
    checker: LineChecker
    cwd: Path

    async def ask(self, session_id: str, text: str) -> acp.PromptResponse:
        """Send a prompt and wait for its end."""
        block = TextContentBlock(type="text", text=text)
        return await self.agent.prompt(session_id=session_id, prompt=[block])

    async def open(self) -> str:
        """Open a new session."""
        return (await self.agent.new_session(cwd=str(self.cwd), mcp_servers=[])).session_id


@asynccontextmanager
async def connect(
    root: Path,
    base_url: str,
    *,
    editor: Editor | None = None,
    capabilities: acp.schema.ClientCapabilities | None = None,
    **options: Any,
) -> AsyncGenerator[Desk, None]:
    """Connect an editor to an agent in this process, and initialize it."""
    cwd = root / "project"
    cwd.mkdir(exist_ok=True)
    environ = {"HOME": str(root), "CLEW_HOME": str(root / "clew"), "PATH": "/usr/bin:/bin"}
    given = {"base_url": base_url, "model": "m", "sandbox": "off", **options}
    defaults = SessionSpec(cwd=str(cwd), **given)
    checker = LineChecker()
    transport = MemoryTransport(checker)
    editor = editor or Editor()

    async def run() -> None:
        lines = split_lines(_read(transport.pieces))
        await serve(lines, transport.write, defaults=defaults, environ=environ)

    with transport, anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            agent = connect_to_agent(editor, transport, use_unstable_protocol=True)  # type: ignore[arg-type]
            await agent.initialize(protocol_version=1, client_capabilities=capabilities)
            try:
                yield Desk(editor, agent, transport, checker, cwd)
            finally:
                await agent.close()


async def _read(stream: MemoryObjectReceiveStream[bytes]) -> AsyncIterator[bytes]:
    async for piece in stream:
        yield piece
