"""Questions about what a tick will decide, made and graded from a trace: first the guess, then the reason."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from scheduler_core.errors import TraceError
from scheduler_core.lookup import record_at, require_full
from scheduler_core.prediction_choices import NOBODY as NOBODY
from scheduler_core.prediction_choices import Choice as Choice
from scheduler_core.prediction_choices import nobody, numbers, who
from scheduler_core.prediction_reasons import (
    admitted_reason,
    cause_reason,
    chunk_reason,
    first_token_reason,
    hits_reason,
    scheduled_reason,
    victim_reason,
)
from scheduler_core.prediction_scene import PREEMPTION_LABELS, Scene
from scheduler_core.trace import Trace
from scheduler_core.words import count, names


class QuestionKind(Enum):
    """What can be asked; in this order, as the premise of a later kind may give away the answer to an earlier one."""

    VICTIM = "victim"
    ADMITTED = "admitted"
    SCHEDULED = "scheduled"
    CAUSE = "cause"
    HITS = "hits"
    CHUNK = "chunk"
    FIRST_TOKEN = "first_token"


@dataclass(frozen=True, slots=True)
class Question:
    """A question to be put while the stage still shows the state before `tick`, which decides.

    `subject` is the request it is about, "" if it asks for one; one of the `choices` at least is right. Arrivals in
    `tick` come from outside, so the question tells them.
    """

    kind: QuestionKind
    tick: int
    text: str
    subject: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Grade:
    """What was said, what the run did (all right answers), why, and the tick from which on it can be seen."""

    right: bool
    said: str
    did: str
    reason: str
    reveal_tick: int


def questions(trace: Trace, tick: int) -> tuple[Question, ...]:
    """All that can fairly be asked about what `tick` decides, in the order in which to ask.

    Who runs, enters or leaves is asked only where something is new, or it would be the same question in every tick.
    Nothing where somebody intervenes in the tick (settings changed, a request aborted) or a fault strikes: nobody can
    foresee that. Raises `TraceError` for an unknown tick or a trace without snapshots.
    """
    scene = _scene(trace, tick)
    if scene.is_disturbed:
        return ()
    kinds = [kind for kind in QuestionKind if kind in _ABOUT_ONE or scene.has_news(kind is QuestionKind.VICTIM)]
    asked = [_ask(scene, kind, subject) for kind in kinds for subject in _subjects(scene, kind)]
    return tuple(question for question in asked if question is not None)


def question(trace: Trace, kind: QuestionKind, tick: int, subject: str = "") -> Question | None:
    """One question; None where it cannot fairly be asked. Raises `TraceError` as `questions` does."""
    scene = _scene(trace, tick)
    if scene.is_disturbed or (subject != "") != (kind in _ABOUT_ONE):
        return None
    if kind is QuestionKind.FIRST_TOKEN:
        # It is asked at arrival and at admission, but may be asked at any time before the token.
        return _first_token(scene, subject) if subject in scene.without_output else None
    return _ask(scene, kind, subject) if subject in _subjects(scene, kind) else None


def next_question(trace: Trace, tick: int, kinds: Collection[QuestionKind] | None = None) -> Question | None:
    """The first question of one of the `kinds` (None = all) about `tick` or a later one; None if there is none."""
    for later in range(tick, len(trace.records)):
        for found in questions(trace, later):
            if kinds is None or found.kind in kinds:
                return found
    return None


def right_values(trace: Trace, question: Question) -> tuple[str, ...]:
    """The values of all right answers, also of those that are not among the choices."""
    return _right(_scene(trace, question.tick), question.kind, question.subject)


def grade(trace: Trace, question: Question, value: str) -> Grade:
    """Compare an answer with what the run did; raises `TraceError` if `value` is none of the choices."""
    labels = {choice.value: choice.label for choice in question.choices}
    if value not in labels:
        offered = ", ".join(repr(choice.value) for choice in question.choices)
        raise TraceError(f"{value!r} is no answer to “{question.text}”; the answers are {offered}")
    scene = _scene(trace, question.tick)
    right = _right(scene, question.kind, question.subject)
    return Grade(
        value in right,
        labels[value],
        labels[right[0]] if right[0] in labels and len(right) == 1 else names(right),
        _reason(scene, question, value, right),
        int(right[0]) if question.kind is QuestionKind.FIRST_TOKEN else question.tick,
    )


_ABOUT_ONE = (QuestionKind.CAUSE, QuestionKind.HITS, QuestionKind.CHUNK, QuestionKind.FIRST_TOKEN)


def _scene(trace: Trace, tick: int) -> Scene:
    record_at(trace, tick)
    require_full(trace)
    return Scene(trace, tick)


# What a tick decides


def _subjects(scene: Scene, kind: QuestionKind) -> tuple[str, ...]:
    """The requests that the kind can be asked about in this tick; "" for a kind that asks for a request."""
    match kind:
        case QuestionKind.VICTIM:
            return ("",) if scene.running and (scene.victims or scene.has_contest or scene.is_tight) else ()
        case QuestionKind.ADMITTED:
            is_open = len(scene.candidates) > 1 or (scene.candidates and scene.running)
            return ("",) if is_open and (scene.admitted or scene.turned_away) else ()
        case QuestionKind.SCHEDULED:
            alive = set(scene.alive)
            return ("",) if alive & set(scene.scheduled) and alive - set(scene.scheduled) else ()
        case QuestionKind.CAUSE:
            return scene.victims
        case QuestionKind.HITS:
            return tuple(event.request_id for event in scene.lookups)
        case QuestionKind.CHUNK:
            return scene.readers
        case QuestionKind.FIRST_TOKEN:
            return tuple(r for r in scene.without_output if r in scene.arrived or r in scene.admitted)


def _right(scene: Scene, kind: QuestionKind, subject: str) -> tuple[str, ...]:
    """The values of the right answers, as the run shows them."""
    match kind:
        case QuestionKind.VICTIM:
            return scene.victims or (NOBODY,)
        case QuestionKind.ADMITTED:
            return scene.admitted or (NOBODY,)
        case QuestionKind.SCHEDULED:
            return tuple(scene.scheduled)
        case QuestionKind.CAUSE:
            return (scene.preemption_of(subject).reason.value,)
        case QuestionKind.HITS:
            return (str(scene.lookup_of(subject).hit_tokens),)
        case QuestionKind.CHUNK:
            item = scene.scheduled.get(subject)
            return (str(item.num_tokens if item else 0),)
        case QuestionKind.FIRST_TOKEN:
            tick = scene.first_token_tick(subject)
            if tick is None:
                raise TraceError(f"{subject} gets no first token in this run")
            return (str(tick),)


# How it is asked


def _ask(scene: Scene, kind: QuestionKind, subject: str) -> Question | None:
    match kind:
        case QuestionKind.VICTIM:
            choices = (*who(scene, scene.running, scene.victims, "victim"), nobody())
            return Question(kind, scene.tick, f"Who loses a lane in tick {scene.tick:,}?", "", choices)
        case QuestionKind.ADMITTED:
            choices = (*who(scene, scene.candidates, scene.admitted, "admitted"), nobody())
            return Question(kind, scene.tick, f"Which waiting request gets a lane in tick {scene.tick:,}?", "", choices)
        case QuestionKind.SCHEDULED:
            text = f"Which of these requests has tokens computed in tick {scene.tick:,}?"
            return Question(kind, scene.tick, text, "", who(scene, scene.alive, tuple(scene.scheduled), "scheduled"))
        case QuestionKind.CAUSE:
            choices = who(scene, tuple(PREEMPTION_LABELS), (), "cause", PREEMPTION_LABELS)
            return Question(
                kind, scene.tick, f"Why does {subject} lose its lane in tick {scene.tick:,}?", subject, choices
            )
        case QuestionKind.HITS:
            return _hits(scene, subject)
        case QuestionKind.CHUNK:
            return _chunk(scene, subject)
        case QuestionKind.FIRST_TOKEN:
            return _first_token(scene, subject)


def _hits(scene: Scene, subject: str) -> Question | None:
    event = scene.lookup_of(subject)
    comes = "comes back to a lane" if scene.was_preempted(subject) else "gets a lane"
    tokens = f"its {count(event.query_tokens, 'token')}" if event.query_tokens > 1 else "its only token"
    text = f"{subject} {comes} in tick {scene.tick:,}: how many of {tokens} are found in the prefix cache?"
    likely, allowed = scene.likely_hits(event), range(event.query_tokens + 1)
    choices = numbers(event.hit_tokens, likely, f"{scene.salt}hits{subject}", allowed, scene.config.block_size)
    return _unless_clear(Question(QuestionKind.HITS, scene.tick, text, subject, _with_unit(choices, "none")))


def _chunk(scene: Scene, subject: str) -> Question | None:
    right = int(_right(scene, QuestionKind.CHUNK, subject)[0])
    left = scene.tokens_left(subject)
    if subject in scene.running:
        text = f"How many of the {count(left, 'token')} that {subject} has left are computed in tick {scene.tick:,}?"
    else:
        todo = count(left, "token")
        text = f"{subject} gets a lane in tick {scene.tick:,}: how many of the {todo} left are computed in it?"
    lowest = 0 if subject in scene.running else 1
    allowed = range(lowest, max(left, right) + 1)
    choices = numbers(right, scene.likely_chunks(left), f"{scene.salt}chunk{subject}", allowed, right // 4)
    return _unless_clear(Question(QuestionKind.CHUNK, scene.tick, text, subject, _with_unit(choices, "none")))


def _first_token(scene: Scene, subject: str) -> Question | None:
    tick = scene.first_token_tick(subject)
    if tick is None or scene.is_disturbed_until(tick):
        return None
    likely = scene.likely_first_ticks(subject)
    step = (tick - scene.tick) // 4
    allowed = range(scene.tick, max(tick, *likely) + 3 * max(1, step) + 1)
    choices = numbers(tick, likely, f"{scene.salt}first{subject}", allowed, step)
    text = f"In which tick does {subject} get its first token?"
    labelled = tuple(Choice(str(value), f"tick {value:,}") for value in choices)
    return _unless_clear(Question(QuestionKind.FIRST_TOKEN, scene.tick, text, subject, labelled))


def _with_unit(values: tuple[int, ...], zero: str) -> tuple[Choice, ...]:
    return tuple(Choice(str(value), count(value, "token") if value else zero) for value in values)


def _unless_clear(asked: Question) -> Question | None:
    """No question where there is only one possible answer."""
    return asked if len(asked.choices) > 1 else None


# Why it went so


def _reason(scene: Scene, question: Question, value: str, right: tuple[str, ...]) -> str:
    match question.kind:
        case QuestionKind.VICTIM:
            return victim_reason(scene, value)
        case QuestionKind.ADMITTED:
            return admitted_reason(scene, value)
        case QuestionKind.SCHEDULED:
            return scheduled_reason(scene, value, right)
        case QuestionKind.CAUSE:
            return cause_reason(scene, question.subject)
        case QuestionKind.HITS:
            return hits_reason(scene, question.subject)
        case QuestionKind.CHUNK:
            return chunk_reason(scene, question.subject)
        case QuestionKind.FIRST_TOKEN:
            return first_token_reason(scene, question.subject)
