"""EngineConfig: bounds, presets, text values."""

from __future__ import annotations

import pytest

from scheduler_core.config import PRESETS, EngineConfig
from scheduler_core.errors import ConfigError


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("block_size", 0),
        ("num_blocks", -1),
        ("max_num_batched_tokens", 0),
        ("max_num_seqs", 0),
        ("max_model_len", 1),
        ("chunk_size", 0),
        ("aging", -1),
        ("mlfq_levels", 0),
        ("quantum", 0),
        ("num_swap_blocks", -1),
        ("watermark", 64),
        ("seed", -1),
        ("block_size", 2.5),
        ("block_size", True),
        ("enable_prefix_caching", 1),
        ("policy", "random"),
        ("preemption_mode", "drop"),
        ("batch_order", "sorted"),
        ("admission", "always"),
        ("cost", ""),
    ],
)
def test_an_impossible_value_is_refused_with_field_and_value(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=field) as problem:
        EngineConfig(**{field: value})
    assert repr(value) in str(problem.value) or str(value) in str(problem.value)


def test_a_budget_below_the_lanes_is_refused_with_both_numbers() -> None:
    with pytest.raises(ConfigError, match=r"max_num_batched_tokens is 3.*max_num_seqs \(4\)"):
        EngineConfig(max_num_batched_tokens=3, max_num_seqs=4)


def test_an_unknown_setting_names_the_settings_there_are() -> None:
    with pytest.raises(ConfigError, match=r"no setting 'quantums'.*quantum"):
        EngineConfig().replace(quantums=1)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_possible_and_differs_only_where_it_says(name: str) -> None:
    changed = EngineConfig.preset(name).changed_from(EngineConfig())
    assert {field: new for field, (_, new) in changed.items()} == {
        field: value for field, value in PRESETS[name].items() if getattr(EngineConfig(), field) != value
    }


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(ConfigError, match="no preset 'fast'"):
        EngineConfig.preset("fast")


def test_a_preset_keeps_the_machine_of_the_run() -> None:
    mine = EngineConfig(num_blocks=20, max_num_seqs=2, policy="priority", quantum=3, seed=5)
    changed = mine.with_preset("vllm").changed_from(mine)
    assert set(changed) == {
        "quantum",
        "batch_order",
        "admission",
        "preemption_mode",
        "priority_push_out",
        "chunk_size",
        "cap_lone_request",
    }


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("quantum", "none", None),
        ("quantum", "off", None),
        ("quantum", "4", 4),
        ("chunk_size", "None", None),
        ("enable_prefix_caching", "off", False),
        ("enable_prefix_caching", "true", True),
        ("policy", "mlfq", "mlfq"),
        ("cost", "unit", "unit"),
    ],
)
def test_text_becomes_a_value(field: str, text: str, value: object) -> None:
    assert EngineConfig.parse_field(field, text) == value


@pytest.mark.parametrize(
    ("field", "text"), [("quantum", "four"), ("num_blocks", "none"), ("enable_prefix_caching", "perhaps"), ("x", "1")]
)
def test_text_that_is_no_value_is_refused(field: str, text: str) -> None:
    with pytest.raises(ConfigError, match=field):
        EngineConfig.parse_field(field, text)
