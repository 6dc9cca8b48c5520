"""The pure parts of a blind test: which questions, which pieces, in which order."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.simulation.blind_test.questions import (
    KINDS,
    QUESTIONS,
    Question,
    count_kinds,
    plan_questions,
)
from clew.simulation.blind_test.replies import parse_answer, parse_grades, parse_questions
from clew.simulation.blind_test.scores import shuffle_answers
from clew.simulation.blind_test.transcript import find_newest, make_counter, split_text
from tests.rows import each_row

pytestmark = pytest.mark.req("SIM-1")

QUESTION = Question(kind="fact", question="Which?", reference="this")
texts = st.text(alphabet="ab \n猫", max_size=400)


@given(st.integers(1, 60), st.integers(1, 40), st.integers(1, 12))
def test_questions_are_divided_without_loss_and_in_order(
    count: int, pieces: int, most: int
) -> None:
    tasks = plan_questions(count, pieces=pieces, most=most)

    kinds = Counter(kind for task in tasks for kind in task.kinds)
    assert kinds == Counter({kind: n for kind, n in count_kinds(count).items() if n})
    assert all(1 <= len(task.kinds) <= most for task in tasks)
    order = [task.piece for task in tasks]
    assert order == sorted(order)
    assert order[-1] == pieces - 1
    assert set(order) <= set(range(pieces))
    assert len(set(order)) == min(pieces, count)


def test_twelve_questions_cover_every_kind() -> None:
    (task,) = plan_questions(QUESTIONS, pieces=1, most=QUESTIONS)

    assert set(task.kinds) == set(KINDS)
    assert task.kinds[0] == "goal"
    assert task.kinds[-1] == "next step"


@given(texts, st.integers(20, 60))
def test_pieces_are_the_whole_text_and_none_is_too_long(text: str, tokens: int) -> None:
    pieces = split_text(text, tokens=tokens, count=len)

    assert "".join(pieces).replace("\n", "") == text.replace("\n", "")
    assert all(len(piece) <= tokens * 2 for piece in pieces)


@given(texts, st.integers(0, 100))
def test_the_newest_text_is_the_longest_end_that_fits(text: str, tokens: int) -> None:
    count = make_counter("mystery-9")

    newest = find_newest(text, tokens=tokens, count=count)

    assert text.endswith(newest)
    assert count(newest) <= tokens
    assert newest == text or count(text[-len(newest) - 1 :]) > tokens


@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=60))
def test_equal_answers_share_a_letter_and_the_order_is_always_the_same(answers: list[str]) -> None:
    shown = shuffle_answers(QUESTION, answers)

    assert sorted(shown.values()) == sorted(set(answers))
    assert shuffle_answers(QUESTION, reversed(answers)) == shown


def test_the_order_of_answers_differs_between_questions() -> None:
    answers = [f"answer {number}" for number in range(6)]
    questions = [Question(kind="fact", question=f"{n}?", reference="x") for n in range(20)]

    orders = {tuple(shuffle_answers(one, answers).values()) for one in questions}

    assert len(orders) > 10


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": "42"}',
        ' \n{"answer": " 42 "}\n',
        '```json\n{"answer": "42"}\n```',
        'Here it is: {"answer": "42"}. Anything else?',
        '<think>{"answer": "7"}</think>{"answer": "42"}',
        '{"answer": "42", "confidence": 0.9}',
    ],
)
def test_an_answer_is_found_beside_other_words(text: str) -> None:
    parsed = parse_answer(text)

    assert (parsed.value, parsed.problem) == ("42", "")


@each_row(
    "text",
    [
        "[" * 100_000,
        '{"answer": "42", "more": ' + "[" * 500 + "]" * 500 + "}",
        "",
        "42",
        '{"answer": 42}',
        '{"answer": " "}',
        '["42"]',
        "{",
        '{"answer": "\ud800"}',
    ],
)
def test_an_answer_in_another_form_is_a_problem(text: str) -> None:
    parsed = parse_answer(text)

    assert parsed.value is None
    assert parsed.problem


def test_a_question_alone_needs_no_array() -> None:
    text = 'Sure: {"kind": "fact", "question": "Which?", "reference": "this"}'

    assert parse_questions(text, 1).value == (QUESTION,)
    assert "1 of 2 questions" in parse_questions(text, 2).problem


@given(st.text(max_size=200))
def test_no_text_makes_the_parsers_fail(text: str) -> None:
    parse_answer(text)
    parse_grades(text, "ab")
    parse_questions(text, 3)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1}', "no grade for b"),
        ('{"a": 1, "b": 0.25}', "the grade of b must be 1, 0.5 or 0"),
        ('{"a": 1, "b": "good"}', "not a JSON object"),
        ("[1, 0]", "not a JSON object"),
    ],
)
def test_grades_must_be_complete_and_of_the_scale(text: str, problem: str) -> None:
    assert problem in parse_grades(text, "ab").problem
    assert parse_grades('{"a": 1, "b": 0, "c": 0.5}', "ab").value == {"a": 1.0, "b": 0.0}
