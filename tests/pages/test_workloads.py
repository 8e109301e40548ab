"""The workloads page without a browser: choose, run, look at every tab."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from pages.components.settings import Limits
from pages.components.workloads import two_by_two, upload
from pages.components.workloads.export import cells, figures_json, requests_csv
from pages.components.workloads.job import Job, JobWorker
from pages.components.workloads.state import PANELS
from pages.components.workloads.visit import worker
from pages.components.workloads.work import Outcome
from scheduler_core.sources.source import read_source
from scheduler_core.summary import Targets
from tests.pages.helpers import component, everything_said, open_page

Outcomes = Callable[[], list[Outcome]]

SMALL = {"source": "generator", "n": "40", "rate": "20", "prompt": "uniform:50:400", "output": "uniform:5:40"}


@pytest.fixture(autouse=True)
def _nothing_goes_on() -> Iterator[None]:
    """What one test leaves must not compute during the next."""
    st.cache_resource.clear()
    yield
    st.cache_resource.clear()


def wait_for(at: AppTest) -> AppTest:
    """The page after its job is over."""
    assert worker().wait(60)
    return at.run()


def ran(**query: str) -> AppTest:
    """The page after a small load has run."""
    at = open_page("workloads", **SMALL | query)
    assert not at.exception
    at.button(key="wl_run").click().run()
    return wait_for(at)


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Outcome]]:
    """What came of the latest run."""
    jobs: list[Job] = []
    start = JobWorker.start
    monkeypatch.setattr(JobWorker, "start", lambda worker, job: jobs.append(job) or start(worker, job))
    return lambda: next(job.results for job in reversed(jobs) if job.kind == "run")


def show(at: AppTest, panel: str) -> AppTest:
    at.session_state["workloads"].panel = panel
    at.run()
    assert not at.exception, at.exception
    return at


def texts(at: AppTest) -> str:
    return "\n".join(element.value for kind in (at.markdown, at.caption, at.subheader) for element in kind)


def test_the_page_offers_a_load_and_servers_and_says_what_to_do():
    at = open_page("workloads")
    assert not at.exception
    assert [header.value for header in at.header] == ["1 · The load", "2 · The server", "3 · Run"]
    assert "Nothing has run yet" in texts(at)
    assert "seed 0: the same seed gives the same load" in texts(at)
    assert not at.button(key="wl_run").disabled


def test_a_run_gives_figures_of_every_configuration_with_their_samples(outcomes: Outcomes):
    at = ran(servers="vllm;sarathi;vllm:enable_prefix_caching=false")
    assert "The run is done" in texts(at)
    glance = at.dataframe[0].value
    assert list(glance["configuration"]) == ["vLLM", "Sarathi", "vLLM, no prefix cache"]
    assert list(glance["completed"]) == ["40 of 40"] * 3
    percentiles = at.dataframe[-1].value
    assert list(percentiles["n"][percentiles["latency"] == "TTFT"]) == ["40"] * 3
    figures = outcomes()[0].figures(Targets())
    assert percentiles["p50"][0] == f"{figures['median_ttft_ms']:.3g}"


def test_a_p99_of_few_samples_is_marked_and_warned_of():
    at = ran(servers="vllm")
    percentiles = at.dataframe[-1].value.set_index("latency")
    assert percentiles["p99"]["TTFT"].endswith("*")
    assert not percentiles["p99"]["ITL"].endswith("*")
    assert any("fewer than 100 samples" in warning.value for warning in at.warning)


def test_with_a_hundred_samples_there_is_no_warning():
    at = ran(servers="vllm", n="100")
    assert not at.warning
    assert not at.dataframe[-1].value["p99"].str.endswith("*").any()


def test_goodput_counts_who_keeps_the_targets():
    strict = ran(servers="vllm", goals="ttft=0.001")
    assert list(strict.dataframe[0].value["good"]) == ["0.0 %"]
    free = ran(servers="vllm", goals="ttft=100000")
    assert list(free.dataframe[0].value["good"]) == ["100.0 %"]


def test_without_targets_nothing_is_said_of_goodput():
    at = ran(servers="vllm", goals="none")
    assert list(at.dataframe[0].value["good/s"]) == ["–"]


@pytest.mark.parametrize("panel", PANELS)
def test_every_tab_is_drawn_before_and_after_a_run(panel: str):
    at = open_page("workloads", **SMALL, panel=panel, servers="vllm")
    assert not at.exception
    at.button(key="wl_run").click().run()
    at = wait_for(at)
    assert not at.exception
    assert not at.error


def test_a_window_of_the_run_stands_on_the_stage(outcomes: Outcomes):
    at = show(ran(servers="vllm"), "Over time")
    at.button(key="wl_open_window").click().run()
    at = wait_for(at)
    run = component(at, "tickscope.stage")["run"]
    series = outcomes()[0].result.series
    assert run["ticks"] == min(len(series), 400, outcomes()[0].run.most_window_ticks)
    assert "Tick 0 on the stage is tick 0 of the run" in texts(at)


def test_another_stretch_opens_its_own_window(outcomes: Outcomes):
    at = show(ran(servers="vllm"), "Over time")
    end = outcomes()[0].result.series.end_s[-1]
    at.slider[0].set_range(end * 0.5, end * 0.6).run()
    first = outcomes()[0].result.series.tick_at(at.slider[0].value[0])
    assert first > 0
    at.button(key="wl_open_window").click().run()
    at = wait_for(at)
    assert f"Tick 0 on the stage is tick {first:,} of the run" in texts(at)


def test_a_sweep_marks_the_knee():
    at = show(ran(servers="vllm"), "Sweep")
    at.text_input(key="wl_rates").set_value("5, 2000").run()
    at.button(key="wl_sweep").click().run()
    at = wait_for(at)
    table = at.dataframe[-1].value
    assert list(table["rate (1/s)"]) == ["5", "2,000"]
    assert "the knee is" in texts(at)


@pytest.mark.parametrize(
    ("text", "told"),
    [("5, fast", "is not a list of rates"), ("0", "it must be from"), (",".join(map(str, range(1, 14))), "13 rates")],
)
def test_rates_that_cannot_be_run_are_told(text: str, told: str):
    at = open_page("workloads", **SMALL, panel="Sweep")
    at.text_input(key="wl_rates").set_value(text).run()
    at.button(key="wl_sweep").click().run()
    assert told in at.error[0].value.replace("\\", "")


def test_the_hit_rate_grows_with_the_memory():
    at = open_page("workloads", **SMALL | {"groups": "3"}, prefix_groups="3", prefix_tokens="64", panel="Cache")
    at.text_input(key="wl_sizes").set_value("8, 4096, unbounded").run()
    at.button(key="wl_cache").click().run()
    rates = [float(text) for text in wait_for(at).dataframe[-1].value["hit rate (%)"]]
    assert rates == sorted(rates)
    assert rates[-1] > 5


def test_sizes_that_cannot_be_measured_are_told():
    at = open_page("workloads", **SMALL, panel="Cache")
    at.text_input(key="wl_sizes").set_value("many").run()
    at.button(key="wl_cache").click().run()
    assert "num-blocks is 'many'" in at.error[0].value.replace("\\", "")


def test_tenants_are_compared_and_their_names_are_no_markup():
    at = show(ran(servers="vllm", tenants="<b>loud</b>=3:0,small=1:0"), "Tenants")
    assert set(at.dataframe[0].value["tenant"]) == {"<b>loud</b>", "small"}
    figure = json.loads(at.get("plotly_chart")[-1].proto.spec)
    assert figure["data"][0]["x"] == ["&lt;b&gt;loud&lt;/b&gt;", "small"]


def test_the_four_corners_are_run_and_said_to_be_a_shape(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(two_by_two, "limits", lambda: Limits(max_load_requests=60))
    at = open_page("workloads", panel="Chunking × mixing")
    at.button(key="wl_two_by_two").click().run()
    at = wait_for(at)
    assert "shape, not the paper's numbers" in texts(at)
    assert list(at.dataframe[-1].value["chunked"]) == ["no", "yes", "no", "yes"]
    assert texts(at).count("✓") + texts(at).count("✗") == 5


def test_figures_can_be_taken_away(outcomes: Outcomes):
    ran(servers="vllm;sarathi")
    documents = json.loads(figures_json(outcomes(), Targets(), {"kind": "generator", "seed": 4}))
    assert [document["configuration"] for document in documents] == ["vLLM", "Sarathi"]
    assert documents[0]["completed"] == 40
    assert documents[0]["seed"] == 4
    assert len(documents[0]["requests"]) == 40
    lines = requests_csv(outcomes()).splitlines()
    assert len(lines) == 81
    assert lines[1].startswith("vLLM,r0,all,0.0,")


def test_a_cell_of_a_spreadsheet_is_no_formula():
    assert cells(["=1+1", "+a", "fine", 3, None]) == ["'=1+1", "'+a", "fine", 3, None]


def test_figures_of_an_earlier_choice_say_so():
    at = ran(servers="vllm")
    at.session_state["wl_servers"] = ["sarathi"]
    at.run()
    assert any("earlier choice" in info.value for info in at.info)


def test_a_configuration_of_ones_own_joins_the_others():
    at = open_page("workloads", **SMALL, servers="vllm")
    at.text_input(key="wl_own_settings").set_value("chunk_size=64")
    next(button for button in at.button if button.label == "Add").click().run()
    assert not at.exception
    assert at.session_state["workloads"].chosen == ("vllm", "vllm:chunk_size=64")


@pytest.mark.parametrize(
    ("text", "told"), [("wings=2", "no setting"), ("", "Nothing is changed"), ("8", "FIELD=VALUE")]
)
def test_a_configuration_that_cannot_be_is_told(text: str, told: str):
    at = open_page("workloads", **SMALL)
    at.text_input(key="wl_own_settings").set_value(text)
    next(button for button in at.button if button.label == "Add").click().run()
    assert any(told in error.value.replace("\\", "") for error in at.error)


def test_a_strange_link_is_told_and_the_page_stands():
    at = open_page("workloads", machine="abacus", servers="warp", seed="x")
    assert not at.exception
    assert len(at.warning) == 3


def test_the_address_says_what_was_chosen():
    at = open_page("workloads", **SMALL, machine="smollm2-cpu")
    assert "machine=smollm2-cpu" in component(at, "tickscope_address")["query"]


# Files

CSV = b"arrival,prompt_tokens,output_tokens,tenant\n0,100,5,a\n1,many,5,a\n2,50,4,b\n"


def with_file(data: bytes, name: str = "own.csv") -> AppTest:
    """The page after a file was taken, as `upload` keeps it."""
    at = open_page("workloads", source="upload", servers="vllm")
    at.session_state["wl_file"] = ("digest", read_source(io.BytesIO(data), name=name))
    return at.run()


def test_a_file_is_told_with_its_bad_rows_and_runs():
    at = with_file(CSV)
    assert "own\\.csv" in texts(at)
    assert any("1 of 3 rows" in warning.value for warning in at.warning)
    assert list(at.dataframe[0].value["line"]) == [3]
    at.button(key="wl_run").click().run()
    at = wait_for(at)
    assert list(at.dataframe[1].value["completed"]) == ["2 of 2"]


def test_whose_data_it_is_stands_on_the_screen():
    rows = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
    assert "CC\\-BY 4\\.0" in texts(with_file(rows, "azure.csv"))


def test_the_hit_rate_of_a_trace_with_ids_is_that_of_the_command_line():
    rows = [
        {"timestamp": second, "input_length": 1024, "output_length": 4, "hash_ids": ids}
        for second, ids in enumerate(([1, 2], [1, 3], [1, 2], [1, 3]))
    ]
    at = show(with_file("\n".join(map(json.dumps, rows)).encode(), "ids.jsonl"), "Cache")
    at.text_input(key="wl_sizes").set_value("unbounded").run()
    at.button(key="wl_cache").click().run()
    assert list(wait_for(at).dataframe[-1].value["hit rate (%)"]) == ["100.0"]


class File(io.BytesIO):
    """As the browser sends one."""

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__(data)
        self.name = name
        self.size = len(data)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "it is empty"),
        (b"\x1f\x8b broken", "gzip"),
        (b"a,b\n1,2\n", "no known kind of workload"),
        (b"[1, 2]", "one JSON object a line"),
        (b"\xff\xfe\x00", "“bad.csv” cannot be taken"),
    ],
)
def test_a_file_that_is_none_is_told_and_what_stood_before_stays(
    monkeypatch: pytest.MonkeyPatch, data: bytes, told: str
):
    kept = object()
    state = {"wl_upload": File("bad.csv", data), "wl_file": kept}
    monkeypatch.setattr(st, "session_state", state)
    upload.take()
    assert told in state["wl_problem"]  # type: ignore[operator]
    assert state["wl_file"] is kept


def test_messages_of_the_page_are_plain():
    assert "<" not in everything_said(open_page("workloads", servers="<img src=x>")).replace("\\<", "")
