from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_core.backends.length_only import LengthOnlyRunner
from scheduler_core.load.source_load import SourceLoad
from scheduler_core.sources.shape import Shape, shape
from scheduler_core.sources.source import read_source


@pytest.fixture
def load(tmp_path: Path) -> SourceLoad:
    path = tmp_path / "own.csv"
    path.write_text("arrival,prompt_tokens,output_tokens,tenant,priority\n3,20,5,chat,0\n1,9,2,,4\n")
    return SourceLoad(shape(read_source(path), Shape()), LengthOnlyRunner())


def test_requests_of_a_file_come_in_order_of_arrival_with_their_tenants(load: SourceLoad) -> None:
    assert [(request.arrival_time, request.tenant) for request in load] == [(0.0, "all"), (2.0, "chat")]
    assert len(load) == 2


def test_tokens_are_made_when_a_request_is_sent_and_are_the_same_each_time(load: SourceLoad) -> None:
    one, again = ([request.spec() for request in load] for _ in range(2))
    assert one == again
    assert [type(spec.prompt_token_ids) for spec in one] == [tuple, tuple]
    assert [(len(spec.prompt_token_ids), spec.sampling.max_tokens, spec.priority) for spec in one] == [
        (9, 2, 4),
        (20, 5, 0),
    ]
