"""The crossover that the cost model gives for its machines, with their own bus to the host and with slower ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from scheduler_core.bench.swap.crossover import Crossover, Point
from scheduler_core.bench.swap.measure import COMPANY
from scheduler_core.bench.tick_shape import BLOCK_SIZE, Part, TickShape
from scheduler_core.cost_model import MACHINES, Machine, tick_seconds
from scheduler_core.output import BlockCopy

#: The context of the smallest model among the machines'.
LONGEST = 8_192
#: Bytes a second: PCIe 3.0 with 16, 8 and 4 lanes.
SLOWER_BUSES = (16e9, 8e9, 4e9)


def crossovers() -> Iterator[dict[str, Any]]:
    """As JSON values; the machine without a model has none."""
    for machine in MACHINES.values():
        if machine.model.layers:
            buses = (machine.host_bandwidth, *(bus for bus in SLOWER_BUSES if bus < machine.host_bandwidth))
            yield from (_of(dataclasses.replace(machine, host_bandwidth=bus)) for bus in buses)


def _of(machine: Machine) -> dict[str, Any]:
    return {
        "machine": machine.name,
        "title": machine.title,
        "host_bandwidth": machine.host_bandwidth,
        "is_its_own_bus": machine.host_bandwidth == MACHINES[machine.name].host_bandwidth,
        "kv_bytes_per_token": machine.model.kv_bytes_per_token,
        **crossover(machine).as_plain(),
    }


def crossover(machine: Machine) -> Crossover:
    """For whole blocks of tokens, in company with the decodes of the measurement."""
    return Crossover.of([point(machine, tokens) for tokens in range(BLOCK_SIZE, LONGEST + 1, BLOCK_SIZE)])


def point(machine: Machine, tokens: int) -> Point:
    """The seconds by which a tick of decodes grows in either way."""
    decodes = COMPANY.output
    blocks = tuple(range(tokens // BLOCK_SIZE))
    copies = (BlockCopy("", blocks),)
    copied = dataclasses.replace(decodes, copies_out=copies, copies_in=copies)
    computed = TickShape((*COMPANY.parts, Part(0, tokens, draws=False))).output
    alone = tick_seconds(decodes, machine, BLOCK_SIZE)
    return Point(
        tokens,
        tick_seconds(copied, machine, BLOCK_SIZE) - alone,
        tick_seconds(computed, machine, BLOCK_SIZE) - alone,
    )
