"""What holds in every fleet, checked from its events and facts alone: no request is lost, none is served twice."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler_core.replicas.events import (
    ReplicaKilled,
    ReplicaReady,
    RequestMoved,
    RequestRouted,
)
from scheduler_core.replicas.fleet_trace import FleetTrace


def check_fleet(trace: FleetTrace) -> None:
    """Raises `AssertionError` with the first law that is broken."""
    problem = next(broken(trace), None)
    assert problem is None, problem


def broken(trace: FleetTrace) -> Iterator[str]:
    """Every contradiction, in words."""
    at: dict[str, int] = {}
    attempts: dict[str, int] = {}
    alive = set(range(trace.config.num_replicas))
    owed_moves = 0
    for event in trace.events:
        match event:
            case RequestRouted(request_id=who, replica=where, attempt=attempt):
                if where not in alive:
                    yield f"{who} was sent to replica {where}, which was gone"
                if who in at:
                    yield f"{who} was sent to replica {where} while it was at replica {at[who]}"
                if attempt != attempts.get(who, 0) + 1:
                    yield f"attempt {attempt} of {who} follows attempt {attempts.get(who, 0)}"
                at[who], attempts[who] = where, attempt
            case ReplicaKilled(replica=where, num_requests=count):
                if where not in alive:
                    yield f"replica {where} was killed and was gone already"
                alive.discard(where)
                owed_moves += count
            case RequestMoved(request_id=who, from_replica=where):
                if at.pop(who, None) != where:
                    yield f"{who} moved from replica {where}, where it was not"
                owed_moves -= 1
            case ReplicaReady(replica=where):
                if where in alive:
                    yield f"replica {where} came back and was not gone"
                alive.add(where)
    if owed_moves:
        yield f"{owed_moves} requests of killed replicas did not move"
    yield from _ends(trace, set(attempts))


def _ends(trace: FleetTrace, sent: set[str]) -> Iterator[str]:
    """Submitted = ended, each with its own reason."""
    known = [each.id for each in trace.facts]
    if len(set(known)) != len(known) or set(known) != sent:
        yield f"{len(known)} requests were submitted and {len(sent)} were sent to a replica"
    for each in trace.facts:
        if each.reason is None:
            yield f"{each.id} never ended"
    routed = sum(isinstance(event, RequestRouted) for event in trace.events)
    if routed != len(known) + len(trace.moved) or sum(each.requests for each in trace.replicas) != routed:
        yield f"{routed} attempts for {len(known)} requests of which {len(trace.moved)} moved"
