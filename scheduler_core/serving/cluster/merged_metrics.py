"""Many expositions made one: each metric once, with the samples of all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import prometheus_client
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True, slots=True)
class Exposition:
    """What one process tells Prometheus; `replica` names it in the label of that name."""

    replica: str
    text: bytes


def merged(expositions: Iterable[Exposition]) -> bytes:
    """The exposition format; no two processes may tell of the same model and replica."""
    families: dict[str, Metric] = {}
    for exposition in expositions:
        for family in text_string_to_metric_families(exposition.text.decode()):
            told = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                told.samples.append(sample._replace(labels={**sample.labels, "replica": exposition.replica}))
    registry = CollectorRegistry()
    registry.register(_Told([*families.values()]))
    return prometheus_client.generate_latest(registry)


class _Told:
    """A collector of what was told."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics
