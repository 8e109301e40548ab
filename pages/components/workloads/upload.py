"""A workload file that a visitor brings: read with bounds, told row by row, shaped, and kept in memory only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd
import streamlit as st

from pages.components.plain import cut, plain, visible
from pages.components.settings import limits
from pages.components.workloads.state import MAX_SEED
from pages.components.workloads.widgets import forget, number, whole
from scheduler_core.errors import TickscopeError
from scheduler_core.sources.formats import FORMATS
from scheduler_core.sources.limits import MAX_TOKENS
from scheduler_core.sources.record import Source
from scheduler_core.sources.report import shape_remarks
from scheduler_core.sources.shape import Shape, ShapedWorkload, shape
from scheduler_core.sources.source import read_source

#: As much as `server.maxUploadSize` lets through; a larger file is refused by the browser before it is sent.
MAX_FILE_MEGABYTES = 64
ENDINGS = ("csv", "jsonl", "json", "gz", "txt")


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A file as it was read, how it is shaped, and what comes of it."""

    digest: str
    source: Source
    how: Shape
    shaped: ShapedWorkload


class _File(Protocol):
    """A file as the browser sent it."""

    name: str
    size: int

    def getbuffer(self) -> memoryview: ...

    def seek(self, offset: int, whence: int = 0, /) -> int: ...


def upload() -> Uploaded | None:
    """Draw the field and what was found in the file; None while there is none that can run."""
    st.file_uploader(
        "A trace or workload: CSV or JSON lines, also gzipped",
        ENDINGS,
        key="wl_upload",
        on_change=take,
        max_upload_size=MAX_FILE_MEGABYTES,
        help="Known kinds: " + "; ".join(kind.title for kind in FORMATS) + ". It stays in this session.",
    )
    if problem := st.session_state.get("wl_problem"):
        st.error(plain(problem))
    kept = st.session_state.get("wl_file")
    if kept is None:
        st.caption(
            "Columns of your own: arrival, prompt_tokens or prompt, output_tokens, priority, tenant. Azure, Mooncake "
            "and Qwen-Bailian traces and MT-bench questions are recognised."
        )
        return None
    digest, source = kept
    _tell(source)
    try:
        how = _shape(source)
        return Uploaded(digest, source, how, _shaped(digest, source, how))
    except TickscopeError as problem:
        st.error(plain(f"{problem}."))
        return None


def take() -> None:
    """Read the file that has just arrived; what stood before stays if it cannot be read."""
    file: _File | None = st.session_state["wl_upload"]
    if file is None:
        st.session_state.pop("wl_file", None)
        st.session_state.pop("wl_problem", None)
        return
    try:
        digest = hashlib.sha256(file.getbuffer()).hexdigest()
        source = read_source(file, name=visible(file.name))  # type: ignore[arg-type]
    except TickscopeError as problem:
        st.session_state["wl_problem"] = f"{cut(file.name)} cannot be taken: {problem}."
        return
    st.session_state["wl_file"] = (digest, source)
    st.session_state.pop("wl_problem", None)
    forget(f"wl_{name}" for name in ("first", "scale", "stretch", "sample", "longest", "file_seed"))


def _tell(source: Source) -> None:
    report = source.report
    st.markdown(
        f"**{plain(report.name)}** ({plain(report.title)}): {report.num_requests:,} requests over "
        f"{report.span_s:,.0f} s."
    )
    if report.attribution.text:
        st.caption(f"Data: {plain(report.attribution.text)}")
    notes = [*_notes(source)]
    if notes:
        st.caption(" ".join(plain(note) for note in notes))
    if report.num_bad:
        listed = "" if len(report.bad_rows) == report.num_bad else f"; the first {len(report.bad_rows)} are listed"
        told = f"{report.num_bad:,} of {report.num_rows:,} rows were left out{listed}"
        st.warning(plain(f"{told}. The other rows are taken."))
        with st.expander("Rows that were left out", key="wl_bad", type="compact"):
            rows = [(bad.line, visible(bad.reason)) for bad in report.bad_rows]
            st.dataframe(pd.DataFrame(rows, columns=["line", "why"]), hide_index=True, key="wl_bad_rows")


def _notes(source: Source) -> Iterator[str]:
    report = source.report
    if report.out_of_order:
        yield f"{report.out_of_order:,} requests stood after later ones; they were put in order of arrival."
    if not report.has_times:
        yield "The file tells no times: one request a second is assumed."
    if report.unused_columns:
        yield f"Not used: {', '.join(visible(name)[:40] for name in report.unused_columns[:12])}."


def _shape(source: Source) -> Shape:
    """How the file is shaped: as it is, but no more requests than this site runs at once unless asked for."""
    count = source.report.num_requests
    most = min(count, limits().max_load_requests)
    with st.expander("Shape it: first requests, sample, lengths, times", key="wl_shape", type="compact"):
        values: dict[str, Any] = {}
        left, middle, right = st.columns(3)
        with left:
            values["first"] = whole("First requests", "wl_first", min(most, 1_000), 1, most, f"Of {count:,}.")
            values["sample"] = number("Sample (share)", "wl_sample", 1.0, 0.001, 1.0, "Drawn by the seed.")
        with middle:
            scale = "32 turns Mooncake's blocks of 512 tokens into ours of 16."
            values["scale"] = number("Divide lengths by", "wl_scale", 1.0, 0.001, MAX_TOKENS, scale)
            values["stretch"] = number("Multiply times by", "wl_stretch", 1.0, 1e-6, 1e6, "Below 1: arrivals closer.")
        with right:
            longest = whole("Longest prompt (0: any)", "wl_longest", 0, 0, MAX_TOKENS, "Longer ones are cut.")
            values["seed"] = whole("Seed", "wl_file_seed", 0, 0, MAX_SEED)
    return Shape(max_prompt_tokens=longest or None, **values)


def _shaped(digest: str, source: Source, how: Shape) -> ShapedWorkload:
    """Kept with what it was made from: a click elsewhere must not shape the file again."""
    kept = st.session_state.get("_wl_shaped")
    if kept is None or kept[0] != (digest, how):
        st.session_state["_wl_shaped"] = kept = ((digest, how), shape(source, how))
    workload: ShapedWorkload = kept[1]
    st.caption(" ".join(f"{plain(remark[:1].upper() + remark[1:])}." for remark in shape_remarks(workload.report)))
    return workload
