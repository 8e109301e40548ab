"""The naive scheduler's requests under the real one, which has one more of its parts at each stage of its growth."""

from __future__ import annotations

import streamlit as st

from pages.components.from_scratch_naive import module_line
from pages.components.plain import plain
from pages.components.player import stage
from scheduler_core.scratch.growth import STAGES, Grown, grown, stage_run
from scheduler_core.trace import Trace
from scheduler_core.words import number

STAGE = "scratch_stage"
_AT = "scratch_at"
_COMMAND = "scratch_command"


def real(fresh: bool) -> None:
    """Draw the chosen stage of growth, its figures among those of the others, and its run."""
    st.header("2 · The same requests under the real one", anchor=False)
    st.markdown(
        "The four requests of flaw 1: three long ones that begin alike, and R4, short and urgent, half a second later. "
        "The scheduler gets one part more at each stage. The model is synthetic: it needs one second for every tick "
        "and makes up its words."
    )
    if fresh:
        _seek()
    index = min(max(int(st.session_state.get(_AT, 0)), 0), len(STAGES) - 1)
    st.segmented_control(
        "Parts so far",
        range(len(STAGES)),
        default=index,
        format_func=part_name,
        key="scratch_stages",
        required=True,
        on_change=_choose,
    )
    shown = STAGES[index]
    with st.container(key="scratch_growth"):
        st.markdown(plain(shown.text))
        st.markdown(_table(index))
        st.caption("  \n".join(module_line(path) for path in shown.paths))
    st.fragment(_stage)(index)


def part_name(index: int) -> str:
    """A stage by the part that it adds."""
    title = STAGES[index].title
    return f"+ {title[0].lower()}{title[1:]}" if index else title


def _choose() -> None:
    st.session_state[_AT] = st.session_state["scratch_stages"]
    _seek()


def _seek() -> None:
    """Send the stage to the beginning of another run."""
    st.session_state[_COMMAND] = st.session_state.get(_COMMAND, 0) + 1
    st.session_state[STAGE] = {"view": {"tick": 0, "selected": None, "playing": False}}


@st.cache_resource(show_spinner=False)
def _run(index: int) -> Trace:
    return stage_run(index)


@st.cache_data(show_spinner=False)
def _figures() -> list[Grown]:
    return [grown(_run(index)) for index in range(len(STAGES))]


def _table(index: int) -> str:
    """The figures of all stages up to the one that is shown."""
    head = "| parts | first token of R4 | tokens of the largest tick | tokens found cached | times put off | ticks |\n"
    rows = []
    for at, figures in enumerate(_figures()[: index + 1]):
        cells = [
            plain(part_name(at)),
            f"{number(figures.urgent_ttft)} s",
            str(figures.largest_tick),
            str(figures.hit_tokens),
            str(figures.preemptions),
            str(figures.ticks),
        ]
        rows.append("| " + " | ".join(f"**{cell}**" if at == index else cell for cell in cells) + " |")
    return head + "|:--|--:|--:|--:|--:|--:|\n" + "\n".join(rows)


def _stage(index: int) -> None:
    stage(
        _run(index),
        key=STAGE,
        tick=0,
        cmd_id=st.session_state[_COMMAND],
        status="synthetic",
        url=None,
        why=False,
        label=f"Stage of growth: {STAGES[index].title}. Press question mark for the keys.",
    )
