"""The naive scheduler in steps: its code, and an experiment for each flaw that runs when asked."""

from __future__ import annotations

import importlib
import inspect
from pathlib import PurePosixPath
from textwrap import dedent

import streamlit as st

from pages.components.from_scratch_announce import announce
from pages.components.plain import plain
from scheduler_core.scratch import naive as naive_module
from scheduler_core.scratch.experiments import EXPERIMENTS, Experiment, Finding

_STEP = "scratch_step"
_RUN = "scratch_run"


def naive() -> None:
    """Draw the code, and the step that the visitor has come to."""
    st.header("1 · Sixty lines that schedule nothing", anchor=False)
    source = inspect.getsource(naive_module).rstrip()
    length = sum(bool(line.strip()) for line in source.splitlines())
    st.markdown(
        "Requests go into a heap, the most urgent first. Prompts are read in pieces of a few words. What has been read "
        "is saved under its words, and a request that has run for a whole slice of time is put off. It sounds right. "
        "Nothing is acted here: what you read is what runs, on a clock that leaps over the waiting."
    )
    with (
        st.container(key="scratch_code"),
        st.expander(f"The whole code: scheduler_core/scratch/naive.py, {length} lines of code"),
    ):
        st.code(source, language="python", wrap_lines=True)
    step = min(max(int(st.session_state.get(_STEP, 0)), 0), len(EXPERIMENTS) - 1)
    shown = EXPERIMENTS[step]
    _progress(step)
    with st.container(border=True, key="scratch_band"):
        st.subheader(plain(shown.title), anchor=False)
        st.markdown(plain(shown.setup))
        st.code(marked_lines(shown), language="python", wrap_lines=True)
        done = _runs()
        st.button("Run it", key="scratch_go", type="primary", on_click=done.add, args=(shown.name,))
        told = ""
        if shown.name in done:
            finding = _found(shown.name)
            _result(shown, finding)
            told = f"Expected: {finding.expected} It did: {finding.happened}"
        else:
            st.caption("It has not run yet. Say to yourself what it will do, then press Run it.")
        _ways(step)
    announce("flaw", told or f"Flaw {step + 1}: {shown.title}. {shown.setup}")


def marked_lines(shown: Experiment) -> str:
    """The lines of the naive scheduler that an experiment is about, as they stand in its source."""
    source = inspect.getsource(naive_module).splitlines()
    found = [line for line in source if any(mark in line for mark in shown.marks)]
    return "\n".join(dedent(line) for line in found)


def module_line(path: str) -> str:
    """A module by its path and by what it says of itself, as Markdown."""
    module = importlib.import_module(".".join(PurePosixPath(path).with_suffix("").parts))
    words = (module.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
    return f"`{path}`: {plain(words)}"


def _runs() -> set[str]:
    """The experiments that this visitor has run."""
    done: set[str] = st.session_state.setdefault(_RUN, set())
    return done


@st.cache_data(show_spinner=False)
def _found(name: str) -> Finding:
    return next(experiment for experiment in EXPERIMENTS if experiment.name == name).run()


def _progress(step: int) -> None:
    dots = "".join(f'<i class="{"done" if at <= step else "todo"}"></i>' for at in range(len(EXPERIMENTS)))
    st.html(
        f'<div class="ts-progress ts-scratch"><span>Flaw {step + 1} of {len(EXPERIMENTS)}</span>'
        f'<span class="ts-dots" aria-hidden="true">{dots}</span></div>'
    )


def _result(shown: Experiment, finding: Finding) -> None:
    with st.container(key="scratch_result"):
        st.markdown(f"**Expected.** {plain(finding.expected)}")
        st.markdown(f"**It did.** {plain(finding.happened)}")
        rows = "\n".join(f"| {plain(f.label)} | {plain(f.expected)} | **{plain(f.got)}** |" for f in finding.figures)
        st.markdown(f"| figure | expected | it did |\n|:--|--:|--:|\n{rows}")
        st.markdown(f"**Why.** {plain(shown.why)}")
        st.markdown(f"**Instead.** {plain(shown.instead)}")
        st.caption(module_line(shown.path))


def _ways(step: int) -> None:
    def go(by: int) -> None:
        st.session_state[_STEP] = step + by

    with st.container(horizontal=True, key="scratch_ways", gap="small"):
        st.button("‹ Back", key="scratch_back", disabled=step == 0, on_click=go, args=(-1,))
        st.button("Next ›", key="scratch_next", disabled=step == len(EXPERIMENTS) - 1, on_click=go, args=(1,))
