"""The band of a lesson above the stage: the step's text, its question or what came of it, and the way on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from html import escape
from typing import Literal

import streamlit as st

from pages.components.frame import asset
from pages.components.lesson_question import Score, grade_of, score_of
from pages.components.lesson_runs import shipped_lesson
from pages.components.lesson_state import LessonState, last_step
from pages.components.plain import plain
from pages.components.question_card import ask_card, verdict_card, verdict_words
from pages.components.teach_board import lesson_result
from pages.components.teach_state import teach
from pages.components.terms import mark
from scheduler_core.cost_model import MACHINES
from scheduler_core.lesson import BASE, Lesson, Step, list_lessons
from scheduler_core.lesson_figures import figure, fill
from scheduler_core.predictions import Grade, Question
from scheduler_core.trace import Trace

_MARKS = re.compile(r"[*`|]|:--+|--+:")
_announce = st.components.v2.component("tickscope_lesson", js=asset("lesson.js"), css=asset("lesson.css"))


def head(lesson: Lesson, state: LessonState) -> None:
    """The title, and how far the reader has come."""
    st.title(plain(lesson.title), anchor=False)
    steps = len(lesson.steps)
    where = f"step {state.step} of {steps}" if state.step <= steps else "check yourself"
    dots = "".join(
        f'<i class="{"done" if at <= state.step else "todo"}"></i>' for at in range(1, last_step(lesson) + 1)
    )
    st.html(
        f"<style>{asset('lesson_page.css')}</style>"
        f'<div class="ts-progress"><span>Lesson {lesson.number} · {where} · about {lesson.minutes} minutes</span>'
        f'<span class="ts-dots" aria-hidden="true">{dots}</span></div>'
    )


def told(text: str, traces: Mapping[str, Trace], run: str, tick: int) -> str:
    """A text of the lesson as Markdown, its figures as they stand."""
    return fill(text, traces, run, tick, plain)


def step_text(step: Step, traces: Mapping[str, Trace], is_open: bool) -> tuple[str, str]:
    """What is told before an answer, and after it: before it, nothing of the tick itself."""
    tick = step.stop.find(traces[step.run])
    seen = tick - 1 if step.ask is not None else tick
    before = told(step.text, traces, step.run, seen)
    return before, "" if is_open else told(step.after, traces, step.run, tick)


def band(
    lesson: Lesson, state: LessonState, step: Step, asked: Question | None, traces: Mapping[str, Trace]
) -> tuple[Grade | None, str]:
    """Draw a step; gives the grade if its question was answered or skipped, and what to tell a screen reader."""
    is_open = asked is not None and state.is_open(step.number)
    before, after = step_text(step, traces, is_open)
    grade = None
    with st.container(border=True, key="lesson_band"):
        with st.container(key="lesson_body"):
            with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
                st.header(plain(step.title), anchor=False, width="content")
                _score(lesson, state, traces)
            seen: set[str] = set()
            st.markdown(mark(before, seen))
            _bars(step, traces)
            if asked is not None and is_open:
                key = f"lesson_choice {lesson.name} {step.number}"
                ask_card(asked, key, partial(state.answers.__setitem__, step.number))
            elif asked is not None:
                grade = grade_of(asked, traces[step.run], state.answers[step.number])
                verdict_card(asked, grade, state.answers[step.number])
            if after:
                st.markdown(mark(after, seen))
            if not is_open:
                _tries(lesson, state, step, traces)
        _ways(lesson, state, _clock(traces[shown_run(step, state)]), calls=not is_open)
    return grade, _words(state, lesson, step, before, grade, asked if is_open else None)


def shown_run(step: Step, state: LessonState) -> str:
    """The run on the stage: the step's own, or the one that the reader has put in its place."""
    tried = state.tried.get(step.number, step.run)
    is_open = step.ask is not None and state.is_open(step.number)
    return tried if tried in step.tries and not is_open else step.run


def announce(text: str) -> None:
    """Tell a screen reader where the lesson has come to."""
    _announce(key="lesson_announcer", data={"text": " ".join(_MARKS.sub(" ", text).replace("\\", "").split())})


def _words(
    state: LessonState, lesson: Lesson, step: Step, before: str, grade: Grade | None, asked: Question | None
) -> str:
    if grade is not None:
        return verdict_words(grade, state.answers[step.number])
    question = f" {asked.text}" if asked else ""
    return f"Step {state.step} of {len(lesson.steps)}: {step.title}. {before}{question}"


def _score(lesson: Lesson, state: LessonState, traces: Mapping[str, Trace]) -> None:
    score = score_of(lesson, state, traces)
    if score.answered:
        st.markdown(f":gray[**{score_words(score)}**]", width="content")


def score_words(score: Score) -> str:
    """As in "4 of 5 right"."""
    return f"{score.right} of {score.answered} right"


