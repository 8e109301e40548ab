"""An engine that is fed from a load just in time, so that only those who are there take up room."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Self, cast

from scheduler_core.backends.length_only import LengthOnlyRunner
from scheduler_core.config import EngineConfig
from scheduler_core.cost_model import machine
from scheduler_core.engine import Engine
from scheduler_core.errors import WorkloadError
from scheduler_core.load.request import Load, Sendable
from scheduler_core.request import RequestSpec
from scheduler_core.sources.prompt import Literal, Prompt
from scheduler_core.trace import TickRecord

#: Hears of every request that is sent, and for whom.
Meet = Callable[[RequestSpec, str], None]


class Simulation:
    """The same ticks as if all requests had been sent at the start."""

    def __init__(self, config: EngineConfig, load: Load, meet: Meet, *, scenario: str = "", title: str = "") -> None:
        runner = LengthOnlyRunner(machine(config.cost).model.kv_bytes_per_token)
        self.engine = Engine(config, runner, scenario=scenario, title=title, record="none", check=False)
        self.num_sent = 0
        self._newest = -1.0
        self._follow(load, meet)

    def _follow(self, load: Load, meet: Meet) -> None:
        self._meet = meet
        self._coming: Iterator[Sendable] = islice(iter(load), self.num_sent, None)
        self._all_sent = False

    @property
    def is_over(self) -> bool:
        self._feed()
        return not self.engine.has_work

    def step(self) -> TickRecord:
        """One tick; asks `is_over` first."""
        self._feed()
        return self.engine.step()

    def _feed(self) -> None:
        """Send until somebody is on the way who arrives later, for whom an idle engine can wait."""
        engine = self.engine
        while not self._all_sent and self._newest <= engine.now:
            request = next(self._coming, None)
            if request is None:
                self._all_sent = True
                return
            if request.arrival_time < self._newest:
                raise WorkloadError(
                    f"request {request.id!r} arrives at {request.arrival_time} s, before the one that was sent ahead "
                    f"of it ({self._newest} s); put them in order of arrival"
                )
            self._newest = request.arrival_time
            spec = request.spec()
            self.num_sent += 1
            self._meet(spec, request.tenant)
            engine.add_request(_compact(spec))

    # Checkpoints

    def save(self) -> bytes:
        """The state between two ticks."""
        return zlib.compress(pickle.dumps((self.engine, self.num_sent, self._newest), pickle.HIGHEST_PROTOCOL), level=1)

    @classmethod
    def restore(cls, saved: bytes, load: Load, meet: Meet) -> Self:
        """Go on from a state that `save` gave in this process; never read one from elsewhere."""
        made = cls.__new__(cls)
        made.engine, made.num_sent, made._newest = pickle.loads(zlib.decompress(saved))
        made._follow(load, meet)
        return made


def _compact(spec: RequestSpec) -> RequestSpec:
    """With 4 bytes for a token of the prompt, where a tuple has 36: thousands may wait."""
    return replace(spec, prompt_token_ids=cast("tuple[int, ...]", Prompt([Literal(spec.prompt_token_ids)])))
