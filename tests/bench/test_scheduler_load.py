"""The load that schedulers are measured on, and our scheduler under it."""

from __future__ import annotations

import dataclasses
from collections import Counter

from scheduler_core.bench.scheduler.load import SchedulerLoad
from scheduler_core.bench.scheduler.ours import OurScheduler
from scheduler_core.bench.scheduler.race import WARM_UP, Entrant, race


def small(name: str, waiting: int = 30) -> SchedulerLoad:
    return SchedulerLoad(name, waiting, lanes=8, num_blocks=400, max_num_batched_tokens=256)


def ours(load: SchedulerLoad, preset: str = "vllm", **changes: object) -> OurScheduler:
    return OurScheduler(preset, load.config(preset, **changes))


def test_prompts_share_nothing_and_are_as_long_as_said() -> None:
    load = SchedulerLoad("steady", 100)
    requests = [load.request(number) for number in range(load.num_requests)]
    tokens = [token for request in requests for token in request.prompt_token_ids]
    assert len(tokens) == len(set(tokens)) == 356 * 100
    assert Counter(request.priority for request in requests) == dict.fromkeys(range(4), 89)


def test_in_a_steady_load_all_lanes_decode_and_nobody_finishes() -> None:
    load = small("steady")
    entrant = Entrant(ours(load), load)
    entrant.run(WARM_UP + 100)
    assert all(batch == {f"r{number}": 1 for number in range(8)} for batch in entrant.decisions[WARM_UP:])


def test_the_outputs_of_a_steady_load_fit_into_memory_with_all_lanes_full() -> None:
    load = SchedulerLoad("steady", 0)
    blocks = -(-(load.prompt_tokens + load.output_tokens[1]) // load.block_size)
    assert blocks * load.lanes <= load.num_blocks
    assert load.output_tokens[0] > WARM_UP + 400, "nobody finishes while it is measured"
    assert load.prompt_tokens + load.output_tokens[1] <= load.max_model_len


def test_with_turnover_others_enter_while_the_lanes_and_the_queue_stay_full() -> None:
    load = small("turnover")
    entrant = Entrant(ours(load), load)
    entrant.run(300)
    admitted = {name for batch in entrant.decisions for name in batch}
    assert len(admitted) > 8 + 10
    assert all(len(batch) == 8 for batch in entrant.decisions[WARM_UP:])
    roster = entrant.contender._engine.scheduler.roster  # type: ignore[attr-defined]
    assert (len(roster.running), len(roster.waiting)) == (8, 30)


def test_outputs_of_a_turnover_load_are_spread_evenly() -> None:
    load = SchedulerLoad("turnover", 0)
    lengths = Counter(load.request(number).sampling.max_tokens for number in range(121 * 3))
    assert lengths == dict.fromkeys(range(40, 161), 3)


def test_a_race_gives_the_times_of_every_measured_tick_in_the_order_of_the_contenders() -> None:
    load = small("steady")
    times, same = race([ours(load), ours(load, chunk_size=None)], load, 50)
    assert [(t.load, t.waiting, t.contender, len(t.seconds)) for t in times] == [("steady", 30, "vllm", 50)] * 2
    assert same
    assert all(second > 0 for t in times for second in t.seconds)


def test_a_race_notices_decisions_that_differ() -> None:
    load = small("steady")
    assert race([ours(load), ours(load, chunk_size=32)], load, 20)[1] is False


def test_the_model_costs_no_time() -> None:
    load = small("steady")
    contender = ours(load)
    entrant = Entrant(contender, load)
    contender._model.execute_model = _slow(contender._model.execute_model)  # type: ignore[method-assign]
    entrant.run(1)
    assert entrant.seconds[0] < 0, "the stub said it took an hour, and that was taken off"


def _slow(execute):  # type: ignore[no-untyped-def]
    def slow(output):  # type: ignore[no-untyped-def]
        slow_model = execute.__self__
        answer = execute(output)
        slow_model.seconds = 3_600.0
        return answer

    return slow


def test_sizes_may_be_changed_without_changing_the_rest() -> None:
    load = SchedulerLoad("steady", 100)
    assert dataclasses.replace(load, lanes=8).config("vllm").max_num_seqs == 8
    assert load.config("tickscope", aging=3).aging == 3
