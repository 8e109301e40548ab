"""Lessons: Markdown files whose steps stop at an event of a run. Knows no page, and computes no run."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from scheduler_core.config import FIELD_NAMES
from scheduler_core.errors import LessonError
from scheduler_core.lesson_figures import check_placeholders
from scheduler_core.lesson_stop import Stop

LESSON_FOLDER = Path(__file__).resolve().parent.parent / "assets" / "lessons"
#: The panels of the stage that a step can point to.
PANELS = ("waiting", "tick", "finished", "kv", "host", "timeline")
#: Parts of the stage that a lesson can do without, with their panels.
OPTIONAL = {"blocks": ("kv", "host"), "timeline": ("timeline",)}
#: The run of the lesson's scenario with its own settings.
BASE = "base"

_FENCE = "+++"
_HEAD_KEYS = ("title", "summary", "number", "scenario", "minutes", "without", "runs")
_RUN_KEYS = ("label", "scenario", "settings", "result")
_STEP_KEYS = ("stop", "run", "spotlight", "ask", "try", "bars")
_SPOT_KEYS = ("request", "panel")
_ASK_KEYS = ("kind", "subject")
_STEP_TABLE = re.compile(r"\s*```toml\n(?P<table>.*?)^```\s*$", re.DOTALL | re.MULTILINE)
_CHECK = "Check yourself"
_SOURCES = "Sources"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LessonRun:
    """A scenario under some settings; `result` says in a sentence with placeholders what became of it."""

    name: str
    label: str
    scenario: str
    settings: tuple[tuple[str, Any], ...] = ()
    result: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A question about the step's tick: its kind and subject, as `predictions.question` takes them."""

    kind: str
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One idea: a text and the place in a run that shows it.

    `request` and `panel` are what to look at, "" for nothing; `ask` is answered before the tick and `after`, the rest
    of the text, are shown; `tries` are names of runs to put in the place of `run`; `bars` are figures, each with a
    label, to be drawn beside each other.
    """

    number: int
    title: str
    text: str
    stop: Stop
    run: str = BASE
    request: str = ""
    panel: str = ""
    after: str = ""
    ask: Ask | None = None
    tries: tuple[str, ...] = ()
    bars: tuple[tuple[str, str], ...] = ()

    @property
    def place(self) -> str:
        """For messages: which step this is."""
        return f"step {self.number} ({self.title})"


@dataclass(frozen=True, slots=True)
class Check:
    """A question that the reader puts to himself, with its answer."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson as its file has it; texts are Markdown with placeholders.

    `without` names the parts of the stage that it does not speak of, which are left away.
    """

    name: str
    number: int
    title: str
    summary: str
    minutes: int
    runs: tuple[LessonRun, ...]
    steps: tuple[Step, ...]
    checks: tuple[Check, ...]
    sources: str
    without: tuple[str, ...] = ()

    def run(self, name: str) -> LessonRun:
        """The run of that name; raises KeyError."""
        return {run.name: run for run in self.runs}[name]


def list_lessons(folder: Path = LESSON_FOLDER) -> list[str]:
    """The names of the shipped lessons, in teaching order."""
    lessons = [load_lesson(path) for path in folder.glob("*.md")]
    return [lesson.name for lesson in sorted(lessons, key=lambda lesson: (lesson.number, lesson.name))]


def load_lesson(name_or_path: str | Path) -> Lesson:
    """A shipped lesson by name, or any by path; raises `LessonError`."""
    path = Path(name_or_path)
    path = path if path.suffix == ".md" else LESSON_FOLDER / f"{name_or_path}.md"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise LessonError(f"cannot read {path}: {getattr(problem, 'strerror', None) or problem}") from None
    return parse_lesson(text, path.stem)


def parse_lesson(text: str, name: str) -> Lesson:
    """Read a lesson; raises `LessonError` naming the file, the step and what is wrong with it."""
    with placed(f"{name}.md"):
        head, body = _split(text)
        runs = _runs(head)
        parts = dict(_parts(body))
        lesson = Lesson(
            name,
            _typed(head, "number", int),
            _typed(head, "title", str),
            _typed(head, "summary", str),
            _typed(head, "minutes", int),
            runs,
            tuple(_step(number, *section) for number, section in enumerate(_sections(parts.get("", "")), 1)),
            tuple(Check(question, answer) for question, answer in _sections(parts.get(_CHECK, ""))),
            parts.get(_SOURCES, "").strip(),
            _without(head.get("without", [])),
        )
        _check(lesson)
    return lesson


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Puts a place before the message of any `LessonError` from within."""
    try:
        yield
    except LessonError as problem:
        raise LessonError(f"{place}: {problem}") from None


def _split(text: str) -> tuple[dict[str, Any], str]:
    """The table between the two fences, and what follows it."""
    pieces = text.replace("\r\n", "\n").split(f"{_FENCE}\n", 2)
    if len(pieces) != 3 or pieces[0].strip():
        raise LessonError(f"a lesson starts with settings in TOML between two lines of {_FENCE}")
    head = _toml(pieces[1])
    _known(head, _HEAD_KEYS, "a lesson")
    return head, pieces[2]


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise LessonError(f"not valid TOML: {problem}") from None


