"""What a soak has to show; each check says what it found."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scheduler_core.bench.soak.clients import ENDS
from scheduler_core.bench.soak.soak import Soaked

_BROKEN_LAW = re.compile(r"^(?:\S*\.)?BrokenLaw: .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Check:
    """`passed` is None where the run was too short to tell."""

    name: str
    passed: bool | None
    found: str


def checks(soaked: Soaked) -> list[Check]:
    return [
        _lost(soaked),
        _sums(soaked),
        _same_counts(soaked),
        _letters(soaked),
        _blocks(soaked),
        _laws(soaked),
        _memory(soaked),
        _texts(soaked),
        _happened(soaked),
        _status(soaked),
    ]


def _lost(soaked: Soaked) -> Check:
    lost = soaked.run.ledger.lost
    found = f"{len(lost)} of {soaked.run.ledger.submitted:,}"
    return Check("no answer is lost", not lost, "; ".join([found, *soaked.run.ledger.examples]))


def _sums(soaked: Soaked) -> Check:
    submitted, ends = int(soaked.run.metrics["requests_submitted_total"]), _server_ends(soaked)
    told = " + ".join(f"{count:,} {end}" for end, count in ends.items())
    return Check(
        "submitted = finished + refused + aborted + dead, at /metrics",
        submitted == sum(ends.values()),
        f"{submitted:,} submitted, {told}",
    )


def _same_counts(soaked: Soaked) -> Check:
    server, ledger = _server_ends(soaked), soaked.run.ledger
    submitted = int(soaked.run.metrics["requests_submitted_total"])
    # Who leaves while its dead letter is written has left for itself and is dead for the server.
    late = max(0, server["dead"] - ledger.ends["dead"])
    theirs = {"submitted": submitted, **server, "dead": server["dead"] - late, "aborted": server["aborted"] + late}
    ours = {"submitted": ledger.submitted, **{end: ledger.ends[end] for end in ENDS}}
    different = [f"{name}: {ours[name]:,} at the clients, {theirs[name]:,} at /metrics" for name in ours]
    different = [text for name, text in zip(ours, different, strict=True) if ours[name] != theirs[name]]
    equal = "all five counts are equal" + (f", with {late:,} who left while given up" if late else "")
    return Check("the clients count the same", not different, "; ".join(different) or equal)


def _letters(soaked: Soaked) -> Check:
    kept, dead = int(soaked.run.metrics["dead_letters"]), _server_ends(soaked)["dead"]
    return Check("every dead request is a dead letter", kept == dead, f"{kept} letters, {dead} dead requests")


def _blocks(soaked: Soaked) -> Check:
    idle = soaked.run.idle
    return Check(
        "idle, the server holds no request and no block",
        idle.is_clean,
        f"{idle.in_flight} in flight, {idle.running} running, {idle.waiting} waiting, "
        f"{idle.blocks_in_use:.1%} of the blocks in use",
    )


def _laws(soaked: Soaked) -> Check:
    broken = _BROKEN_LAW.findall(soaked.log)
    ticks, restarts = int(soaked.run.metrics["tick_seconds_count"]), int(soaked.run.metrics["engine_restarts_total"])
    killed = soaked.run.happened.get("worker_killed", 0)
    return Check(
        "the laws hold after every tick",
        not broken and restarts == killed,
        "; ".join([f"{ticks:,} ticks, {restarts} restarts of the engine for {killed} planned kills", *broken[:3]]),
    )


def _memory(soaked: Soaked) -> Check:
    memory = soaked.memory
    return Check(
        "memory is flat",
        memory.is_flat,
        f"floors of {memory.first_floor:.1f} to {memory.last_floor:.1f} MiB over the last two thirds: by their slope "
        f"{memory.by_slope:+.1f}, by halves {memory.by_halves:+.1f}, at most {memory.limit:g} allowed"
        + ("; too short to judge" if memory.is_flat is None else ""),
    )


def _texts(soaked: Soaked) -> Check:
    texts = soaked.texts
    found = f"{texts.equal} of {texts.compared} equal, {texts.ties} differ from a tie on"
    named = f"; wrong: {', '.join(texts.wrong)}" if texts.wrong else ""
    return Check("sampled answers are those given alone", bool(texts.compared) and not texts.wrong, found + named)


def _happened(soaked: Soaked) -> Check:
    counts = {
        "retries": int(soaked.run.metrics["model_call_retries_total"]),
        "dead": soaked.run.ledger.ends["dead"],
        "aborted": soaked.run.ledger.ends["aborted"],
        "refused": soaked.run.ledger.ends["refused"],
        "preemptions": int(soaked.run.metrics["preemption_count_total"]),
    }
    faults = {kind: soaked.run.happened.get(kind, 0) for kind in dict.fromkeys(f.kind for f in soaked.plan.faults)}
    return Check(
        "every kind of fault and of end happened",
        all(counts.values()) and all(faults.values()),
        ", ".join(f"{count:,} {name}" for name, count in (counts | faults).items()),
    )


def _status(soaked: Soaked) -> Check:
    return Check("the server ends well when told to", soaked.status == 0, f"exit status {soaked.status}")


def _server_ends(soaked: Soaked) -> dict[str, int]:
    return {end: int(soaked.run.metrics[f"requests_{end}_total"]) for end in ENDS}
