"""Step 1 of the workloads page: the load, from an example, the generator or a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from pages.components.chart import BARE
from pages.components.plain import plain
from pages.components.settings import limits
from pages.components.workloads.examples import EXAMPLES
from pages.components.workloads.preview import Preview, of_config, of_shaped, preview_figure
from pages.components.workloads.state import (
    MAX_SEED,
    SOURCES,
    WorkloadState,
    lengths_text,
    tenants_text,
)
from pages.components.workloads.upload import Uploaded, upload
from pages.components.workloads.widgets import begin, forget, number, whole
from scheduler_core.bench.cache.prompts import DEFAULT_BLOCK_SIZE, Prompts, prompts_of, prompts_of_load
from scheduler_core.bench.load.plan import Workload, from_source, generated
from scheduler_core.errors import TickscopeError
from scheduler_core.load.config import ARRIVALS, LoadConfig, parse_tenants
from scheduler_core.load.generator import GeneratedLoad
from scheduler_core.load.lengths import Lengths

_SOURCE_LABELS = {"example": "Example", "generator": "Generator", "upload": "File"}
_ARRIVAL_LABELS = {
    "poisson": "Poisson (at random)",
    "constant": "Constant (a steady beat)",
    "gamma": "Gamma (bursty or even)",
    "ramp": "Ramp (from one rate to another)",
    "onoff": "On and off (bursts)",
    "at_once": "All at once",
}


@dataclass(frozen=True, slots=True)
class ChosenLoad:
    """A load that can run: how it is made, what tells it from every other, and whose it is."""

    key: str
    title: str
    make: Callable[[], Workload]
    prompts: Callable[[], Prompts]
    block_size: int
    attribution: str
    seed: int


def load_step(state: WorkloadState) -> ChosenLoad | None:
    """Draw the step; None while there is nothing to run."""
    st.header("1 · The load", anchor=False)
    source = st.segmented_control(
        "Where the load comes from",
        SOURCES,
        key=begin("wl_source", state.source),
        required=True,
        format_func=_SOURCE_LABELS.__getitem__,
        label_visibility="collapsed",
    )
    if source and source != state.source:
        if source == "generator" and state.source == "example":
            # The generator starts where the example stands.
            state.load = state.config()
            forget(key for key in map(str, st.session_state) if key.startswith("wl_gen_"))
        state.source = source
    if state.source == "upload":
        return _of_file()
    if state.source == "example":
        _example(state)
    else:
        _generator(state)
    config = state.config()
    most = limits().max_load_requests
    if config.num_requests > most:
        st.caption(f"This site runs at most {most:,} requests, so these are the first {most:,}.")
        config = replace(config, num_requests=most)
    _show(_preview(config.to_json()), "Made by the generator of this app", config.seed)
    return ChosenLoad(
        config.to_json(),
        EXAMPLES[state.example].title if state.source == "example" else "Generated load",
        lambda: generated(config),
        lambda: prompts_of_load(GeneratedLoad(config), DEFAULT_BLOCK_SIZE),
        DEFAULT_BLOCK_SIZE,
        "",
        config.seed,
    )


@st.cache_data(show_spinner=False, max_entries=64)
def _preview(load: str) -> Preview:
    return of_config(LoadConfig.from_json(load))


def _show(preview: Preview, origin: str, seed: int) -> None:
    st.plotly_chart(preview_figure(preview), key="wl_preview", alt=f"{preview.words}.", config=BARE)
    st.caption(f"{plain(preview.words)}. {plain(origin)}, seed {seed}: the same seed gives the same load.")


def _example(state: WorkloadState) -> None:
    chosen = st.pills(
        "Example",
        [*EXAMPLES],
        key=begin("wl_example", state.example),
        required=True,
        format_func=lambda name: EXAMPLES[name].title,
        label_visibility="collapsed",
    )
    state.example = chosen or state.example
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    with left:
        st.markdown(EXAMPLES[state.example].text)
    with right:
        state.seed = whole("Seed", "wl_seed", state.seed, 0, MAX_SEED, "Another seed draws another load of this kind.")


# The generator


def _generator(state: WorkloadState) -> None:
    load, changes = state.load, {}
    left, middle, right = st.columns([1, 1.6, 1])
    with left:
        most = limits().max_load_requests
        changes["num_requests"] = whole("Requests", "wl_gen_n", min(load.num_requests, most), 1, most)
    with middle:
        changes["arrivals"] = st.selectbox(
            "Arrivals",
            ARRIVALS,
            key=begin("wl_gen_arrivals", load.arrivals),
            format_func=_ARRIVAL_LABELS.__getitem__,
        )
    with right:
        changes["rate"] = number("Per second", "wl_gen_rate", load.rate, 1e-3, 1e4)
    changes |= _course(load, str(changes["arrivals"]))
    left, right = st.columns(2)
    with left:
        changes["prompt"] = _parsed("Prompt lengths", "prompt", lengths_text(load.prompt), Lengths.parse, load.prompt)
    with right:
        changes["output"] = _parsed("Output lengths", "output", lengths_text(load.output), Lengths.parse, load.output)
    with st.expander("Shared beginnings, tenants, seed", type="compact", key="wl_more"):
        changes |= _more(load)
    try:
        state.load = replace(load, **changes)
    except TickscopeError as problem:
        st.error(plain(f"{problem}. The load stays as it was."))


def _course(load: LoadConfig, arrivals: str) -> dict[str, Any]:
    """What the kind of arrivals needs beside the rate."""
    fields = {
        "gamma": (("Burstiness", "burstiness", 0.01, 100.0),),
        "ramp": (("Per second at the end", "rate_end", 1e-3, 1e4), ("Seconds of the ramp", "ramp_s", 0.1, 1e5)),
        "onoff": (
            ("Seconds of a burst", "on_s", 0.1, 1e5),
            ("Seconds between", "off_s", 0.1, 1e5),
            ("Per second between", "off_rate", 0.0, 1e4),
        ),
    }.get(arrivals, ())
    found: dict[str, Any] = {}
    for column, (title, name, low, high) in zip(st.columns(max(1, len(fields))), fields, strict=False):
        with column:
            found[name] = number(title, f"wl_gen_{name}", getattr(load, name), low, high)
    return found


def _more(load: LoadConfig) -> dict[str, Any]:
    found: dict[str, Any] = {}
    left, middle, right = st.columns(3)
    with left:
        found["prefix_groups"] = whole("Groups with a shared beginning", "wl_gen_groups", load.prefix_groups, 0, 10_000)
    with middle:
        found["prefix_tokens"] = whole("Tokens of a beginning", "wl_gen_prefix", load.prefix_tokens, 1, 100_000)
    with right:
        found["seed"] = whole("Seed", "wl_gen_seed", load.seed, 0, MAX_SEED)
    found["tenants"] = _parsed(
        "Tenants",
        "tenants",
        tenants_text(load),
        lambda text: parse_tenants(text) if text.strip() else (),
        load.tenants,
        "A number of equal ones, or NAME=SHARE:PRIORITY with commas between; empty for none.",
    )
    return found


_LENGTHS_HELP = "Tokens: 512, uniform:100:500, lognormal:MEAN:SIGMA:LONGEST or zipf:EXPONENT:LOW:HIGH."


def _parsed(
    title: str, name: str, text: str, parse: Callable[[str], Any], usual: Any, told: str = _LENGTHS_HELP
) -> Any:
    written = st.text_input(title, max_chars=400, key=begin(f"wl_gen_{name}", text), help=told)
    try:
        return parse(written)
    except TickscopeError as problem:
        st.error(plain(f"{problem}. It stays as it was."))
        return usual


# A file


def _of_file() -> ChosenLoad | None:
    found = upload()
    if found is None:
        return None
    report = found.source.report
    _show(_preview_of(found), f"From {report.name}", found.how.seed)
    chosen = {(request.line, request.turn) for request in found.shaped.requests}

    def prompts() -> Prompts:
        # The lengths as they are in the file, as on the command line.
        requests = tuple(r for r in found.source.requests if (r.line, r.turn) in chosen)
        return prompts_of(replace(found.source, requests=requests), None)[0]

    return ChosenLoad(
        f"{found.digest}:{found.how}",
        report.name,
        lambda: from_source(found.source, found.how),
        prompts,
        report.block_size or DEFAULT_BLOCK_SIZE,
        report.attribution.text,
        found.how.seed,
    )


def _preview_of(found: Uploaded) -> Preview:
    kept = st.session_state.get("_wl_preview")
    if kept is None or kept[0] is not found.shaped:
        st.session_state["_wl_preview"] = kept = (found.shaped, of_shaped(found.shaped))
    preview: Preview = kept[1]
    return preview


assert {*_ARRIVAL_LABELS} == {*ARRIVALS}
