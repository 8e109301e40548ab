"""Who waits, who runs, whose slice has ended, who has finished; and the one order in which all of them stand."""

from __future__ import annotations

from scheduler_core.config import EngineConfig
from scheduler_core.policy import make_policy
from scheduler_core.request import FinishReason, Request, RequestStatus
from scheduler_core.waiting_queue import Key, WaitingQueue, lifted_class


class Roster:
    """Every request's place. Knows no block, budget or event.

    `requests` has all that are alive; `finished` those that ended in this tick; `expired` the running ones whose slice
    is used up.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.policy = make_policy(config)
        self.waiting = WaitingQueue(self.policy, config.aging)
        self.running: dict[str, Request] = {}
        self.expired: dict[str, Request] = {}
        self.requests: dict[str, Request] = {}
        self.finished: list[Request] = []
        self._last_number = 0

    def reconfigure(self, config: EngineConfig, tick: int) -> None:
        """Take new settings: the queue is sorted anew, and slices end by the new quantum."""
        self.config = config
        self.policy = make_policy(config)
        queued = [*self.waiting]
        for request in queued:
            self.waiting.remove(request, tick)
        self.waiting = WaitingQueue(self.policy, config.aging)
        for request in queued:
            self.waiting.add(request, tick)
        self.expired = {r.id: r for r in self.running.values() if self._has_used_slice(r)}

    # Places

    def add(self, request: Request, tick: int) -> None:
        """A new request joins the queue."""
        self.requests[request.id] = request
        self.waiting.add(request, tick)

    def start(self, request: Request, tick: int) -> None:
        """From the queue to a lane, with a new slice."""
        self.waiting.remove(request, tick)
        request.status = RequestStatus.RUNNING
        request.slice_used = 0
        self.running[request.id] = request

    def stop(self, request: Request) -> None:
        """Off its lane; whoever stops it puts it back into the queue."""
        self._leave_lane(request)
        request.status = RequestStatus.PREEMPTED
        request.num_preemptions += 1

    def close(self, request: Request, reason: FinishReason) -> None:
        """The end of a request that no longer waits, or was never let in."""
        self._leave_lane(request)
        self.requests.pop(request.id, None)
        request.status = RequestStatus.FINISHED
        request.finish_reason = reason
        self.finished.append(request)

    def _leave_lane(self, request: Request) -> None:
        self.running.pop(request.id, None)
        self.expired.pop(request.id, None)

    # Slices

    def expire(self, request: Request) -> int | None:
        """Mark a slice that is used up just now; returns its length in ticks, or None if it goes on."""
        if not self._has_used_slice(request) or request.id in self.expired:
            return None
        self.expired[request.id] = request
        return self.config.quantum

    def _has_used_slice(self, request: Request) -> bool:
        quantum = self.config.quantum
        return quantum is not None and request.slice_used >= quantum

    def step_down(self, request: Request) -> None:
        """Go behind the others after a slice, and begin to age anew."""
        request.level = self.policy.level_after_expiry(request)
        request.queue_number = self.next_number()
        request.waited_ticks = request.lost_ticks = 0

    # The order

    def next_number(self) -> int:
        """A queue number: larger than all before."""
        self._last_number += 1
        return self._last_number

    def key(self, request: Request) -> Key:
        """(Effective class, queue number): smaller goes first, everywhere."""
        if request in self.waiting:
            return self.waiting.key(request)
        request_class = self.policy.request_class(request)
        return lifted_class(request_class, request.idle_ticks, self.config.aging), request.queue_number
