"""One open session of an editor: its prompts, its events, and its permission requests."""

from collections.abc import Sequence
from contextlib import aclosing

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from clew.acp.connection import INVALID_REQUEST, Connection, RpcError
from clew.acp.content import (
    AgentMessageChunk,
    ConfigUpdate,
    ContentBlock,
    CurrentModeUpdate,
    SessionInfoUpdate,
    TextBlock,
    Update,
)
from clew.acp.history import map_history, sum_costs
from clew.acp.messages import (
    PromptResult,
    SessionResult,
    UpdateParams,
)
from clew.acp.options import (
    DEFAULT_EFFORT,
    EFFORT,
    MODE,
    MODEL,
    list_commands,
    list_modes,
    list_options,
)
from clew.acp.permissions import Questions, make_question
from clew.acp.prompts import make_prompt
from clew.acp.tool_calls import fence
from clew.acp.turns import Place, PromptTurn, Turns
from clew.acp.updates import EventMapper, make_plan
from clew.core.errors import EventsExpired, QueueFull, SessionError
from clew.core.events import (
    Envelope,
    PermissionRequest,
    PermissionResolved,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    SessionUpdated,
)
from clew.core.ids import EntryId
from clew.core.permissions import PermissionMode
from clew.sdk.client import HistoryEntry, SessionClient, SessionSnapshot
from clew.sdk.session_spec import EFFORTS

_PAGE = 10_000


