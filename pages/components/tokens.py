"""The text of one request, token by token, with where each came from."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.components.frame import asset
from pages.components.plain import visible
from scheduler_core.metrics import Chip, text_of
from scheduler_core.trace import Trace

_component = st.components.v2.component("tickscope_tokens", css=asset("tokens.css"), js=asset("tokens.js"))


def tokens(trace: Trace, request_id: str, tick: int) -> None:
    """Draw the request's prompt and answer as of the end of `tick`."""
    text = text_of(trace, request_id, tick)
    _component(
        key="tokens",
        data={
            "prompt": [_plain(chip) for chip in text.prompt],
            "output": [[*_plain(chip), [[visible(c.text), c.prob] for c in chip.top]] for chip in text.output],
        },
    )
    with st.expander("As a table", key="table_chips", type="compact"):
        st.dataframe(_table([*text.prompt, *text.output]), hide_index=True, key="data_chips")


def _plain(chip: Chip) -> list[object]:
    return [visible(chip.text), chip.kind, chip.tick]


def _table(chips: list[Chip]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "token": [visible(chip.text) for chip in chips],
            "id": [chip.token_id for chip in chips],
            "kind": [chip.kind for chip in chips],
            "tick": [chip.tick for chip in chips],
            "likeliest": [", ".join(f"{visible(c.text)!r} {c.prob:.1%}" for c in chip.top) for chip in chips],
        }
    )
