"""A load from a workload file: the requests that it names, each with its tokens made only when it is sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from scheduler_core.load.request import Sendable
from scheduler_core.request import RequestSpec
from scheduler_core.request_facts import DEFAULT_TENANT
from scheduler_core.sources.conversion import to_specs
from scheduler_core.sources.shape import ShapedWorkload
from scheduler_core.workload import Encoder


@dataclass(frozen=True, slots=True)
class SourceLoadRequest:
    """`recipe` is the request with a prompt that is made anew whenever it is read."""

    recipe: RequestSpec
    tenant: str

    @property
    def id(self) -> str:
        return self.recipe.id

    @property
    def arrival_time(self) -> float:
        return self.recipe.arrival_time

    def spec(self) -> RequestSpec:
        """With the tokens themselves, as they are read many times while it runs."""
        return replace(self.recipe, prompt_token_ids=tuple(self.recipe.prompt_token_ids))


class SourceLoad:
    """The requests of a shaped workload, in order of arrival; `encoder` turns texts into tokens."""

    def __init__(self, workload: ShapedWorkload, encoder: Encoder) -> None:
        tenants = (request.tenant or DEFAULT_TENANT for request in workload.requests)
        specs = to_specs(workload, encoder)
        self._requests = [SourceLoadRequest(spec, tenant) for spec, tenant in zip(specs, tenants, strict=True)]

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Sendable]:
        return iter(self._requests)
