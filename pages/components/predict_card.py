"""The card of the quiz above the stage: the question, what came of the last one, the score, and the way out."""

from __future__ import annotations

from functools import partial

import streamlit as st

from pages.components.frame import asset
from pages.components.lesson_band import announce
from pages.components.plain import plain
from pages.components.play_state import PlayState
from pages.components.predict_state import Quiz, Told, answer, begin_again, quiz_rows, toggle, wish
from pages.components.question_card import ask_card, verdict_card, verdict_words
from pages.components.teach_bar import open_score
from pages.components.teach_score import tally
from scheduler_core.predictions import Question

WAITING = "The quiz begins when the model has computed the run."
SUMMARY = "This run was recorded as a summary, without the state after each tick, so nothing can be asked about it."


def predict_pill(state: PlayState) -> None:
    """The pill in the head that turns the run into a quiz, and back."""
    label = "Predict  **on**" if state.predict else "Predict"
    told = (
        "Ends the quiz and shows the whole run." if state.predict else "Guess what a tick decides before it is shown."
    )
    st.button(label, key="predict", on_click=toggle, args=(state,), help=told)


def no_quiz(words: str) -> None:
    """Tell why there is no quiz, where one was asked for."""
    st.html(f"<style>{asset('lesson_page.css')}{asset('predict.css')}</style>")
    with st.container(border=True, key="predict_card"):
        st.markdown(f":gray[{words}]")


def predict_card(state: PlayState, quiz: Quiz, *, playing: bool) -> None:
    """Draw what belongs to the tick shown; gives the score its place in each case."""
    st.html(f"<style>{asset('lesson_page.css')}{asset('predict.css')}</style>")
    asked = quiz.open if quiz.open and state.tick >= quiz.end - 1 and not playing else None
    told = quiz.last_told(state.tick)
    with st.container(border=True, key="predict_card"):
        if asked is not None:
            words = asked.text
            ask_card(asked, _choice_key(quiz, asked), partial(answer, state, quiz))
        elif told is not None:
            words = verdict_words(told.grade, told.answer)
            _told(told)
        else:
            words = _beginning(quiz)
            st.markdown(plain(words))
        _foot(state, quiz, asked, playing)
    announce(words)


def _choice_key(quiz: Quiz, asked: Question) -> str:
    """A key for each question: what was chosen for another is not taken for an answer."""
    return f"predict_choice {len(quiz_rows())} {asked.tick} {asked.kind.value} {asked.subject}"


def _told(told: Told) -> None:
    verdict_card(told.asked, told.grade, told.answer)
    if told.grade.reveal_tick > told.asked.tick:
        st.caption(f"It will be seen in tick {told.grade.reveal_tick:,}.")


def _beginning(quiz: Quiz) -> str:
    if quiz.open is None:
        return "No question is left from here to the end of the run."
    return "Play or step on. Before a tick that decides something, the run stops and asks what it will do."


def _foot(state: PlayState, quiz: Quiz, asked: Question | None, playing: bool) -> None:
    """The score, a question on demand, and the way out."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="predict_foot"):
        if asked is None:
            _on_demand(state, quiz, playing)
        if quiz.open is None:
            st.button(
                "Again from tick 0", key="predict_again", type="tertiary", on_click=begin_again, args=(state, quiz)
            )
        rows = quiz_rows()
        if rows:
            total = tally(rows)
            skipped = f" · {total.skipped} skipped" if total.skipped else ""
            if st.button(f"Score: {total.words}{skipped}", key="predict_score", type="tertiary"):
                open_score()
                st.rerun()
        if st.button("Leave", key="predict_leave", type="tertiary", help="Shows the whole run again."):
            toggle(state)
            st.rerun()


def _on_demand(state: PlayState, quiz: Quiz, playing: bool) -> None:
    following = state.tick + 1
    if following >= len(quiz.trace.records):
        return
    found = None if playing else quiz.about(following)
    st.button(
        f"Ask about tick {following:,}",
        key="predict_ask",
        on_click=wish,
        args=(state, quiz),
        disabled=found is None,
        help="A question about the next tick." if found else "Nothing that the next tick decides can fairly be asked.",
    )
