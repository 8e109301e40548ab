"""A question as a card, and what came of it: in a lesson, and in the quiz of any run."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.components.plain import plain
from scheduler_core.predictions import Grade, Question


def ask_card(asked: Question, key: str, on_answer: Callable[[str | None], None]) -> DeltaGenerator:
    """The question with its choices, and the ways on; `on_answer` hears the value chosen, None where it is skipped.

    Gives the row of the ways, for more of them.
    """
    labels = {choice.value: choice.label for choice in asked.choices}
    with st.container(key="lesson_ask"):
        chosen = st.radio(
            plain(asked.text),
            list(labels),
            index=None,
            format_func=lambda value: plain(labels[value]),
            key=key,
            horizontal=True,
        )
        ways = st.container(horizontal=True, vertical_alignment="center", gap="small")
        with ways:
            st.button(
                "Reveal the tick",
                key="lesson_reveal",
                type="primary",
                disabled=chosen is None,
                # Who chooses and reveals in one breath is faster than the script: what counts is the choice by then.
                on_click=lambda: on_answer(st.session_state[key]),
            )
            st.button("skip", key="lesson_skip", type="tertiary", on_click=on_answer, args=(None,))
    return ways


def verdict_card(asked: Question, grade: Grade, answer: str | None) -> None:
    """You said, it did, and why; `answer` is None where it was skipped."""
    with st.container(key="lesson_verdict"):
        st.markdown(f":gray[{plain(asked.text)}]")
        if answer is None:
            st.markdown(f"You skipped it. It did: **{plain(grade.did)}**")
        else:
            mark = ":green[**✓ Right.**]" if grade.right else ":orange[**× Not so.**]"
            st.markdown(f"{mark} You said: **{plain(grade.said)}** · It did: **{plain(grade.did)}**")
        st.markdown(plain(grade.reason))


def verdict_words(grade: Grade, answer: str | None) -> str:
    """The same for a screen reader."""
    if answer is None:
        return f"The run: {grade.did}. {grade.reason}"
    return f"{'Right' if grade.right else 'Not so'}. You said {grade.said}. It did {grade.did}. {grade.reason}"
