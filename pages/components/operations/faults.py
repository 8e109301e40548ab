"""Planned faults, a switch for each kind: what the gateway does about them is seen at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st

from pages.components.operations.act import act, is_open
from pages.components.operations.client import Gateway
from pages.components.operations.head import faults_on
from pages.components.operations.state import OperationsState
from pages.components.operations.watch import Seen
from pages.components.plain import plain, visible
from scheduler_core.serving.fault_plan import KINDS


@dataclass(frozen=True, slots=True)
class Offer:
    """A kind in words, what becomes of it, and the numbers to begin with; `counted` is what its calls are."""

    label: str
    told: str
    counted: str = "call of the model"
    first: int = 1
    every: int = 1
    seconds: float | None = None
    needs_store: bool = False


OFFERS = {
    "raise": Offer("The model raises", "All in the batch are tried again, the failing ones alone.", every=5),
    "nan": Offer("No numbers (NaN)", "The first request of the batch is tried again.", every=5),
    "slow": Offer("The model is slow", "Answers take longer; past the stall limit they are tried again.", seconds=0.2),
    "worker_killed": Offer("The worker is killed", "A new engine begins and tries all again.", first=20, every=0),
    "copy_out": Offer("Copies to the host fail", "What a preempted request held is computed again.", "copy"),
    "copy_in": Offer("Copies from the host fail", "What was saved is computed again.", "copy"),
    "store_full": Offer("Caches are full", "Nothing new is kept below memory.", "write", needs_store=True),
    "store_gone": Offer(
        "Caches are gone", "Every lookup is a miss; after three failures the breaker opens.", "call", needs_store=True
    ),
}
_MOST = 1_000_000


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
    with st.container(key="op_faults"):
        for kind, offer in OFFERS.items():
            _switch(state, gateway, kind, offer, on, happened.get(kind, 0), has_store or not offer.needs_store)
    if on:
        st.button("Switch all off", key="op_faults_off", on_click=partial(_post, state, gateway, {}))


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
    st.session_state[f"op_fault_{kind}"] = is_on
    change = partial(_change, state, gateway, kind, on)
    with st.container(border=True, key=f"op_row_{kind}"):
        switch, first, every, seconds = st.columns([2.6, 1, 1, 1], vertical_alignment="bottom")
        with switch:
            st.toggle(
                offer.label,
                key=f"op_fault_{kind}",
                on_change=change,
                disabled=not is_possible,
                help=None if is_possible else "There is no cache below memory: start with --store or --redis.",
            )
            st.caption(plain(offer.told) + (f" Happened {times:,} times." if times else ""))
        with first:
            st.number_input(f"at {offer.counted}", 1, _MOST, key=f"op_first_{kind}", step=1, on_change=change)
        with every:
            st.number_input("again every", 0, _MOST, key=f"op_every_{kind}", step=1, on_change=change)
        if offer.seconds is not None:
            with seconds:
                st.number_input("seconds", 0.0, 60.0, key=f"op_seconds_{kind}", step=0.1, on_change=change)


def _begin(kind: str, offer: Offer, told: Mapping[str, Any]) -> None:
    """Fields begin with what is on, or with what is sensible, and then are the visitor's."""
    values = {"first": offer.first, "every": offer.every, "seconds": offer.seconds}
    for name, usual in values.items():
        key = f"op_{name}_{kind}"
        if usual is not None and key not in st.session_state:
            value = told.get(name, usual)
            known = value if isinstance(value, int | float) else usual
            st.session_state[key] = float(min(60.0, known)) if name == "seconds" else int(min(_MOST, known))


def _change(state: OperationsState, gateway: Gateway, kind: str, on: Mapping[str, Mapping[str, Any]]) -> None:
    """A switch, or a number of a fault that is on."""
    wanted = {**on}
    wanted.pop(kind, None)
    if st.session_state[f"op_fault_{kind}"]:
        wanted[kind] = _fault(kind)
    elif kind not in on:
        return
    _post(state, gateway, wanted)


def _fault(kind: str) -> dict[str, Any]:
    read = st.session_state
    fault = {"kind": kind, "first": read[f"op_first_{kind}"], "every": read[f"op_every_{kind}"]}
    if OFFERS[kind].seconds is not None:
        fault["seconds"] = read[f"op_seconds_{kind}"]
    return fault


def _post(state: OperationsState, gateway: Gateway, wanted: Mapping[str, Mapping[str, Any]]) -> None:
    names = ", ".join(KINDS[kind] for kind in wanted)
    words = f"On from now on: {visible(names)}." if wanted else "All planned faults are off."
    act(state, gateway, "POST", "faults", lambda _: words, {"faults": [*wanted.values()]})
