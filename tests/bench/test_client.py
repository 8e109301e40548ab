"""`bench client`: what vLLM's client writes is read, and views that do not agree are named."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from scheduler_core.bench.client.compare import agreements, counts
from scheduler_core.bench.client.outside import read
from scheduler_core.bench.client.plan import ClientPlan, as_lines
from scheduler_core.bench.client.race import Raced, Seen
from scheduler_core.bench.client.report import document, failures
from scheduler_core.bench.client.turn import Told, Turn, together, told_together
from scheduler_core.bench.machine import MachineFacts
from scheduler_core.bench.served.exposition import Observed
from scheduler_core.errors import BenchError
from tests.test_cli import tickscope

#: In the format of `vllm bench serve --save-detailed` (0.32), as far as it is read.
RESULT: dict[str, Any] = {
    "backend": "openai",
    "completed": 3,
    "mean_ttft_ms": 200.0,
    "start_times": [1000.5, 1001.0, 1003.25],
    "ttfts": [0.1, 0.2, 0.3],
    "itls": [[0.02, 0.03], [0.01], []],
    "output_lens": [3, 2, 1],
    "errors": ["", "", ""],
}


def test_the_result_of_the_outside_client_is_read() -> None:
    assert read(RESULT) == Turn((0.0, 0.5, 2.75), (0.1, 0.2, 0.3), (0.02, 0.03, 0.01), 6)


def test_a_result_without_details_or_with_failed_requests_is_refused() -> None:
    with pytest.raises(BenchError, match="has no itls; let it write --save-detailed"):
        read({name: value for name, value in RESULT.items() if name != "itls"})
    with pytest.raises(BenchError, match="1 requests of vLLM's client failed, one with: Bad Request"):
        read({**RESULT, "errors": ["", "Traceback\nBad Request\n", ""]})


def seen(ttft: float, itl: float, gateway_ttft: float, gateway_itl: float, gaps: int = 3) -> Seen:
    told = Told(Observed(2, gateway_ttft), Observed(3, gateway_itl), 5)
    return Seen(Turn((0.0, 1.0), (ttft, ttft), (itl,) * gaps, 5), told)


def raced(outside: Seen | None = None, ours: Seen | None = None) -> Raced:
    good = seen(0.2, 0.05, 0.2, 0.05)
    return Raced(outside or good, ours or good)


MACHINE = MachineFacts("a processor", 2, "Linux", "3.11", "2026-01-01T00:00:00+00:00", 0.0)


def told(race: Raced) -> dict[str, Any]:
    return document(ClientPlan(), race, MACHINE, {"vllm": "0.32.0"})


def test_equal_views_agree() -> None:
    figures = told(raced())
    assert figures["agrees"]
    assert failures(figures) == []
    assert [each["difference"] for each in figures["agreements"]] == pytest.approx([0.0] * 4)


@pytest.mark.parametrize(
    ("race", "says"),
    [
        (raced(seen(0.21, 0.05, 0.199, 0.05)), ["mean TTFT of vLLM's client and /metrics differ by +5.5%"]),
        (raced(seen(0.2, 0.05, 0.2, 0.054)), ["mean ITL of vLLM's client and /metrics differ by -7.4%"]),
        (
            raced(ours=seen(0.23, 0.05, 0.2, 0.05)),
            ["mean TTFT of our client and /metrics differ by +15.0%"],
        ),
        (raced(seen(0.2, 0.05, 0.2, 0.05, gaps=2)), ["vLLM's client and /metrics count gaps: 2 and 3"]),
    ],
)
def test_views_that_differ_by_more_than_a_twentieth_are_named(race: Raced, says: list[str]) -> None:
    figures = told(race)
    assert not figures["agrees"]
    assert [line.removeprefix("failed: ") for line in failures(figures)] == says


def test_the_difference_between_the_clients_is_told_and_not_judged() -> None:
    figures = told(raced(ours=seen(0.4, 0.05, 0.4, 0.05)))
    assert figures["agrees"]
    assert [each["difference"] for each in figures["between_clients"]] == pytest.approx([-0.5, 0.0])


def test_rounds_are_pooled_request_by_request() -> None:
    turns = [Turn((0.0,), (0.1,), (0.02, 0.04), 3), Turn((0.0, 1.0), (0.3, 0.5), (0.06,), 4)]
    assert together(turns) == Turn((0.0, 0.0, 1.0), (0.1, 0.3, 0.5), (0.02, 0.04, 0.06), 7)
    pooled = told_together([Told(Observed(1, 0.1), Observed(2, 0.03), 3), Told(Observed(2, 0.4), Observed(0, None), 4)])
    assert pooled.ttft == Observed(3, pytest.approx(0.3))
    assert pooled.itl == Observed(2, pytest.approx(0.03))


def test_the_means_of_all_requests_are_compared() -> None:
    outside = Seen(Turn((0.0, 1.0), (0.1, 0.3), (0.02, 0.04), 4), Told(Observed(2, 0.2), Observed(2, 0.03), 4))
    found = agreements(raced(outside))
    assert [(each.metric, each.one_s) for each in found[:2]] == [("TTFT", 0.2), ("ITL", pytest.approx(0.03))]
    assert counts(raced(outside))[0].are_equal


def test_prompts_differ_within_and_between_rounds_and_are_the_same_for_a_seed() -> None:
    plan = ClientPlan(requests=20, rounds=2)
    prompts = [each.text for turn in range(3) for each in plan.prompts(turn)]
    assert len({*prompts}) == 60
    assert plan.prompts(1) == ClientPlan(requests=20, rounds=2).prompts(1)
    assert json.loads(as_lines(plan.prompts(0)).splitlines()[0])["output_tokens"] == plan.output_tokens


def test_without_the_peers_environment_the_command_names_the_remedy(tmp_path: Path) -> None:
    done = tickscope("bench", "client", "--peers", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "make bench-peers" in done.stderr


#: Stands in for the peers' interpreter: sends the prompts as vLLM's client does, one after the other.
STAND_IN = """#!{python}
import json, sys, time, urllib.request
words = sys.argv
if "-c" in words:
    sys.exit(print("0.0-stand-in"))
