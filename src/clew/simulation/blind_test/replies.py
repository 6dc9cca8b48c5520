"""Read the replies of a model as writer, reader and grader; what is wrong is never guessed."""

import re
from collections.abc import Collection, Iterator
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from clew.core.json_text import decode_json
from clew.core.text import one_line
from clew.simulation.blind_test.questions import GRADES, KINDS, Question

T = TypeVar("T")
_THOUGHT = re.compile(r"<think>.*?(?:</think>|$)", re.DOTALL)
_FENCED = re.compile(r"```[a-zA-Z]*\n(.*?)```", re.DOTALL)
_MOST_CHARS = 4_000
"""Longest answer or question that is accepted."""
_SHOWN = 40


class ParsedReply(Struct, Generic[T], frozen=True, kw_only=True):
    """What a reply says."""

    value: T | None = None
    """None when nothing of it can be used."""
    problem: str = ""
    """Why it is not complete; empty when it is."""


class _Answer(Struct, frozen=True):
    answer: str


def parse_questions(text: str, count: int) -> ParsedReply[tuple[Question, ...]]:
    """Return the first `count` questions of a reply; those that are right, if there are fewer."""
    items = _decode(text, list[msgspec.Raw])
    if items is None:
        # Models that are asked for one question often leave the brackets out.
        alone = _decode(text, Question)
        items = [msgspec.Raw(msgspec.json.encode(alone))] if alone is not None else None
    if items is None:
        return ParsedReply(problem="it is not a JSON array")
    found: list[Question] = []
    problems: list[str] = []
    for number, item in enumerate(items, start=1):
        try:
            question = decode_json(item, type=Question)
        except msgspec.DecodeError as error:
            problems.append(f"question {number}: {error}")
            continue
        problem = _check_question(question)
        if problem:
            problems.append(f"question {number}: {problem}")
        elif question not in found:
            found.append(question)
    if len(found) >= count:
        return ParsedReply(value=tuple(found[:count]))
    problems.append(f"it has {len(found)} of {count} questions")
    return ParsedReply(value=tuple(found) or None, problem="; ".join(problems))


def parse_summary(text: str) -> ParsedReply[str]:
    """Return a summary; any text is one."""
    found = _THOUGHT.sub("", text).strip()
    return ParsedReply(value=found) if found else ParsedReply(problem="it is empty")


def parse_answer(text: str) -> ParsedReply[str]:
    """Return the answer of a reader."""
    found = _decode(text, _Answer)
    if found is None:
        return ParsedReply(problem='it is not a JSON object with the key "answer"')
    answer = found.answer.strip()
    if not answer or len(answer) > _MOST_CHARS:
        return ParsedReply(problem=f"the answer must have 1 to {_MOST_CHARS:,} characters")
    return ParsedReply(value=answer)


def parse_grades(text: str, letters: Collection[str]) -> ParsedReply[dict[str, float]]:
    """Return a grade for each of `letters`."""
    found = _decode(text, dict[str, float])
    if found is None:
        return ParsedReply(problem="it is not a JSON object with a number for each letter")
    if missing := [letter for letter in letters if letter not in found]:
        return ParsedReply(problem=f"it has no grade for {', '.join(missing)}")
    for letter in letters:
        if found[letter] not in GRADES:
            return ParsedReply(problem=f"the grade of {letter} must be 1, 0.5 or 0")
    return ParsedReply(value={letter: found[letter] for letter in letters})


def _check_question(question: Question) -> str:
    if question.kind not in KINDS:
        return f"unknown kind {one_line(question.kind, _SHOWN)!r}; choose from {', '.join(KINDS)}"
    if not question.question.strip() or not question.reference.strip():
        return "the question or the reference is empty"
    if len(question.question) + len(question.reference) > _MOST_CHARS:
        return f"it is longer than {_MOST_CHARS:,} characters"
    return ""


def _decode(text: str, kind: type[T]) -> T | None:
    """Return the first JSON value of that type in a reply, also beside other words."""
    for part in _candidates(_THOUGHT.sub("", text)):
        try:
            return decode_json(part, type=kind)
        except (msgspec.DecodeError, UnicodeEncodeError):
            continue
    return None


def _candidates(text: str) -> Iterator[str]:
    yield text
    yield from _FENCED.findall(text)
    for opening, closing in ("[]", "{}"):
        start, end = text.find(opening), text.rfind(closing)
        if 0 <= start < end:
            yield text[start : end + 1]
