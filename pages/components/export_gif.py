"""The animated GIF: what is asked for, its making in view, and the file."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from pages.components.picture.gif import MAX_BYTES, MAX_FRAMES, SPEEDS, WIDTHS, GifMaker, GifOrder
from pages.components.picture.palette import Palette
from pages.components.picture.scene import Scenes
from pages.components.plain import plain
from scheduler_core.trace import Trace

#: Frames that are offered at first: those around the tick shown.
USUAL_FRAMES = 30
_JOB = "gif_job"


@dataclass(slots=True)
class GifJob:
    """A GIF that is being made, or is made; it goes on where it stopped when the page runs again."""

    trace: Trace
    palette: Palette
    maker: GifMaker


def animation(trace: Trace, tick: int, palette: Palette, name: str, *, calm: bool) -> None:
    """Draw the form, and below it the GIF as far as it is made."""
    order = _form(trace, tick)
    found = order.problem(len(trace.records))
    if found:
        st.error(plain(found))
    job = _job(trace, palette)
    wait = "" if calm else "It can be made when the stage stands still."
    if st.button("Make the GIF", key="gif_make", disabled=bool(found) or not calm, help=wait or None):
        job = GifJob(trace, palette, GifMaker(Scenes(trace), palette, order))
        st.session_state[_JOB] = job
    if job is not None:
        _show(job, name)


def _form(trace: Trace, tick: int) -> GifOrder:
    last = len(trace.records) - 1
    start = max(0, min(tick - USUAL_FRAMES // 3, last - USUAL_FRAMES + 1))
    # Another run has other ticks to choose from, so its fields begin anew.
    run = f"{trace.scenario} {len(trace.records)}"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        first = st.number_input("From tick", 0, last, start, key=f"gif_first {run}", width=132)
        end = min(last, start + USUAL_FRAMES - 1)
        until = st.number_input("To tick", 0, last, end, key=f"gif_last {run}", width=132)
    with st.container(horizontal=True):
        speed = st.selectbox("Speed", SPEEDS, 2, key="gif_speed", format_func=_speed_words, width=150, filter_mode=None)
        wide = st.selectbox(
            "Width", WIDTHS, 1, key="gif_width", format_func=lambda pixels: f"{pixels} pixels", width=150,
            filter_mode=None,
        )  # fmt: skip
    st.caption(f"A frame a tick, at most {MAX_FRAMES} frames and {MAX_BYTES // 2**20} MiB.")
    return GifOrder(int(first), int(until), float(speed), int(wide))


def _speed_words(speed: float) -> str:
    return f"{speed:g} tick{'' if speed == 1 else 's'} a second"


def _job(trace: Trace, palette: Palette) -> GifJob | None:
    """The one that was begun for this run in these colours."""
    job = st.session_state.get(_JOB)
    if isinstance(job, GifJob) and job.trace is trace and job.palette is palette:
        return job
    st.session_state.pop(_JOB, None)
    return None


def _show(job: GifJob, name: str) -> None:
    """Go on with it, a frame at a time: whatever the visitor does meanwhile is answered between two frames."""
    maker, order = job.maker, job.maker.order
    if not maker.is_done:
        place = st.empty()
        bar = place.progress(maker.share, "Drawing the frames")
        while not maker.is_done:
            maker.step()
            bar.progress(min(maker.share, 1.0), f"Drawing the frames: {maker.num_made} of {order.num_frames}")
        place.empty()
    if maker.is_too_large:
        st.error(
            f"The GIF grew past {MAX_BYTES // 2**20} MiB after {maker.num_made} of {order.num_frames} frames. "
            "Choose fewer ticks, or a smaller width."
        )
        return
    data = maker.data
    with st.container(horizontal=True, vertical_alignment="center"):
        st.download_button(
            "Download the GIF",
            data,
            f"{name}-ticks-{order.first}-{order.last}.gif",
            "image/gif",
            key="gif_download",
            on_click="ignore",
            type="primary",
        )
        frames = "1 frame" if order.num_frames == 1 else f"{order.num_frames} frames"
        st.caption(f"Ticks {order.first} to {order.last}, {frames}, {size_words(len(data))}.")


def size_words(size: int) -> str:
    """Bytes for people: "840 KiB", "1.2 MiB"."""
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{max(round(size / 2**10), 1):,} KiB"
