"""The replies of a blind test, in a file of JSON lines: every reply is paid for only once.

A reply is found again by what was asked: the piece of text, the question, the view. So replies of
another session, model or version of a view never mix with those of this test. A reply that could
not be used counts for the run that asked for it; the next run asks again.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

from clew.core.errors import ConfigError
from clew.core.json_text import JsonDecoder
from clew.core.usage import Spending
from clew.files.atomic import make_private_folder
from clew.simulation.blind_test.compared_views import ComparedView
from clew.simulation.blind_test.plan import CasePlan
from clew.simulation.blind_test.questions import Question, digest

FORMAT = 1


class TestedSession(Struct, frozen=True, kw_only=True, tag="test"):
    """The first line of a file: which session is tested, with which model."""

    __test__ = False

    name: str
    session: str
    provider: str
    model: str
    questions: int
    format: int = FORMAT

    @property
    def file_name(self) -> str:
        """The file for the replies; different for every session, model and number of questions."""
        key = digest(self.session, self.provider, self.model, str(self.questions), str(self.format))
        safe = "".join(one if one.isalnum() or one in "-_." else "-" for one in self.name)
        return f"{safe[:60]}-{key}.jsonl"


class QuestionsWritten(Struct, frozen=True, kw_only=True, tag="questions"):
    """The reply of a writer."""

    task: str
    questions: tuple[Question, ...]
    problem: str = ""
    spent: Spending = Spending()

    @property
    def failed(self) -> bool:
        """True if the writer gave no question that can be used."""
        return not self.questions


class SummaryWritten(Struct, frozen=True, kw_only=True, tag="summary"):
    """The summary of a model, for the view that Clew makes with it."""

    prompt: str
    """Identifies what the model was asked."""
    text: str
    """Empty when the model wrote none; then rules write it, as in a session."""
    problem: str = ""
    spent: Spending = Spending()

    @property
    def failed(self) -> bool:
        """True if the model wrote no summary."""
        return not self.text


class QuestionAnswered(Struct, frozen=True, kw_only=True, tag="answer"):
    """The reply of a reader."""

    question: str
    view: str
    """Identifies the view and its text."""
    view_name: str
    answer: str | None
    """None when the reader gave none that could be read."""
    lookups: int = 0
    problem: str = ""
    spent: Spending = Spending()

    @property
    def failed(self) -> bool:
        """True if the reader gave no answer."""
        return self.answer is None


class AnswersGraded(Struct, frozen=True, kw_only=True, tag="grades"):
    """The reply of a grader."""

    question: str
    answers: str
    """Identifies the answers that were graded together."""
    grades: dict[str, float]
    """By answer; empty when the grader gave none that could be read."""
    problem: str = ""
    spent: Spending = Spending()

    @property
    def failed(self) -> bool:
        """True if the grader gave no grades."""
        return not self.grades


Record: TypeAlias = QuestionsWritten | SummaryWritten | QuestionAnswered | AnswersGraded
_Line: TypeAlias = TestedSession | Record
_decoder: JsonDecoder[_Line] = JsonDecoder(_Line)


class Replies:
    """The replies so far, by what was asked.

    Args:
        records: Replies to start with.
        wasted: What replies cost that earlier runs could not use.
    """

    def __init__(self, records: Iterable[Record], *, wasted: Spending) -> None:
        self._written: dict[str, QuestionsWritten] = {}
        self._answered: dict[tuple[str, str], QuestionAnswered] = {}
        self._graded: dict[tuple[str, str], AnswersGraded] = {}
        self.summaries: dict[str, str] = {}
        """By the digest of the prompt."""
        self.records: list[Record] = []
        self.wasted = self.spent = wasted
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        """Add a reply."""
        self.records.append(record)
        self.spent += record.spent
        match record:
            case QuestionsWritten():
                self._written[record.task] = record
            case SummaryWritten():
                self.summaries[record.prompt] = record.text
            case QuestionAnswered():
                self._answered[record.question, record.view] = record
            case AnswersGraded():
                self._graded[record.question, record.answers] = record

    def find_written(self, plan: CasePlan, number: int) -> QuestionsWritten | None:
        """Return the reply to a task of the writer."""
        return self._written.get(plan.task_keys[number])

    def list_questions(self, plan: CasePlan) -> list[Question] | None:
        """Return the questions about a case, each once; None while some are still to be written."""
        written = [self.find_written(plan, number) for number in range(len(plan.tasks))]
        if None in written:
            return None
        found = (question for one in written if one is not None for question in one.questions)
        return list(dict.fromkeys(found))

    def find_answer(self, question: Question, view: ComparedView) -> QuestionAnswered | None:
        """Return the answer to a question from a view."""
        return self._answered.get((question.key, view.key))

    def list_answers(self, plan: CasePlan, question: Question) -> dict[str, str] | None:
        """Return the answers by view, without missing ones; None while some are still to come."""
        found = {view.kind.name: self.find_answer(question, view) for view in plan.readable_views}
        if None in found.values():
            return None
        return {name: one.answer for name, one in found.items() if one is not None and one.answer}

    def find_grades(self, question: Question, answers: Iterable[str]) -> AnswersGraded | None:
        """Return the grades of these answers."""
        return self._graded.get((question.key, identify_answers(answers)))


def identify_answers(answers: Iterable[str]) -> str:
    """Return what identifies a set of answers."""
    return digest(*sorted(set(answers)))


class ReplyFile:
    """Appends replies to a file, and reads those of earlier runs.

    Raises:
        ConfigError: The file cannot be used, or belongs to another test.
    """

    def __init__(self, path: Path, tested: TestedSession) -> None:
        self.path = path
        self._tested = tested
        self._is_new = True
        self.damaged = 0
        """Lines that cannot be read, such as the last one after a crash."""
        loaded = self._load()
        self.replies = Replies(
            (one for one in loaded if not one.failed),
            wasted=sum((one.spent for one in loaded if one.failed), Spending()),
        )

    def start(self) -> None:
        """Begin the file, so that one that cannot be written is noticed before a call is paid.

        Raises:
            ConfigError: The file cannot be written.
        """
        self._write(self._tested if self._is_new else None)
        self._is_new = False

    def append(self, record: Record) -> None:
        """Write a reply; it is on disk when this returns.

        Raises:
            ConfigError: The file cannot be written.
        """
        self._write(record)
        self.replies.add(record)

    def _write(self, line: _Line | None) -> None:
        data = b"" if line is None else msgspec.json.encode(line) + b"\n"
        try:
            make_private_folder(self.path.parent)
            handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(handle, "r+b") as file:
                size = file.seek(0, os.SEEK_END)
                if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
                    # The last line was not written completely.
                    data = b"\n" + data
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ConfigError(f"cannot write {self.path}: {error.strerror or error}") from error

    def _load(self) -> list[Record]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConfigError(f"cannot read {self.path}: {error.strerror or error}") from error
        records: list[Record] = []
        for line in data.splitlines():
            match self._decode(line):
                case None:
                    pass
                case TestedSession() as tested:
                    self._check(tested)
                case record:
                    records.append(record)
        return records

    def _decode(self, line: bytes) -> _Line | None:
        if not line.strip():
            return None
        try:
            return _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self.damaged += 1
            return None

    def _check(self, tested: TestedSession) -> None:
        if tested.file_name != self._tested.file_name:
            raise ConfigError(f"{self.path} belongs to another test; choose another folder")
        self._is_new = False
