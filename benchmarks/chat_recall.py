"""What a view keeps of plain conversations: the turns that later questions rely on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean

from benchmarks.compacted_views import newest_text, view_by_rules
from benchmarks.conversations import Chat, chats, normalize
from benchmarks.recordings import CHARS_PER_TOKEN
from benchmarks.results import Section, judge, publish
from clew.simulation.blind_test.transcript import readable

SIZES = (2, 4, 8, 16)
"""Thousands of tokens."""
KINDS = {"memory": "memory chats", "desk": "service desk", "talk": "talk of the sessions"}
COLUMNS = (
    *("view", "recordings, chats", "relied on", "turns", "newest: turns"),
    *("only in the view, only in the newest", "likely that the view has more turns"),
    *("passages", "newest: passages", "target: more than the newest text"),
)
_DRAWS = 2_000
"""Times that recordings are drawn again to see how much a difference depends on them."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Whether one thing that was relied on is in the view, and in the newest text."""

    turn: bool
    newest_turn: bool
    passage: bool
    newest_passage: bool


def main() -> None:
    """Measure, print and write the section."""
    found = chats()
    if not found:
        print("chats: there are no recordings; nothing was measured")
        return
    publish(measure(found))


def measure(found: Sequence[Chat]) -> Section:
    """Score the views of every chat that is longer than the size."""
    rows = []
    for kind, name in KINDS.items():
        for size in SIZES:
            chars = size * 1_000 * CHARS_PER_TOKEN
            longer = [
                chat for chat in found if chat.kind == kind and len(readable(chat.messages)) > chars
            ]
            if longer:
                rows.append(
                    measure_size(f"{name}, {size}k", longer, chars, is_judged=kind != "memory")
                )
    counts = {
        kind: sum(len(chat.relied_on) for chat in found if chat.kind == kind) for kind in KINDS
    }
    return Section(
        title="Plain conversations",
        command="python -m benchmarks chats",
        columns=COLUMNS,
        rows=rows,
        notes=[
            f"{len(found)} chats without tools, those that are longer than the view; sizes at "
            f"{CHARS_PER_TOKEN} characters a token; views by rules, with no model call",
            "turns: share of the messages relied on that are in the view word for word; passages: "
            "share of the sentences or lines in them that are",
            f"likely: share of {_DRAWS:,} draws of whole recordings in which it has more",
            "memory chats: what two customers told in a half, three quarters or all of many "
            f"visits; {counts['memory']} questions name their source (BFCL). They are shown for "
            "comparison and not judged, as they come from two recordings only",
            f"service desk: twelve calls in one chat (τ²-bench); {counts['desk']} messages are "
            "relied on, because they were the first to say a value that the agent used in a tool",
            "talk of the sessions: what users and agents wrote to each other in 40, 55, 70 and 85 "
            f"% of a recorded session, without tools; {counts['talk']} messages are relied on, "
            "because they alone had a name that comes up in the rest",
            "the weights were chosen on half of the recordings, in several rounds with looks at "
            "the other half in between; the rows have both halves. When the other half was last "
            "looked at alone, talk at 2k was one message behind the newest text (33 and 34 of "
            "128), at 4k and 8k ahead by 11 and 3, at 16k level",
        ],
    )


def measure_size(
    name: str, longer: Sequence[Chat], chars: int, *, is_judged: bool
) -> tuple[str, ...]:
    """Return the row about the views of this size of chats that are longer."""
    found: dict[str, list[Kept]] = {}
    for chat in longer:
        found.setdefault(chat.session, []).extend(_find_kept(chat, chars))
    every = [one for kept in found.values() for one in kept]
    only_ours = sum(one.turn and not one.newest_turn for one in every)
    only_newest = sum(one.newest_turn and not one.turn for one in every)
    turns, newest_turns = fmean(one.turn for one in every), fmean(one.newest_turn for one in every)
    passages = fmean(one.passage for one in every)
    newest_passages = fmean(one.newest_passage for one in every)
    return (
        name,
        f"{len(found)}, {len(longer)}",
        str(len(every)),
        f"{turns:.2f}",
        f"{newest_turns:.2f}",
        f"{only_ours}, {only_newest}",
        f"{_estimate_likelihood(found):.2f}",
        f"{passages:.2f}",
        f"{newest_passages:.2f}",
        judge(turns > newest_turns and passages > newest_passages) if is_judged else "–",
    )


def _find_kept(chat: Chat, chars: int) -> list[Kept]:
    view = normalize(view_by_rules(chat.messages, chars))
    newest = normalize(newest_text(chat.messages, chars))
    wanted = [(normalize(one.turn), normalize(one.passage)) for one in chat.relied_on]
    return [
        Kept(turn in view, turn in newest, passage in view, passage in newest)
        for turn, passage in wanted
    ]


def _estimate_likelihood(found: Mapping[str, Sequence[Kept]]) -> float:
    """Draw as many recordings as there are, with repeats; return how often the view has more."""
    leads = [sum(one.turn - one.newest_turn for one in kept) for kept in found.values()]
    random = Random(0)
    more = sum(sum(random.choices(leads, k=len(leads))) > 0 for _ in range(_DRAWS))
    return more / _DRAWS


if __name__ == "__main__":
    main()
