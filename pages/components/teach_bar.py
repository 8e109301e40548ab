"""The ways into the teacher view and out of it, and what a teacher shows: the QR code and the score."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from pages.components.frame import asset
from pages.components.plain import plain
from pages.components.teach_board import board, download, forget_score, score_of_visit
from pages.components.teach_qr import code_of, obstacles
from pages.components.teach_state import PARTS, USUAL, Teach, teach

Shown = Literal["qr", "score"]

_qr = st.components.v2.component("tickscope_qr", js=asset("teach_qr.js"), css=asset("teach_qr.css"))


def teach_pill() -> None:
    """The pill in the head of a page: what a teacher needs; in the teacher view the way out beside it."""
    now = teach()
    if now is not None:
        st.html(f"<style>{asset('teach.css')}</style>")
    label = "Teach" if now is None else "Teacher view"
    with st.popover(label, key="pop_teach", on_change="rerun"):
        # Drawn only while open: what is mounted later than it is drawn shows its default.
        if st.session_state.get("pop_teach"):
            _choices(now)
    if now is not None:
        st.button("Leave teacher view", key="teach_leave", on_click=_leave, type="tertiary")


def teach_messages() -> None:
    """What could not be taken from the address."""
    told = st.session_state.get("teach_messages")
    if told:
        with st.container(key="teach_messages"):
            st.warning("\n\n".join(plain(message) for message in told))
            st.button("Got it", key="teach_got_it", on_click=_forget_messages, type="tertiary")


def _forget_messages() -> None:
    st.session_state["teach_messages"] = []


def _choices(now: Teach | None) -> None:
    hidden = now.hidden if now else st.session_state.get("teach_hidden", USUAL)
    chosen = [part for part in PARTS if part in hidden]
    shown = st.session_state.get("set_teach_hidden")
    if shown is None or (now is not None and set(shown) != hidden):
        st.session_state["set_teach_hidden"] = chosen
    st.markdown(
        "For a class room: large type, no navigation, and a presenter's clicker works wherever the focus is. "
        "Press `?` on the stage for its keys."
    )
    st.pills(
        "Hidden in the teacher view",
        list(PARTS),
        selection_mode="multi",
        format_func=PARTS.__getitem__,
        key="set_teach_hidden",
        on_change=_chosen,
    )
    with st.container(horizontal=True, gap="small"):
        if now is None:
            st.button("Start teacher view", key="teach_start", on_click=_start, type="primary")
        st.button("QR code", key="teach_qr", on_click=_open, args=("qr",))
        st.button("Score", key="teach_score", on_click=_open, args=("score",))


def _chosen() -> None:
    st.session_state["teach_hidden"] = frozenset(st.session_state.get("set_teach_hidden") or ())
    if teach() is not None:
        st.session_state["teach"] = Teach(st.session_state["teach_hidden"])


def _start() -> None:
    _chosen()
    st.session_state["teach"] = Teach(st.session_state["teach_hidden"])
    st.session_state["pop_teach"] = False


def _leave() -> None:
    now = teach()
    st.session_state["teach_hidden"] = now.hidden if now else USUAL
    st.session_state["teach"] = None
    st.session_state["pop_teach"] = False


def _open(what: Shown) -> None:
    st.session_state["teach_dialog"] = what
    st.session_state["pop_teach"] = False


def open_score() -> None:
    """Show the score when the page is drawn next."""
    st.session_state["teach_dialog"] = "score"


def _close() -> None:
    st.session_state["teach_dialog"] = None


def teach_dialogs(address: str) -> None:
    """Draw the dialog that is open; `address` is the instant that the page shows, without the teacher view."""
    what: Shown | None = st.session_state.get("teach_dialog")
    if what == "qr":
        _qr_dialog(address)
    elif what == "score":
        _score_dialog()


def follow(drawn: str, now: str) -> None:
    """Draw the page anew where the code is open and the stage has moved since; call it in the stage's fragment.

    `drawn` is the address at which the page was drawn: a stage that stops late says so to its fragment alone.
    """
    if st.session_state.get("teach_dialog") == "qr" and now != drawn:
        st.rerun()


@st.dialog("Scan to open this instant", width="large", on_dismiss=_close)
def _qr_dialog(address: str) -> None:
    code = code_of(address)
    for message in obstacles(address, code):
        st.warning(message)
    if code is not None:
        _qr(key="qr", data={"side": code.side, "path": code.path, "address": address})


@st.dialog("Score", width="large", on_dismiss=_close)
def _score_dialog() -> None:
    rows = score_of_visit()
    if not rows:
        st.markdown(
            "No question was answered yet. The lessons ask them, and so does **Predict** on the playground; "
            "the score counts all of this visit."
        )
        return
    board(rows)
    with st.container(horizontal=True):
        download(rows, "score_csv")
        st.button("Begin a new score", key="score_reset", on_click=forget_score, help="Opens every question again.")
    st.caption("The score lives in this visit only; nothing is stored.")
