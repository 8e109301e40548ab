"""A roofline fitted to measured ticks: the peak, the bandwidth and the overhead that miss them least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler_core.cost_model import ModelShape, Work

Floats = NDArray[np.float64]

#: A relative error beyond this counts by its size, no longer by its square: a disturbed tick does not bend the fit.
_ORDINARY_ERROR = 0.1
_POINTS = 33
#: Share of its range that each search keeps around the best point; the ranges end at about a millionth.
_KEPT = 0.5
_SEARCHES = 20


@dataclass(frozen=True, slots=True)
class Roofline:
    """What a tick costs: max(FLOPs / `peak_flops`, bytes / `memory_bandwidth`) + `overhead_s`."""

    peak_flops: float
    memory_bandwidth: float
    overhead_s: float


def fit(works: Sequence[Work], model: ModelShape, seconds: Sequence[float]) -> Roofline:
    """The roofline of least robust relative error, by a grid that closes in on its best point."""
    flops = np.array([work.flops(model) for work in works], float)
    moved = np.array([work.bytes(model) for work in works], float)
    measured = np.array(seconds, float)
    # No rate is below what a tick has shown, and none matters that is far above; seconds per unit, as logarithms.
    fastest = np.array([(measured / flops).min(), (measured / moved).min()])
    low, high = np.log(fastest / 50), np.log(fastest * 1.5)
    low, high = np.append(low, 0.0), np.append(high, measured.min())
    best, reach = (low + high) / 2, (high - low) / 2
    for _ in range(_SEARCHES):
        axes = [
            np.linspace(max(b - r, lo), min(b + r, hi), _POINTS)
            for b, r, lo, hi in zip(best, reach, low, high, strict=True)
        ]
        best = _best_of(axes, flops, moved, measured)
        reach = reach * _KEPT
    return Roofline(float(np.exp(-best[0])), float(np.exp(-best[1])), float(best[2]))


def _best_of(axes: Sequence[Floats], flops: Floats, moved: Floats, measured: Floats) -> Floats:
    """The point of the grid with the smallest loss: (log seconds a FLOP, log seconds a byte, overhead)."""
    compute = np.exp(axes[0])[:, None, None, None] * flops
    memory = np.exp(axes[1])[None, :, None, None] * moved
    predicted = np.maximum(compute, memory) + axes[2][None, None, :, None]
    losses = robust_loss(predicted / measured - 1.0)
    place = np.unravel_index(int(losses.argmin()), losses.shape)
    return np.array([axis[index] for axis, index in zip(axes, place, strict=True)])


def robust_loss(errors: Floats) -> Floats:
    """The mean over the last axis of what grows as a square near zero and evenly far from it."""
    losses: Floats = (np.sqrt(1.0 + (errors / _ORDINARY_ERROR) ** 2) - 1.0).mean(axis=-1)
    return losses
