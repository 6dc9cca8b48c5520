"""Conversations to measure on: a made-up one of any length, and plain chats without tools."""

import gzip
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.recordings import DATA, find_user_text, session_files
from clew.core.ids import CallId
from clew.core.messages import Message, Role, ToolCall, assistant, tool_result, user
from clew.importers.reader import read_session

_BODY = (
    "def handler(request, response):\n    value = compute(request.args['id'])\n"
    "    return render(value, template='page.html')\n"
) * 3
_NAME = re.compile(r"(?:[\w.@~-]+/)+[\w.@-]+\.\w{1,6}\b|\b[0-9a-f]{7,40}\b|\b[A-Za-z_]\w{11,}\b")
"""A path, a hash, or a name of twelve characters or more."""
_EARLIER = (0.4, 0.55, 0.7, 0.85)
"""Shares of a session's talk that are compacted; the rest shows what was relied on."""
_TOLD = (0.5, 0.75, 1.0)
"""Shares of the visits of a customer after which the questions so far are asked."""
_VISITS = 12
"""Calls to a service desk that one chat has; together they are longer than most views."""
_VALUES = range(4, 60)
"""Characters of a value that was needed: not a code like "USA", and not a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliance:
    """Something that was said and is needed later."""

    turn: str
    """The whole text of the message."""
    passage: str
    """The words in it that are needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A conversation without tools, and what later questions rely on."""

    kind: str
    session: str
    """The recording it is from; several chats of one recording are not independent."""
    messages: Sequence[Message]
    relied_on: Sequence[Reliance]


def conversation(length: int) -> list[Message]:
    """Return an agent's conversation of about `length` messages, ending with the user's."""
    said = [user("Please work through the list of files.")]
    number = 0
    while len(said) < length - 1:
        call = ToolCall(
            call_id=CallId(f"c{number}"),
            name="Read",
            arguments=f'{{"file_path":"src/module_{number}.py"}}',
        )
        said += [assistant(f"Reading file {number}.", call)]
        said += [tool_result(call, f"# file {number}\n{_BODY}")]
        if number % 5 == 4:
            said += [assistant(f"Done with {number}."), user(f"Go on with part {number}.")]
        number += 1
    return [*said, user("What did you find?")]


def chats() -> list[Chat]:
    """Return every recorded chat in which something is relied on later."""
    found = [*_memory_chats(DATA / "recall"), *_desk_chats(DATA / "tau2"), *_session_talks()]
    return [chat for chat in found if chat.relied_on]


def _memory_chats(folder: Path) -> Iterator[Chat]:
    """Yield what customers told over many visits; each recorded question names its source."""
    questions = folder / "BFCL_v4_memory_answers.json"
    if not questions.is_file():
        return
    sources = [(str(row["id"]), str(row["source"])) for row in _rows(questions)]
    for scenario in ("customer", "finance"):
        visits = [
            [str(turn["content"]) for turns in talk["question"] for turn in turns]
            for talk in _rows(folder / f"memory_{scenario}.json")
        ]
        asked = [source for name, source in sources if f"-{scenario}-" in name]
        for share in _TOLD:
            turns = [turn for visit in visits[: round(len(visits) * share)] for turn in visit]
            relied_on = [
                found for source in asked if (found := _find_source(source, turns)) is not None
            ]
            messages = [*map(user, turns), user("I have one more question.")]
            yield Chat(kind="memory", session=scenario, messages=messages, relied_on=relied_on)


def _find_source(source: str, turns: Sequence[str]) -> Reliance | None:
    """Find the turn that a question's source quotes; its ellipses leave words out."""
    quotes = (quote.strip() for quote in re.split(r"\.{3}|…", source))
    quote = max(quotes, key=len)
    turn = next((turn for turn in turns if normalize(quote) in normalize(turn)), None)
    return None if turn is None else Reliance(turn=turn, passage=quote)


def normalize(text: str) -> str:
    """Return the words of a text, whatever its spacing and its kind of quotation marks."""
    plain = text.replace("’", "'").replace("“", '"').replace("”", '"')
    return " ".join(plain.split())


def _desk_chats(folder: Path) -> Iterator[Chat]:
    """Yield calls to a service desk, one after another as if they were one long chat.

    A message is relied on when it was the first to say a value that the agent used in a tool.
    """
    for path in sorted(folder.glob("*.json.gz")):
        calls = msgspec.json.decode(gzip.decompress(path.read_bytes()))["simulations"]
        for start in range(0, len(calls), _VISITS):
            said: list[Message] = []
            needed: dict[str, Reliance] = {}
            for call in calls[start : start + _VISITS]:
                _read_call(call["messages"], said, needed)
            name = f"{path.name.partition('.json')[0]}-{start // _VISITS}"
            yield Chat(
                kind="desk",
                session=name,
                messages=[*said, user("I have one more question.")],
                relied_on=list(needed.values()),
            )


def _read_call(
    rows: Sequence[dict[str, Any]], said: list[Message], needed: dict[str, Reliance]
) -> None:
    """Add what was said in a call, and the messages of which the agent used a value in a tool."""
    for row in rows:
        text = (row["content"] or "").strip()
        if text and row["role"] in ("user", "assistant"):
            said.append(user(text) if row["role"] == "user" else assistant(text))
        for used in row.get("tool_calls") or () if row["role"] == "assistant" else ():
            for value in _find_values(used["arguments"]):
                first = next((one.text for one in said if value in one.text), None)
                if first is not None and first not in needed:
                    line = next(line for line in first.splitlines() if value in line)
                    needed[first] = Reliance(turn=first, passage=line)


def _find_values(arguments: object) -> Iterator[str]:
    match arguments:
        case str() if len(arguments) in _VALUES and "\n" not in arguments:
            yield arguments
        case dict():
            for inner in arguments.values():
                yield from _find_values(inner)
        case list():
            for inner in arguments:
                yield from _find_values(inner)


def _session_talks() -> Iterator[Chat]:
    """Yield the talk of the recorded sessions, without their tools, up to several places.

    A message is relied on when it alone has a name that comes up in the rest of the session.
    """
    for path in session_files():
        said = list(_talk(read_session(path).messages))
        for cut in sorted({_find_cut(said, share) for share in _EARLIER}):
            earlier, later = said[:cut], said[cut:]
            if not later:
                continue
            relied_on = list(_find_names(earlier, "\n".join(message.text for message in later)))
            yield Chat(
                kind="talk",
                session=path.name.partition(".")[0],
                messages=[*earlier, later[0]],
                relied_on=relied_on,
            )


def _find_cut(said: Sequence[Message], share: float) -> int:
    """Return the place of the first message of the user from that share of the talk on."""
    cut = int(len(said) * share)
    while cut < len(said) and said[cut].role is not Role.USER:
        cut += 1
    return cut


def _talk(messages: Sequence[Message]) -> Iterator[Message]:
    for message in messages:
        if message.role is Role.ASSISTANT and message.text.strip():
            yield assistant(message.text.strip())
        elif text := find_user_text(message):
            yield user(text)


def _find_names(earlier: Sequence[Message], later: str) -> Iterator[Reliance]:
    uses = Counter(name for message in earlier for name in set(_NAME.findall(message.text)))
    wanted = {name for name in set(_NAME.findall(later)) if uses[name] == 1}
    for message in earlier:
        lines = [line for line in message.text.splitlines() if wanted & set(_NAME.findall(line))]
        if lines:
            yield Reliance(turn=message.text, passage=lines[0])


def _rows(path: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines() if line.strip()]
