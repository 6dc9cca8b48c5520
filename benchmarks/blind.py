"""The blind reading test: what can a reader still answer from a compacted view?

    python -m benchmarks.blind DEST           write the cases and the method
    python -m benchmarks.blind sheets DEST    check the questions, write the readers' sheets
    python -m benchmarks.blind notes DEST     add the views with notes that were written for them
    python -m benchmarks.blind shuffle DEST   hand the answers to the graders in random order
    python -m benchmarks.blind score DEST     compute the table from the grades

`DEST/README.md`, which the first step writes, says who does what in between. The cases contain
recorded sessions, so DEST must be outside the repository.
"""

import argparse
import random
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from benchmarks.blind_method import METHOD
from benchmarks.blind_scores import BlindFault, CaseKey, make_sheets, score, shuffle_answers
from benchmarks.compacted_views import (
    ask_for_notes,
    newest_text,
    session_view,
    view_by_rules,
    view_with_summary,
)
from benchmarks.recordings import CHARS_PER_TOKEN, CompactionPoint, compaction_points
from benchmarks.results import publish
from clew.simulation.blind_test.transcript import readable

REPOSITORY = Path(__file__).parents[1]
CASES = 6
_NO_VIEW = "(No view of this size could be made.)"
_4K, _16K = 4_000 * CHARS_PER_TOKEN, 16_000 * CHARS_PER_TOKEN

