"""What a visitor has going on the workloads page: cancelled when the tab is closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import streamlit as st

from pages.components.workloads.job import Job, JobWorker

#: Seconds between two looks at what computes.
LOOK_EVERY = 0.6


@st.cache_resource(show_spinner=False)
def worker() -> JobWorker:
    """The one worker of the process."""
    return JobWorker()


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
