"""Planned faults, a switch for each kind: what the gateway does about them is seen at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from pages.components.operations.act import act, is_open
from pages.components.operations.client import Gateway, GatewayError
from pages.components.operations.head import faults_on
from pages.components.operations.offers import OFFERS, Offer
from pages.components.operations.state import OperationsState
from pages.components.operations.watch import Seen
from pages.components.plain import plain

_MOST = 1_000_000
_MOST_SECONDS = 60.0
_WIDTHS = (1.7, 3, 0.85, 0.85, 0.85, 0.7)


def faults(state: OperationsState, gateway: Gateway, seen: Seen) -> None:
    """Draw the panel."""
    if not is_open(seen):
        return
    on = {str(each["kind"]): each for each in reversed(faults_on(seen))}
    happened = _happened(seen)
    has_store = bool((seen.status or {}).get("tiers"))
    st.caption(
        "A fault happens at a call, and again every so many calls after it (0 = never again). Calls are counted from "
        "the moment of the switch. A failed request is tried again with a growing pause; after its last attempt it is "
        "a dead letter."
    )
    with st.container(border=True, key="op_faults"):
        _heads()
        for kind, offer in OFFERS.items():
            _switch(state, gateway, kind, offer, on, happened.get(kind, 0), has_store or not offer.needs_store)
    if on:
        st.button("Switch all off", key="op_faults_off", on_click=partial(_post, state, gateway, []))


def _happened(seen: Seen) -> dict[str, int]:
    told = (seen.status or {}).get("faults")
    counts = told.get("happened") if isinstance(told, dict) else None
    return {str(kind): each for kind, each in (counts or {}).items() if isinstance(each, int)} if counts else {}


def _switch(
    state: OperationsState,
    gateway: Gateway,
    kind: str,
    offer: Offer,
    on: Mapping[str, Mapping[str, Any]],
    times: int,
    is_possible: bool,
) -> None:
    is_on = kind in on
    _begin(kind, offer, on.get(kind, {}))
    key = _switch_key(state, kind, is_on)
    renumber = partial(_renumber, state, gateway, kind)
    with st.container(key=f"op_row_{kind}"):
        switch, told, first, every, seconds, count = st.columns(_WIDTHS, vertical_alignment="center")
        with switch:
            st.toggle(
                offer.label,
                is_on,
                key=key,
                on_change=partial(_flip, state, gateway, kind, key),
                disabled=not is_possible,
                help=None if is_possible else "There is no cache below memory: start with --store or --redis.",
            )
        told.caption(plain(offer.told))
        if times:
            count.caption(f"{times:,} times")
        with first:
            st.number_input(f"at {offer.counted}", 1, _MOST, key=f"op_first_{kind}", step=1, on_change=renumber)
        with every:
            st.number_input("again every", 0, _MOST, key=f"op_every_{kind}", step=1, on_change=renumber)
        if offer.seconds is not None:
            with seconds:
                st.number_input("seconds", 0.0, _MOST_SECONDS, key=f"op_seconds_{kind}", step=0.1, on_change=renumber)


def _heads() -> None:
    """Names of the columns, where these stand beside each other."""
    heads = ("Fault", "What becomes of it", "at call", "again every", "seconds", "happened")
    with st.container(key="op_heads"):
        for column, name in zip(st.columns(_WIDTHS), heads, strict=True):
            column.caption(name)


def _begin(kind: str, offer: Offer, told: Mapping[str, Any]) -> None:
    """Fields begin with what is on, or with what is sensible, and then are the visitor's."""
    values = {"first": offer.first, "every": offer.every, "seconds": offer.seconds}
    for name, usual in values.items():
        key = f"op_{name}_{kind}"
        if usual is not None and key not in st.session_state:
            value = told.get(name, usual)
            known = value if isinstance(value, int | float) and math.isfinite(value) else usual
            if name == "seconds":
                st.session_state[key] = float(max(0.0, min(_MOST_SECONDS, known)))
            else:
                st.session_state[key] = int(max(name == "first", min(_MOST, known)))


def _switch_key(state: OperationsState, kind: str, is_on: bool | None = None) -> str:
    """The key of a switch; another one from where on it `is_on` otherwise than it was left here."""
    key = f"op_fault_{kind}_{state.moved.get(kind, 0)}"
    if is_on is not None and st.session_state.get(key, is_on) != is_on:
        state.moved[kind] = state.moved.get(kind, 0) + 1
        return _switch_key(state, kind)
    return key


def _flip(state: OperationsState, gateway: Gateway, kind: str, switch: str) -> None:
    """The visitor has moved a switch; other faults stay as they are now."""
    # A message of the browser that was on its way when the switch was moved by somebody else speaks of the old one.
    if switch != _switch_key(state, kind):
        return
    on = _on_now(state, gateway)
    if on is not None:
        kept = [each for each in on if each.get("kind") != kind]
        _post(state, gateway, [*kept, _fault(kind)] if st.session_state[switch] else kept)


def _renumber(state: OperationsState, gateway: Gateway, kind: str) -> None:
    """The visitor has changed a number; that of a fault that is on holds at once."""
    on = _on_now(state, gateway) or []
    wanted = [{**each, **_fault(kind)} if each.get("kind") == kind else each for each in on]
    if wanted != on:
        _post(state, gateway, wanted)


def _on_now(state: OperationsState, gateway: Gateway) -> list[Mapping[str, Any]] | None:
    """The faults that the gateway has on at this moment; None, and said, if it does not tell."""
    try:
        now = gateway.read("faults").get("faults")
    except GatewayError as problem:
        state.say(f"The gateway did not do it: {problem}.", is_well=False)
        return None
    return [each for each in now if isinstance(each, dict)] if isinstance(now, list) else []


def _fault(kind: str) -> dict[str, Any]:
    read = st.session_state
    fault = {"kind": kind, "first": read[f"op_first_{kind}"], "every": read[f"op_every_{kind}"]}
    if OFFERS[kind].seconds is not None:
        fault["seconds"] = read[f"op_seconds_{kind}"]
    return fault


def _post(state: OperationsState, gateway: Gateway, wanted: Sequence[Mapping[str, Any]]) -> None:
    labels = [OFFERS[kind].label for each in wanted if (kind := str(each.get("kind"))) in OFFERS]
    words = f"Planned faults that are on: {', '.join(labels)}." if wanted else "All planned faults are off."
    act(state, gateway, "POST", "faults", lambda _: words, {"faults": wanted})
