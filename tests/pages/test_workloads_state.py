"""The state of the workloads page and its link: there and back, and whatever a link may say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pages.components.chart import label
from pages.components.workloads.state import (
    DEFAULT_SERVERS,
    READY,
    OwnServer,
    WorkloadState,
    from_query,
    parse_own,
    to_query,
)
from scheduler_core.load.config import LoadConfig, Tenant
from scheduler_core.load.lengths import Lengths
from scheduler_core.summary import Targets

OWN = OwnServer("vllm", (("chunk_size", 512), ("enable_prefix_caching", False)))
GENERATOR = LoadConfig(
    seed=7,
    num_requests=50,
    arrivals="onoff",
    rate=12.5,
    on_s=3.0,
    off_s=4.0,
    off_rate=0.5,
    prompt=Lengths("lognormal", 1, 4_000, 300.0, 0.5),
    output=Lengths("zipf", 1, 64, exponent=1.1),
    prefix_groups=3,
    tenants=(Tenant("a", 2.0, 1), Tenant("b <b>x</b>")),
)


@pytest.mark.parametrize(
    "state",
    [
        WorkloadState(),
        WorkloadState(example="bursts", seed=12, machine="smollm2-cpu", panel="Sweep"),
        WorkloadState(chosen=("sarathi", OWN.key), own=(OWN,), targets=Targets(ttft_ms=250.0)),
        WorkloadState(source="generator", load=GENERATOR, targets=Targets()),
    ],
)
def test_a_link_brings_back_what_was_chosen(state: WorkloadState):
    again, messages = from_query(to_query(state), 1_000)
    assert messages == []
    assert to_query(again) == to_query(state)
    assert (again.chosen, again.own, again.targets, again.machine) == (
        state.chosen,
        state.own,
        state.targets,
        state.machine,
    )
    assert again.config() == replace(state.config())


def test_the_usual_state_needs_no_query():
    assert to_query(WorkloadState()) == {}


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"source": "elsewhere"}, "source “elsewhere”"),
        ({"example": "<script>"}, "example “<script>”"),
        ({"machine": "unit"}, "machine “unit”"),
        ({"panel": "9"}, "panel “9”"),
        ({"seed": "minus one"}, "seed is “minus one”: it must be a whole number"),
        ({"servers": "fastest"}, "configuration “fastest”"),
        ({"servers": "vllm:chunk_size=0"}, "chunk_size is 0"),
        ({"servers": "vllm:wings=2"}, "there is no setting 'wings'"),
        ({"goals": "ttft=soon"}, "goals is “ttft=soon”: it must be a number"),
        ({"goals": "ttft=nan"}, "it must be a number"),
        ({"source": "generator", "n": "0x10"}, "n is “0x10”"),
        ({"source": "generator", "prompt": "long"}, "'long' is not a length"),
        ({"source": "generator", "tenants": "a=1,a=1"}, "two tenants are called 'a'"),
        ({"source": "generator", "rate": "inf and more"}, "rate is"),
        ({"source": "generator", "arrivals": "never"}, "arrivals “never”"),
    ],
)
def test_a_part_of_a_link_that_means_nothing_is_told_and_the_usual_kept(query: dict[str, str], told: str):
    state, messages = from_query(query, 1_000)
    assert len(messages) == 1
    assert told in messages[0]
    assert state.servers()
    assert state.config().num_requests <= 1_000


def test_numbers_past_the_limits_are_clamped():
    state, _ = from_query({"source": "generator", "n": "999999", "rate": "1e99", "seed": "99999999999"}, 500)
    assert (state.load.num_requests, state.load.rate, state.load.seed) == (500, 1e4, 2**31 - 1)


def test_a_link_with_many_configurations_takes_the_first_four():
    state, _ = from_query({"servers": "vllm;sarathi;tickscope;article;static_batching;vllm:chunk_size=9"}, 1_000)
    assert state.chosen == ("vllm", "sarathi", "tickscope", "article")
    assert from_query({"servers": ";;"}, 1_000)[0].chosen == DEFAULT_SERVERS


def test_a_configuration_of_ones_own_leaves_machine_and_seed_alone():
    own = parse_own("vllm:cost=smollm2-cpu,seed=3,num_blocks=900", "llama-3.1-8b-h100")
    assert own.changes == (("num_blocks", 900),)
    state = WorkloadState(own=(own,), chosen=(own.key,))
    [server] = state.servers()
    assert (server.config.cost, server.config.num_blocks) == ("llama-3.1-8b-h100", 900)
    assert server.name == "vLLM with num blocks 900"


def test_each_ready_configuration_differs_from_vllm_in_one_switch():
    vllm = WorkloadState().server_config("vllm")
    for own, name in READY.items():
        assert len(WorkloadState().server_config(own.key).changed_from(vllm)) == 1
        assert WorkloadState().labels()[own.key] == name


def test_text_of_users_in_a_figure_is_no_markup():
    assert (
        label("<b>loud</b> & <a href='x'>link</a>") == "&lt;b&gt;loud&lt;/b&gt; &amp; &lt;a href='x'&gt;link&lt;/a&gt;"
    )
    assert label("long" * 50) == ("long" * 50)[:59] + "…"
    assert label("bell\x07") == "bell⟨U+0007⟩"
