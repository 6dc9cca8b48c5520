"""Every recording through every check, counted per API."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

import msgspec

from clew.core.errors import ClewError
from tests.recordings import gemini
from tests.recordings.checks import check_answer, check_request, check_tokens
from tests.recordings.records import Record, is_whole, key, records, round_trips
from tests.recordings.wires import is_conversation, unspoken, wire_for

KINDS = ("streams", "answers", "requests", "tokens")


@dataclass(slots=True)
class Score:
    """How one API fared in one kind of check."""

    passed: int = 0
    total: int = 0

    def __str__(self) -> str:
        return f"{self.passed}/{self.total}"


@dataclass(slots=True)
class Survey:
    """What became of all recordings."""

    scores: dict[str, dict[str, Score]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Score))
    )
    misses: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """By API, kind and reason."""
    unspoken: Counter[str] = field(default_factory=Counter)
    """Recordings of what Clew does not speak, by what they are."""

    def count(self, api: str, kind: str, check: Callable[[], str]) -> None:
        """Run one check and note how it ended."""
        score = self.scores[api][kind]
        score.total += 1
        try:
            problem = check()
        except (ClewError, ValueError, msgspec.MsgspecError) as error:
            problem = f"{type(error).__name__}: {str(error)[:150]}"
        if problem:
            self.misses[(api, kind, problem)] += 1
        else:
            score.passed += 1


def survey(chosen: Iterable[Record] | None = None) -> Survey:
    """Check all recordings, or those that were chosen."""
    found = Survey()
    for record in chosen if chosen is not None else records():
        _take(found, record)
    return found


def _take(found: Survey, record: Record) -> None:
    wire = wire_for(record)
    api, body = record["api"], record["request"]
    if wire is not None and key(record) in round_trips():
        found.count(api, "tokens", lambda: check_tokens(wire, body))
    if what := unspoken(record):
        found.unspoken[f"{api}: {what}"] += 1
        return
    if wire is None:
        several = gemini.answers(record) if record["source"] == "gemini-cli" else []
        for answer in several:
            one = {**record, "response_text": answer.decode()}
            found.count("gemini-cli answers", "answers", partial(check_answer, gemini, one))
        if not several:
            found.unspoken[api if api != "response-only" else f"{api}, {record['source']}"] += 1
        return
    name = wire.__name__.rpartition(".")[2] if api == "response-only" else api
    if record["status"] < 300 and is_conversation(record) and record["response_text"]:
        kind = "answers" if is_whole(record) else "streams"
        found.count(name, kind, lambda: check_answer(wire, record))
    if isinstance(body, dict):
        found.count(name, "requests", lambda: check_request(wire, body))
