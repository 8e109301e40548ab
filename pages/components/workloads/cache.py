"""The tab of the cache: the hit rate of the prefix cache against the size of KV memory."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from pages.components.chart import GREY, PURPLE, Chart, look
from pages.components.plain import plain
from pages.components.workloads.drawn import draw
from pages.components.workloads.job import JobState
from pages.components.workloads.load_step import ChosenLoad
from pages.components.workloads.run_step import progress
from pages.components.workloads.visit import load_visit
from pages.components.workloads.widgets import begin
from pages.components.workloads.work import replay_cache
from scheduler_core.bench.cache.replay import CacheFigures, Replay
from scheduler_core.bench.cache.report import parse_sizes
from scheduler_core.errors import TickscopeError

CACHE = "cache"
MAX_SIZES = 12
USUAL = "64, 256, 1024, 4096, 16384, unbounded"


def cache(load: ChosenLoad | None) -> None:
    """Draw the tab."""
    visit = load_visit()
    st.caption(
        "The prompts go one after another through our own prefix cache and block pool, the least recently used block "
        "goes first. Counted in tokens over the last half of the requests, after the first half has filled the cache. "
        "The same as `python -m scheduler_core bench cache`."
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        text = st.text_input("Blocks of KV memory, with commas", key=begin("wl_sizes", USUAL), max_chars=200, width=420)
        clicked = st.button("Measure hit rates", key="wl_cache", disabled=load is None or visit.is_computing)
    if clicked and load is not None:
        try:
            sizes = parse_sizes([text])
            if len(sizes) > MAX_SIZES:
                raise TickscopeError(f"there are {len(sizes)} sizes; this page takes at most {MAX_SIZES}")
        except TickscopeError as problem:
            st.error(plain(f"{problem}."))
        else:
            visit.start(CACHE, load.key, replay_cache(load.prompts, sizes))
            st.session_state["wl_cache_block"] = load.block_size
            st.rerun()
    job = visit.jobs.get(CACHE)
    if job is None:
        return
    if job.is_going:
        progress(CACHE)
    if job.state is JobState.FAILED:
        st.error(plain(f"{job.problem}."))
    for note in job.notes:
        st.warning(plain(note))
    for replay in job.results:
        _show(replay)


def _show(replay: Replay) -> None:
    block = int(st.session_state.get("wl_cache_block", 16))
    found = replay.figures()
    if not found[0].num_measured:
        st.markdown("It was cancelled before the second half began, so nothing is measured yet.")
        return
    draw(cache_chart(found, block))


def cache_chart(found: Sequence[CacheFigures], block_size: int) -> Chart:
    """One point for each size; the unbounded cache is a line that none can pass."""
    sized = sorted((each for each in found if each.num_blocks is not None), key=lambda each: each.num_blocks or 0)
    figure = go.Figure()
    figure.add_scatter(
        x=[each.num_blocks for each in sized],
        y=[100 * each.hit_rate for each in sized],
        mode="lines+markers",
        name="hit rate",
        line={"color": PURPLE, "width": 2},
        marker={"size": 8},
        hovertemplate="%{x:,} blocks: %{y:.1f} %<extra></extra>",
        showlegend=False,
    )
    unbounded = next((each for each in found if each.num_blocks is None), None)
    if unbounded:
        told = f"unbounded: {100 * unbounded.hit_rate:.1f} %, {unbounded.blocks_used:,} blocks"
        figure.add_hline(
            y=100 * unbounded.hit_rate,
            line={"color": GREY, "dash": "dot"},
            annotation_text=told,
            annotation_position="top left",
        )
    look(figure, height=320, x_title=f"blocks of {block_size} tokens", y_title="hit rate, % of prompt tokens")
    sizes = [each.num_blocks for each in sized]
    figure.update_xaxes(type="log", tickvals=sizes, ticktext=[f"{size:,}" for size in sizes])
    figure.update_yaxes(range=[0, max(5.0, *(112 * each.hit_rate for each in found))])
    table = pd.DataFrame(
        {
            "blocks": ["unbounded" if each.num_blocks is None else f"{each.num_blocks:,}" for each in found],
            "hit rate (%)": [f"{100 * each.hit_rate:.1f}" for each in found],
            "hit tokens": [f"{each.hit_tokens:,}" for each in found],
            "of prompt tokens": [f"{each.query_tokens:,}" for each in found],
            "requests counted": [f"{each.num_measured:,}" for each in found],
            "evictions": [f"{each.evictions:,}" for each in found],
        }
    )
    best = max(found, key=lambda each: each.hit_rate)
    alt = f"The hit rate of {len(found)} sizes of KV memory; the highest is {100 * best.hit_rate:.1f} %."
    note = f"Over {found[0].num_measured:,} requests."
    return Chart("cache", "Hit rate by size of KV memory", note, alt, figure, table)
