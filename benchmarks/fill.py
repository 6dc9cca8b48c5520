"""How much of the allowed tokens `clew.fit` uses: what it leaves unused could have held text."""

from collections.abc import Sequence
from statistics import fmean, median

from benchmarks.conversations import chats
from benchmarks.recordings import compaction_points
from benchmarks.results import Section, judge, publish
from clew.core.errors import ContextFull
from clew.core.messages import Message
from clew.dict_messages.fit import count_tokens, fit

SIZES = (2_000, 4_000, 8_000, 16_000, 32_000, 64_000)
TARGET = 0.90


def main() -> None:
    """Measure, print and write the section."""
    kinds = {
        "sessions": [point.messages for point in compaction_points()],
        "chats": [chat.messages for chat in chats()],
    }
    if not any(kinds.values()):
        print("fill: there are no recordings; nothing was measured")
        return
    publish(measure(kinds))


def measure(kinds: dict[str, list[Sequence[Message]]]) -> Section:
    """Fit every conversation that is longer than the size into each size."""
    rows = []
    for kind, conversations in kinds.items():
        sizes = {place: count_tokens(said) for place, said in enumerate(conversations)}
        for size in SIZES:
            longer = [said for place, said in enumerate(conversations) if sizes[place] > size]
            if longer:
                rows.append(_row(kind, size, [_share_used(said, size) for said in longer]))
    return Section(
        title="Fill",
        command="python -m benchmarks fill",
        columns=("view", "conversations", "mean", "median", "lowest", "target", "does not fit"),
        rows=rows,
        notes=[
            "tokens that `clew.fit` returns ÷ tokens that it may return (`max_tokens`), both as "
            "Clew counts them, for conversations that have more than that many",
        ],
    )


def _row(kind: str, size: int, shares: Sequence[float | None]) -> tuple[str, ...]:
    used = [share for share in shares if share is not None]
    mean = fmean(used) if used else 0.0
    return (
        f"{kind} at {size // 1_000}k",
        str(len(shares)),
        f"{mean:.2f}",
        f"{median(used):.2f}" if used else "–",
        f"{min(used):.2f}" if used else "–",
        f"≥ {TARGET:.2f}, {judge(mean >= TARGET)}",
        str(len(shares) - len(used)),
    )


def _share_used(messages: Sequence[Message], size: int) -> float | None:
    try:
        return fit(messages, max_tokens=size).report.tokens_after / size
    except ContextFull:
        return None


if __name__ == "__main__":
    main()
