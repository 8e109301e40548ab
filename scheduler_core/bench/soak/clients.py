"""The clients of a soak: each does as its request says, and every end is counted once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from scheduler_core.bench.served.client import Client, WireRequest
from scheduler_core.bench.soak.plan import SoakRequest
from scheduler_core.request import FinishReason
from scheduler_core.request_facts import RequestFacts
from scheduler_core.whereabouts import COMPLETED

ENDS = ("finished", "refused", "aborted", "dead")
_MOST_EXAMPLES = 5


@dataclass(slots=True)
class Ledger:
    """submitted = finished + refused + aborted + dead, unless some are `lost`: those that ended in no proper way."""

    submitted: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)

    def count(self, facts: RequestFacts) -> None:
        assert facts.reason is not None
        self.ends[_ENDS[facts.reason]] += 1

    def lose(self, request_id: str, problem: Exception) -> None:
        self.lost.append(f"{request_id}: {type(problem).__name__}: {problem}")

    @property
    def examples(self) -> list[str]:
        """Of what was lost."""
        return self.lost[:_MOST_EXAMPLES]


class SoakClients:
    """Sends requests as their clients would."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.ledger = Ledger()
        self.kept: set[str] = set()

    async def send(self, request: SoakRequest, planned: float) -> RequestFacts:
        """Wait for the end; whatever goes wrong is counted as lost and told as an error."""
        ledger = self.ledger
        ledger.submitted += 1
        keep, wire = request.id in self.kept, WireRequest.of(request.spec())
        try:
            if request.is_whole:
                facts = await self._client.whole(wire, planned, keep=keep)
            else:
                facts = await self._client.stream(wire, planned, leave_after=request.leave_after, keep=keep)
        except Exception as problem:
            ledger.lose(request.id, problem)
            raise
        ledger.count(facts)
        return facts


_ENDS = {
    **dict.fromkeys(COMPLETED, "finished"),
    FinishReason.REJECTED: "refused",
    FinishReason.ABORT: "aborted",
    FinishReason.ERROR: "dead",
}
