"""A plan says which call of the model or of a copy goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_core.errors import ConfigError
from scheduler_core.serving.fault_plan import PlannedFault, load_fault_plan


@pytest.mark.parametrize(
    ("fault", "calls"),
    [
        (PlannedFault("raise"), [1]),
        (PlannedFault("raise", first=3, count=2), [3, 4]),
        (PlannedFault("raise", first=2, count=2, every=4), [2, 3, 6, 7, 10]),
        (PlannedFault("raise", every=1), list(range(1, 11))),
    ],
)
def test_a_fault_happens_at_the_calls_that_it_names(fault: PlannedFault, calls: list[int]) -> None:
    assert [call for call in range(1, 11) if fault.happens_at(call)] == calls


def test_a_plan_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text('[[faults]]\nkind = "slow"\nseconds = 0.5\n\n[[faults]]\nkind = "nan"\nfirst = 4\nevery = 9\n')
    assert load_fault_plan(file) == (PlannedFault("slow", seconds=0.5), PlannedFault("nan", first=4, every=9))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", r"no \[\[faults\]\]"),
        ("faults = 3", r"no \[\[faults\]\]"),
        ("[[faults]]\nfirst = 1", "has no kind"),
        ('[[faults]]\nkind = "melt"', "kind is 'melt'; it must be one of raise, nan"),
        ('[[faults]]\nkind = "nan"\nfirst = 0', "first is 0; it must be a whole number, at least 1"),
        ('[[faults]]\nkind = "nan"\nsecond = 0', "a fault has no 'second'; it has kind, first"),
        ('[[faults]]\nkind = "slow"\nseconds = -1', "seconds is -1"),
        ("[[", "cannot be read"),
    ],
)
def test_a_wrong_plan_is_refused_with_a_reason(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=says):
        load_fault_plan(file)


def test_a_plan_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read"):
        load_fault_plan(tmp_path / "none.toml")
