"""One process of `benchmarks.telemetry`: `python -m benchmarks.telemetry_runs CASE TOOL TURNS`."""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio

from benchmarks.telemetry import ABSENT, MEMORY, UNUSED


def main() -> None:
    """Print the milliseconds of processor time of one turn."""
    case, tool, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if case == ABSENT:
        # Any import of it fails, as where it is not installed.
        sys.modules["opentelemetry"] = None  # type: ignore[assignment]
    elif case != UNUSED:
        import opentelemetry.trace  # noqa: F401, PLC0415 - the case
    print(anyio.run(measure, tool, turns, make_options(case)))


def make_options(case: str) -> dict[str, Any]:
    """Return the options of a session for a case."""
    if case != MEMORY:
        return {}
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
    return {"telemetry": SessionTelemetry(tracers=tracers, meters=meters)}


def make_arguments(tool: str, number: int) -> dict[str, Any]:
    """Return arguments that no call before had."""
    if tool == "Read":
        return {"file_path": "a.txt", "offset": number + 1}
    return {"pattern": f"*.{number}"}


def write_file(folder: str, turns: int) -> None:
    """Write a file with a line for each turn."""
    Path(folder, "a.txt").write_text("a line\n" * (turns + 1), encoding="utf-8")


async def measure(tool: str, turns: int, options: dict[str, Any]) -> float:
    """Return the milliseconds of processor time of one turn."""
    from clew import InteractiveSession  # noqa: PLC0415 - after the case is prepared
    from clew.providers.scripted import ScriptedProvider, call_reply  # noqa: PLC0415

    replies = [
        reply
        for number in range(turns + 1)
        for reply in (call_reply((tool, make_arguments(tool, number))), "done")
    ]
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
        write_file(folder, turns)
        environ = {"HOME": folder, "CLEW_HOME": str(Path(folder, "clew")), "PATH": "/usr/bin:/bin"}
        async with InteractiveSession(
            provider=ScriptedProvider(replies), model="m", cwd=folder, environ=environ, **options
        ) as session:
            await session.run("warm up")
            start = time.process_time()
            for _ in range(turns):
                await session.run("go")
            return (time.process_time() - start) * 1_000 / turns


if __name__ == "__main__":
    main()
