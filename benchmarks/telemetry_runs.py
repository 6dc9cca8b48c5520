"""The process of `benchmarks.telemetry`: `python -m benchmarks.telemetry_runs TOOL ROUNDS`.

All cases run in one process, one turn after the other, in a random order in each round, so
that a busy moment of the machine falls on all of them, and so does the size of the heap. Clew looks
for OpenTelemetry in the modules that are loaded; which ones it finds there is what a case changes.
"""

import gc
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import msgspec

from benchmarks.telemetry import ABSENT, CASES, IDLE, MEMORY, Measured
from clew import InteractiveSession
from clew.core.permissions import PermissionMode
from clew.providers.scripted import ScriptedProvider, call_reply
from clew.tools.sandbox import Sandbox, SandboxMode, SandboxPolicy

_PACKAGE = "opentelemetry"
_WARM_UP = 2
_COUNTED = 40
_COUNTED_CODE = ("clew.", "opentelemetry.")
_WINDOW = 100_000_000
"""So large that nothing is compacted."""


@contextmanager
def show_modules(case: str, loaded: dict[str, Any]) -> Iterator[None]:
    """Let the program find the modules of OpenTelemetry that it would find in a case."""
    for name in loaded:
        sys.modules.pop(name, None)
    if case in (IDLE, MEMORY):
        sys.modules.update(loaded)
    elif case == ABSENT:
        # Any import of it fails, as where it is not installed.
        sys.modules[_PACKAGE] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.modules.pop(_PACKAGE, None)
        sys.modules.update(loaded)


def make_telemetry() -> object:
    """Return what traces a session into memory."""
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 - only here
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (  # noqa: PLC0415
        InMemorySpanExporter,
    )

    from clew.telemetry.tracer import SessionTelemetry  # noqa: PLC0415

    tracers, meters = TracerProvider(), MeterProvider([InMemoryMetricReader()])
    tracers.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    return SessionTelemetry(tracers=tracers, meters=meters)


def make_arguments(tool: str, number: int) -> dict[str, Any]:
    """Return arguments that no call before had."""
    if tool == "Read":
        return {"file_path": "a.txt", "offset": number + 1}
    return {"command": f": {number}"}


class Sessions:
    """One session for each case, with the same conversation.

    Those that are not traced do not differ, so each of them serves another case in every round:
    where its objects lie in memory makes a difference of a few percent.
    """

    def __init__(self, tool: str, turns: int, loaded: dict[str, Any]) -> None:
        self._tool, self._turns, self._loaded = tool, turns, loaded
        self._opened: dict[str, InteractiveSession] = {}

    def shuffle(self, order: random.Random) -> None:
        """Let the sessions that are not traced change places."""
        cases = [case for case in CASES if case != MEMORY]
        sessions = [self._opened[case] for case in cases]
        order.shuffle(sessions)
        self._opened.update(zip(cases, sessions, strict=True))

    async def open(self, stack: AsyncExitStack, folder: Path) -> None:
        """Open the sessions, and run the first turns, which do what is done only once."""
        for number, case in enumerate(CASES):
            place = folder / str(number)
            place.mkdir()
            lines = "a line\n" * (self._turns + 1)
            (place / "a.txt").write_text(lines, encoding="utf-8")
            environ = {
                "HOME": str(place),
                "CLEW_HOME": str(place / "clew"),
                "PATH": "/usr/bin:/bin",
            }
            options: dict[str, Any] = {"telemetry": make_telemetry()} if case == MEMORY else {}
            replies = [
                reply
                for turn in range(self._turns)
                for reply in (call_reply((self._tool, make_arguments(self._tool, turn))), "done")
            ]
            with show_modules(case, self._loaded):
                session = InteractiveSession(
                    provider=ScriptedProvider(replies),
                    model="m",
                    cwd=place,
                    environ=environ,
                    max_context_tokens=_WINDOW,
                    permission_mode=PermissionMode.BYPASS,
                    sandbox=Sandbox(SandboxPolicy(mode=SandboxMode.OFF)),
                    **options,
                )
                self._opened[case] = await stack.enter_async_context(session)
            await self.run(case, _WARM_UP)

    async def run(self, case: str, turns: int) -> float:
        """Run turns of a case; returns the milliseconds of processor time of one."""
        session = self._opened[case]
        with show_modules(case, self._loaded):
            start = time.process_time()
            for _ in range(turns):
                await session.run("go")
            return (time.process_time() - start) * 1_000 / turns

    async def count_calls(self, case: str) -> int:
        """Return how many functions of Clew and OpenTelemetry one turn calls, and they call.

        Those of the event loop do not count: how often it wakes up is up to the machine.
        """
        calls = 0

        def count(frame: FrameType, event: str, _: object) -> None:
            nonlocal calls
            if event in ("call", "c_call"):
                calls += frame.f_globals.get("__name__", "").startswith(_COUNTED_CODE)

        sys.setprofile(count)
        try:
            await self.run(case, 1)
        finally:
            sys.setprofile(None)
        return calls


async def measure(tool: str, rounds: int) -> Measured:
    """Return the times of all rounds, and the number of calls."""
    import opentelemetry.metrics  # noqa: PLC0415 - what a case hides again
    import opentelemetry.propagate  # noqa: PLC0415
    import opentelemetry.trace  # noqa: F401, PLC0415

    make_telemetry()
    loaded = {name: one for name, one in sys.modules.items() if name.split(".")[0] == _PACKAGE}
    sessions = Sessions(tool, _WARM_UP + rounds + _COUNTED, loaded)
    times: dict[str, list[float]] = {case: [] for case in CASES}
    calls: dict[str, int] = {}
    order = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
        async with AsyncExitStack() as stack:
            await sessions.open(stack, Path(folder))
            gc.freeze()
            gc.disable()
            for _ in range(rounds):
                gc.collect()
                sessions.shuffle(order)
                for case in order.sample(CASES, len(CASES)):
                    times[case].append(await sessions.run(case, 1))
            for _ in range(_COUNTED):
                sessions.shuffle(order)
                for case in order.sample(CASES, len(CASES)):
                    counted = await sessions.count_calls(case)
                    # In how many pieces the output of a program arrives differs.
                    calls[case] = min(counted, calls.get(case, counted))
    return Measured(times=times, calls=calls)


def main() -> None:
    """Print what was measured, as JSON."""
    tool, rounds = sys.argv[1], int(sys.argv[2])
    print(msgspec.json.encode(anyio.run(measure, tool, rounds)).decode())


if __name__ == "__main__":
    main()
