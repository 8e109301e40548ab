"""`bench load`, as a user runs it, and its parts."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scheduler_core.__main__ import main
from scheduler_core.bench.load import plan
from scheduler_core.bench.load.knee import knee
from scheduler_core.bench.load.report import document
from scheduler_core.bench.load.sweep import sweep
from scheduler_core.bench.load.usage import peak_memory_bytes, stop_on_interrupt
from scheduler_core.big_run.big_run import BigRun
from scheduler_core.config import PRESETS
from scheduler_core.cost_model import LLAMA_31_8B, MACHINES
from scheduler_core.errors import BenchError, ConfigError
from scheduler_core.load.config import LoadConfig
from scheduler_core.load.lengths import Lengths
from scheduler_core.serving_config import num_blocks_beside_weights, serving_config
from scheduler_core.sources.shape import Shape
from scheduler_core.summary import Targets

SMALL = ("--num-requests", 20, "--rate", 8, "--prompt-len", "uniform:20:200", "--output-len", 8)

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:15:{46 + number // 2:02}.{number % 2 * 5}000000,{100 + number},{4 + number % 3}\n"
    for number in range(12)
)


@dataclass(frozen=True)
class Done:
    """What the command ended with."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def figures(self) -> dict[str, Any]:
        """Of a command that was asked for JSON."""
        assert (self.returncode, self.stderr) == (0, "")
        found: dict[str, Any] = json.loads(self.stdout)
        return found


Command = Callable[..., Done]


