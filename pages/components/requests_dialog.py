"""The dialog in which a visitor writes requests of their own. Nothing that is typed gets lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import streamlit as st

from pages.components.own_requests import OwnRequest, free_id, from_pasted, length_problem, problems
from pages.components.plain import plain
from pages.components.play_state import OWN, PlayState
from pages.components.runs import scenario_named
from pages.components.settings import limits
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import EngineConfig


@dataclass(slots=True)
class Row:
    """A request under edit; `number` names its widgets and stays the same while others come and go."""

    number: int
    request: OwnRequest


def open_requests() -> None:
    """Show the dialog from now on; it stays open over reruns of the page, so that nothing typed gets lost."""
    st.session_state["editing"] = True


def _close() -> None:
    st.session_state["editing"] = False


def requests_dialog(state: PlayState, config: EngineConfig, on_run: Callable[[], None]) -> None:
    """Draw the dialog if it is open, filled with what was typed before, else with what runs now."""
    if not st.session_state.get("editing"):
        return
    if "rows" not in st.session_state:
        _fill(state.requests if state.scenario == OWN else requests_of(state.scenario))
    _dialog(state, config, on_run)


def requests_of(scenario: str) -> tuple[OwnRequest, ...]:
    """A shipped scenario's requests as a start for one's own."""
    return tuple(
        OwnRequest(
            draft.id, draft.prompt, draft.max_tokens, draft.priority, int(draft.arrival_time), draft.system or ""
        )
        for draft in scenario_named(scenario).requests
    )


def forget_rows() -> None:
    """Open the dialog with what runs, next time."""
    st.session_state.pop("rows", None)


def _fill(requests: Sequence[OwnRequest]) -> None:
    st.session_state["rows"] = []
    st.session_state["system_prompt"] = requests[0].system if requests else ""
    for request in requests:
        _add(request)


def _add(request: OwnRequest) -> None:
    st.session_state["row_count"] = st.session_state.get("row_count", 0) + 1
    st.session_state["rows"].append(Row(st.session_state["row_count"], request))


@st.dialog("Your own requests", width="large", on_dismiss=_close)
def _dialog(state: PlayState, config: EngineConfig, on_run: Callable[[], None]) -> None:
    st.caption(
        f"Up to {limits().max_requests} requests, each with up to {limits().max_prompt_tokens:,} tokens of prompt and "
        f"{limits().max_output_tokens:,} of answer. They run on made-up tokens, or live on the model."
    )
    rows: list[Row] = st.session_state["rows"]
    _system_prompt(rows)
    for row in rows:
        _row(row)
    if not rows:
        st.info("There is no request yet. Add one, or paste several below.")
    with st.container(horizontal=True):
        st.button("Add a request", key="add_request", on_click=_add_empty)
        if state.scenario != OWN:
            st.button(
                "Start over from this scenario", key="refill", on_click=_fill, args=(requests_of(state.scenario),)
            )
        st.button("Delete all", key="delete_all", on_click=_fill, args=((),), disabled=not rows)
    with st.expander("Paste several", key="paste"):
        st.text_area(
            "Prompts, with an empty line between two",
            key="pasted",
            height=110,
            placeholder="What is a cache?\n\nTell me a joke.",
        )
        st.button("Add these", key="add_pasted", on_click=_add_pasted)
    found = _problems([row.request for row in rows], config)
    for message in found:
        st.error(plain(message))

    def take() -> None:
        state.requests = tuple(row.request for row in rows)
        state.scenario = OWN
        _close()
        on_run()

    if st.button("Run these", key="run_own", type="primary", disabled=bool(found), on_click=take):
        st.rerun()


def _system_prompt(rows: list[Row]) -> None:
    """One beginning for all: what they share is computed once."""
    if rows and "system_prompt" not in st.session_state:
        st.session_state["system_prompt"] = rows[0].request.system
    system = st.text_area("System prompt for all (may be empty)", key="system_prompt", height=68)
    for row in rows:
        row.request = replace(row.request, system=system or "")


def _row(row: Row) -> None:
    n, request = row.number, row.request
    with st.container(border=True, key=f"request_{n}", gap="small"):
        prompt = st.text_area(f"Prompt of {request.id}", request.prompt, key=f"prompt_{n}", height=72)
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            name = st.text_input("Name", request.id, key=f"name_{n}", width=96)
            tokens = st.number_input("Max tokens", value=request.max_tokens, step=1, key=f"tokens_{n}", width=132)
            priority = st.number_input(
                "Class", value=request.priority, step=1, key=f"class_{n}", width=116, help="Lower is better."
            )
            arrival = st.number_input(
                "Arrives at", value=request.arrival, step=1, key=f"arrival_{n}", width=132, help="In virtual seconds."
            )
            st.button("Delete", key=f"delete_{n}", on_click=_delete, args=(n,), type="tertiary")
    row.request = replace(
        request, id=name, prompt=prompt, max_tokens=int(tokens), priority=int(priority), arrival=int(arrival)
    )


def _problems(requests: Sequence[OwnRequest], config: EngineConfig) -> list[str]:
    if found := problems(requests, limits()):
        return found
    encoder = SyntheticRunner()
    lengths = [(request, len(encoder.encode_chat(request.prompt, request.system))) for request in requests]
    return [
        message
        for request, length in lengths
        if (message := length_problem(request, length, config.max_model_len, limits()))
    ]


def _add_empty() -> None:
    rows: list[Row] = st.session_state["rows"]
    _add(OwnRequest(free_id([row.request.id for row in rows]), ""))


def _add_pasted() -> None:
    rows: list[Row] = st.session_state["rows"]
    for request in from_pasted(st.session_state["pasted"], [row.request.id for row in rows]):
        _add(request)
    st.session_state["pasted"] = ""


def _delete(number: int) -> None:
    rows: list[Row] = st.session_state["rows"]
    st.session_state["rows"] = [row for row in rows if row.number != number]
