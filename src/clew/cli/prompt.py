"""The interactive prompt: a plain line at a time.

The main thread reads lines and answers questions; the session runs in an event loop on
another thread. So Ctrl-C always reaches a thread that is free to act on it: during a run
it aborts the run, twice in a row at the prompt it leaves.
"""

import contextlib
import signal
from argparse import Namespace
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from types import FrameType

from anyio import to_thread
from anyio.from_thread import start_blocking_portal

from clew.cli.choose import Choice
from clew.cli.commands import run_line
from clew.cli.opening import opened
from clew.cli.paint import gauge, painter
from clew.cli.screen import Screen
from clew.core.access import Access, Approval, Decision
from clew.core.errors import AbortError, ClewError
from clew.session.session import Session

_ANSWERS = {"y": Approval.ONCE, "yes": Approval.ONCE, "s": Approval.SESSION, "n": Approval.NO}


@dataclass(slots=True)
class _Question:
    access: Access
    decision: Decision
    answer: "Future[Approval]" = field(default_factory=Future)


class _Done:
    """The line is carried out."""


class _Abort:
    """Ctrl-C was pressed while a line is being carried out."""


class _Desk:
    """What lands before the person at the keyboard: questions, and Ctrl-C.

    Ctrl-C breaks off the reading of a line; at any other time it is a message to the loop
    that waits for the run, so that it can never hit the program between two steps.
    """

    def __init__(self) -> None:
        self._inbox: SimpleQueue[_Question | _Done | _Abort] = SimpleQueue()
        self._reading = False

    def read(self, prompt: str) -> str:
        """Read a line; raises `KeyboardInterrupt` on Ctrl-C and `EOFError` on Ctrl-D."""
        self._reading = True
        try:
            return input(prompt)
        finally:
            self._reading = False

    def interrupt(self, _number: int, _frame: FrameType | None) -> None:
        """Handle the signal that Ctrl-C sends."""
        if self._reading:
            raise KeyboardInterrupt
        self._inbox.put(_Abort())

    async def ask(self, access: Access, decision: Decision) -> Approval:
        """Put a question to the person; called from the session's loop."""
        question = _Question(access, decision)
        self._inbox.put(question)
        return await to_thread.run_sync(question.answer.result, abandon_on_cancel=True)

    def wait(self, task: "Future[list[str]]", abort: Callable[[], object]) -> None:
        """Answer questions until `task` is done; Ctrl-C calls `abort`."""
        while not self._inbox.empty():
            self._inbox.get()
        task.add_done_callback(lambda _: self._inbox.put(_Done()))
        while True:
            match self._inbox.get():
                case _Done():
                    return
                case _Abort():
                    abort()
                case _Question() as question:
                    if not self._settle(question):
                        abort()

    def _settle(self, question: _Question) -> bool:
        answer = Approval.NO
        try:
            print(f"\n{question.access.tool} wants to run: {question.access.target}")
            print(f"({question.decision.reason})")
            typed = self.read("allow? [y]es once, [s]ession, [n]o: ").strip().lower()
            answer = _ANSWERS.get(typed, Approval.NO)
        except EOFError:
            print()
        except KeyboardInterrupt:
            return False
        finally:
            question.answer.set_result(answer)
        return True


def run_prompt(arguments: Namespace) -> int:
    """Talk until the user leaves."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401, PLC0415 - gives `input` line editing and history
    paint = painter()
    screen = Screen(paint)
    desk = _Desk()

    def greet(choice: Choice) -> None:
        screen.line(paint(f"{choice.model}: {choice.why}", "dim"))
        screen.line(paint("/help lists the commands, !cmd runs one, Ctrl-D leaves", "dim"))

    with start_blocking_portal() as portal:
        opening = opened(arguments, on_event=screen, ask=desk.ask, on_choice=greet)
        with portal.wrap_async_context_manager(opening) as session:
            signal.signal(signal.SIGINT, desk.interrupt)
            for line in _lines(desk):
                task = portal.start_task_soon(_one_line, session, line)
                desk.wait(task, lambda: portal.call(session.abort))
                _show_result(task, screen)
                screen.line(gauge(portal.call(session.get_context_state), paint))
            screen.line(f"go on with: clew --resume {session.session_id}")
    return 0


def _lines(desk: _Desk) -> Iterator[str]:
    """Yield what the user types, until end of file, /quit, or Ctrl-C twice in a row."""
    warned = False
    while True:
        try:
            line = desk.read("> ").strip()
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print()
            if warned:
                return
            warned = True
            print("press Ctrl-C again to leave")
            continue
        warned = False
        if line in ("/quit", "/exit"):
            return
        if line:
            yield line


async def _one_line(session: Session, line: str) -> list[str]:
    shown = await run_line(session, line)
    if shown is None:
        await session.run(line)
        return []
    return shown


def _show_result(task: "Future[list[str]]", screen: Screen) -> None:
    try:
        screen.lines(*task.result())
    except AbortError:
        screen.line("aborted; what had arrived is kept")
    except ClewError as error:
        screen.line(f"clew: {error}")