class EditorSession:
    """Shows one session to an editor.

    Args:
        client: The session.
        connection: Where updates and questions go.
        snapshot: The state of the session when it was opened.
        tasks: Where questions wait for their answers.
    """

    def __init__(
        self,
        client: SessionClient,
        connection: Connection,
        snapshot: SessionSnapshot,
        tasks: TaskGroup,
    ) -> None:
        self.id = snapshot.session_id
        self.cwd = snapshot.cwd
        self.closing = anyio.Event()
        """Set it to close the session."""
        self.closed = anyio.Event()
        self.warnings: Sequence[Envelope] = ()
        """Warnings from before the session was open."""
        self._client = client
        self._connection = connection
        self._tasks = tasks
        self._position = snapshot.seq
        self._mapper = EventMapper(self.cwd)
        self._mode, self._name = str(snapshot.mode), snapshot.name
        self._turns = Turns()
        self._questions = Questions(client, connection, tasks)
        self._is_shown = False

    async def describe(self, *, is_new: bool = False) -> SessionResult:
        """Return the modes and options; with the id of a session that the editor does not know."""
        snapshot = await self._client.snapshot()
        options = list_options(snapshot, await self._client.commands())
        return SessionResult(
            modes=list_modes(snapshot.mode),
            config_options=options,
            session_id=self.id if is_new else None,
        )

    async def restore(self, *, show: bool) -> None:
        """Read the history: for the costs of the session, and to show it again."""
        history = await _read_history(self._client)
        self._mapper = EventMapper(self.cwd, cost_usd=sum_costs(history))
        if show:
            for update in map_history(history, self._mapper, self.cwd):
                self.show(update)

    def start(self) -> None:
        """Show what happens from now on; called when the editor knows the id of the session."""
        if not self._is_shown:
            self._is_shown = True
            for warning in self.warnings:
                self._show_event(warning)
            self._tasks.start_soon(self._follow)
        self._tasks.start_soon(self._show_state)

    def show_terminal(self, call_id: str, terminal_id: str) -> None:
        """Show the terminal in which the command of a call runs."""
        for update in self._mapper.attach_terminal(call_id, terminal_id):
            self.show(update)

    def show(self, update: Update) -> None:
        """Send an update."""
        self._connection.notify("session/update", UpdateParams(self.id, update))

    async def prompt(self, blocks: tuple[ContentBlock, ...]) -> PromptResult:
        """Run a prompt or a command until it ends; a second prompt waits for the first.

        Raises:
            RpcError: The run failed, or a prompt waits already.
        """
        try:
            with self._turns.begin() as turn:
                try:
                    return await self._run(turn, blocks)
                except anyio.get_cancelled_exc_class():
                    # The editor is gone, or does not want the result.
                    await _withdraw(self._client, self._turns.find_place(turn))
                    raise
        except QueueFull as error:
            raise RpcError(INVALID_REQUEST, str(error)) from error

    def cancel(self) -> None:
        """Abort what runs, what waits, and what has just arrived."""
        self._turns.cancel()
        self._client.abort()

    async def end_turns(self) -> None:
        """Abort every turn and wait until the editor has its result."""
        self.cancel()
        await self._turns.drain()

    async def set_option(self, name: str, value: str) -> SessionResult:
        """Change an option; returns all of them.

        Raises:
            ValueError: There is no such option or value.
            ClewError: The session refuses.
        """
        if name == MODE:
            await self._client.set_mode(PermissionMode(value))
        elif name == MODEL:
            await self._client.set_model(value)
        elif name == EFFORT and value in (DEFAULT_EFFORT, *EFFORTS):
            outcome = await self._client.execute(f"/effort {value}")
            if not outcome.success:
                raise SessionError(outcome.message)
        else:
            raise ValueError(f"there is no value {value!r} for {name!r}")
        return await self.describe()

    async def _run(self, turn: PromptTurn, blocks: tuple[ContentBlock, ...]) -> PromptResult:
        prompt = make_prompt(blocks, self.cwd)
        if (
            prompt.text.startswith("/")
            and not prompt.images
            and await _is_command(self._client, prompt.text)
        ):
            outcome = await self._client.execute(prompt.text.strip())
            if outcome.run_id is None:
                if outcome.message:
                    self.show(AgentMessageChunk(TextBlock(_format_message(outcome.message))))
                return PromptResult(stop_reason="cancelled" if turn.cancelled else "end_turn")
            run_id = outcome.run_id
        else:
            run_id = await self._client.submit(prompt)
        self._turns.start(run_id, turn)
        if turn.cancelled:
            self._client.abort()
        return await turn.wait()

    async def _show_state(self) -> None:
        """Show what an editor gets once the session is open: gauge, plan and commands."""
        snapshot = await self._client.snapshot()
        self.show(list_commands(await self._client.commands()))
        if snapshot.todos:
            self.show(make_plan(snapshot.todos))
        self.show(self._mapper.usage(snapshot.context))

    async def _follow(self) -> None:
        while True:
            try:
                async with aclosing(self._client.events(after=self._position)) as events:
                    async for envelope in events:
                        self._position = envelope.seq
                        await self._handle(envelope)
            except EventsExpired:
                await self._catch_up()
            else:
                return

    async def _catch_up(self) -> None:
        """Continue behind events that are no longer buffered; no prompt may wait for ever."""
        snapshot = await self._client.snapshot()
        self._position = snapshot.seq
        for request in snapshot.permission_requests:
            self._ask(request, "")
        self.show(self._mapper.usage(snapshot.context))
        if not snapshot.executing:
            self._turns.end_all()

    def _show_event(self, envelope: Envelope) -> None:
        for update in self._mapper.map(envelope):
            self.show(update)

    async def _handle(self, envelope: Envelope) -> None:
        self._show_event(envelope)
        match envelope.event:
            case PermissionRequest() as request:
                self._ask(request, envelope.task_id)
            case PermissionResolved(request_id=request_id):
                self._questions.withdraw(request_id)
            case _ if envelope.task_id:
                pass
            case RunCompleted(result=result) | RunInterrupted(result=result):
                self._turns.end(result.run_id, result)
            case RunFailed(run_id=run_id) as failure:
                self._turns.end(run_id, failure)
            case SessionUpdated() as changed:
                await self._show_settings(changed)

    async def _show_settings(self, changed: SessionUpdated) -> None:
        if changed.mode != self._mode:
            self._mode = changed.mode
            self.show(CurrentModeUpdate(changed.mode))
        if changed.name != self._name:
            self._name = changed.name
            self.show(SessionInfoUpdate(title=changed.name))
        self.show(ConfigUpdate((await self.describe()).config_options))

    def _ask(self, request: PermissionRequest, task_id: str) -> None:
        call_id = self._mapper.find_call(request.call_id or request.request_id, task_id)
        question = make_question(request, session_id=self.id, tool_call_id=call_id, cwd=self.cwd)
        self._questions.ask(request.request_id, question)


async def _withdraw(client: SessionClient, place: Place) -> None:
    """Abort a run that works; one that waits goes without the one that works."""
    match place:
        case "works":
            client.abort()
        case "waits":
            with anyio.CancelScope(shield=True):
                await client.cancel_queue()
        case "none":
            pass


async def _is_command(client: SessionClient, text: str) -> bool:
    name = text[1:].split(maxsplit=1)[:1]
    known = {one.name.lower() for one in await client.commands()}
    return bool(name) and name[0].lower() in known


def _format_message(message: str) -> str:
    """Return the message of a command: several lines as they are, not as Markdown."""
    return fence(message) if "\n" in message else message


async def _read_history(client: SessionClient) -> list[HistoryEntry]:
    found: list[HistoryEntry] = []
    last = EntryId(0)
    while page := await client.history(after=last, limit=_PAGE):
        found += page
        last = EntryId(int(page[-1].id.partition(".")[0]))
    return found
