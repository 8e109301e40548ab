"""Dead letters: who failed for good and why, sent again or thrown away."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from pages.components.operations.act import act, asking_button, is_open
from pages.components.operations.client import Gateway, GatewayError, within
from pages.components.operations.state import OperationsState
from pages.components.operations.watch import PAGE, Seen
from pages.components.plain import plain, visible

_MAX_TEXT = 2_000


def letters(state: OperationsState, gateway: Gateway, seen: Seen) -> None:
    """Draw the panel."""
    if not is_open(seen):
        return
    page = _page(state, gateway, seen)
    total, shown = _whole(page.get("total")), _list(page.get("letters"))
    _replays(page)
    if not total:
        st.markdown("There is no dead letter: every request was answered, refused or aborted.")
        state.letter, state.older = "", []
        return
    with st.container(horizontal=True, vertical_alignment="center", key="op_letters_head"):
        st.markdown(f"**{total:,}** kept, the newest first", width="content")
        st.button(
            "Send all again",
            key="op_replay_all",
            on_click=partial(act, state, gateway, "POST", "dead-letters/replay", _begun),
        )
        asking_button(
            state,
            "Throw all away…",
            key="op_purge_all",
            asks=f"{total:,} requests are lost for good.",
            confirm="Throw all away",
            do=partial(act, state, gateway, "DELETE", "dead-letters", _purged),
        )
    for letter in shown[:PAGE]:
        _letter(state, gateway, letter)
    _pager(state, shown)


def _page(state: OperationsState, gateway: Gateway, seen: Seen) -> Mapping[str, Any]:
    """The newest are known already; older ones are asked for."""
    if not state.older:
        return seen.letters or {}
    try:
        return gateway.read(f"dead-letters?limit={PAGE}&before={state.older[-1]}")
    except GatewayError as problem:
        st.caption(plain(f"Older ones cannot be read: {problem}."))
        return seen.letters or {}


def _letter(state: OperationsState, gateway: Gateway, letter: Mapping[str, Any]) -> None:
    name = str(letter.get("id", ""))[:20]
    attempts = _list(letter.get("attempts"))
    reason = str(attempts[-1].get("reason", "")) if attempts else ""
    is_unfolded = state.letter == name

    def fold() -> None:
        state.letter = "" if is_unfolded else name

    with st.container(border=True, key=f"op_letter_{name}"):
        with st.container(horizontal=True, vertical_alignment="center"):
            what = f"{_when(letter.get('written'))} · {str(letter.get('endpoint', ''))[:40]}"
            size = f"{_whole(letter.get('prompt_tokens')):,} prompt tokens · {len(attempts)} attempts"
            st.markdown(f"**{plain(name)}** &nbsp; {plain(f'{what} · {size}')}", width="content")
            st.button("Fold" if is_unfolded else "Details", key=f"op_fold_{name}", on_click=fold)
            st.button(
                "Send again",
                key=f"op_replay_{name}",
                on_click=partial(act, state, gateway, "POST", within("dead-letters", name, "replay"), _begun),
            )
            asking_button(
                state,
                "Throw away…",
                key=f"op_purge_{name}",
                asks="This request is lost for good.",
                confirm="Throw away",
                do=partial(act, state, gateway, "DELETE", within("dead-letters", name), _purged),
            )
        st.caption(plain(f"Last failure: {reason[:300]}"))
        if is_unfolded:
            _details(name, letter, attempts)


def _details(name: str, letter: Mapping[str, Any], attempts: list[Mapping[str, Any]]) -> None:
    st.markdown("Prompt")
    st.code(visible(str(letter.get("prompt", ""))[:_MAX_TEXT]), language=None, wrap_lines=True)
    rows = [
        {
            "attempt": _whole(each.get("number")),
            "began (UTC)": _when(each.get("began")),
            "took": f"{_seconds(each.get('ended')) - _seconds(each.get('began')):.2f} s",
            "why it failed": visible(str(each.get("reason", ""))[:_MAX_TEXT]),
        }
        for each in attempts
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True, key=f"op_attempts_{name}", height="content")


def _replays(page: Mapping[str, Any]) -> None:
    """What has become of those that were sent again."""
    told = page.get("replays")
    if not isinstance(told, dict):
        return
    left, answered, failed = (_whole(told.get(name)) for name in ("left", "answered", "failed"))
    if not left + answered + failed:
        return
    st.caption(f"Sent again since the gateway began: {answered:,} answered, {failed:,} failed, {left:,} under way.")
    problems = [each for each in _list(told.get("last")) if each.get("problem")]
    if problems:
        last = problems[-1]
        st.caption(plain(f"Letter {str(last.get('id', ''))[:20]} failed again: {str(last['problem'])[:300]}"))


def _pager(state: OperationsState, shown: list[Mapping[str, Any]]) -> None:
    last = _whole(shown[-1].get("id")) if shown else 0

    def older() -> None:
        state.older.append(last)

    def newer() -> None:
        state.older.pop()

    if not state.older and len(shown) < PAGE:
        return
    with st.container(horizontal=True):
        st.button("Newer", key="op_newer", disabled=not state.older, on_click=newer)
        st.button("Older", key="op_older", disabled=len(shown) < PAGE or last <= 1, on_click=older)


def _begun(told: Mapping[str, Any]) -> str:
    accepted = _whole(told.get("accepted"))
    return f"Sent again: {accepted:,}. Those that are answered leave the list." if accepted else "Under way already."


def _purged(told: Mapping[str, Any]) -> str:
    return f"Thrown away: {_whole(told.get('purged')):,}."


def _when(value: object) -> str:
    try:
        return datetime.fromtimestamp(_seconds(value), UTC).isoformat(" ", "seconds")[:19]
    except (OverflowError, ValueError, OSError):
        return "at an unknown time"


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _whole(value: object) -> int:
    """A number that the gateway told, also where it stands as text."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _list(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
