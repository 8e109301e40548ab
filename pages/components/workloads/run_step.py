"""Step 3 of the workloads page: start, progress, cancel."""

from __future__ import annotations

import streamlit as st

from pages.components.plain import plain
from pages.components.settings import limits
from pages.components.workloads.job import Job, JobState
from pages.components.workloads.load_step import ChosenLoad
from pages.components.workloads.visit import LoadVisit, load_visit, look_every, worker
from pages.components.workloads.work import Server, run_on_servers

RUN = "run"
#: Seconds in which a job that was cancelled normally has ended.
CANCEL_WITHIN = 1.0
_WHAT = {
    "run": "The run",
    "sweep": "The sweep",
    "cache": "The cache",
    "two_by_two": "The four",
    "window": "The window",
}


def run_step(load: ChosenLoad | None, servers: list[Server]) -> None:
    """Draw the step."""
    visit = load_visit()
    st.header("3 · Run", anchor=False)
    job = visit.jobs.get(RUN)
    if job is not None and job.is_going:
        progress(RUN)
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        ready = load is not None and bool(servers) and not visit.is_computing
        clicked = st.button("Run the load", key="wl_run", type="primary", disabled=not ready)
        if job is not None:
            st.markdown(f":gray[{plain(_over(job))}]", width="content")
    if job is not None and job.state is JobState.FAILED:
        st.error(plain(f"{job.problem}."))
    for note in job.notes if job else ():
        st.warning(plain(f"{note}."))
    if clicked and load is not None:
        visit.start(RUN, run_key(load, servers), run_on_servers(load.make, servers, limits()))
        visit.forget("window")
        st.rerun()


def run_key(load: ChosenLoad, servers: list[Server]) -> str:
    """The same for the same load on the same servers."""
    return f"{load.key} {servers}"


def _over(job: Job) -> str:
    match job.state:
        case JobState.DONE:
            return "The run is done. The same seed gives the same figures."
        case JobState.CANCELLED:
            return "Cancelled: what is below is partial." if job.results else "Cancelled before anything was computed."
    return ""


def progress(kind: str) -> None:
    """How far the job of that kind is, looked at again and again until it is over, with a button to cancel it."""
    every = look_every(load_visit().jobs[kind])
    st.fragment(_look, run_every=every)(kind, every)


def _look(kind: str, every: float) -> None:
    job = load_visit().jobs.get(kind)
    if job is None or not job.is_going or look_every(job) != every:
        # The rest of the page has to know, or the clock to change.
        st.rerun()
    place = worker().place(job)
    told = f"Waiting for its turn: number {place} in line." if place else job.told or "Starting"
    with st.container(horizontal=True, vertical_alignment="center", key=f"wl_progress_{kind}"):
        st.progress(min(max(job.share, 0.0), 1.0), text=plain(f"{_WHAT[kind]}: {told}"))
        if st.button("Cancel", key=f"wl_cancel_{kind}"):
            job.cancel()
            job.ended.wait(CANCEL_WITHIN)
            st.rerun()


def elsewhere(visit: LoadVisit, shown: str) -> None:
    """The progress of a job whose own place is not on the screen: one clock for the whole page."""
    going = next((kind for kind, job in visit.jobs.items() if job.is_going), None)
    if going is not None and going not in (RUN, shown):
        progress(going)
