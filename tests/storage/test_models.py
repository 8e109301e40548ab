"""The KV of real forwards, kept and loaded: the tiny model under both of its forwards, and the shipped one."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from scheduler_core.backends.base import CopyError
from scheduler_core.backends.kv_bytes import KVBytes
from scheduler_core.backends.transformers_runner import TransformersRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine, fork
from scheduler_core.events import LowerTierQueried
from scheduler_core.storage.open_store import open_store
from scheduler_core.trace import Trace
from tests.helpers import create_request, events, outputs

PROMPT = list(range(3, 40))


def ask(loaded: Any, store: Any, prompt: list[int] = PROMPT, **knobs: Any) -> Trace:
    defaults = {"block_size": 4, "num_blocks": 32, "max_model_len": 96, "quantum": None}
    made = Engine(EngineConfig(**{**defaults, **knobs}), TransformersRunner(loaded), store=store)
    made.add_request(create_request("a", prompt, 8, ignore_eos=True))
    return made.run()


def hits(trace: Trace) -> int:
    return sum(event.hit_tokens for event in events(trace, LowerTierQueried))


def test_the_tiny_model_hits_after_a_restart_and_says_the_same(tiny, tmp_path):
    told = []
    for _ in range(3):
        store = open_store(tmp_path / "store")
        trace = ask(tiny, store)
        told.append((hits(trace), outputs(trace)))
        store.close()
    assert [each[0] for each in told] == [0, 36, 36]
    assert told[0][1] == told[1][1] == told[2][1]
    again = fork(trace, len(trace.records), trace.config, TransformersRunner(tiny))
    assert outputs(again) == outputs(trace)


def test_both_forwards_of_one_model_share_their_blocks(tiny, tmp_path):
    store = open_store("memory")
    cold = ask(tiny, store)
    other = ask(dataclasses.replace(tiny, compiled=not tiny.compiled), store)
    assert hits(other) == 36
    assert outputs(other) == outputs(cold)


@pytest.mark.parametrize("change", [{"digest": "other weights"}, {"dtype": "bfloat16"}])
def test_other_weights_or_another_type_hit_nothing(tiny, change):
    store = open_store("memory")
    ask(tiny, store)
    other = dataclasses.replace(tiny, **change)
    assert TransformersRunner(other).kv_format().namespace != TransformersRunner(tiny).kv_format().namespace
    if "dtype" not in change:
        assert hits(ask(other, store)) == 0


def test_another_tokenizer_has_a_namespace_of_its_own(tiny):
    class Other:
        def get_vocab(self) -> dict[str, int]:
            return {"a": 1}

    other = dataclasses.replace(tiny, tokenizer=Other())
    assert TransformersRunner(other).kv_format().namespace != TransformersRunner(tiny).kv_format().namespace


def test_a_block_of_another_type_or_shape_is_refused(tiny):
    runner = TransformersRunner(tiny)
    runner.allocate(4, 4)
    [good] = runner.pack(runner.copy_out((1,)))
    runner.copy_in(runner.unpack(good), 0, (2,))
    for wrong in (KVBytes("bfloat16", good.shape, good.data), KVBytes(good.dtype, (1, *good.shape), good.data)):
        with pytest.raises(CopyError, match="the block holds"):
            runner.unpack(wrong)


@pytest.mark.model
def test_the_real_model_hits_after_a_restart_and_says_the_same(model, tmp_path):
    prompt = list(TransformersRunner(model).encode_chat("Why is the sky blue? Tell me in a few words, please."))
    told = []
    for _ in range(2):
        store = open_store(tmp_path / "store")
        trace = ask(model, store, prompt, block_size=16)
        told.append((hits(trace), outputs(trace)))
        assert (store.stats()[0].unusable, store.stats()[0].errors) == (0, 0)
        store.close()
    assert told[0][0] == 0
    assert told[1][0] == (len(prompt) - 1) // 16 * 16 > 0
    assert told[0][1] == told[1][1]
