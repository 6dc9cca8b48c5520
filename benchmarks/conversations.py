"""Conversations to measure on: a made-up one of any length, and plain chats without tools."""

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
_EARLIER = 2 / 3
"""The share of a session's talk that is compacted; the rest shows what was relied on."""


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
    found = [*_memory_chats(DATA / "recall"), *_session_talks()]
    return [chat for chat in found if chat.relied_on]


def _memory_chats(folder: Path) -> Iterator[Chat]:
    """Yield what customers told over many visits; each recorded question names its source."""
    questions = folder / "BFCL_v4_memory_answers.json"
    if not questions.is_file():
        return
    sources = [(str(row["id"]), str(row["source"])) for row in _rows(questions)]
    for scenario in ("customer", "finance"):
        turns = [
            str(turn["content"])
            for talk in _rows(folder / f"memory_{scenario}.json")
            for turns in talk["question"]
            for turn in turns
        ]
        relied_on = [
            found
            for name, source in sources
            if f"-{scenario}-" in name and (found := _find_source(source, turns)) is not None
        ]
        messages = [*map(user, turns), user("I have one more question.")]
        yield Chat(kind="memory", messages=messages, relied_on=relied_on)


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


def _session_talks() -> Iterator[Chat]:
    """Yield the talk of the recorded sessions, without their tools.

    A message is relied on when it alone has a name that comes up in the rest of the session.
    """
    for path in session_files():
        said = list(_talk(read_session(path).messages))
        cut = int(len(said) * _EARLIER)
        while cut < len(said) and said[cut].role is not Role.USER:
            cut += 1
        earlier, later = said[:cut], said[cut:]
        if not later:
            continue
        relied_on = list(_find_names(earlier, "\n".join(message.text for message in later)))
        yield Chat(kind="talk", messages=[*earlier, later[0]], relied_on=relied_on)


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
