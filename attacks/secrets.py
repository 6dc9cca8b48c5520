"""Secrets in places: a session reads each secret in each place, and it is neither sent nor stored.

A secret is known by its form or by the name beside it; a place is what surrounds it, such as the
prefix of grep or three levels of JSON. One session reads all secrets of a place with Bash, Read
and Grep. Afterwards none of them may be in a request, an event, the store or the log.
"""

import json
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from attacks.corpus import Outcome, Status, select_sample
from clew import Session
from clew.core.events import Event
from clew.core.models import ModelFacts
from clew.core.permissions import PermissionMode
from clew.log.events import LogLevel
from clew.log.writer import SessionLog
from clew.providers.scripted import ScriptedProvider, call_reply
from clew.session.gate import Gate
from clew.stores.sqlite import SqliteStore
from clew.tools.builtin import builtin_tools
from clew.tools.sandbox import Sandbox, SandboxMode, SandboxPolicy
from tests.core.test_redaction import ALONE, IN_OUTPUT, NAMED, TOKENS, random_part
from tests.event_buses import bus_for

NAME = "secrets"
TARGET = "no secret is sent, shown, stored or logged"
_SEEN = 12
"""The last characters of a secret, by which it is found again."""


def _prefix(prefix: str) -> Callable[[str], str]:
    return lambda text: "\n".join(prefix + line for line in text.split("\n"))


def _colour(text: str) -> str:
    """Colour what is before and after `=` and `:`, as programs that print settings do."""
    return re.sub(r"(?<=\w)[=:]", "\x1b[0m\\g<0>\x1b[35m", text)


def _nest(levels: int) -> Callable[[str], str]:
    def nest(text: str) -> str:
        for _ in range(levels):
            text = json.dumps({"text": text})
        return text

    return nest


PLACES: Mapping[str, Callable[[str], str]] = {
    "alone": str,
    "grep": _prefix("src/app/config.yml:12:"),
    "added line": _prefix("+"),
    "removed line": _prefix("-"),
    "indented": _prefix("        "),
    "numbered": _prefix("    12\t"),
    "quoted mail": _prefix("> "),
    "JSON": _nest(1),
    "JSON in JSON": _nest(2),
    "JSON in JSON in JSON": _nest(3),
    "colours": _colour,
    "colours in JSON": lambda text: json.dumps({"text": _colour(text)}),
}
AROUND_TOKENS: Mapping[str, str] = {
    "grep with context": "src/a.txt-12-{}",
    "prose": "The value is {} and nothing else.",
    "code": 'client = Client("{}", timeout=30)',
    "YAML list": "things:\n  - {}\n",
    "export": "export THING={}",
    "header": "> X-Thing: {}",
    "URL": "https://example.com/a?x={}&y=1",
    "HTML": "<td>{}</td>",
    "table": "| thing | {} |",
    "Markdown": "use `{}` here",
    "CSV": "a,{},b",
    "escaped lines": "first\\n{}\\nlast",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A secret in a place."""

    place: str
    name: str
    text: str
    seen: str


def list_cases() -> list[Case]:
    """Return all cases, by place."""
    tokens = {kind: make() for kind, make in TOKENS.items()}
    seen = {kind: random_part(kind, token)[-_SEEN:] for kind, token in tokens.items()}
    seen["private-key"] = tokens["private-key"].split("\n")[2][:40]
    cases = []
    for place, put in PLACES.items():
        cases += [Case(place, kind, put(token), seen[kind]) for kind, token in tokens.items()]
        cases += [
            Case(
                place, f"{number}: {line.text[:30]!r}", put(line.text), line.secret.split("\n")[-1]
            )
            for number, line in enumerate([*NAMED, *IN_OUTPUT])
            if "\\" not in line.secret and '"' not in line.secret
        ]
    for place, around in AROUND_TOKENS.items():
        cases += [
            Case(place, kind, around.format(token), seen[kind])
            for kind, token in tokens.items()
            if kind not in ALONE or place != "grep with context"
        ]
    return cases


async def run(sample: int | None = None) -> AsyncIterator[Outcome]:
    """Show all secrets of one place after the other to a session."""
    cases = select_sample(list_cases(), sample)
    for place, group in groupby(cases, key=lambda case: case.place):
        shown = list(group)
        with tempfile.TemporaryDirectory() as folder:
            traces = await _read_all(Path(folder), [case.text for case in shown])
        for case in shown:
            leaks = [where for where, trace in traces.items() if case.seen in trace]
            status = Status.FAILED if leaks else Status.HELD
            yield Outcome(
                f"{case.name} in {place}", status, f"in the {', '.join(leaks)}" * bool(leaks)
            )


async def _read_all(folder: Path, texts: list[str]) -> dict[str, str]:
    """Let a session read the texts; return everything that left it, by place."""
    project, home = folder / "project", folder / "home"
    project.mkdir()
    home.mkdir()
    (project / "shown.txt").write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    provider = ScriptedProvider(
        [
            call_reply(
                ("Bash", {"command": "cat shown.txt"}),
                ("Read", {"file_path": "shown.txt"}),
                ("Grep", {"pattern": ".", "output_mode": "content"}),
            ),
            "done",
        ],
        ModelFacts(name="m", window=2_000_000),
    )
    store, events = SqliteStore(home / "sessions.db"), list[Event]()
    async with Session(
        provider,
        model="m",
        tools=builtin_tools(sandbox=Sandbox(SandboxPolicy(mode=SandboxMode.OFF))),
        gate=Gate(cwd=project, mode=PermissionMode.BYPASS),
        cwd=project,
        store=store,
        session_log=SessionLog(home / "log", level=LogLevel.RAW),
        event_bus=bus_for(events.append),
    ) as session:
        await session.run("go")
    await store.aclose()
    files = [path for path in home.rglob("*") if path.is_file()]
    return {
        "request": str(provider.requests),
        "events": str(events),
        "store": "".join(_read(path) for path in files if path.name.startswith("sessions.db")),
        "log": "".join(_read(path) for path in files if not path.name.startswith("sessions.db")),
    }


def _read(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")
