"""What a view keeps of plain conversations: the turns that later questions rely on."""

from collections.abc import Sequence
from statistics import fmean

from benchmarks.compacted_views import newest_text, view_by_rules
from benchmarks.conversations import Chat, chats, normalize
from benchmarks.recordings import CHARS_PER_TOKEN
from benchmarks.results import Section, judge, publish
from clew.simulation.blind_test.transcript import readable

SIZES = (2, 4, 8, 16)
"""Thousands of tokens."""
KINDS = {"memory": "memory chats", "talk": "talk of the sessions"}


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
                rows.append(_row(f"{name}, {size}k", longer, chars))
    counts = {
        kind: sum(len(chat.relied_on) for chat in found if chat.kind == kind) for kind in KINDS
    }
    return Section(
        title="Plain conversations",
        command="python -m benchmarks chats",
        columns=(
            *("view", "chats", "turns", "newest: turns", "passages", "newest: passages"),
            "target: more than the newest text",
        ),
        rows=rows,
        notes=[
            f"{len(found)} chats without tools, those that are longer than the view; sizes at "
            f"{CHARS_PER_TOKEN} characters a token; views by rules, with no model call",
            "turns: share of the messages relied on that are in the view word for word; passages: "
            "share of the sentences or lines in them that are",
            f"memory chats: what two customers told in many visits, with {counts['memory']} "
            "questions that name their source (BFCL); the sources are spread evenly, so newest "
            "text is a strong baseline",
            "talk of the sessions: what users and agents wrote to each other in the first two "
            f"thirds of a recorded session, without tools; {counts['talk']} messages are relied "
            "on, because they alone had a name that comes up in the last third",
        ],
    )


def _row(name: str, longer: Sequence[Chat], chars: int) -> tuple[str, ...]:
    ours = _score(longer, [view_by_rules(chat.messages, chars) for chat in longer])
    newest = _score(longer, [newest_text(chat.messages, chars) for chat in longer])
    return (
        name,
        str(len(longer)),
        f"{ours[0]:.2f}",
        f"{newest[0]:.2f}",
        f"{ours[1]:.2f}",
        f"{newest[1]:.2f}",
        judge(ours[0] > newest[0] and ours[1] > newest[1]),
    )


def _score(longer: Sequence[Chat], views: Sequence[str]) -> tuple[float, float]:
    """Return the shares of whole turns and of passages kept; every reliance counts the same."""
    turns: list[bool] = []
    passages: list[bool] = []
    for chat, view in zip(longer, views, strict=True):
        text = normalize(view)
        turns += [normalize(one.turn) in text for one in chat.relied_on]
        passages += [normalize(one.passage) in text for one in chat.relied_on]
    return fmean(turns), fmean(passages)


if __name__ == "__main__":
    main()
