"""The app's own runs on the model: how many compute, and how many wait for a place."""

from __future__ import annotations

import streamlit as st

from pages.components.live import live_load
from pages.components.plain import plain
from pages.components.settings import SettingsError, limits


def live_runs(*, alone: bool = False) -> None:
    """Draw the panel; `alone` where there is nothing else to see."""
    if alone:
        st.header("Live runs of this app", anchor=False)
    try:
        most = limits().max_live_runs
    except SettingsError as problem:
        st.error(plain(str(problem)))
        return
    active, queued, kept = live_load()
    with st.container(key="op_live_tiles"):
        for column, (name, value, told) in zip(
            st.columns(3),
            (
                ("Computing", f"{active} of {most}", "Live runs of all visitors that load or compute now."),
                ("Waiting for a place", f"{queued:,}", "They start in turn, and their pages say at which place."),
                ("Done, still open", f"{kept:,}", "Nothing to compute; they go on when their visitor sends more."),
            ),
            strict=True,
        ):
            column.metric(name, value, help=told)
    st.caption(
        "These are runs that visitors started with *live* on the playground. They are no requests of the gateway. The "
        "limit is `TICKSCOPE_MAX_LIVE_RUNS`."
    )
