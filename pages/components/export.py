"""What a visitor can take away: a link to this instant, pictures, an animation, and the run itself."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import astuple, fields

import streamlit as st

from pages.components.copy_link import copy_link
from pages.components.drop import drop_area
from pages.components.export_gif import animation
from pages.components.picture.palette import PALETTES, Palette
from pages.components.picture.raster import to_png
from pages.components.picture.scene import Scenes
from pages.components.picture.stage_picture import StagePicture
from pages.components.picture.timeline_picture import timeline_svg
from pages.components.plain import visible
from pages.components.play_state import IMPORTED, PlayState
from pages.components.teach_state import is_shown
from scheduler_core.metrics import EventRow, events_table
from scheduler_core.perfetto import to_perfetto
from scheduler_core.trace import Trace

#: PNGs are for slides and screens of high density.
PNG_SCALE = 2


def export(trace: Trace, state: PlayState, address: str, *, calm: bool) -> None:
    """Offer the link and the files; each file is made when it is asked for. `calm`: no tick is being added."""
    name = file_stem(trace.scenario)
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("**Link to this instant**")
        if state.scenario == IMPORTED:
            st.caption("This run came from a file, and a file cannot travel in a link: send the file itself.")
        else:
            copy_link(address, key="copy_link")
        st.markdown("**The run**")
        _files(trace, name)
        if is_shown("choices"):
            st.markdown("**Open a file**")
            drop_area(state, "export")
    # Last, as a GIF that is being made holds up what comes after it.
    with right:
        st.markdown("**Pictures**")
        palette = _palette()
        _pictures(trace, min(state.tick, len(trace.records) - 1), palette, name)
        st.markdown("**Animation**")
        animation(trace, state.tick, palette, name, calm=calm)


def file_stem(scenario: str) -> str:
    """The name of a run as one of a file, whatever it holds."""
    return re.sub(r"[^\w.-]+", "-", scenario).strip("-.")[:60] or "run"


def _palette() -> Palette:
    """Light or dark: that of the page, unless another is chosen."""
    shown = st.context.theme.type or "light"
    chosen = st.segmented_control(
        "Colours", list(PALETTES), default=shown, key="picture_colours", required=True, format_func=str.capitalize
    )
    return PALETTES[chosen or shown]


def _pictures(trace: Trace, tick: int, palette: Palette, name: str) -> None:
    def stage(*, font: bool) -> str:
        return StagePicture(Scenes(trace), palette).svg(tick, font=font)

    def timeline(*, font: bool) -> str:
        return timeline_svg(Scenes(trace), palette, font=font)

    with st.container(horizontal=True):
        for what, draw, stem in (("Stage", stage, f"{name}-tick-{tick}"), ("Timeline", timeline, f"{name}-timeline")):
            _download(f"{what} (PNG)", _png(draw), f"{stem}.png", "image/png", f"export_{what.lower()}_png")
            _download(f"{what} (SVG)", _svg(draw), f"{stem}.svg", "image/svg+xml", f"export_{what.lower()}_svg")
    st.caption(f"The stage is drawn as it is at tick {tick}. PNGs have twice the size of the screen, for slides.")


def _png(draw: Callable[..., str]) -> Callable[[], bytes]:
    return lambda: to_png(draw(font=False), PNG_SCALE)


def _svg(draw: Callable[..., str]) -> Callable[[], str]:
    # The typeface travels inside, so that it looks the same on a machine that has not got it.
    return lambda: draw(font=True)


def _files(trace: Trace, name: str) -> None:
    with st.container(horizontal=True):
        _download("Trace (JSON, gzipped)", trace.to_bytes, f"{name}.json.gz", "application/gzip", "export_trace")
        _download("Events (CSV)", lambda: events_csv(trace), f"{name}-events.csv", "text/csv", "export_csv")
        perfetto = f"{name}-perfetto.json"
        _download("Perfetto trace", lambda: to_perfetto(trace), perfetto, "application/json", "export_perfetto")
    st.caption("The trace opens here again, and replays with: python -m scheduler_core replay FILE")
    st.caption("The Perfetto trace opens at ui.perfetto.dev or chrome://tracing; each request is a track.")


def _download(label: str, make: Callable[[], str | bytes], file_name: str, mime: str, key: str) -> None:
    st.download_button(label, make, file_name, mime, key=key, on_click="ignore")


def events_csv(trace: Trace) -> str:
    """All events as a spreadsheet."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([field.name for field in fields(EventRow)])
    for row in events_table(trace):
        writer.writerow([_cell(value) for value in astuple(row)])
    return text.getvalue()


def _cell(value: object) -> object:
    """A spreadsheet takes text that begins with one of these marks for a formula."""
    if not isinstance(value, str):
        return value
    return f"'{visible(value)}" if value.startswith(("=", "+", "-", "@", "\t")) else visible(value)
