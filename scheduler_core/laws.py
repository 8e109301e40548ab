"""The laws of a run, and the error that names the one that broke."""

from __future__ import annotations

from enum import Enum


class Law(Enum):
    """What holds after every tick, whatever the requests and the settings."""

    BLOCKS = "blocks"
    PLACE = "place"
    LANES = "lanes"
    BATCH = "batch"
    WRITES = "writes"
    CHAIN = "chain"
    COMPUTED = "computed"
    HITS = "hits"
    ADMISSION = "admission"
    TOKENS = "tokens"
    HOST = "host"
    PROGRESS = "progress"

    @property
    def text(self) -> str:
        """The law in one sentence."""
        return _TEXTS[self]


_TEXTS = {
    Law.BLOCKS: "Used and free blocks are all blocks, and each is held as often as it stands in a block table.",
    Law.PLACE: "Every request that is alive is in exactly one place.",
    Law.LANES: "No more requests run than there are lanes.",
    Law.BATCH: "A batch keeps to its budget, and each of its parts has a token.",
    Law.WRITES: "Nobody writes to a block that others hold or can find.",
    Law.CHAIN: "Every block that can be found has the key of its tokens, and its ancestors can be found as well.",
    Law.COMPUTED: "A block that can be found has been computed.",
    Law.HITS: "A request is only given blocks that hold its own tokens.",
    Law.ADMISSION: "Whoever is let in fits, beside what has been promised to others.",
    Law.TOKENS: "Every token is computed in its turn and told once.",
    Law.HOST: "Every copy on the host belongs to a request that waits, and the host pool holds them all.",
    Law.PROGRESS: "Somebody gets ahead: requests do not compute the same tokens again and again.",
}


class BrokenLaw(AssertionError):
    """A law does not hold; `detail` says where."""

    def __init__(self, law: Law, detail: str) -> None:
        super().__init__(detail)
        self.law = law
        self.detail = detail