def _bars(step: Step, traces: Mapping[str, Trace]) -> None:
    """The step's figures as bars of their lengths, with label and value in words."""
    if not step.bars:
        return
    tick = step.stop.find(traces[step.run])
    figures = [figure(name, traces, step.run, tick) for _, name in step.bars]
    longest = max(each.value or 0.0 for each in figures) or 1.0
    parts = [f"{100 * (each.value or 0.0) / longest:.2f}%" for each in figures]
    rows = "".join(
        f'<li><span>{escape(label)}</span><i aria-hidden="true" style="width: {part}"></i>'
        f"<b>{escape(each.text)}</b></li>"
        for (label, _), each, part in zip(step.bars, figures, parts, strict=True)
    )
    st.html(f'<ul class="ts-bars">{rows}</ul>')


def _tries(lesson: Lesson, state: LessonState, step: Step, traces: Mapping[str, Trace]) -> None:
    if not step.tries:
        return
    names = step.tries if step.run in step.tries else (step.run, *step.tries)
    key = f"lesson_try {lesson.name} {step.number}"

    def choose() -> None:
        state.tried[step.number] = st.session_state[key] or step.run

    shown = shown_run(step, state)
    with st.container(key="lesson_try"):
        st.segmented_control(
            "Try it: the stage shows the run with",
            names,
            default=shown,
            format_func=lambda name: plain(lesson.run(name).label),
            key=key,
            required=True,
            on_change=choose,
        )
        if result := lesson.run(shown).result:
            tick = step.stop.find(traces[shown])
            st.markdown(f":gray[{told(result, traces, shown, tick)}]")


def _clock(trace: Trace) -> str:
    """Which clock the times in the text are of."""
    if trace.config.cost == "unit":
        return "Time is counted in ticks."
    return f"Times are calculated for {MACHINES[trace.config.cost].title}."


def _ways(lesson: Lesson, state: LessonState, note: str = "", *, calls: bool = False) -> None:
    """Back and Next at a place of their own, so that the focus stays on them; Next stands out where it `calls`."""

    def go(by: int) -> None:
        here = state.step
        if by > 0 and here <= len(lesson.steps) and lesson.steps[here - 1].ask is not None:
            # Who goes on without an answer has skipped it: the next step shows what was hidden.
            state.answers.setdefault(here, None)
        state.step = min(max(here + by, 1), last_step(lesson))

    with st.container(horizontal=True, vertical_alignment="center", key="lesson_ways", gap="small"):
        st.button("‹ Back", key="lesson_back", disabled=state.step == 1, on_click=go, args=(-1,))
        with st.container(key="lesson_next", width="content"):
            is_last = state.step == last_step(lesson)
            kind: Literal["primary", "secondary"] = "primary" if calls else "secondary"
            st.button("Next ›", key="lesson_on", type=kind, disabled=is_last, on_click=go, args=(1,))
        if note:
            with st.container(key="lesson_note", width="content"):
                st.markdown(f":gray[{plain(note)}]")


def closing(lesson: Lesson, state: LessonState, traces: Mapping[str, Trace]) -> str:
    """The end: the score, questions to put to oneself, sources; gives what to tell a screen reader."""
    end = len(traces[lesson.steps[-1].run].records) - 1
    with st.container(border=True, key="lesson_band"):
        with st.container(key="lesson_body"):
            st.header("Check yourself", anchor=False)
            score = score_of(lesson, state, traces)
            if score.asked:
                st.markdown(_closing_words(score))
            if teach() is not None:
                lesson_result(lesson.name)
            st.markdown("Answer each in your own words, then open it.")
            for check in lesson.checks:
                with st.expander(told(check.question, traces, lesson.steps[-1].run, end)):
                    st.markdown(told(check.answer, traces, lesson.steps[-1].run, end))
            st.markdown("**Sources**")
            st.markdown(lesson.sources)
            _further(lesson)
        _ways(lesson, state)
    return f"Check yourself. {_closing_words(score) if score.asked else ''}"


def _further(lesson: Lesson) -> None:
    """Where to go from here."""
    names = list_lessons()
    after = names[names.index(lesson.name) + 1 :]
    with st.container(horizontal=True, key="lesson_further"):
        if after:
            following = shipped_lesson(after[0])
            label = f":blue[Lesson {following.number}: {plain(following.title)} ›]"
            st.page_link(f"pages/{after[0]}.py", label=label, width="content")
        query = {"scenario": lesson.run(BASE).scenario}
        st.page_link(
            "pages/playground.py", label=":blue[Try it on the playground ›]", query_params=query, width="content"
        )


def _closing_words(score: Score) -> str:
    if not score.answered:
        return f"You answered none of the {score.asked} questions. Go back to a step that asks one, and predict."
    skipped = score.asked - score.answered
    left = f" You left out {skipped}." if skipped else ""
    return f"**{score.right} of {score.answered} right.**{left}"
