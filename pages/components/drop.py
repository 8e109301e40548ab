"""Files that a visitor opens: dropped anywhere on the playground, or chosen. What stood before stays if one is bad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import streamlit as st

from pages.components.frame import asset
from pages.components.imported import (
    ENDINGS,
    MAX_FILE_MEGABYTES,
    MEGABYTE,
    ImportedRun,
    ImportProblem,
    read_upload,
)
from pages.components.imported_visit import keep
from pages.components.play_state import BACKENDS, IMPORTED, OWN, PlayState
from pages.components.settings import limits
from pages.components.visit import seek

_WHAT = "A run saved here (.json.gz or .json), or a scenario (.toml). It stays in this session and is kept nowhere."
_net = st.components.v2.component("tickscope_drop", css=asset("drop.css"), js=asset("drop.js"))


class Upload(Protocol):
    """A file as the browser sent it."""

    name: str
    size: int

    def getvalue(self) -> bytes: ...


def _nothing() -> None:
    """Most places have nothing to do once a file is there."""


def drop_area(state: PlayState, place: str, on_taken: Callable[[], None] = _nothing) -> None:
    """A field to drop a file on; `place` tells several on one page apart."""
    # Another number makes another field: one that was read is empty again, and takes the same file twice.
    key = f"drop_{place} {st.session_state.get('drops', 0)}"

    def take() -> None:
        upload = st.session_state[key]
        if upload is not None:
            st.session_state["drops"] = st.session_state.get("drops", 0) + 1
            take_file(state, upload)
            on_taken()

    st.file_uploader(
        "Drop a run or a scenario here, or anywhere on the page",
        ENDINGS,
        key=key,
        on_change=take,
        max_upload_size=MAX_FILE_MEGABYTES,
        help=_WHAT,
    )
    if st.session_state.pop("has_taken", False):
        # In a fragment the rest of the page would not hear of it.
        st.rerun()


def drop_anywhere(state: PlayState) -> None:
    """Take files that are dropped anywhere on the page: a field that is not shown, and a script that feeds it."""
    with st.container(key="drop_anywhere"):
        drop_area(state, "anywhere")
    data = {"most": MAX_FILE_MEGABYTES * MEGABYTE, "endings": [f".{ending}" for ending in ENDINGS]}
    _net(key="drop_net", data={**data, "words": f"Drop it to open it. {_WHAT}"})


def take_file(state: PlayState, upload: Upload) -> None:
    """Open a file, or say why not."""
    st.session_state["has_taken"] = True
    try:
        found = read_upload(upload.name, upload.size, upload.getvalue, limits())
    except ImportProblem as problem:
        _tell([str(problem)])
        return
    state.preset, state.overrides = "", {}
    state.tick, state.selected, state.block = 0, "", 0
    if isinstance(found, ImportedRun):
        keep(found)
        state.scenario, state.backend = IMPORTED, BACKENDS[0]
        _tell([])
    else:
        state.scenario, state.requests = OWN, found.requests
        state.overrides = dict(found.overrides)
        st.session_state.pop("rows", None)
        _tell(list(found.notes))
    seek(state)


def _tell(messages: list[str]) -> None:
    """Show these beside the stage until they are read."""
    st.session_state["link_messages"] = messages
