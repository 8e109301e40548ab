"""What stands on each side of a comparison: its name, and all its settings."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from pages.components.compare_pairs import PAIRS
from pages.components.compare_runs import side_base
from pages.components.compare_state import SHARED, CompareState
from pages.components.controls import CHUNKS, FOLDED, QUANTA, SettingsPanel
from pages.components.fields import FIELDS, PRESET_LABELS, show_value
from pages.components.plain import plain
from pages.components.play_state import PlayState
from pages.components.runs import base_config
from pages.components.teach_state import is_shown
from scheduler_core.config import FIXED_FIELDS
from scheduler_core.errors import ConfigError

LEFT, RIGHT = "Left", "Right"
#: Names of requests in a link may be of any length before they are checked.
LONGEST_NAME = 16


def ordered(state: CompareState) -> tuple[PlayState, PlayState]:
    """The sides as on screen, left and right."""
    return (state.second, state.first) if state.swapped else (state.first, state.second)


def side_name(state: CompareState, side: PlayState) -> str:
    """What a side is, in a few words: "quantum of 2 ticks", "vLLM, Lanes 8"."""
    if key := state.pair:
        pair = PAIRS[key]
        return pair.first.name if side is state.first else pair.second.name
    is_fork = state.what_if is not None and side is state.second
    told = [PRESET_LABELS[side.preset]] if side.preset else []
    told += [f"{FIELDS[name].label} {show_value(name, value)}" for name, value in side.overrides.items()]
    if state.what_if is not None and is_fork:
        told += [f"{request.id[:LONGEST_NAME]} added" for request in state.what_if.add]
        told += [f"{request_id} aborted" for request_id in state.what_if.abort]
        return f"from tick {state.what_if.at} on: {', '.join(told) or 'no change yet'}"
    if state.what_if is not None:
        return f"as it was{': ' if told else ''}{', '.join(told)}"
    return ", ".join(told) or "as the scenario sets it"


def sides(state: CompareState, on_change: Callable[[], None]) -> None:
    """Draw both names with a way to every setting."""
    columns = st.container(key="compare_sides").columns(2)
    for column, place, side in zip(columns, (LEFT, RIGHT), ordered(state), strict=True):
        with column, st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            st.markdown(f"**{place}** · {plain(side_name(state, side))}", width="stretch")
            if not is_shown("settings"):
                continue
            key = f"pop_settings_{place}"
            with st.popover("Settings", key=key, on_change="rerun"):
                # Drawn only while open: what is mounted later than it is drawn shows its default.
                if st.session_state.get(key):
                    _settings(state, side, on_change)


def _settings(state: CompareState, side: PlayState, on_change: Callable[[], None]) -> None:
    """All that may differ between the sides; what is laid out in memory cannot change while a run goes on."""
    which = "a_" if side is state.first else "b_"
    try:
        base = side_base(state, side)
    except ConfigError:
        # The first side cannot run as it stands: the second then differs from the scenario's.
        base = base_config(state.first)
    forbidden = {*SHARED, *(FIXED_FIELDS if state.what_if is not None and side is state.second else ())}
    panel = SettingsPanel(side, base, on_change, which)
    panel.dial("quantum", QUANTA)
    panel.dial("chunk_size", CHUNKS)
    for field in ("policy", "preemption_mode"):
        panel.choice(field)
    for field in ("max_num_seqs", "max_num_batched_tokens"):
        panel.number(field)
    panel.switch("enable_prefix_caching")
    with st.expander("All settings", key=f"all_settings_{which}", type="compact"):
        panel.preset()
        for field in FOLDED:
            if field not in forbidden:
                panel.folded(field)
    if side.preset or side.overrides:
        st.button("Reset settings", key=f"reset_{which}", on_click=panel.reset, type="tertiary")
