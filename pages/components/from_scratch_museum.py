"""The fault museum: a run with a mistake built in, and the law that turns red when it breaks."""

from __future__ import annotations

import streamlit as st

from pages.components.from_scratch_announce import announce
from pages.components.plain import plain
from pages.components.player import stage
from scheduler_core.faults import FAULT_FOLDER, FAULTS
from scheduler_core.scratch.museum import Break, exhibit, law_break
from scheduler_core.trace import Trace
from scheduler_core.words import count
from scheduler_core.workload import Scenario, load_scenario

STAGE = "museum_stage"
_COMMAND = "museum_command"
_SHOWN = "museum_shown"


def museum(fresh: bool) -> None:
    """Draw the exhibits, and the run of the one that was started."""
    st.header("3 · The fault museum", anchor=False)
    st.markdown(
        "A law is what holds after every tick, whatever the requests and the settings. Real servers have made each of "
        "these mistakes. Build one into the scheduler and watch its law turn red."
    )
    if fresh:
        st.session_state.pop(_SHOWN, None)
    name = st.segmented_control(
        "The mistake",
        list(FAULTS),
        default=next(iter(FAULTS)),
        format_func=lambda each: FAULTS[each].title,
        key="museum_choice",
        required=True,
        on_change=lambda: st.session_state.pop(_SHOWN, None),
    )
    st.markdown(plain(FAULTS[name].description))
    is_on = st.session_state.get(_SHOWN)
    with st.container(horizontal=True, key="museum_ways", gap="small"):
        st.button("Run it with the mistake", key="museum_on", type="primary", on_click=_start, args=(True,))
        st.button(
            "Switch the mistake off", key="museum_off", disabled=is_on is not True, on_click=_start, args=(False,)
        )
    if is_on is not None:
        st.markdown("\n".join(f"- {plain(line)}" for line in _scenario(name).look_for))
        st.caption(
            "The laws are checked after every tick, and the run stops where one breaks, before more harm is done."
        )
        st.fragment(_watch)(name, is_on)
    else:
        st.caption("Nothing runs yet. Press Run it with the mistake: the law and the stage appear here.")


def _start(is_on: bool) -> None:
    st.session_state[_SHOWN] = is_on
    _seek(0, play=True)


def _seek(tick: int, *, play: bool = False) -> None:
    """Send the stage to a tick; what it said before is out of date."""
    st.session_state[_COMMAND] = (st.session_state.get(_COMMAND, (0,))[0] + 1, tick, play)
    st.session_state[STAGE] = {"view": {"tick": tick, "selected": None, "playing": play}}


@st.cache_data(show_spinner=False)
def _scenario(name: str) -> Scenario:
    return load_scenario(FAULT_FOLDER / f"{name}.toml")


@st.cache_resource(show_spinner=False)
def _run(name: str, is_on: bool) -> Trace:
    return exhibit(name, is_on=is_on)


def _watch(name: str, is_on: bool) -> None:
    """The law's card above the stage: it turns when the stage has come to the end of the run."""
    trace = _run(name, is_on)
    last = len(trace.records) - 1
    card = st.container()
    command, tick, play = st.session_state[_COMMAND]
    view = stage(
        trace,
        key=STAGE,
        tick=tick,
        cmd_id=command,
        play=play,
        status="synthetic",
        url=None,
        why=False,
        label=f"Fault museum: {FAULTS[name].title}. Press question mark for the keys.",
    )
    with card:
        _law(name, law_break(trace), last, has_ended=view.tick >= last)


def _law(name: str, found: Break | None, last: int, *, has_ended: bool) -> None:
    law = FAULTS[name].law.text
    told = ""
    if not has_ended:
        with st.container(border=True, key="museum_law_so_far"):
            st.markdown(f"**The law.** {plain(law)}")
            st.markdown(":gray[It holds so far. Watch the run, or go to its end.]")
            st.button(f"Go to tick {last}", key="museum_end", on_click=_seek, args=(last,))
    elif found is None:
        told = f"The law held in {'all ' if last else ''}{count(last + 1, 'tick')}."
        with st.container(border=True, key="museum_law_held"):
            st.markdown(f"**✓ {told}** {plain(law)}")
        told = f"{told} {law}"
    else:
        told = f"A law broke at tick {found.tick}, and the run stopped."
        with st.container(border=True, key="museum_law_broken"):
            st.markdown(f"**✗ {told}** {plain(found.law.text)}")
            st.markdown(f"But {plain(found.detail)}.")
            st.markdown("What led to it:")
            st.markdown("\n".join(f"- Tick {tick}: {plain(sentence)}" for tick, sentence in found.led_to_it))
        told = f"{told} {found.law.text} But {found.detail}."
    announce("law", told)
