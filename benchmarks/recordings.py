"""Recorded sessions to measure on, and what their users said.

The recordings are in `../shared/data`, beside the repository and never part of it. Where the
folder is absent, everything here is empty, and the benchmarks that need it measure nothing.
"""

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import msgspec

from clew.context.digest.user_words import find_request
from clew.core.messages import Message, Role
from clew.importers import claude_code

DATA = Path(__file__).parents[2] / "shared" / "data"
SESSIONS = DATA / "sessions"
CHARS_PER_TOKEN = 3
"""How views are sized, as in the baselines of the recorded measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPoint:
    """One recorded compaction: what came before it, the agent's summary, what was needed next."""

    session: str
    number: int
    """Among all points, from 0."""
    messages: Sequence[Message]
    """From the previous compaction on, with its summary."""
    summary: str
    identifiers: frozenset[str]
    """Paths, hashes and long names that the agent used next."""
    lines: frozenset[str]
    """Whole lines that it used next."""


def session_files() -> list[Path]:
    """Return the recorded sessions."""
    return sorted(SESSIONS.rglob("*.jsonl.gz"))


@cache
def compaction_points() -> tuple[CompactionPoint, ...]:
    """Return the recorded compactions after which the agent used earlier content again."""
    measure = _load_measure()
    if measure is None:
        return ()
    found = measure.session_boundaries(SESSIONS / "claude_code")
    return tuple(
        CompactionPoint(
            session=file.removesuffix(".jsonl.gz"),
            number=number,
            messages=_parse(boundary.pre),
            summary=boundary.summary,
            identifiers=boundary.need,
            lines=boundary.lines,
        )
        for number, (file, boundary) in enumerate(found)
    )


def share_in(wanted: Iterable[str], text: str) -> float:
    """Return the share of `wanted` that `text` contains literally; 1.0 when nothing is wanted."""
    wanted = list(wanted)
    return sum(one in text for one in wanted) / len(wanted) if wanted else 1.0


def find_user_text(message: Message) -> str:
    """Return what a person wrote in this message, without what the recorded program added."""
    return find_request(message.text) if message.role is Role.USER else ""


def _parse(lines: Sequence[dict[str, object]]) -> Sequence[Message]:
    return claude_code.parse([msgspec.json.encode(line) for line in lines]).messages


def _load_measure() -> ModuleType | None:
    """Load the program that comes with the recordings and finds the compactions in them."""
    path = DATA / "recall_measure.py"
    if not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location("recall_measure", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
