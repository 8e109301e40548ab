"""What a visitor has going on the workloads page: cancelled when the tab is closed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import streamlit as st

from pages.components.workloads.job import Job, JobWorker

#: Seconds between two looks at what computes, in the beginning and later: Streamlit collects all garbage after each,
#: which with what a large job holds takes longer than a step of it.
LOOK_EVERY, LOOK_LATER = 0.6, 4.0
#: Seconds after which a job is looked at less often.
LATER = 12.0


@st.cache_resource(show_spinner=False)
def worker() -> JobWorker:
    """The one worker of the process."""
    return JobWorker()


def look_every(job: Job) -> float:
    """Seconds until the next look at a job."""
    return LOOK_LATER if time.monotonic() - job.begun > LATER else LOOK_EVERY


@dataclass(slots=True)
class LoadVisit:
    """The latest job of each kind, and what each was started with."""

    jobs: dict[str, Job] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)

    def start(self, kind: str, key: str, steps: Callable[[Job], Iterator[None]]) -> Job:
        """Give up what was done of this kind, and begin anew; `key` tells what it is about."""
        if before := self.jobs.get(kind):
            before.cancel()
        self.keys[kind] = key
        self.jobs[kind] = worker().start(Job(kind, steps))
        return self.jobs[kind]

    def forget(self, kind: str) -> None:
        if before := self.jobs.pop(kind, None):
            before.cancel()

    @property
    def is_computing(self) -> bool:
        return any(job.is_going for job in self.jobs.values())

    def cancel(self) -> None:
        for job in self.jobs.values():
            job.cancel()
        self.jobs.clear()


@st.cache_resource(show_spinner=False, scope="session", on_release=LoadVisit.cancel)
def load_visit() -> LoadVisit:
    """This visitor's."""
    return LoadVisit()
