"""The biography of one KV block: who held it when, what became of its content, and the facts in order."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from pages.components.chart import BARE, BLUE, GREEN, ORANGE, PURPLE, VERMILLION, Chart, look
from pages.components.plain import plain, visible
from scheduler_core.biography import Fact, FactKind, biography
from scheduler_core.trace import Trace
from scheduler_core.words import count

#: What a fact is called, and the mark of those that have one in the figure.
WORDS: dict[FactKind, str] = {
    FactKind.BORN: "taken",
    FactKind.PUBLISHED: "published",
    FactKind.HIT: "found",
    FactKind.FREED: "let go",
    FactKind.EVICTED: "emptied",
    FactKind.MISSED: "asked for too late",
}
MARKS: dict[FactKind, tuple[str, str]] = {
    FactKind.PUBLISHED: (PURPLE, "diamond"),
    FactKind.HIT: (GREEN, "circle"),
    FactKind.EVICTED: (VERMILLION, "x"),
    FactKind.MISSED: (ORANGE, "triangle-up"),
}


def block_life(trace: Trace, block_id: int) -> None:
    """Draw the life of a block, from its first taking to the end of the run."""
    facts = biography(trace, block_id)
    st.markdown(plain(summary(block_id, facts)))
    if not facts:
        return
    chart = life_chart(trace, block_id, facts)
    st.subheader(chart.title, anchor=False)
    st.caption(chart.note)
    st.plotly_chart(chart.figure, key="chart_block", alt=chart.alt, config=BARE)
    widths = {"what happened": st.column_config.TextColumn(width="large")}
    st.dataframe(chart.table, hide_index=True, key="data_block", column_config=widths)


def summary(block_id: int, facts: Sequence[Fact]) -> str:
    """The block's life in one or two sentences."""
    if not facts:
        return f"Block {block_id:,} was never taken in this run."
    number = {kind: sum(fact.kind is kind for fact in facts) for kind in FactKind}
    taken, emptied = count(number[FactKind.BORN], "time"), count(number[FactKind.EVICTED], "time")
    text = f"Block {block_id:,} was taken {taken}, found in the cache {count(number[FactKind.HIT], 'time')} "
    text += f"and emptied for somebody else {emptied}."
    if late := number[FactKind.MISSED]:
        text += f" What it had held was asked for too late {count(late, 'time')}."
    return text


def life_chart(trace: Trace, block_id: int, facts: Sequence[Fact]) -> Chart:
    """A bar for each hold, a mark for what happened to the content."""
    rows = [spec.id for spec in trace.requests if any(fact.request_id == spec.id for fact in facts)]
    holds = _holds(facts, len(trace.records) - 1)
    figure = go.Figure()
    figure.add_bar(
        y=[visible(who) for who, _, _ in holds],
        x=[last - first + 1 for _, first, last in holds],
        base=[first for _, first, _ in holds],
        customdata=[last for _, _, last in holds],
        orientation="h",
        width=0.5,
        name="held",
        marker={"color": BLUE, "opacity": 0.55},
        hovertemplate="%{y} held it, ticks %{base} to %{customdata}<extra></extra>",
    )
    for kind, (color, symbol) in MARKS.items():
        told = [fact for fact in facts if fact.kind is kind]
        if told:
            figure.add_scatter(
                y=[visible(fact.request_id) for fact in told],
                x=[fact.tick + 0.5 for fact in told],
                customdata=[fact.tick for fact in told],
                name=WORDS[kind],
                mode="markers",
                marker={"color": color, "symbol": symbol, "size": 11, "line": {"color": "#ffffff", "width": 1}},
                hovertemplate=f"%{{y}}, tick %{{customdata}}<extra>{WORDS[kind]}</extra>",
            )
    look(figure, height=max(200, 110 + 30 * len(rows)), x_title="tick")
    figure.update_layout(showlegend=True, barmode="overlay", legend_traceorder="normal")
    figure.update_yaxes(
        autorange="reversed", showgrid=False, type="category",
        categoryorder="array", categoryarray=[visible(who) for who in rows],
    )  # fmt: skip
    figure.update_xaxes(range=[0, len(trace.records)])
    note = "A bar while a request holds the block; two bars above each other share it. The marks are its content's."
    return Chart("block", "Who held it", note, summary(block_id, facts), figure, _table(facts))


def _holds(facts: Sequence[Fact], last_tick: int) -> list[tuple[str, int, int]]:
    """(Who, first tick, last tick) of every hold, in order of their ends."""
    since: dict[str, int] = {}
    holds = []
    for fact in facts:
        if fact.kind in (FactKind.BORN, FactKind.HIT):
            since[fact.request_id] = fact.tick
        elif fact.kind is FactKind.FREED and fact.request_id in since:
            holds.append((fact.request_id, since.pop(fact.request_id), fact.tick))
    return holds + [(who, first, last_tick) for who, first in since.items()]


def _table(facts: Sequence[Fact]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "tick": [fact.tick for fact in facts],
            "fact": [WORDS[fact.kind] for fact in facts],
            "request": [visible(fact.request_id) for fact in facts],
            "what happened": [visible(fact.text) for fact in facts],
            "key": [fact.key for fact in facts],
        }
    )