@pytest.fixture
def bench_load(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command in this process, which is faster than in one of its own."""

    def run(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["scheduler_core", "bench", "load", *map(str, arguments)])
        status = main()
        return Done(status, *capsys.readouterr())

    return run


@pytest.fixture
def azure(tmp_path: Path) -> Path:
    """A file of Azure's kind, made for this test: two requests a second."""
    path = tmp_path / "azure.csv"
    path.write_text(AZURE)
    return path


# As a user runs it


def test_the_same_seed_gives_the_same_file_to_the_byte_and_another_seed_another(
    tmp_path: Path, bench_load: Command
) -> None:
    files = [tmp_path / f"{name}.json" for name in "abc"]
    for file, seed in zip(files, (3, 3, 4), strict=True):
        assert bench_load(*SMALL, "--seed", seed, "--json", file).returncode == 0
    one, again, other = (file.read_bytes() for file in files)
    assert one == again != other


def test_the_file_has_vllms_keys_and_says_what_was_run(bench_load: Command) -> None:
    figures = bench_load(
        *SMALL, "--tenants", "chat=3,batch=1:5", "--target-ttft-ms", 500, "--set", "quantum=4", "--json", "-"
    ).figures
    vllm = {"completed", "failed", "total_input_tokens", "total_output_tokens", "request_throughput", "num_prompts"}
    vllm |= {"request_goodput", "output_throughput", "total_token_throughput", "p99_itl_ms", "mean_tpot_ms", "duration"}
    assert vllm <= figures.keys()
    assert (figures["completed"], figures["num_prompts"], figures["request_rate"]) == (20, 20, 8.0)
    assert figures["machine"] == figures["config"]["cost"] == "llama-3.1-8b-h100"
    assert figures["config"]["quantum"] == 4
    assert figures["source"]["kind"] == "generator"
    assert figures["targets"] == {"ttft_ms": 500.0}
    assert {*figures["fairness"]["tenants"]} == {"chat", "batch"}


def test_nothing_of_this_machine_or_hour_is_in_a_file_unless_asked_for(bench_load: Command) -> None:
    assert "timing" not in bench_load(*SMALL, "--json", "-").figures
    assert bench_load(*SMALL, "--timing", "--json", "-").figures["timing"]["wall_seconds"] > 0


def test_people_get_tables_the_words_and_the_warnings(bench_load: Command) -> None:
    done = bench_load(*SMALL, "--tenants", 2)
    for expected in ("TTFT", "samples", "tenant-1", "20 completed, 0 failed", "Llama-3.1-8B on one H100", "seed 0"):
        assert expected in done.stdout
    assert "p99_ttft_ms comes from 20 samples" in done.stdout


def test_details_account_for_every_request(bench_load: Command) -> None:
    figures = bench_load(*SMALL, "--details", "--set", "num_blocks=8", "--json", "-").figures
    rows = figures["requests"]
    assert [row["id"] for row in rows] == [f"r{number}" for number in range(20)]
    reasons = [row["reason"] for row in rows]
    assert {*reasons} == {"length", "rejected"}
    assert (figures["completed"], figures["refused"]) == (reasons.count("length"), reasons.count("rejected"))


def test_a_sweep_has_a_run_for_each_rate_and_marks_the_knee(bench_load: Command) -> None:
    load = ("--num-requests", 20, "--prompt-len", 2_000, "--output-len", 8, "--arrivals", "constant")
    arguments = (*load, "--rates", "1,200,4", "--target-ttft-ms", 200)
    figures = bench_load(*arguments, "--json", "-").figures
    assert [run["request_rate"] for run in figures["runs"]] == [1.0, 4.0, 200.0]
    assert figures["knee"]["rate"] == 4.0
    assert not figures["knee"]["is_highest"]
    shown = bench_load(*arguments).stdout
    assert [line.split()[0] for line in shown.splitlines() if line.endswith("< knee")] == ["4"]


def test_a_file_is_replayed_with_its_origin_told(azure: Path, bench_load: Command) -> None:
    figures = bench_load("--trace", azure, "--first", 10, "--machine", "llama-3.1-8b-a100", "--json", "-").figures
    assert (figures["completed"], figures["total_input_tokens"]) == (10, sum(range(100, 110)))
    assert figures["request_rate"] == pytest.approx(2.0)
    assert "Azure" in figures["attribution"]
    assert figures["source"]["file"]["name"] == "azure.csv"
    assert str(azure.parent) not in json.dumps(figures)


def test_a_file_can_be_sent_at_another_rate(azure: Path, bench_load: Command) -> None:
    figures = bench_load("--trace", azure, "--rates", "1,8", "--details", "--json", "-").figures
    last = [run["requests"][-1]["arrival_s"] for run in figures["runs"]]
    assert last == [pytest.approx(11.0), pytest.approx(11 / 8)]


def test_lengths_can_be_drawn_from_a_file(azure: Path, bench_load: Command) -> None:
    figures = bench_load("--num-requests", 30, "--lengths-from", azure, "--details", "--json", "-").figures
    drawn = {(row["input_tokens"], row["output_tokens"]) for row in figures["requests"]}
    assert drawn <= {(100 + number, 4 + number % 3) for number in range(12)}
    assert len(drawn) > 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rate", 0), "the rate is 0.0; it must be from 1e-06"),
        (("--rate", 1, "--rates", "1,2"), "--rate and --rates are both given"),
        (("--rates", "1,x"), "'1,x' is not a list of rates"),
        (("--num-requests", 0), "num_requests is 0; it must be a whole number from 1 to 1000000"),
        (("--prompt-len", "long"), "'long' is not a length; write a number of tokens"),
        (("--arrivals", "never"), "arrivals is 'never'; it must be one of poisson"),
        (("--machine", "abacus"), "cost is 'abacus'; it must be one of unit"),
        (("--preset", "best"), "there is no preset 'best'"),
        (("--set", "speed=9"), "there is no setting 'speed'"),
        (("--set", "speed"), "'speed' is not a setting; write FIELD=VALUE"),
        (("--target-ttft-ms", -1), "the target ttft_ms is -1.0"),
        (("--tenants", "a=b"), "'a=b' is not a tenant"),
        (("--first", 3), "--first is only for loads from a file"),
        (("--trace", "nowhere.csv"), "cannot read nowhere.csv"),
        (("--lengths-from", "nowhere.csv"), "cannot read nowhere.csv"),
    ],
)
def test_a_mistake_ends_with_status_2_and_one_line_that_says_what_to_change(
    arguments: tuple[object, ...], message: str, bench_load: Command
) -> None:
    done = bench_load(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_option_of_the_generator_is_refused_beside_a_file(azure: Path, bench_load: Command) -> None:
    done = bench_load("--trace", azure, "--prompt-len", 5)
    assert done.returncode == 2
    assert "--prompt-len is only for generated loads" in done.stderr


def test_requests_that_arrive_at_once_cannot_be_spread(tmp_path: Path, bench_load: Command) -> None:
    path = tmp_path / "same.csv"
    path.write_text("arrival,prompt_tokens,output_tokens\n5,10,2\n5,10,2\n")
    done = bench_load("--trace", path, "--rate", 2)
    assert "all requests of same.csv arrive at once" in done.stderr


def test_an_interrupted_run_shows_what_there_is_and_says_that_it_is_partial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bench_load: Command
) -> None:
    calls: list[int] = []
    advance = BigRun.advance

    def interrupted(run: BigRun, ticks: int) -> bool:
        calls.append(ticks)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return advance(run, ticks)

    monkeypatch.setattr(BigRun, "advance", interrupted)
    file = tmp_path / "partial.json"
    done = bench_load("--num-requests", 3_000, "--json", file)
    assert (done.returncode, len(calls)) == (130, 3)
    assert "have not ended; the figures are partial" in done.stdout
    figures = json.loads(file.read_text())
    assert not figures["is_complete"]
    assert 0 < figures["completed"] < 3_000


# The parts