option = lambda name: words[words.index("--" + name) + 1]
result = dict(start_times=[], ttfts=[], itls=[], output_lens=[], errors=[])
for line in open(option("dataset-path")):
    asked = json.loads(line)
    body = dict(model=option("model"), prompt=asked["prompt"], max_tokens=asked["output_tokens"], stream=True)
    data = json.dumps(dict(body, temperature=0, ignore_eos=True)).encode()
    url = option("base-url") + option("endpoint")
    began, times = time.perf_counter(), []
    request = urllib.request.Request(url, data, {{"content-type": "application/json"}})
    with urllib.request.urlopen(request) as answer:
        for said in answer:
            if said.startswith(b'data: {{"') and json.loads(said[6:])["choices"]:
                times.append(time.perf_counter())
    result["start_times"].append(began)
    result["ttfts"].append(times[0] - began)
    result["itls"].append([b - a for a, b in zip(times, times[1:])])
    result["output_lens"].append(len(times))
    result["errors"].append("")
json.dump(result, open(option("result-dir") + "/" + option("result-filename"), "w"))
"""


def test_the_command_asks_both_clients_and_the_gateway(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(STAND_IN.format(python=sys.executable))
    python.chmod(0o755)
    file = tmp_path / "client.json"
    small = ("--requests", 4, "--output-tokens", 6, "--rounds", 2, "--rate", 50, "--backend", "synthetic")
    done = tickscope("bench", "client", "--peers", tmp_path, *small, "--json", file)
    assert done.returncode in (0, 1), done.stderr
    figures = json.loads(file.read_text())
    # How far times agree depends on the machine; counts do not.
    assert [(each["who"], each["requests"], each["gaps"]) for each in figures["counts"]] == [
        ("vLLM's client", [8, 8], [40, 40]),
        ("our client", [8, 8], [40, 40]),
    ]
    assert done.returncode == (0 if figures["agrees"] else 1)
    assert figures["versions"] == {"vllm": "0.0-stand-in"}
    assert len(figures["agreements"]) == 4