def _runs(head: dict[str, Any]) -> tuple[LessonRun, ...]:
    scenario = _typed(head, "scenario", str)
    tables = {BASE: {"label": "as recorded"}, **head.get("runs", {})}
    return tuple(_run(name, table, scenario) for name, table in tables.items())


def _run(name: str, table: dict[str, Any], scenario: str) -> LessonRun:
    with placed(f"run {name}"):
        _known(table, _RUN_KEYS, "a run")
        settings = table.get("settings", {})
        _known(settings, FIELD_NAMES, "a configuration")
        # TOML has no null, so an optional setting is switched off with "none".
        changes = tuple((field, None if value == "none" else value) for field, value in settings.items())
        return LessonRun(
            name, _typed(table, "label", str), table.get("scenario", scenario), changes, table.get("result", "")
        )


def _without(names: object) -> tuple[str, ...]:
    if not isinstance(names, list) or any(name not in OPTIONAL for name in names):
        raise LessonError(f"without is {names!r}; it must be a list of some of {', '.join(OPTIONAL)}")
    return tuple(names)


def _parts(body: str) -> Iterator[tuple[str, str]]:
    """The body before the first heading of level 1 under "", then each part under its heading."""
    pieces = re.split(r"^# (.+)$", body, flags=re.MULTILINE)
    yield "", pieces[0]
    for title, text in zip(pieces[1::2], pieces[2::2], strict=True):
        if title.strip() not in (_CHECK, _SOURCES):
            raise LessonError(f"there is no part {title.strip()!r}; the parts are {_CHECK} and {_SOURCES}")
        yield title.strip(), text


def _sections(text: str) -> list[tuple[str, str]]:
    """Heading of level 2 and text, in order."""
    pieces = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    if pieces[0].strip():
        raise LessonError(f"the text {pieces[0].strip()[:40]!r} stands before the first heading")
    return [(title.strip(), body.strip()) for title, body in zip(pieces[1::2], pieces[2::2], strict=True)]


def _step(number: int, title: str, body: str) -> Step:
    with placed(f"step {number} ({title})"):
        found = _STEP_TABLE.match(body + "\n")
        if found is None:
            raise LessonError("the heading of a step is followed by its settings: ```toml, stop = ..., ```")
        table = _toml(found["table"])
        _known(table, _STEP_KEYS, "a step")
        if "stop" not in table:
            raise LessonError("stop is missing; say at which tick or event the step stands")
        spot, ask = table.get("spotlight", {}), table.get("ask")
        _known(spot, _SPOT_KEYS, "spotlight")
        text, line, after = body[found.end() :].partition("\n---\n")
        if not text.strip():
            raise LessonError("the step has no text")
        if line and ask is None:
            raise LessonError("a line of --- parts what is told before an answer from the rest, but nothing is asked")
        return Step(
            number,
            title,
            text.strip(),
            Stop.of(table["stop"]),
            table.get("run", BASE),
            spot.get("request", ""),
            spot.get("panel", ""),
            after.strip(),
            _ask(ask) if ask is not None else None,
            tuple(table.get("try", ())),
            _bars(table.get("bars", [])),
        )


def _bars(rows: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(rows, list) or not all(
        isinstance(row, list) and list(map(type, row)) == [str, str] for row in rows
    ):
        raise LessonError('bars is a list of pairs: a label and a figure, as in [["this tick", "length"]]')
    return tuple((label, name) for label, name in rows)


def _ask(table: dict[str, Any]) -> Ask:
    _known(table, _ASK_KEYS, "ask")
    return Ask(_typed(table, "kind", str), table.get("subject", ""))


def _check(lesson: Lesson) -> None:
    """What can be known without a run: names of runs, panels and figures."""
    if not lesson.steps:
        raise LessonError("there is no step; write a heading of level 2")
    names = [run.name for run in lesson.runs]
    for run in lesson.runs:
        with placed(f"run {run.name}"):
            check_placeholders(run.result, names)
    for step in lesson.steps:
        with placed(step.place):
            _check_step(step, names)
            if part := next((part for part in lesson.without if step.panel in OPTIONAL[part]), None):
                raise LessonError(f"the panel {step.panel} is pointed at, but the lesson is without {part}")
    for check in lesson.checks:
        with placed(f"{_CHECK} ({check.question})"):
            check_placeholders(f"{check.question} {check.answer}", names)


def _check_step(step: Step, runs: Sequence[str]) -> None:
    for name in (step.run, *step.tries):
        if name not in runs:
            raise LessonError(f"there is no run {name!r}; the runs are {', '.join(runs)}")
    if step.panel and step.panel not in PANELS:
        raise LessonError(f"there is no panel {step.panel!r}; the panels are {', '.join(PANELS)}")
    check_placeholders(step.text, runs)
    check_placeholders(step.after, runs)
    for _, name in step.bars:
        check_placeholders(f"{{{name}}}", runs)


def _known(table: object, keys: Sequence[str], what: str) -> None:
    if not isinstance(table, dict):
        raise LessonError(f"{what} is {table!r}; it must be a table of {', '.join(keys)}")
    if unknown := [key for key in table if key not in keys]:
        raise LessonError(f"{what} has no key {unknown[0]!r}; the keys are {', '.join(keys)}")


def _typed(table: dict[str, Any], key: str, kind: type[T]) -> T:
    value = table.get(key)
    if type(value) is not kind:
        raise LessonError(f"{key} is {value!r}; it must be of type {kind.__name__}")
    return value
