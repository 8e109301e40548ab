"""Has the gateway do something, says what came of it, and asks first where something is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from pages.components.operations.client import Gateway, GatewayError
from pages.components.operations.state import OperationsState
from pages.components.operations.watch import Seen, watch
from pages.components.plain import plain

#: Words for what was answered.
Words = Callable[[Mapping[str, Any]], str]


def act(
    state: OperationsState,
    gateway: Gateway,
    method: str,
    path: str,
    words: Words,
    body: Mapping[str, Any] | None = None,
) -> None:
    """Do it, and look at once what has become of it."""
    try:
        state.say(words(gateway.write(method, path, body)))
    except GatewayError as problem:
        state.say(f"The gateway did not do it: {problem}.", is_well=False)
    watch(gateway).look(now=True)


def asking_button(
    state: OperationsState, label: str, *, key: str, asks: str, confirm: str, do: Callable[[], None]
) -> None:
    """A button whose first press only asks; `asks` says what is lost, `confirm` stands on the button that does it."""

    def ask() -> None:
        state.asks, state.said = key, ""

    def keep() -> None:
        state.asks = ""

    if state.asks != key:
        st.button(label, key=key, on_click=ask)
        return
    st.markdown(plain(asks), width="content")
    st.button(confirm, key=f"{key}_yes", type="primary", on_click=do)
    st.button("Keep", key=f"{key}_no", on_click=keep)


def is_open(seen: Seen) -> bool:
    """Whether the gateway lets us in; says what to do where it does not."""
    if seen.status is not None:
        return True
    if seen.closed is not None:
        st.markdown(seen.closed.value)
    return False
