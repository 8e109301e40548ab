from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from typing import Any

import pytest

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.engine import Engine
from scheduler_core.errors import ConfigError
from scheduler_core.load.config import LoadConfig, Tenant, parse_tenants
from scheduler_core.load.generator import GeneratedLoad
from scheduler_core.load.lengths import Lengths
from tests.helpers import create_engine, finish_reasons, hit_tokens

RICH = LoadConfig(
    seed=5,
    num_requests=200,
    arrivals="onoff",
    rate=20.0,
    burstiness=0.5,
    prompt=Lengths("lognormal", 1, 400, 60.0, 1.0),
    output=Lengths("zipf", 1, 40, exponent=1.1),
    prefix_groups=4,
    prefix_tokens=32,
    prefix_share=0.5,
    prefix_skew=1.0,
    tenants=(Tenant("chat", 3.0), Tenant("batch", 1.0, 5, isolated=True)),
)


def digest(config: LoadConfig) -> str:
    return hashlib.sha256(repr([request.spec() for request in GeneratedLoad(config)]).encode()).hexdigest()


def test_the_same_seed_gives_the_same_load_to_the_byte() -> None:
    assert digest(RICH) == digest(dataclasses.replace(RICH)) != digest(dataclasses.replace(RICH, seed=6))


def test_the_load_of_a_seed_is_the_one_it_has_always_been() -> None:
    # A change here changes every result that was published with a seed: say so in the changelog.
    assert digest(RICH)[:16] == "3b9920c9c633a4af"


def test_a_load_may_be_gone_through_again_and_any_request_taken_by_itself() -> None:
    load = GeneratedLoad(RICH)
    assert [*load] == [*load]
    assert load.request(17).spec() == [*load][17].spec()


def test_a_change_of_the_rate_leaves_lengths_prefixes_and_tenants_as_they_were() -> None:
    def others(config: LoadConfig) -> list[Any]:
        return [dataclasses.replace(request, arrival_time=0.0) for request in GeneratedLoad(config)]

    assert others(RICH) == others(dataclasses.replace(RICH, arrivals="poisson", rate=3.0))


def test_requests_of_a_group_begin_alike_and_then_differ() -> None:
    load = [request for request in GeneratedLoad(RICH) if request.prefix_group == 0]
    prompts = [request.prompt_token_ids() for request in load]
    assert len(load) > 20
    assert len({prompt[:32] for prompt in prompts}) == 1
    assert len({prompt[32:] for prompt in prompts}) == len(prompts)


def test_groups_are_as_frequent_as_their_skew_says_and_some_requests_have_none() -> None:
    config = dataclasses.replace(RICH, num_requests=5_000)
    groups = Counter(request.prefix_group for request in GeneratedLoad(config))
    assert groups[-1] / 5_000 == pytest.approx(0.5, abs=0.03)
    assert groups[0] / groups[3] == pytest.approx(4.0, rel=0.25)


def test_tenants_send_by_their_shares_and_with_their_priorities() -> None:
    load = [*GeneratedLoad(dataclasses.replace(RICH, num_requests=4_000))]
    assert Counter(request.tenant for request in load)["chat"] / 4_000 == pytest.approx(0.75, abs=0.03)
    assert {(request.tenant, request.priority, request.salt) for request in load} == {
        ("chat", 0, ""),
        ("batch", 5, "batch"),
    }


def test_pairs_of_a_source_keep_prompt_and_output_together() -> None:
    config = dataclasses.replace(RICH, pairs=((100, 1), (7, 30)))
    assert {(request.own_tokens, request.max_tokens) for request in GeneratedLoad(config)} == {(100, 1), (7, 30)}


def test_a_load_drives_the_engine_and_its_prefixes_are_found() -> None:
    config = LoadConfig(
        num_requests=12,
        rate=0.2,
        prompt=Lengths.fixed(5),
        output=Lengths.fixed(3),
        prefix_groups=1,
        prefix_tokens=16,
    )
    engine: Engine = create_engine(SyntheticRunner())
    for request in GeneratedLoad(config):
        engine.add_request(request.spec())
    trace = engine.run()
    assert len(finish_reasons(trace)) == 12
    assert all(hits[0] == 16 for hits in [*hit_tokens(trace).values()][4:])


def test_a_configuration_survives_json() -> None:
    assert LoadConfig.from_json(RICH.to_json()) == RICH


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"seed": -1}', "null", RICH.to_json()[:-1] + ',"colour":1}'])
def test_what_is_no_load_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="this is not a load"):
        LoadConfig.from_json(text)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("arrivals", "sometimes", "arrivals is 'sometimes'; it must be one of poisson, constant"),
        ("num_requests", 0, "num_requests is 0; it must be a whole number from 1 to 1000000"),
        ("num_requests", True, "num_requests is True"),
        ("rate", 0.0, "rate is 0.0; it must be a number from 1e-06 to 1e+06"),
        ("rate", float("nan"), "rate is nan"),
        ("rate", float("inf"), "rate is inf"),
        ("burstiness", 0, "burstiness is 0"),
        ("prefix_share", 1.5, "prefix_share is 1.5; it must be a number from 0 to 1"),
        ("seed", -1, "seed is -1"),
        ("tenants", (Tenant("a"), Tenant("a")), "two tenants are called 'a'"),
        ("pairs", ((0, 1),), "a length of a pair is 0"),
        ("off_s", 0, "off_s is 0"),
    ],
)
def test_an_impossible_load_names_field_value_and_bound(field: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        dataclasses.replace(RICH, **{field: value})  # type: ignore[arg-type]
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "tenants"),
    [
        ("2", (Tenant("tenant-1"), Tenant("tenant-2"))),
        ("chat=3,batch=1:5", (Tenant("chat", 3.0), Tenant("batch", 1.0, 5))),
        ("a,b", (Tenant("a"), Tenant("b"))),
    ],
)
def test_tenants_are_read_as_written_on_a_command_line(text: str, tenants: tuple[Tenant, ...]) -> None:
    assert parse_tenants(text) == tenants


@pytest.mark.parametrize("text", ["a=b", "a=1:x", "a=inf", "=1", "0"])
def test_what_is_no_tenant_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_tenants(text)
