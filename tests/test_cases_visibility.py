"""Known faults of other servers, kept out: KV is shared only once it has been computed."""

from __future__ import annotations

import pytest

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.events import BlockPublished, PreemptReason, RequestPreempted
from scheduler_core.output import ModelRunnerOutput, SchedulerOutput
from scheduler_core.request import FinishReason
from tests.helpers import (
    create_engine,
    create_request,
    events,
    finish_reasons,
    hit_tokens,
    outputs,
    preemptions,
    run,
    tokens_per_tick,
)

PROMPT = [*range(50, 59)]


class FailsOnce(SyntheticRunner):
    """Fails in its second forward: by raising, or for request x alone as a model does whose logits are no numbers."""

    def __init__(self, raises: bool) -> None:
        super().__init__()
        self._raises = raises
        self._forwards = 0

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        self._forwards += 1
        result = super().execute_model(output)
        if self._forwards != 2:
            return result
        if self._raises:
            raise FloatingPointError("overflow")
        return ModelRunnerOutput({}, failed={"x": "its logits are not numbers"})


# Case 9 is test_scheduler.py: test_a_twin_in_the_same_tick_does_not_hit_what_is_being_computed.


@pytest.mark.parametrize("aborted", [True, False])
def test_a_request_preempted_before_the_forward_leaves_nothing_to_hit(aborted: bool) -> None:
    """Case 10: x is given its second block and loses its lane in the same tick, with 3 tokens computed."""
    engine = create_engine(num_blocks=3, chunk_size=3, batch_order="prefill_first")
    prompt = [*range(70, 76)]
    engine.add_request(create_request("h", 3, max_tokens=8))
    engine.add_request(create_request("x", prompt, max_tokens=1, arrival=1))
    for _ in range(3):
        engine.step()
    [victim] = events(engine.trace(), RequestPreempted)
    assert (victim.request_id, victim.reason, victim.tokens_saved) == ("x", PreemptReason.MEMORY, 3)
    assert "x" not in tokens_per_tick(engine.trace())[2]
    assert events(engine.trace(), BlockPublished, "x") == []
    if aborted:
        engine.abort("x")
    y = create_request("y", prompt, max_tokens=3, arrival=3)
    engine.add_request(y)
    trace = engine.run()
    # Without the abort x computes its prompt later, before y: then y may hit it.
    assert hit_tokens(trace)["y"] == [0 if aborted else 4]
    assert outputs(trace)["y"] == outputs(run(create_engine(), y))["y"]


def test_a_copy_left_half_written_by_an_abort_is_never_served() -> None:
    """Case 11."""
    prompt = [*range(50, 63)]
    engine = create_engine(chunk_size=4)
    for name in "xy":
        engine.add_request(create_request(name, prompt))
    engine.step()
    engine.abort("x")
    engine.run()
    z = create_request("z", prompt)
    engine.add_request(z)
    trace = engine.run()
    assert finish_reasons(trace)["x"] is FinishReason.ABORT
    assert hit_tokens(trace)["z"] == [12]
    assert outputs(trace)["z"] == outputs(trace)["y"] == outputs(run(create_engine(), z))["z"]


def test_a_request_that_never_ran_leaves_nothing_to_hit_and_no_block_taken() -> None:
    """Case 12: x waits for the only lane until it is aborted."""
    engine = create_engine(max_num_seqs=1)
    engine.add_request(create_request("h", 5, max_tokens=8))
    engine.add_request(create_request("x", PROMPT))
    engine.step()
    with_x = engine._kv.pool.free_blocks()
    engine.abort("x")
    engine.add_request(create_request("y", PROMPT))
    engine.step()
    assert engine._kv.pool.free_blocks() == with_x
    assert hit_tokens(engine.run())["y"] == [0]


@pytest.mark.parametrize("raises", [True, False])
def test_a_failed_step_publishes_nothing(raises: bool) -> None:
    """Case 15: x fails in its second chunk, so only its first can be hit."""
    prompt = [*range(50, 63)]
    y = create_request("y", prompt, arrival=5)
    trace = run(create_engine(FailsOnce(raises), chunk_size=5), create_request("x", prompt), y)
    assert finish_reasons(trace) == {"x": FinishReason.ERROR, "y": FinishReason.LENGTH}
    assert [e.index for e in events(trace, BlockPublished, "x")] == [0]
    assert hit_tokens(trace)["y"] == [4]
    assert outputs(trace)["y"] == outputs(run(create_engine(), y))["y"]
    assert preemptions(trace) == []
