"""The interactive prompt: a plain line at a time.

The main thread reads lines and answers questions; the session runs in an event loop on
another thread. So Ctrl-C always reaches a thread that is free to act on it: during a run
it aborts the run, at the prompt it leaves.
"""

import contextlib
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue

from anyio import to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal

from clew.cli.choose import Choice
from clew.cli.commands import run_line
from clew.cli.opening import opened
from clew.cli.paint import Paint, gauge, painter
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


def run_prompt(arguments: Namespace) -> int:
    """Talk until the user leaves."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401, PLC0415 - gives `input` line editing and history
    paint = painter()
    screen = Screen(paint)
    questions: SimpleQueue[_Question | None] = SimpleQueue()

    async def ask(access: Access, decision: Decision) -> Approval:
        question = _Question(access, decision)
        questions.put(question)
        return await to_thread.run_sync(question.answer.result, abandon_on_cancel=True)

    def greet(choice: Choice) -> None:
        screen.line(paint(f"{choice.model}: {choice.why}", "dim"))
        screen.line(paint("/help lists the commands, !cmd runs one, Ctrl-D leaves", "dim"))

    with start_blocking_portal() as portal:
        opening = opened(arguments, on_event=screen, ask=ask, on_choice=greet)
        with portal.wrap_async_context_manager(opening) as session:
            for line in _lines():
                task = portal.start_task_soon(_one_line, session, line, paint)
                _wait(task, portal, session, questions)
                _show_result(task, screen)
                screen.line(gauge(portal.call(session.get_context_state), paint))
            screen.line(f"go on with: clew --resume {session.session_id}")
    return 0


def _lines() -> Iterator[str]:
    """Yield what the user types, until end of file, /quit, or Ctrl-C twice in a row."""
    warned = False
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            if warned:
                print()
                return
            warned = True
            print("\npress Ctrl-C again to leave")
            continue
        warned = False
        if line in ("/quit", "/exit"):
            return
        if line:
            yield line


async def _one_line(session: Session, line: str, paint: Paint) -> list[str]:
    shown = await run_line(session, line, paint)
    if shown is None:
        await session.run(line)
        return []
    return shown


def _wait(
    task: "Future[list[str]]",
    portal: BlockingPortal,
    session: Session,
    questions: "SimpleQueue[_Question | None]",
) -> None:
    """Answer questions until `task` is done; Ctrl-C aborts it."""
    task.add_done_callback(lambda _: questions.put(None))
    while True:
        try:
            question = questions.get()
            if question is None:
                return
            _settle(question)
        except KeyboardInterrupt:
            portal.call(session.abort)


def _settle(question: _Question) -> None:
    answer = Approval.NO
    try:
        print(f"\n{question.access.tool} wants to run: {question.access.target}")
        print(f"({question.decision.reason})")
        typed = input("allow? [y]es once, [s]ession, [n]o: ").strip().lower()
        answer = _ANSWERS.get(typed, Approval.NO)
    except EOFError:
        print()
    finally:
        question.answer.set_result(answer)


def _show_result(task: "Future[list[str]]", screen: Screen) -> None:
    try:
        screen.lines(*task.result())
    except AbortError:
        screen.line("aborted; what had arrived is kept")
    except ClewError as error:
        screen.line(f"clew: {error}")
