"""The runs of a lesson, each computed when it is first looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import streamlit as st

from pages.components.runs import Workload, compute, recording, shipped
from scheduler_core.events import RequestArrived
from scheduler_core.lesson import Lesson, load_lesson
from scheduler_core.trace import Trace


class LessonRuns(Mapping[str, Trace]):
    """Name -> trace, on the recorded tokens where there are any."""

    def __init__(self, lesson: Lesson) -> None:
        self._lesson = lesson

    def __getitem__(self, name: str) -> Trace:
        run = self._lesson.run(name)
        scenario = shipped(run.scenario)
        return compute(
            Workload(scenario, recording(run.scenario)), scenario.config.replace(**dict(run.settings)), "recorded"
        )

    def __iter__(self) -> Iterator[str]:
        return (run.name for run in self._lesson.runs)

    def __len__(self) -> int:
        return len(self._lesson.runs)


@st.cache_data(show_spinner=False)
def shipped_lesson(name: str) -> Lesson:
    """A shipped lesson by name; raises `LessonError`."""
    return load_lesson(name)


def until(trace: Trace, end: int, slot: str = "lesson_cut") -> Trace:
    """The run before tick `end`, with the requests that had arrived; the same object for the same run and end.

    One cut is kept for each `slot`.
    """
    if end >= len(trace.records):
        return trace
    kept = st.session_state.get(slot)
    if kept is None or kept[0] is not trace or kept[1] != end:
        records = trace.records[:end]
        # A request that was sent to a live run may bear a time past the start of the tick that took it.
        seen = {e.request_id for record in records for e in record.events if isinstance(e, RequestArrived)}
        now = records[-1].start
        known = tuple(spec for spec in trace.requests if spec.arrival_time <= now or spec.id in seen)
        # The stage knows a run again by its identity, and is then not sent it anew.
        st.session_state[slot] = kept = (trace, end, replace(trace, records=records, requests=known))
    cut: Trace = kept[2]
    return cut
