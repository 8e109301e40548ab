"""The shared tier with a real redis-server: its time to live, its failures, and that they never reach a request."""

from __future__ import annotations

import time

import pytest
import redis

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.events import FaultInjected, LowerTierQueried
from scheduler_core.request import FinishReason
from scheduler_core.storage.backing import NotAsked, StoreFault
from scheduler_core.storage.block_store import Tier
from scheduler_core.storage.circuit_breaker import CircuitBreaker
from scheduler_core.storage.open_store import open_store
from scheduler_core.storage.redis_backing import RedisBacking
from tests.helpers import create_request, events, finish_reasons, outputs
from tests.storage.chains import blocks, chain


@pytest.fixture
def store(redis_server):
    opened = Tier(RedisBacking(redis_server.url, ttl_seconds=60, timeout_seconds=0.5, breaker=CircuitBreaker(3, 0.05)))
    yield opened
    opened.close()


def engine(store) -> Engine:
    config = EngineConfig(block_size=4, num_blocks=64, max_model_len=128, quantum=None)
    return Engine(config, SyntheticRunner(), store=store)


def test_blocks_written_by_one_client_are_hit_by_another_and_expire(redis_server, store):
    store.put(blocks(chain(40)))
    store.flush()
    other = open_store(redis_server.url)
    assert len(other.get(chain(40))) == 40
    with redis.Redis.from_url(redis_server.url) as client:
        assert all(0 < client.ttl(address.name) <= 60 for address in chain(40))
    other.close()


def test_a_chain_is_read_up_to_its_first_miss(redis_server, store):
    store.put(blocks(chain(30)))
    store.flush()
    with redis.Redis.from_url(redis_server.url) as client:
        client.delete(chain(30)[17].name)
    assert len(store.get(chain(30))) == 17


def test_clearing_leaves_the_keys_of_others(redis_server, store):
    with redis.Redis.from_url(redis_server.url) as client:
        client.set("theirs", "1")
        store.put(blocks(chain(30)))
        store.flush()
        assert client.dbsize() == 31
        store.clear()
        assert client.keys() == [b"theirs"]


def test_values_that_somebody_else_wrote_are_misses(redis_server, store):
    with redis.Redis.from_url(redis_server.url) as client:
        client.set(chain(1)[0].name, b"\x80\x04K\x01.")
        client.lpush(chain(2)[1].name, "a list")
    assert store.get(chain(2)) == []
    [told] = store.stats()
    assert told.unusable == 1


def test_without_a_server_everything_is_a_miss_and_soon_nothing_is_asked(redis_server):
    redis_server.kill()
    store = open_store(redis_server.url)
    for _ in range(20):
        assert store.get(chain(3)) == []
    [told] = store.stats()
    assert told.errors == 3
    assert told.not_asked >= 17
    assert told.entries == -1
    store.close()


def test_redis_killed_and_restarted_under_load_fails_no_request_and_changes_no_text(redis_server, store):
    """It dies while requests run, comes back empty while others run, and is hit again in the end."""
    prompts = {f"r{i}": [*range(100, 117), i] for i in range(60)}
    plain = Engine(EngineConfig(block_size=4, num_blocks=64, max_model_len=128, quantum=None), SyntheticRunner())
    for name, prompt in prompts.items():
        plain.add_request(create_request(name, prompt))
    expected = outputs(plain.run())
    told: dict[str, list[int]] = {}
    reasons, faults, hits = {}, [], []
    for number, name in enumerate(prompts):
        made = engine(store)
        made.add_request(create_request(name, prompts[name]))
        if number == 20:
            made.step()
            redis_server.kill()
        if number == 40:
            made.step()
            redis_server.start()
            time.sleep(0.5)  # longer than the longest pause so far
        trace = made.run()
        store.flush()
        told |= outputs(trace)
        reasons |= finish_reasons(trace)
        faults += events(trace, FaultInjected)
        hits.append(sum(event.hit_tokens for event in events(trace, LowerTierQueried)))
    assert told == expected
    assert set(reasons.values()) == {FinishReason.LENGTH}
    assert faults == []
    assert min(hits[1:21]) == 16
    assert set(hits[21:41]) == {0}
    assert hits[-1] == 16
    [stats] = store.stats()
    assert stats.errors > 0


# The circuit breaker, with a clock of its own


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def fails() -> None:
    raise StoreFault("no answer")


def test_the_breaker_opens_after_the_third_failure_in_a_row_and_waits_longer_each_time():
    clock = Clock()
    breaker = CircuitBreaker(threshold=3, pause_s=1.0, longest_pause_s=4.0, clock=clock)
    for _ in range(2):
        with pytest.raises(StoreFault):
            breaker.call(fails)
    assert breaker.call(lambda: 7) == 7
    for _ in range(3):
        assert not breaker.is_open
        with pytest.raises(StoreFault):
            breaker.call(fails)
    for pause in (1.0, 2.0, 4.0, 4.0):
        with pytest.raises(NotAsked):
            breaker.call(lambda: 7)
        clock.now += pause - 0.01
        assert breaker.is_open
        clock.now += 0.02
        with pytest.raises(StoreFault, match="no answer"):
            breaker.call(fails)
    clock.now += 5
    assert breaker.call(lambda: 8) == 8
    assert not breaker.is_open
