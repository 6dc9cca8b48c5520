"""Command lines from recorded sessions of other agents: nearly all are read without a doubt."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
import pytest

from clew.permissions.shell.parser import parse_line

RECORDINGS = Path(__file__).parents[3] / "shared" / "data" / "sessions"
SHELLS = frozenset({"Bash", "bash", "shell", "exec_command"})


def lines_in(value: Any) -> Iterator[str]:
    """Yield the command lines of all calls of a shell tool, however deep they are."""
    if isinstance(value, list):
        for item in value:
            yield from lines_in(item)
    if not isinstance(value, dict):
        return
    for item in value.values():
        yield from lines_in(item)
    arguments = value.get("input", value.get("arguments"))
    if value.get("name") in SHELLS and isinstance(arguments, dict | str):
        if isinstance(arguments, str):
            arguments = msgspec.json.decode(arguments)
        command = arguments.get("command", arguments.get("cmd"))
        if isinstance(command, list):
            command = command[-1]
        if isinstance(command, str):
            yield command


def recorded() -> set[str]:
    found: set[str] = set()
    for path in RECORDINGS.rglob("*.jsonl*"):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for row in data.splitlines():
            try:
                found.update(lines_in(msgspec.json.decode(row)))
            except msgspec.DecodeError:
                continue
    return found


@pytest.mark.req("PRM-2")
@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="the recordings are not here")
@pytest.mark.slow("reads large recordings")
def test_nearly_all_real_lines_are_read_without_a_doubt() -> None:
    lines = recorded()
    parse_line("true")
    times = []
    certain = 0
    for line in lines:
        started = perf_counter()
        certain += not parse_line(line).doubts
        times.append(perf_counter() - started)
    middle = sorted(times)[len(times) // 2] * 1e6
    print(f"\n{certain} of {len(lines)} recorded lines are certain, {middle:.0f} µs each")  # noqa: T201

    assert len(lines) > 500
    assert certain > 0.97 * len(lines)
