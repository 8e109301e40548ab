"""How a figure of the workloads page stands on it: title, note, figure, and its numbers as a table."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.components.chart import BARE, BLUE, GREEN, PURPLE, VERMILLION, Chart
from pages.components.terms import mark

#: One for each configuration, in order, with a dash so that colour is not all that tells them apart.
COLORS = (BLUE, VERMILLION, GREEN, PURPLE)
DASHES = ("solid", "dash", "dot", "dashdot")
SYMBOLS = ("circle", "square", "diamond", "cross")
NOTHING = "–"


def draw(chart: Chart, told: set[str] | None = None) -> None:
    """Draw a figure with its twin."""
    st.subheader(chart.title, anchor=False)
    if chart.note:
        st.caption(mark(chart.note, told))
    st.plotly_chart(chart.figure, key=f"wl_chart_{chart.key}", alt=chart.alt, config=BARE)
    twin(chart.key, chart.table)


def twin(key: str, table: pd.DataFrame) -> None:
    """The numbers of a figure, folded."""
    with st.expander("As a table", key=f"wl_table_{key}", type="compact"):
        st.dataframe(table, hide_index=True, key=f"wl_data_{key}")


def amount(value: float | None, unit: str = "") -> str:
    """A figure for people; a dash where there is none."""
    if value is None:
        return NOTHING
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def share(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.1f} %"
