"""The page of many replicas put together: choices, figures, routing, a stage for each, and routers compared."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from pages.components.copy_link import copy_link, here
from pages.components.plain import plain
from pages.components.player import forget_words, stage
from pages.components.scale_out_figures import kill_cost, replica_table, restart_story, router_table
from pages.components.scale_out_figures import tiles as figure_tiles
from pages.components.scale_out_head import head
from pages.components.scale_out_loads import DEFAULT_LOAD, EXAMPLES, load_names
from pages.components.scale_out_routing import strip, told_at
from pages.components.scale_out_runs import FleetRun, chosen_run
from pages.components.scale_out_state import MOST_STAGES, ScaleOutState, from_query, to_query
from pages.components.scale_out_tiles import tiles
from pages.components.visit import show_address

PATH = "/scale_out"
#: The keys of the stages, and the name under which they find each other in the browser.
STAGES = tuple(f"scale_out_{number}" for number in range(1, MOST_STAGES + 1))
#: One stage for whichever replica is opened: another one's run is played on at the same tick.
OPENED = "scale_out_opened"
LINK = "scale_out"

#: A stage of several leaves away what needs its whole width; one bar of buttons drives all.
_FIRST = ("timeline", "narration", "host")
_OTHERS = (*_FIRST, "buttons")
_ALONE = ("host",)

_LESSON = """
- **Why prefix affinity raises hits.** Each cache knows only what its own replica has computed. Spread over n
  replicas, a shared beginning is computed n times and takes blocks in n pools. Sent to one home, it is computed once.
- **Why a load bound is needed.** A popular beginning would send everybody to one replica while the others idle. With a
  bound, the home takes a request only while its outstanding tokens are at most so many times the mean. Outstanding
  are the tokens of prompts and answers that a replica has been sent and has not delivered yet.
- **What a kill costs.** The KV of its requests is computed again elsewhere, and its cache is gone. No request is lost
  and none is answered twice, as the router knows who got which tokens.
- **What a shared tier changes.** What one replica has computed is written behind, and the others load it instead of
  computing it. Then a router that knows no prefixes gets hits too, and a kill loses less.
- **What a restart brings back.** A new process loads the weights before it takes requests, and its cache is empty.
  With consistent hashing the prefixes of the killed replica went to the next on the ring meanwhile; now they come home,
  and only they move. The cache is warmed by computing again, or from the shared tier.
"""


def scale_out(fresh: bool) -> None:
    """Draw everything; `fresh` tells that the visitor has just come to the page."""
    state = _enter(fresh)
    head(state, lambda: _seek(state))
    if messages := st.session_state.get("scale_out_messages"):
        st.warning("\n\n".join(plain(message) for message in messages))
    run = chosen_run(state)
    state.tick = min(state.tick, run.last_tick)
    figure_tiles(run.fleet)
    if told := kill_cost(run.fleet):
        st.info(plain(" ".join(filter(None, (told, restart_story(run.fleet))))))
    elif state.kill:
        st.info(f"This run is over before tick {state.kill_at}, so nobody is killed.")
    st.fragment(_stages)(state, run)
    strip(run.fleet, run.last_tick)
    with st.container(key="so_figures"):
        _figures(state, run)


def _figures(state: ScaleOutState, run: FleetRun) -> None:
    st.header("Each replica", anchor=False)
    st.dataframe(replica_table(run.fleet), hide_index=True, key="so_replica_data", height="content")
    st.header("Every router on the same load", anchor=False)
    st.dataframe(router_table(state), hide_index=True, key="so_router_data", height="content")
    seed = f"the same seed, {state.seed}," if state.load in EXAMPLES else "the same requests"
    st.caption(
        f"All with {seed} and the same kill. ● marks the router shown above. TTFT is the time to the first token, E2E "
        "the time to the last; every tick lasts one second, whatever is in it."
    )
    st.markdown(_LESSON)


def _stages(state: ScaleOutState, run: FleetRun) -> None:
    """All stages in one fragment: only the one that drives speaks, so one tick serves all."""
    with st.container(key="so_told"):
        # As many lines at every tick, so that a step moves nothing.
        st.markdown("  \n".join(told_at(run.fleet, state.tick)))
    tiles(run, "so_fleet", link=LINK, tick=state.tick, opened=state.opened, on_open=partial(_open, state))
    with st.container(key="scale_out_stages"):
        if state.opened:
            _stage(state, run, state.opened - 1, OPENED, _ALONE)
        else:
            places = [column for _ in range(0, state.replicas, 2) for column in st.columns(2)]
            for number, place in zip(range(state.replicas), places, strict=False):
                with place:
                    _stage(state, run, number, STAGES[number], _OTHERS if number else _FIRST)
    query = to_query(state, DEFAULT_LOAD)
    show_address(query, PATH, state.tick, _command())
    copy_link(here(query, state.tick), key="scale_out_copy", is_shown=False)


def _stage(state: ScaleOutState, run: FleetRun, number: int, key: str, without: Sequence[str]) -> None:
    killed = {kill.replica: int(kill.time) for kill in run.fleet.kills}
    back = {event.replica: int(event.time) for event in run.fleet.comebacks}
    told = f", killed at tick {killed[number]}" if number in killed else ""
    told += f", back at tick {back[number]}" if number in back else ""
    st.markdown(f"**Replica {number + 1}**{told}")
    stage(
        run.trace(number),
        key=key,
        tick=state.tick,
        cmd_id=_command(),
        status="synthetic",
        on_change=partial(_hear, state, key),
        link=LINK,
        why=False,
        label=f"Stage of replica {number + 1}{told}. Press question mark for the keys.",
        last_tick=run.last_tick,
        without=without,
    )


def _open(state: ScaleOutState, number: int, tick: int) -> None:
    if state.click(number, tick):
        for key in (*STAGES, OPENED):
            forget_words(key)
        _seek(state)


def _enter(fresh: bool) -> ScaleOutState:
    """On entry an address that says something wins over what was seen before."""
    query = st.query_params.to_dict() if fresh else {}
    if query:
        found, messages = from_query(query, load_names(), DEFAULT_LOAD)
        st.session_state["scale_out"], st.session_state["scale_out_messages"] = found, messages
    state = st.session_state.setdefault("scale_out", ScaleOutState(DEFAULT_LOAD))
    assert isinstance(state, ScaleOutState)
    if fresh:
        for key in [key for key in map(str, st.session_state) if key.startswith("so_")]:
            del st.session_state[key]
        _seek(state)
    return state


def _seek(state: ScaleOutState) -> None:
    """Ask all stages to go to the state's tick, once; call it before they are drawn."""
    st.session_state["scale_out_command"] = _command() + 1
    for key in (*STAGES, OPENED):
        st.session_state[key] = {"view": {"tick": state.tick, "selected": None, "playing": False}}


def _command() -> int:
    """The number of the latest command to the stages; it only grows."""
    return int(st.session_state.get("scale_out_command", 0))


def _hear(state: ScaleOutState, key: str) -> None:
    """Take over where the stage that drives stands."""
    view = (st.session_state.get(key) or {}).get("view") or {}
    if isinstance(view.get("tick"), int):
        state.tick = max(0, view["tick"])
