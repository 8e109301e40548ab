"""The kinds of planned faults in the words of the page, with the numbers to begin with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Offer:
    """A kind in words, what becomes of it, and the numbers to begin with; `counted` is what its calls are."""

    label: str
    told: str
    counted: str = "call"
    first: int = 1
    every: int = 1
    seconds: float | None = None
    needs_store: bool = False


OFFERS = {
    "raise": Offer("The model raises", "All in the batch are tried again, the failing ones alone.", every=5),
    "nan": Offer("The model computes NaN", "The first request of the batch is tried again.", every=5),
    "slow": Offer("The model is slow", "Answers take longer; after a stall they are tried again.", seconds=0.2),
    "worker_killed": Offer("The worker is killed", "A new engine begins and tries all again.", first=20, every=0),
    "copy_out": Offer("Copies to the host fail", "What a preempted request held is computed again.", "copy"),
    "copy_in": Offer("Copies from the host fail", "What was saved is computed again.", "copy"),
    "store_full": Offer("Caches are full", "Nothing new is kept below memory.", "write", needs_store=True),
    "store_gone": Offer(
        "Caches are gone", "Every lookup is a miss; after three failures the breaker opens.", "call", needs_store=True
    ),
}
