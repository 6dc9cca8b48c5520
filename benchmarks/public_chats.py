"""What a view keeps of months of talk between two people: the turns that questions rely on.

    python -m benchmarks.public_chats FILE

`FILE` is the published `locomo10.json` of the LoCoMo collection, or some of its conversations. It
is not a part of the repository. Nothing was tuned on it, so it shows how a view does elsewhere.
"""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.chat_recall import COLUMNS, SIZES, measure_size
from benchmarks.conversations import Chat, Reliance
from benchmarks.recordings import CHARS_PER_TOKEN
from benchmarks.results import Section, publish
from clew.core.messages import Message, assistant, user
from clew.simulation.blind_test.transcript import readable

_SESSION = re.compile(r"session_(\d+)")
_TURN = re.compile(r"D\d+:\d+")
_LEFT_OUT = frozenset({"likely that the view has more turns", "passages", "newest: passages"})
"""Columns of a row about chats: here a whole turn is what is needed."""


def main() -> None:
    """Measure, print and write the section."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.public_chats", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("file", type=Path)
    samples = msgspec.json.decode(parser.parse_args().file.read_bytes())
    publish(measure(samples))


def measure(samples: Sequence[Mapping[str, Any]]) -> Section:
    """Score the views of every conversation, with either speaker as the user."""
    found = [chat for sample in samples for chat in _read_chats(sample)]
    names = [str(sample.get("sample_id", "one")) for sample in samples]
    columns = [column for column in COLUMNS if column not in _LEFT_OUT]
    rows = []
    for size in SIZES:
        chars = size * 1_000 * CHARS_PER_TOKEN
        longer = [chat for chat in found if len(readable(chat.messages)) > chars]
        if longer:
            row = measure_size(f"LoCoMo, {size}k", longer, chars, is_judged=True)
            by_name = dict(zip(COLUMNS, row, strict=True))
            rows.append(tuple(by_name[column] for column in columns))
    return Section(
        title="Public chats",
        command="python -m benchmarks.public_chats FILE",
        columns=columns,
        rows=rows,
        notes=[
            f"conversations of LoCoMo: {', '.join(names)}; each with one and with the other "
            "speaker as the user; every question names the turns that answer it",
            f"turns: share of these that are in the view word for word; sizes at {CHARS_PER_TOKEN} "
            "characters a token; views by rules, with no model call; nothing was tuned on them",
        ],
    )


def _read_chats(sample: Mapping[str, Any]) -> Iterator[Chat]:
    talk = sample["conversation"]
    names = sorted((key for key in talk if _SESSION.fullmatch(key)), key=_number)
    said = [(name, turn) for name in names for turn in talk[name]]
    texts = {turn["dia_id"]: _read_text(turn) for _, turn in said}
    evidence = " ".join(str(one) for asked in sample["qa"] for one in asked.get("evidence", ()))
    wanted = [texts[turn] for turn in _TURN.findall(evidence) if turn in texts]
    for speaker in (talk["speaker_a"], talk["speaker_b"]):
        yield Chat(
            kind="public",
            session=str(sample.get("sample_id", talk["speaker_a"])),
            messages=list(_list_messages(talk, said, speaker)),
            relied_on=[Reliance(turn=text, passage=text) for text in wanted],
        )


def _number(name: str) -> int:
    return int(name.rpartition("_")[2])


def _read_text(turn: Mapping[str, str]) -> str:
    caption = turn.get("blip_caption")
    return f"{turn['text']} [shares a picture: {caption}]" if caption else turn["text"]


def _list_messages(
    talk: Mapping[str, Any], said: Sequence[tuple[str, Mapping[str, str]]], speaker: str
) -> Iterator[Message]:
    """Yield the turns as messages; the first of a day begins with its date."""
    last = ""
    for name, turn in said:
        date = "" if name == last else f"[{talk[f'{name}_date_time']}] "
        text, last = date + _read_text(turn), name
        yield user(text) if turn["speaker"] == speaker else assistant(text)
    yield user("I have one more question.")


if __name__ == "__main__":
    main()
