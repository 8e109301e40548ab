"""The score as a board to be read from the last row, to be taken away as a spreadsheet, and to be begun anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import streamlit as st

from pages.components.frame import asset
from pages.components.lesson_runs import LessonRuns, shipped_lesson
from pages.components.lesson_state import LessonState
from pages.components.predict_state import forget_quizzes, quiz_rows
from pages.components.teach_score import Answered, Tally, answered_in, by_kind, by_lesson, score_csv, tally
from scheduler_core.lesson import list_lessons


def score_of_visit() -> list[Answered]:
    """Every question of this visit that is over, in lessons first."""
    rows: list[Answered] = []
    for name in list_lessons():
        state = st.session_state.get(f"lesson {name}")
        if isinstance(state, LessonState) and state.answers:
            lesson = shipped_lesson(name)
            rows += answered_in(lesson, state, LessonRuns(lesson))
    return rows + quiz_rows()


def board(rows: Sequence[Answered]) -> None:
    """Draw the score: the whole large, then by kind of question, and by lesson or run where there are several."""
    total = tally(rows)
    skipped = f", {total.skipped} skipped" if total.skipped else ""
    st.html(
        f"<style>{asset('teach_board.css')}</style>"
        f'<p class="ts-score"><b>{total.right}</b> of {total.answered} right<span>{skipped}</span></p>'
        + _table("Question", by_kind(rows))
        + (_table("Where", by_lesson(rows)) if len(by_lesson(rows)) > 1 else "")
    )


def _table(name: str, tallies: Mapping[str, Tally]) -> str:
    head = "".join(f'<th scope="col">{column}</th>' for column in (name, "right", "answered", "skipped"))
    rows = "".join(
        f'<tr><th scope="row">{escape(words)}</th><td><b>{each.right}</b></td>'
        f"<td>{each.answered}</td><td>{each.skipped}</td></tr>"
        for words, each in tallies.items()
    )
    return f'<table class="ts-board"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def download(rows: Sequence[Answered], key: str) -> None:
    st.download_button(
        "Download (CSV)", lambda: score_csv(rows), "tickscope-score.csv", "text/csv", key=key, on_click="ignore"
    )


def lesson_result(name: str) -> None:
    """The result of one lesson, as a board."""
    lesson = shipped_lesson(name)
    state = st.session_state.get(f"lesson {name}")
    rows = answered_in(lesson, state, LessonRuns(lesson)) if isinstance(state, LessonState) else []
    if rows:
        board(rows)
        download(rows, "lesson_score_csv")


def forget_score() -> None:
    """Open every question of every lesson again, and those of the run on the playground."""
    forget_quizzes()
    for name in list_lessons():
        state = st.session_state.get(f"lesson {name}")
        if isinstance(state, LessonState):
            state.answers.clear()
