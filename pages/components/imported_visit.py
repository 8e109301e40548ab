"""The run that a visitor opened from a file: kept for the session, in memory only."""

from __future__ import annotations

import streamlit as st

from pages.components.imported import ImportedRun

_SLOT = "imported"


def keep(run: ImportedRun) -> None:
    """This is the one from now on."""
    st.session_state[_SLOT] = run


def imported_run() -> ImportedRun | None:
    """The latest that was opened in this session."""
    run = st.session_state.get(_SLOT)
    return run if isinstance(run, ImportedRun) else None
