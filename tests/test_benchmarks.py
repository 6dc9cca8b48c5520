"""The parts of the benchmarks that decide what a figure says."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.blind import NOTES, add_notes, choose_points, write_cases
from benchmarks.blind_scores import (
    BlindFault,
    CaseKey,
    make_sheets,
    score,
    shuffle_answers,
)
from benchmarks.public_chats import measure
from benchmarks.recordings import CompactionPoint
from benchmarks.results import merge
from benchmarks.retention import Kept, replay
from benchmarks.server import Figures, Sizes, judge_targets
from benchmarks.server_load import Received
from benchmarks.server_processes import Stop
from clew.core.messages import assistant, user
from clew.importers.recorded_session import RecordedStep
from clew.simulation.blind_test.questions import KINDS, QUESTIONS, Question
from tests.rows import each_row

pytestmark = pytest.mark.anyio

LONG = "The gateway answers slowly. " * 400


def test_a_blind_test_with_known_answers_gets_the_known_scores(tmp_path: Path) -> None:
    keys = write_test(tmp_path)
    make_sheets(tmp_path)
    for key in keys:
        for letter, view in key.views.items():
            answers = ["right" if view == "recorded summary" else "half"] * QUESTIONS
            write(tmp_path / key.case / "answers" / f"{letter}.json", answers)
    shuffle_answers(tmp_path)
    for key in keys:
        grade(tmp_path / key.case, {"right": 1.0, "half": 0.5})

    section = score(tmp_path)

    scores = {row[0]: row[2] for row in section.rows}
    assert scores.pop("recorded summary") == "1.00"
    assert set(scores.values()) == {"0.50"}
    targets = {row[0]: row[-1] for row in section.rows}
    assert targets["rules 16k"] == "≥ 0.90, **missed**"


@pytest.mark.parametrize(
    ("ids", "faults"),
    [([5, 6, 7], 0), ([5, 7], 2), ([5, 6, 6], 1), ([5, 7, 6], 2), ([], 3)],
    ids=["all", "one lost", "one repeated", "out of order", "nothing came"],
)
def test_events_that_a_client_did_not_get_in_order_are_faults(ids: list[int], faults: int) -> None:
    assert Received(ids, [0.0] * len(ids)).count_faults(3) == faults


@each_row(
    ("changed", "missed"),
    [
        ({}, []),
        ({"idle_mb": 40.0}, [0]),
        ({"last_delay": 100.1}, [1]),
        ({"delays": [5.0, 500.0]}, [1]),
        ({"faults": 1}, [1]),
        ({"stops": [Stop(0.1, 0), Stop(0.5, 0)]}, [2]),
        ({"stops": [Stop(0.1, 0), Stop(0.1, -15)]}, [2]),
    ],
)
def test_a_server_that_misses_a_target_is_told_so(
    changed: dict[str, Any], missed: list[int]
) -> None:
    good: dict[str, Any] = {"idle_mb": 39.9, "last_delay": 99.9, "delays": [5.0, 6.0]}
    figures = Figures(**{**good, "stops": [Stop(0.49, 0)], **changed})

    notes = judge_targets(figures, Sizes())

    assert [index for index, note in enumerate(notes) if "missed" in note] == missed


def test_a_sheet_has_no_answers_and_a_grader_sees_no_letters(tmp_path: Path) -> None:
    (key, _) = write_test(tmp_path)
    make_sheets(tmp_path)
    for letter in key.views:
        write(tmp_path / key.case / "answers" / f"{letter}.json", ["an answer"] * QUESTIONS)
    for other in ("case-2",):
        write(tmp_path / other / "answers" / "a.json", ["an answer"] * QUESTIONS)
    shuffle_answers(tmp_path)

    sheet = (tmp_path / key.case / "sheet.txt").read_text()
    grading = msgspec.json.decode((tmp_path / key.case / "grading.json").read_bytes())

    assert "the reference" not in sheet
    assert len(sheet.splitlines()) == QUESTIONS
    assert set(grading[0]["answers"][0]) == {"id", "answer"}


def test_notes_that_were_written_for_a_case_become_a_view(tmp_path: Path) -> None:
    (key, _) = write_test(tmp_path)
    asked = (tmp_path / key.case / "prompt.txt").read_text()
    (tmp_path / key.case / "notes.txt").write_text("The cache is cold: warm it first.")

    long = [user("Find out why."), *(assistant(LONG) for _ in range(20)), user("Continue.")]
    add_notes(tmp_path, [replace(make_point(key.point), messages=long)])

    first, second = CaseKey.read_all(tmp_path)
    (letter,) = [letter for letter, view in first.views.items() if view == NOTES]
    view = (tmp_path / key.case / "views" / f"{letter}.txt").read_text()
    assert "words" in asked.partition("Transcript:")[0]
    assert "The cache is cold: warm it first." in view
    assert first.chars[NOTES] == len(view)
    assert NOTES not in second.chars


def test_the_turns_that_a_public_chat_relies_on_are_found() -> None:
    turns = [
        {"speaker": "Ada", "dia_id": "D1:1", "text": "I moved to Turin in May."},
        {"speaker": "Bo", "dia_id": "D1:2", "text": "Lovely!", "blip_caption": "a red tram"},
        *(
            {"speaker": ("Ada", "Bo")[n % 2], "dia_id": f"D1:{n}", "text": f"{n}: {LONG[:300]}"}
            for n in range(3, 40)
        ),
    ]
    talk = {"speaker_a": "Ada", "speaker_b": "Bo", "session_1": turns}
    asked = [{"question": "Where to?", "evidence": ["D1:1", "D1:2; D9:9"]}, {"question": "Why?"}]

    section = measure([{"conversation": talk | {"session_1_date_time": "1 May"}, "qa": asked}])

    assert [row[:3] for row in section.rows] == [("LoCoMo, 2k", "1, 2", "4")]
    assert float(section.rows[0][4]) == 0.0


def test_a_missing_grade_is_named(tmp_path: Path) -> None:
    for key in write_test(tmp_path):
        write(tmp_path / key.case / "answers" / "a.json", ["an answer"] * QUESTIONS)
    shuffle_answers(tmp_path)
    write(tmp_path / "case-1" / "grades.json", {"1-1": 1})

    with pytest.raises(BlindFault, match="has no grade for 10-1"):
        score(tmp_path)


def test_cases_are_never_written_into_the_repository() -> None:
    with pytest.raises(BlindFault, match="outside"):
        write_cases(Path(__file__).parent / "cases", [make_point(0)])


def test_cases_come_from_different_sessions_unless_they_are_named() -> None:
    points = [make_point(number, session=f"s{number // 2}") for number in range(20)]

    chosen = choose_points(points, None)

    assert len({point.session for point in chosen}) == len(chosen) == 6
    assert choose_points(points, "3,7") == [points[3], points[7]]
    with pytest.raises(BlindFault, match="numbers from 0 to 19"):
        choose_points(points, "3,x")


def test_a_benchmark_replaces_only_its_own_section() -> None:
    old = "# Results\n\nhead\n\n## One\n\nold\n\n## Two\n\nkept\n"

    new = merge(old, "One", "new")

    assert "old" not in new
    assert new.endswith("## One\n\nnew\n\n## Two\n\nkept\n")


async def test_retention_counts_the_compactions_and_finds_what_the_view_contains() -> None:
    steps = [RecordedStep(message=user("Never edit the files under vendor, please."))]
    for number in range(40):
        steps.append(RecordedStep(message=assistant(f"{number}: {LONG}"), model="m"))
        steps.append(RecordedStep(message=user(f"Continue with part number {number}, please.")))

    found = await replay(steps, 16_000, None)

    assert [one.compactions for one in found] == list(range(1, len(found) + 1))
    assert len(found) > 1
    assert all(0.0 <= one.messages <= 1.0 for one in found)
    assert found[0] == Kept(compactions=1, messages=1.0, rules=1.0, first_task=True, fits=True)


def write_test(dest: Path) -> list[CaseKey]:
    """Write two made-up cases with questions."""
    write_cases(dest, [make_point(0), make_point(1)])
    keys, kinds = CaseKey.read_all(dest), list(KINDS)
    for key in keys:
        questions = [
            Question(kind=kinds[place % len(kinds)], question="What?", reference="the reference")
            for place in range(QUESTIONS)
        ]
        write(dest / key.case / "questions.json", questions)
    return keys


def make_point(number: int, session: str = "s") -> CompactionPoint:
    """Return a made-up compaction."""
    said = [user("Find out why the gateway is slow."), assistant(LONG), user("Continue.")]
    return CompactionPoint(
        session=session,
        number=number,
        messages=said,
        summary="The gateway is slow.",
        identifiers=frozenset(),
        lines=frozenset(),
    )


def grade(case: Path, worth: dict[str, float]) -> None:
    """Grade every answer by its text."""
    items = msgspec.json.decode((case / "grading.json").read_bytes())
    grades = {one["id"]: worth[one["answer"]] for item in items for one in item["answers"]}
    write(case / "grades.json", grades)


def write(path: Path, value: object) -> None:
    """Write JSON."""
    path.write_bytes(msgspec.json.encode(value))