VIEWS: Mapping[str, Callable[[CompactionPoint], str]] = {
    "newest 16k": lambda point: newest_text(point.messages, _16K),
    "recorded summary": lambda point: point.summary,
    "rules 4k": lambda point: view_by_rules(point.messages, _4K),
    "rules 16k": lambda point: view_by_rules(point.messages, _16K),
    "summary and rules 16k": lambda point: view_with_summary(point.messages, point.summary, _16K),
    "session in 60k": lambda point: session_view(
        point.messages, window=60_000, summary=point.summary
    ),
    "session in 200k": lambda point: session_view(
        point.messages, window=200_000, summary=point.summary
    ),
}
"""What a reader may get; each case calls them by other letters."""
NOTES = "notes and rules 16k"
"""The view with the notes in `notes.txt`, an answer to `prompt.txt`; `add_notes` makes it."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"[: len(VIEWS) + 1]


def main() -> None:
    """Run one step of the test."""
    steps: Mapping[str, Callable[[Path], object]] = {
        "sheets": make_sheets,
        "notes": lambda folder: add_notes(folder, compaction_points()),
        "shuffle": shuffle_answers,
        "score": lambda folder: publish(score(folder)),
    }
    words = sys.argv[1:]
    try:
        if words and words[0] in steps:
            parser = argparse.ArgumentParser(prog=f"python -m benchmarks.blind {words[0]}")
            parser.add_argument("dest", type=Path)
            steps[words[0]](parser.parse_args(words[1:]).dest)
        else:
            _write(words)
    except BlindFault as fault:
        sys.exit(f"blind: {fault}")


def _write(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.blind", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("dest", type=Path, help="a new folder outside the repository")
    parser.add_argument(
        "--cases",
        help="numbers of compaction points, such as 3,7,12, or `all`; "
        f"default: {CASES} of different sessions and sizes",
    )
    parser.add_argument(
        "--questions",
        type=Path,
        metavar="FOLDER",
        help="take the cases and the questions of an earlier test, to compare versions of Clew",
    )
    options = parser.parse_args(words)
    points = compaction_points()
    if not points:
        raise BlindFault("there are no recordings; nothing was written")
    chosen = choose_points(points, options.cases)
    if options.questions:
        numbers = {key.point for key in CaseKey.read_all(options.questions)}
        chosen = [point for point in points if point.number in numbers]
    write_cases(options.dest, chosen)
    if options.questions:
        _copy_questions(options.questions, options.dest)
        make_sheets(options.dest)
    print(f"{len(chosen)} cases; continue as {options.dest / 'README.md'} says")


def choose_points(points: Sequence[CompactionPoint], cases: str | None) -> list[CompactionPoint]:
    """Return the points with these numbers, or some of different sessions and sizes."""
    if cases == "all":
        return list(points)
    if cases is not None:
        try:
            return [points[int(number)] for number in cases.split(",")]
        except (ValueError, IndexError):
            raise BlindFault(
                f"--cases takes numbers from 0 to {len(points) - 1}, such as 3,7,12, or `all`"
            ) from None
    last_of_session = {point.session: point for point in points}
    by_size = sorted(last_of_session.values(), key=lambda point: len(readable(point.messages)))
    count = min(CASES, len(by_size))
    return [by_size[(2 * place + 1) * len(by_size) // (2 * count)] for place in range(count)]


def write_cases(dest: Path, points: Sequence[CompactionPoint]) -> None:
    """Write a folder for each point, the keys and the method."""
    if dest.resolve().is_relative_to(REPOSITORY):
        raise BlindFault("recordings never go into the repository: choose a folder outside of it")
    if dest.exists() and any(dest.iterdir()):
        raise BlindFault(f"{dest} is not empty: choose a new folder")
    (dest / "keys").mkdir(parents=True)
    (dest / "README.md").write_text(METHOD, encoding="utf-8")
    for number, point in enumerate(points, start=1):
        _write_case(dest, f"case-{number}", point)
        print(f"case {number}: point {point.number}, session {point.session[:8]}")


def _write_case(dest: Path, name: str, point: CompactionPoint) -> None:
    folder = dest / name
    (folder / "views").mkdir(parents=True)
    (folder / "answers").mkdir()
    (folder / "full.txt").write_text(readable(point.messages), encoding="utf-8")
    (folder / "prompt.txt").write_text(ask_for_notes(point.messages, _16K), encoding="utf-8")
    letters = list(_LETTERS)
    random.Random(f"{point.session} {point.number}").shuffle(letters)
    sizes = {}
    for letter, (kind, make_view) in zip(letters, VIEWS.items(), strict=False):
        text = make_view(point) or _NO_VIEW
        (folder / "views" / f"{letter}.txt").write_text(text, encoding="utf-8")
        sizes[kind] = len(text)
    key = CaseKey(
        case=name,
        point=point.number,
        session=point.session,
        views=dict(zip(letters, VIEWS, strict=False)),
        chars=sizes,
    )
    _write_key(dest, key)


def add_notes(dest: Path, points: Sequence[CompactionPoint]) -> None:
    """Add the view of a session whose model answered with `notes.txt`, where there is one."""
    for key in CaseKey.read_all(dest):
        notes = dest / key.case / "notes.txt"
        if not notes.is_file():
            continue
        point = next((point for point in points if point.number == key.point), None)
        if point is None:
            raise BlindFault(
                f"there is no recording of point {key.point}, which {key.case} is about"
            )
        written = notes.read_text(encoding="utf-8")
        view = view_with_summary(point.messages, written, _16K) or _NO_VIEW
        letter = next(one for one in _LETTERS if key.views.get(one, NOTES) == NOTES)
        (dest / key.case / "views" / f"{letter}.txt").write_text(view, encoding="utf-8")
        key.views[letter], key.chars[NOTES] = NOTES, len(view)
        _write_key(dest, key)


def _write_key(dest: Path, key: CaseKey) -> None:
    encoded = msgspec.json.format(msgspec.json.encode(key))
    (dest / "keys" / f"{key.case}.json").write_bytes(encoded)


def _copy_questions(source: Path, dest: Path) -> None:
    earlier = {key.point: key.case for key in CaseKey.read_all(source)}
    for key in CaseKey.read_all(dest):
        questions = source / earlier[key.point] / "questions.json"
        if questions.is_file():
            shutil.copyfile(questions, dest / key.case / "questions.json")


if __name__ == "__main__":
    main()
