"""The score of the visit: what was answered in lessons and quizzes, for a board and a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from pages.components.lesson_question import grade_of, question_of
from pages.components.lesson_state import LessonState
from pages.components.plain import visible
from scheduler_core.lesson import Lesson
from scheduler_core.predictions import QuestionKind
from scheduler_core.trace import Trace

KIND_WORDS: dict[QuestionKind, str] = {
    QuestionKind.VICTIM: "Who is preempted",
    QuestionKind.ADMITTED: "Who is admitted",
    QuestionKind.SCHEDULED: "Who runs",
    QuestionKind.CAUSE: "Why it is preempted",
    QuestionKind.HITS: "How many tokens hit",
    QuestionKind.CHUNK: "How large the chunk is",
    QuestionKind.FIRST_TOKEN: "When the first token comes",
}


class Result(Enum):
    """What came of a question."""

    RIGHT = "right"
    WRONG = "wrong"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Answered:
    """A question that is over: answered, or skipped; of a quiz, `lesson` is the run and `step` the tick."""

    lesson: str
    step: int
    kind: QuestionKind
    question: str
    result: Result
    said: str
    did: str


@dataclass(frozen=True, slots=True)
class Tally:
    """How many questions were answered rightly, wrongly, or skipped."""

    right: int = 0
    wrong: int = 0
    skipped: int = 0

    @property
    def answered(self) -> int:
        return self.right + self.wrong

    @property
    def words(self) -> str:
        """As in "4 of 5 right"."""
        return f"{self.right} of {self.answered} right"


def answered_in(lesson: Lesson, state: LessonState, traces: Mapping[str, Trace]) -> list[Answered]:
    """The questions of a lesson that are over, in its order."""
    found = []
    for step in lesson.steps:
        if step.ask is None or state.is_open(step.number):
            continue
        asked = question_of(step, traces)
        assert asked is not None
        answer = state.answers[step.number]
        graded = grade_of(asked, traces[step.run], answer)
        result = Result.SKIPPED if answer is None else Result.RIGHT if graded.right else Result.WRONG
        said = "" if answer is None else graded.said
        found.append(Answered(lesson.title, step.number, asked.kind, asked.text, result, said, graded.did))
    return found


def tally(rows: Iterable[Answered]) -> Tally:
    """All of them counted."""
    results = [row.result for row in rows]
    return Tally(*(results.count(result) for result in Result))


def by_kind(rows: Sequence[Answered]) -> dict[str, Tally]:
    """A tally for each kind of question that came up, in the usual order."""
    return {
        words: tally(row for row in rows if row.kind is kind)
        for kind, words in KIND_WORDS.items()
        if any(row.kind is kind for row in rows)
    }


def by_lesson(rows: Sequence[Answered]) -> dict[str, Tally]:
    """A tally for each lesson, in the order of the rows."""
    return {title: tally(row for row in rows if row.lesson == title) for title in dict.fromkeys(r.lesson for r in rows)}


def score_csv(rows: Sequence[Answered]) -> str:
    """A line for each question, for a spreadsheet."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["lesson", "step", "kind", "question", "result", "said", "did"])
    for row in rows:
        words = (row.question, row.result.value, row.said, row.did)
        writer.writerow([visible(row.lesson), row.step, KIND_WORDS[row.kind], *map(visible, words)])
    return text.getvalue()
