"""Products of rows with weights in panels, against numpy in double precision."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.backends.crew import Crew
from scheduler_core.backends.panels import WIDTH, aligned, num_panels, pack, product
from scheduler_core.backends.vectors import ROWS

ROOT = Path(__file__).parents[2]


def multiply(x: np.ndarray, weight: np.ndarray, num_rows: int | None = None) -> np.ndarray:
    out = np.full((len(x), num_panels(len(weight)) * WIDTH), 7.0, np.float32)
    Crew().run(1, product, 1, x, len(x) if num_rows is None else num_rows, pack([weight]), out)
    return out


def random_arrays(rows: int, inputs: int, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows * 10_000 + inputs * 100 + outputs)
    return rng.standard_normal((rows, inputs)).astype(np.float32), rng.standard_normal((outputs, inputs)).astype(
        np.float32
    )


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 3 * ROWS + 1), inputs=st.integers(1, 70), outputs=st.integers(1, 3 * WIDTH + 1))
def test_a_product_is_that_of_numpy_for_every_shape(rows: int, inputs: int, outputs: int) -> None:
    x, weight = random_arrays(rows, inputs, outputs)
    exact = x.astype(np.float64) @ weight.T.astype(np.float64)
    np.testing.assert_allclose(multiply(x, weight)[:, :outputs], exact, rtol=1e-5, atol=1e-5 * np.sqrt(inputs))


def test_columns_that_fill_the_last_panel_are_zero() -> None:
    x, weight = random_arrays(3, 5, WIDTH + 1)
    assert not multiply(x, weight)[:, WIDTH + 1 :].any()


def test_rows_beyond_the_number_asked_for_are_left_alone() -> None:
    x, weight = random_arrays(ROWS + 3, 8, WIDTH)
    assert (multiply(x, weight, ROWS + 1)[ROWS + 1 :] == 7.0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_row_that_is_no_number_spoils_itself_and_no_other(bad: float) -> None:
    x, weight = random_arrays(ROWS + 2, 16, WIDTH)
    clean = multiply(x, weight)
    x[3, 5] = bad
    spoiled = multiply(x, weight)
    assert not np.isfinite(spoiled[3]).any()
    others = [row for row in range(len(x)) if row != 3]
    np.testing.assert_array_equal(spoiled[others], clean[others])


def test_a_row_gives_the_same_numbers_whatever_stands_beside_it() -> None:
    x, weight = random_arrays(3 * ROWS, 64, 2 * WIDTH)
    together = multiply(x, weight)
    alone = np.concatenate([multiply(row[None], weight) for row in x])
    np.testing.assert_array_equal(together, alone)


def test_several_matrices_are_packed_one_after_the_other() -> None:
    weights = [random_arrays(1, 6, outputs)[1] for outputs in (WIDTH + 2,) * 3]
    together = pack([weights[0], weights[1] + 1, weights[2] + 2])
    assert together.shape == (6, 6, WIDTH)
    np.testing.assert_array_equal(together[2:4], pack([weights[1] + 1]))


def test_memory_starts_at_a_cache_line() -> None:
    assert [aligned((3, n)).ctypes.data % 64 for n in (1, 7, 1000)] == [0, 0, 0]


@pytest.mark.parametrize(("cpu", "features", "lanes"), [("haswell", "+avx2,+fma", 8), ("nehalem", "+sse4.2", 4)])
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the smaller CPUs are of the x86 family")
def test_the_tile_of_a_smaller_cpu_computes_the_same(cpu: str, features: str, lanes: int) -> None:
    """The same checks in a process that compiles for less than this machine has."""
    code = (
        "from tests.backends import test_panels as t\n"
        "t.test_a_product_is_that_of_numpy_for_every_shape()\n"
        "t.test_a_row_gives_the_same_numbers_whatever_stands_beside_it()\n"
        "from scheduler_core.backends.vectors import LANES; print(LANES)"
    )
    smaller = {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": features}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **smaller},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == lanes


def test_kernels_are_kept_apart_for_each_state_of_their_sources(tmp_path: Path) -> None:
    code = "import scheduler_core.backends.panels, numba; print(numba.config.CACHE_DIR)"
    usual = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}

    def kept(**environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env={**usual, **environment}, capture_output=True, text=True
        )
        return done.stdout.strip()

    assert Path(kept()).parent == ROOT / "scheduler_core" / "backends" / "__pycache__"
    assert kept(NUMBA_CACHE_DIR=str(tmp_path / "mine")) == str(tmp_path / "mine")
