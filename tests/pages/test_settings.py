"""Limits of a public demo."""

from __future__ import annotations

import pytest

from pages.components.settings import Limits, SettingsError, read_limits


def test_without_variables_the_defaults_hold():
    assert read_limits({}) == Limits()


def test_each_limit_is_read_from_its_variable():
    assert read_limits({"TICKSCOPE_MAX_REQUESTS": "5", "TICKSCOPE_MAX_LIVE_RUNS": " 1 "}) == Limits(
        max_requests=5, max_live_runs=1
    )


@pytest.mark.parametrize("text", ["many", "0", "-1", "1e3", "99999999"])
def test_a_wrong_limit_names_variable_value_and_bound(text: str):
    with pytest.raises(SettingsError, match=r"TICKSCOPE_MAX_TICKS is .* from 1 to 1000000"):
        read_limits({"TICKSCOPE_MAX_TICKS": text})