def runs(*latencies: float, good: float | None = None) -> list[dict[str, Any]]:
    common = {"request_goodput": None, "duration": 1.0, "completed": 10, "failed": 0, "unfinished": 0}
    return [{**common, "request_rate": rate, "median_e2el_ms": ms} for rate, ms in enumerate(latencies, 1)]


def test_without_targets_the_knee_is_where_the_median_latency_has_doubled() -> None:
    found = knee(runs(100.0, 150.0, 200.0, 201.0, 90.0))
    assert (found["rate"], found["is_highest"]) == (3, False)
    assert knee(runs(100.0, 120.0))["is_highest"]


def test_with_targets_the_knee_is_the_last_rate_that_nine_of_ten_requests_are_served_well_at() -> None:
    good = [{**run, "request_goodput": value} for run, value in zip(runs(1, 1, 1, 1), (10, 9, 8.9, 10), strict=True)]
    assert knee(good)["rate"] == 2
    assert knee([good[2]])["rate"] is None


def test_requests_that_failed_count_as_not_served_well() -> None:
    run = {**runs(1.0)[0], "request_goodput": 10.0, "failed": 2}
    assert knee([run])["rate"] is None


def test_a_run_in_which_nothing_was_done_has_no_knee() -> None:
    assert knee([{**runs(1.0)[0], "median_e2el_ms": None}])["rate"] is None


def test_another_rate_keeps_the_shape_of_ramp_and_bursts() -> None:
    config = plan.at_rate(LoadConfig(rate=2.0, rate_end=6.0, off_rate=1.0), 4.0)
    assert (config.rate, config.rate_end, config.off_rate) == (4.0, 12.0, 2.0)


def test_a_stopped_sweep_has_the_runs_that_began(azure: Path) -> None:
    workload = plan.from_file(azure, Shape())
    told: list[str] = []
    found = sweep(
        workload, serving_config("unit"), Targets(), (1.0, 2.0, 3.0), tell=told.append, should_stop=lambda: bool(told)
    )
    assert [run["request_rate"] for run in found] == [1.0]
    assert told[0].startswith("rate 1: ")


def test_a_document_of_a_stopped_sweep_is_one_of_a_single_run(azure: Path) -> None:
    workload, config = plan.from_file(azure, Shape()), serving_config("unit")
    made = document(workload, config, Targets(), sweep(workload, config, Targets(), (1.0,)))
    assert made["completed"] == 12
    json.dumps(made, allow_nan=False)


def test_too_many_rates_are_refused() -> None:
    with pytest.raises(BenchError, match="there are 60 rates; at most 50"):
        plan.rates(None, ",".join(map(str, range(1, 61))))


def test_a_source_without_lengths_gives_none_to_draw_from(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"prompt": "hello"}\n')
    with pytest.raises(BenchError, match=r"texts.jsonl tells no length of a prompt"):
        plan.pairs_of(path)


def test_the_first_interrupt_is_only_an_answer_and_then_all_is_as_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stop_on_interrupt() as should_stop:
        assert not should_stop()
        signal.raise_signal(signal.SIGINT)
        assert should_stop()
    assert signal.getsignal(signal.SIGINT) is before


def test_the_memory_of_this_process_is_told() -> None:
    assert (peak_memory_bytes() or 0) > 10_000_000


# The sizes of a server


def test_an_h100_has_room_for_weights_and_kv_in_nine_tenths_of_its_memory() -> None:
    h100 = MACHINES["llama-3.1-8b-h100"]
    kv = num_blocks_beside_weights(h100) * 16 * LLAMA_31_8B.kv_bytes_per_token
    assert 0 <= 0.9 * 80e9 - LLAMA_31_8B.weight_bytes - kv < 16 * LLAMA_31_8B.kv_bytes_per_token
    assert LLAMA_31_8B.weight_bytes == pytest.approx(16.06e9, rel=0.001)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("machine", MACHINES)
def test_every_machine_has_a_configuration_under_every_preset(machine: str, preset: str) -> None:
    config = serving_config(machine, preset)
    assert config.cost == machine
    assert config.changed_from(serving_config(machine, "vllm")).keys() <= {*PRESETS[preset], *PRESETS["vllm"]}


def test_an_unknown_machine_is_refused_with_the_choices() -> None:
    with pytest.raises(ConfigError, match="cost is 'abacus'"):
        serving_config("abacus")


def test_a_load_is_the_same_work_whatever_the_rate() -> None:
    workload = plan.generated(LoadConfig(num_requests=10, prompt=Lengths("uniform", 1, 90)))
    slow, fast = ([r.spec() for r in workload.at(rate)] for rate in (0.5, 50.0))
    assert [spec.prompt_token_ids for spec in slow] == [spec.prompt_token_ids for spec in fast]
    assert slow[-1].arrival_time == pytest.approx(100 * fast[-1].arrival_time, rel=1e-3)
