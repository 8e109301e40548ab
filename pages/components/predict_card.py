"""The card of the quiz above the stage: the question, what came of the last one, the score, and the way out."""

from __future__ import annotations

from functools import partial

import streamlit as st

from pages.components.frame import asset
from pages.components.lesson_band import announce
from pages.components.play_state import PlayState
from pages.components.predict_state import Quiz, answer, begin_again, quiz_rows, toggle, wish
from pages.components.question_card import ask_card, verdict_card, verdict_words
from pages.components.teach_bar import open_score
from pages.components.teach_score import tally

WAITING = "The quiz begins when the model has computed the run."
BEGINNING = "Play or step on. Before a tick that decides something, the run stops and asks what it will do."
ENDED = "No question is left from here to the end of the run."
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
    """Draw the open question if the stage stands before its tick, else what came of the last one."""
    st.html(f"<style>{asset('lesson_page.css')}{asset('predict.css')}</style>")
    is_due = quiz.open is not None and state.tick >= quiz.end - 1 and not playing
    with st.container(border=True, key="predict_card"):
        words = _question(state, quiz) if is_due else _between(state, quiz, playing)
    announce(words)


def _question(state: PlayState, quiz: Quiz) -> str:
    """The open question; gives what to tell a screen reader, as each of the cards does."""
    asked = quiz.open
    assert asked is not None
    # A key for each question: what was chosen for another is not taken for an answer.
    key = f"predict_choice {len(quiz_rows())} {asked.tick} {asked.kind.value} {asked.subject}"
    with ask_card(asked, key, partial(answer, state, quiz)):
        _score_and_way_out(state)
    return f"Question: {asked.text} Answer or skip it above the stage."


def _between(state: PlayState, quiz: Quiz, playing: bool) -> str:
    """What came of the last question, or how to come to the next."""
    told = quiz.last_told(state.tick)
    if told is None:
        words = ENDED if quiz.open is None else BEGINNING
        st.markdown(words)
    else:
        words = verdict_words(told.grade, told.answer)
        verdict_card(told.asked, told.grade, told.answer)
        if told.grade.reveal_tick > max(told.asked.tick, state.tick):
            st.caption(f"It will be seen in tick {told.grade.reveal_tick:,}.")
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="predict_ways"):
        _on_demand(state, quiz, playing)
        if quiz.open is None:
            again = partial(begin_again, state, quiz)
            st.button("Again from tick 0", key="predict_again", type="tertiary", on_click=again)
        _score_and_way_out(state)
    return words


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


def _score_and_way_out(state: PlayState) -> None:
    rows = quiz_rows()
    with st.container(horizontal=True, horizontal_alignment="right", vertical_alignment="center", gap="small"):
        if rows:
            total = tally(rows)
            counted = [total.words] if total.answered else []
            label = " · ".join([*counted, *([f"{total.skipped} skipped"] if total.skipped else [])])
            if st.button(label, key="predict_score", type="tertiary", help="The score by question."):
                open_score()
                # The whole page: the board stands over it.
                st.rerun()
        st.button(
            "Leave",
            key="predict_leave",
            type="tertiary",
            on_click=toggle,
            args=(state,),
            help="Ends the quiz and shows the whole run.",
        )
