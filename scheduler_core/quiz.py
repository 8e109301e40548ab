"""A quiz of a run: in which ticks to ask, and what, so that questions are spread and their kinds vary."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_core.predictions import Question, QuestionKind, questions
from scheduler_core.trace import Trace

#: Ticks between two questions at least, so that something is seen in between; a kind that was asked often waits longer.
PAUSE = 2
MOST_PAUSE = 5
#: Ticks until the same kind comes again, for each time that it was asked.
REST = 6
#: Of kinds that were asked equally often the first of these is asked: what comes up rarely before what is always there.
ORDER = (
    QuestionKind.HITS,
    QuestionKind.CHUNK,
    QuestionKind.FIRST_TOKEN,
    QuestionKind.VICTIM,
    QuestionKind.ADMITTED,
    QuestionKind.CAUSE,
    QuestionKind.SCHEDULED,
)


def next_in_quiz(trace: Trace, first: int, asked: Sequence[Question]) -> Question | None:
    """The next question from tick `first` on, after those `asked`; None if the run has no more."""
    latest = max((question.tick for question in asked), default=first - PAUSE)
    for tick in range(max(first, latest + 1, 0), len(trace.records)):
        if tick < latest + PAUSE:
            continue
        due = [found for found in questions(trace, tick) if _is_due(found, latest, asked)]
        if due:
            return _rarest(due, asked)
    return None


def question_about(trace: Trace, tick: int, asked: Sequence[Question]) -> Question | None:
    """A question about just this tick that was not asked yet, None if there is none; the rarest kind goes first."""
    found = [question for question in questions(trace, tick) if question not in asked]
    return _rarest(found, asked) if found else None


def _is_due(question: Question, latest: int, asked: Sequence[Question]) -> bool:
    same = [other.tick for other in asked if other.kind is question.kind]
    if not same:
        return True
    pause = min(PAUSE + len(same), MOST_PAUSE)
    return question.tick >= max(latest + pause, max(same) + REST * len(same))


def _rarest(found: Sequence[Question], asked: Sequence[Question]) -> Question:
    """One of the kind that was asked least often."""
    kinds = [question.kind for question in asked]
    return min(found, key=lambda question: (kinds.count(question.kind), ORDER.index(question.kind)))
