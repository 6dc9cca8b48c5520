"""What a compaction keeps of what the recorded agents needed next.

At every recorded compaction the view is scored by the share of identifiers and of whole lines
that the agent went on to use: both on the same view, since a bare list of names would win the
first and lose the second.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean

from benchmarks.compacted_views import newest_text, session_view, view_by_rules
from benchmarks.recordings import CHARS_PER_TOKEN, CompactionPoint, compaction_points, share_in
from benchmarks.results import Section, judge, publish

SIZES = (2, 4, 8, 16, 32)
"""Thousands of tokens."""
RULE_TARGETS = {4: (0.85, 0.30), 16: (0.95, 0.65), 32: (0.97, 0.80)}
WINDOWS = (60, 200)
"""Thousands of tokens."""
SESSION_TARGET = (0.97, 0.85)


def main() -> None:
    """Measure, print and write the section."""
    points = compaction_points()
    if not points:
        print("recall: there are no recordings; nothing was measured")
        return
    publish(measure(points))


def measure(points: Sequence[CompactionPoint]) -> Section:
    """Score every kind of view at `points`."""
    summaries = [point.summary for point in points]
    sizes = sorted(map(len, summaries))
    return Section(
        title="Recall",
        command="python -m benchmarks recall",
        columns=("view", "identifiers", "whole lines", "newest text", "target", "no view fits"),
        rows=[
            *(_rules_row(points, size) for size in SIZES),
            *_session_rows(points),
        ],
        notes=[
            f"{len(points)} recorded compaction points; means of the shares that the view contains "
            f"literally; sizes at {CHARS_PER_TOKEN} characters a token; newest text: the end of "
            "the conversation, of the same size",
            "by rules: `clew.fit` with the default strategy and no model call, the largest view of "
            "that size; where even the smallest is larger, it counts as 0",
            "in a window: a session with default options that is compacted once, and how much it "
            "leaves; a model's summary is the one that the recorded agent wrote at that point",
            "the recorded summaries alone: "
            + _join(_score(points, summaries))
            + f" at a median of {sizes[len(sizes) // 2]:,} characters",
            "with `Recall` every entry can be found and read back word for word: 1.0",
        ],
    )


def _rules_row(points: Sequence[CompactionPoint], size: int) -> tuple[str, ...]:
    chars = size * 1_000 * CHARS_PER_TOKEN
    views = [view_by_rules(point.messages, chars) for point in points]
    return _row(f"{size}k, by rules", points, views, chars=chars, target=RULE_TARGETS.get(size))


def _session_rows(points: Sequence[CompactionPoint]) -> Iterator[tuple[str, ...]]:
    for window in WINDOWS:
        for author in ("rules", "a model"):
            views = [
                session_view(
                    point.messages,
                    window=window * 1_000,
                    summary=point.summary if author == "a model" else None,
                )
                for point in points
            ]
            chars = int(fmean(map(len, views)))
            yield _row(
                f"{window}k window, summary by {author} ({chars // CHARS_PER_TOKEN // 1_000}k)",
                points,
                views,
                chars=chars,
                target=SESSION_TARGET if author == "a model" else None,
            )


def _row(
    name: str,
    points: Sequence[CompactionPoint],
    views: Sequence[str],
    *,
    chars: int,
    target: tuple[float, float] | None,
) -> tuple[str, ...]:
    found = _score(points, views)
    newest = _score(points, [newest_text(point.messages, chars) for point in points])
    verdict = "–"
    if target is not None:
        met = found[0] >= target[0] and found[1] >= target[1]
        verdict = f"{_join(target)}, {judge(met)}"
    missing = sum(not view for view in views)
    return (
        name,
        f"{found[0]:.2f}",
        f"{found[1]:.2f}",
        _join(newest),
        verdict,
        str(missing),
    )


def _score(points: Sequence[CompactionPoint], views: Sequence[str]) -> tuple[float, float]:
    """Return the mean shares of identifiers and of lines, over the points that have such."""
    texts = list(zip(points, views, strict=True))
    return (
        fmean(share_in(point.identifiers, text) for point, text in texts),
        fmean(share_in(point.lines, text) for point, text in texts if point.lines),
    )


def _join(shares: tuple[float, float]) -> str:
    return f"{shares[0]:.2f} / {shares[1]:.2f}"


if __name__ == "__main__":
    main()
