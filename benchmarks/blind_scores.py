"""The steps of the blind reading test between and after its people: sheets, shuffle, score."""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TypeVar

import msgspec
from msgspec import Struct

from benchmarks.recordings import CHARS_PER_TOKEN
from benchmarks.results import Section, judge
from clew.simulation.blind_test.questions import GRADES, KINDS, QUESTIONS, Question

TARGETS = {
    "rules 4k": 0.65,
    "rules 16k": 0.90,
    "summary and rules 16k": 0.94,
    "notes and rules 16k": 0.94,
}
"""By view."""
_T = TypeVar("_T")


class BlindFault(Exception):
    """A file of the test is missing or wrong; the text says which and what to do."""


class CaseKey(Struct, frozen=True, kw_only=True):
    """What the letters of one case stand for. Readers and graders never see it."""

    case: str
    point: int
    session: str
    views: dict[str, str]
    """Kind of view by letter."""
    chars: dict[str, int]
    """Length of the view by kind."""

    @classmethod
    def read_all(cls, dest: Path) -> list["CaseKey"]:
        """Read the keys of all cases, in their order."""
        found = [_read(path, cls) for path in (dest / "keys").glob("case-*.json")]
        if not found:
            raise BlindFault(f"{dest} has no cases: run `python -m benchmarks.blind {dest}` first")
        return sorted(found, key=lambda key: int(key.case.removeprefix("case-")))


class ShuffledAnswer(Struct, frozen=True, kw_only=True):
    """An answer as a grader sees it."""

    id: str
    answer: str


class GradingItem(Struct, frozen=True, kw_only=True):
    """One question with all answers to it, in random order."""

    kind: str
    question: str
    reference: str
    answers: list[ShuffledAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """What one answer was worth."""

    view: str
    kind: str
    grade: float


def make_sheets(dest: Path) -> None:
    """Check the questions of every case, and write them without their answers for the readers."""
    for key in CaseKey.read_all(dest):
        questions = _read_questions(dest / key.case)
        lines = (f"{number}. {one.question}" for number, one in enumerate(questions, start=1))
        sheet = dest / key.case / "sheet.txt"
        sheet.write_text("\n".join(lines) + "\n", encoding="utf-8")


def shuffle_answers(dest: Path) -> None:
    """Write every answer beside its question for the graders, in random order."""
    for key in CaseKey.read_all(dest):
        folder = dest / key.case
        questions = _read_questions(folder)
        answers = {
            letter: _read_answers(folder / "answers" / f"{letter}.json", len(questions))
            for letter in key.views
            if (folder / "answers" / f"{letter}.json").is_file()
        }
        order = random.Random(key.session)
        items = []
        origins: dict[str, str] = {}
        for place, question in enumerate(questions):
            letters = list(answers)
            order.shuffle(letters)
            ids = {letter: f"{place + 1}-{turn}" for turn, letter in enumerate(letters, start=1)}
            origins |= {name: letter for letter, name in ids.items()}
            shown = [ShuffledAnswer(id=ids[one], answer=answers[one][place]) for one in letters]
            items.append(
                GradingItem(
                    kind=question.kind,
                    question=question.question,
                    reference=question.reference,
                    answers=shown,
                )
            )
        _write(folder / "grading.json", items)
        _write(dest / "keys" / f"answers-{key.case}.json", origins)


def score(dest: Path) -> Section:
    """Compute the table from the grades of all cases."""
    keys = CaseKey.read_all(dest)
    grades = [grade for key in keys for grade in _read_grades(dest, key)]
    by_view: dict[str, list[Grade]] = defaultdict(list)
    for grade in grades:
        by_view[grade.view].append(grade)
    best_first = sorted(by_view, key=lambda view: -_mean(by_view[view]))
    return Section(
        title="Blind reading",
        command="python -m benchmarks.blind",
        columns=("what the reader has", "tokens", "score", *KINDS, "target"),
        rows=[_row(view, by_view[view], keys) for view in best_first],
        notes=[
            f"{len(keys)} recorded compactions, {QUESTIONS * len(keys)} questions; "
            "one reader writes the questions from the full text, others answer from one view "
            "each, a grader scores the shuffled answers 1, ½ or 0 without knowing the views",
            f"tokens: mean size of the view at {CHARS_PER_TOKEN} characters a token",
            "the summary is the one that the recorded agent wrote; in a session (default options, "
            "compacted once) and in “summary and rules” it is what the model answered; in “notes "
            "and rules” the model was asked by Clew",
        ],
    )


def _row(view: str, grades: Sequence[Grade], keys: Sequence[CaseKey]) -> tuple[str, ...]:
    by_kind = ([one for one in grades if one.kind == kind] for kind in KINDS)
    target = TARGETS.get(view)
    size = fmean(key.chars[view] for key in keys if view in key.chars) / CHARS_PER_TOKEN
    return (
        view,
        f"{size:,.0f}",
        f"{_mean(grades):.2f}",
        *(f"{_mean(some):.2f}" if some else "–" for some in by_kind),
        "–" if target is None else f"≥ {target:.2f}, {judge(_mean(grades) >= target)}",
    )


def _mean(grades: Sequence[Grade]) -> float:
    return fmean(one.grade for one in grades)


def _read_grades(dest: Path, key: CaseKey) -> Iterator[Grade]:
    path = dest / key.case / "grades.json"
    given = _read(path, dict[str, float])
    questions = _read_questions(dest / key.case)
    origins = _read(dest / "keys" / f"answers-{key.case}.json", dict[str, str])
    if missing := sorted(set(origins) - set(given)):
        raise BlindFault(f"{path} has no grade for {', '.join(missing)}")
    for name, letter in origins.items():
        if given[name] not in GRADES:
            raise BlindFault(f"{path}: the grade of {name} is {given[name]}, not 1, 0.5 or 0")
        question = questions[int(name.partition("-")[0]) - 1]
        yield Grade(view=key.views[letter], kind=question.kind, grade=given[name])


def _read_questions(folder: Path) -> list[Question]:
    path = folder / "questions.json"
    questions = _read(path, list[Question])
    if len(questions) != QUESTIONS:
        raise BlindFault(f"{path} has {len(questions)} questions instead of {QUESTIONS}")
    if wrong := sorted({one.kind for one in questions} - set(KINDS)):
        raise BlindFault(f"{path}: unknown kind {wrong[0]!r}; choose from {', '.join(KINDS)}")
    return questions


def _read_answers(path: Path, count: int) -> list[str]:
    answers = _read(path, list[str])
    if len(answers) != count:
        raise BlindFault(f"{path} has {len(answers)} answers instead of {count}")
    return answers


def _read(path: Path, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        raise BlindFault(f"{path} is missing") from None
    except msgspec.DecodeError as error:
        raise BlindFault(f"{path} cannot be read: {error}") from error


def _write(path: Path, value: object) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(value)))
