"""The operations page beside a real gateway, beside none, and beside servers that mean no good."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from pages.components.fields import PAGE_BOUNDS
from pages.components.imported import ImportedRun, read_file
from pages.components.operations import client
from pages.components.operations.client import URLS, Gateway, GatewayError, read_gateways
from pages.components.operations.offers import OFFERS
from pages.components.operations.reading import Reading, difference, quantile, read
from pages.components.operations.state import OperationsState, from_query, to_query
from pages.components.operations.watch import Watch
from pages.components.player_payload import payload
from pages.components.settings import read_limits
from scheduler_core.serving.fault_plan import KINDS
from scheduler_core.serving.stage_size import MOST_ON_STAGE, for_the_stage
from scheduler_core.serving_config import serving_config
from tests.pages.helpers import component, everything_said, open_page
from tests.serving.test_serve import Server, serve


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Names gateways as the operator does; forgets them in the end."""

    def name(*urls: str, key: str = "") -> None:
        monkeypatch.setenv(URLS, ",".join(urls))
        monkeypatch.setenv(client.KEY, key)
        client.gateways.cache_clear()

    yield name
    client.gateways.cache_clear()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("operated")
    options = ("--operations", "--store", str(folder / "cache"), "--set", "block_size=4")
    with serve(folder, *options, env={"TICKSCOPE_SERVE_BACKOFF_S": "0"}) as running:
        yield running


def complete(url: str, prompt: str = "one two three four five six", **fields: Any) -> int:
    body = json.dumps({"model": "synthetic", "prompt": prompt, "max_tokens": 3, **fields}).encode()
    request = urllib.request.Request(f"{url}/v1/completions", body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as problem:
        return problem.code


def words(at: AppTest) -> str:
    told = [everything_said(at), *(text.value for text in at.markdown), *(text.value for text in at.success)]
    told += [html.proto.body for html in at.get("html")]
    return "\n".join(told).replace("\\", "")


def tile(at: AppTest, name: str) -> str:
    return str(next(metric.value for metric in at.metric if metric.label == name))


def again(at: AppTest) -> AppTest:
    """Look once more, a second later or as if it were."""
    time.sleep(1.05)
    at.run()
    assert not at.exception, at.exception
    return at


def press(at: AppTest, key: str) -> AppTest:
    at.button(key=key).click().run()
    assert not at.exception, at.exception
    return at


def test_the_page_sees_a_gateway_s_figures_switches_faults_and_deals_with_dead_letters(
    server: Server, named: Callable[..., None]
) -> None:
    named(server.url)
    assert complete(server.url) == 200
    at = open_page("operations")
    assert not at.exception, at.exception
    assert "answers · synthetic" in words(at)
    assert "Planned faults on" not in words(at)
    assert (tile(at, "Running"), tile(at, "Dead letters")) == ("0", "0")
    charts = component(at, "tickscope_trends")["charts"]
    assert [chart["title"] for chart in charts] == ["Requests", "Tokens per second", "KV and cache"]
    # A fault, three attempts, a letter.
    at.session_state["operations"].panel = "Planned faults"
    at.run()
    at.number_input(key="op_every_raise").set_value(1).run()
    at.toggle(key="op_fault_raise_0").set_value(True).run()
    assert not at.exception, at.exception
    assert "Planned faults on: the model raises" in words(at)
    assert complete(server.url, "<b>bold</b> words") == 500
    at.session_state["operations"].panel = "Dead letters"
    again(at)
    assert (tile(at, "Dead letters"), tile(at, "Retries")) == ("1", "2")
    assert "/v1/completions" in words(at)
    press(at, "op_fold_1")
    assert [block.value for block in at.code] == ["<b>bold</b> words"]
    assert at.dataframe[0].value["attempt"].tolist() == [1, 2, 3]
    assert "planned for call 3" in at.dataframe[0].value["why it failed"][2]
    # Off again, and the letter is answered.
    at.session_state["operations"].panel = "Planned faults"
    at.run()
    assert at.toggle(key="op_fault_raise_0").value
    press(at, "op_faults_off")
    assert not at.toggle(key="op_fault_raise_1").value
    at.session_state["operations"].panel = "Dead letters"
    at.run()
    press(at, "op_replay_all")
    assert "Sent again: 1." in words(at)
    again(at)
    assert "There is no dead letter" in words(at)
    assert "1 answered, 0 failed" in words(at)


def test_a_cache_is_cleared_after_a_question(server: Server, named: Callable[..., None]) -> None:
    named(server.url)
    complete(server.url, "a prompt that fills several blocks of four tokens each, so that some are kept")
    at = open_page("operations", panel="Caches")
    table = again(at).dataframe[0].value
    assert table["tier"].tolist() == ["memory", "disk"]
    assert int(table["blocks"][1]) > 0
    assert table["breaker"].tolist() == ["–", "closed"]
    press(at, "op_clear_disk")
    assert "All blocks in the cache disk are forgotten" in words(at)
    press(at, "op_clear_disk_no")
    assert "are forgotten" not in words(at)
    press(press(at, "op_clear_disk"), "op_clear_disk_yes")
    assert "The cache disk is empty." in words(at)
    assert at.dataframe[0].value["blocks"][1] == "0"


def test_a_letter_is_thrown_away_after_a_question(server: Server, named: Callable[..., None]) -> None:
    named(server.url)
    gateway = Gateway(server.url)
    gateway.write("POST", "faults", {"faults": [{"kind": "raise", "every": 1}]})
    codes = [complete(server.url, f"number {number}") for number in range(12)]
    gateway.write("POST", "faults", {"faults": []})
    assert set(codes) == {500}
    at = open_page("operations", panel="Dead letters")
    first = max(int(each["id"]) for each in gateway.read("dead-letters?limit=1")["letters"])
    press(press(at, f"op_purge_{first}"), f"op_purge_{first}_yes")
    assert "Thrown away: 1." in words(at)
    assert "**11** kept" in words(at)
    press(at, "op_older")
    assert "number 0" in words(press(at, f"op_fold_{first - 11}")) or at.code[0].value == "number 0"
    press(at, "op_newer")
    press(press(at, "op_purge_all"), "op_purge_all_yes")
    assert "There is no dead letter" in words(again(at))


def test_without_a_gateway_the_page_says_how_to_start_one(named: Callable[..., None]) -> None:
    named("http://127.0.0.1:9")
    at = open_page("operations")
    assert not at.exception, at.exception
    assert not at.error
    assert "does not answer: nobody listens there" in words(at)
    assert at.code[0].value == "python -m scheduler_core serve --backend synthetic --operations --port 9"
    assert tile(at, "Computing") == "0 of 2"


def test_a_gateway_without_operations_shows_figures_and_one_line(tmp_path: Path, named: Callable[..., None]) -> None:
    with serve(tmp_path) as plain:
        named(plain.url)
        at = open_page("operations")
        assert tile(at, "Waiting") == "0"
        for panel in ("Dead letters", "Planned faults"):
            at.session_state["operations"].panel = panel
            at.run()
            assert "Start it with `serve --operations`" in words(at)
    # It is gone, and what it told last stays.
    again(at)
    assert "does not answer any more" in words(at)
    assert tile(at, "Waiting") == "0"
    assert not at.error


def test_a_wrong_key_leaves_the_figures_and_a_right_one_opens_the_rest(
    tmp_path: Path, named: Callable[..., None]
) -> None:
    with serve(tmp_path, "--operations", env={"TICKSCOPE_SERVE_API_KEYS": "right"}) as guarded:
        named(guarded.url, key="wrong")
        at = open_page("operations", panel="Dead letters")
        assert tile(at, "Waiting") == "0"
        assert "takes no key of this app" in words(at)
        named(guarded.url, key="right")
        assert "There is no dead letter" in words(open_page("operations", panel="Dead letters"))


def test_an_app_that_others_reach_shows_figures_only_unless_it_was_given_a_key(
    server: Server, named: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamlit.get_option", lambda name: {"server.address": "0.0.0.0"}.get(name))
    url = server.url.replace("127.0.0.1", "localhost")  # of which nobody has looked at it yet
    named(url)
    at = open_page("operations", panel="Dead letters")
    assert tile(at, "Waiting") == "0"
    assert "Others than this machine's users reach this app" in words(at)
    assert not [button for button in at.button if str(button.key).startswith("op_")]
    named(url, key="of the operator")
    assert "Others than" not in words(open_page("operations", panel="Dead letters"))


# Others than ours


@contextmanager
def stranger(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """A server that answers every call with `answer`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: Any) -> None:
            """Nothing on the screen."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def says(body: bytes, status: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        try:
            handler.wfile.write(body)
        except OSError:
            return  # whoever asks has heard enough

    return answer


ENGINE = b'scheduler_running_requests{model="m",replica="0"} 1\n'


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (says(b"<html>hello</html>"), "its metrics"),
        (says(b"up 1\n"), "its metrics tell no engine"),
        (says(b"\xff\xfe\x00" * 50), "its metrics"),
        (says(b"x" * (3 << 20)), "more than 2 MiB"),
        (says(b"".join(b'a{replica="%d"} 1\n' % i for i in range(21_000)) + ENGINE), "more than 20,000 figures"),
        (says(b"", 302, Location="http://127.0.0.1:1/metrics"), "status 302"),
        (says(b"", 500), "status 500"),
        (says(b"", 401), "does not take the key"),
    ],
)
def test_a_stranger_is_one_calm_line(
    answer: Callable[[BaseHTTPRequestHandler], None], told: str, named: Callable[..., None]
) -> None:
    with stranger(answer) as url:
        named(url)
        at = open_page("operations")
        assert not at.exception, at.exception
        assert not at.error
        assert told in words(at)


def test_what_a_stranger_tells_in_json_breaks_nothing_and_is_no_markup(named: Callable[..., None]) -> None:
    evil = {
        "state": ["ok"],
        "model": "<script>alert(1)</script>",
        "uptime_s": "long",
        "tiers": [{"tier": "../../disk", "limit_bytes": "big", "last_error": "[x](javascript:alert(1))"}, 7],
        "faults": {
            "faults": [{"kind": "<img>"}, {"kind": "raise", "first": None, "every": -(10**40)}],
            "happened": {"raise": "often"},
        },
        "total": 10**30,
        "letters": [{"id": "1/../2", "written": 1e300, "attempts": [{"reason": "<b>"}], "prompt": 5}, "x"],
        "replays": {"left": None, "last": [{"problem": "<i>"}]},
    }

    def answer(handler: BaseHTTPRequestHandler) -> None:
        tier = b'cache_query_tokens_total{model="m",replica="0",tier="../../disk"} 1\n'
        is_figures = handler.path == "/metrics"
        says(ENGINE + tier if is_figures else json.dumps({**evil, "total": 3}).encode())(handler)

    with stranger(answer) as url:
        named(url)
        at = open_page("operations")
        for panel in ("Figures", "Caches", "Dead letters", "Planned faults"):
            at.session_state["operations"].panel = panel
            at.run()
            assert not at.exception, (panel, at.exception)
            bodies = "".join(html.proto.body for html in at.get("html"))
            assert "<script>alert" not in bodies
            assert "<img>" not in bodies


def test_a_slow_answer_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_SECONDS", 0.3)

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(20):
            try:
                handler.wfile.write(b"a 1\n")
                handler.wfile.flush()
            except OSError:
                return
            time.sleep(0.05)

    with stranger(drip) as url, pytest.raises(GatewayError, match="did not end in time"):
        Gateway(url).metrics()
    with stranger(lambda handler: time.sleep(0.6)) as url, pytest.raises(GatewayError, match=r"within 0\.3 s"):
        Gateway(url).metrics()


# Parts


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ftp://host", "'ftp://host'; it must be http://HOST:PORT"),
        ("localhost:8000", "'localhost:8000'"),
        ("http://", "'http:'"),
        ("http://user:secret@host", "has 'host'; it must be"),
        ("http://:secret@host", "has 'host'; it must be"),
        ("http://[::1", "must be"),
        ("http://a:99999", "must be"),
        ("http://a?b=c", "must be"),
    ],
)
def test_a_wrong_address_is_named(text: str, says: str) -> None:
    with pytest.raises(GatewayError, match=URLS) as problem:
        read_gateways({URLS: f"http://127.0.0.1:8000, {text}"})
    assert says in str(problem.value)


def test_addresses_come_from_the_environment_alone() -> None:
    assert [each.url for each in read_gateways({})] == ["http://127.0.0.1:8000"]
    told = read_gateways({URLS: " http://a:1/ , https://b,http://a:1", client.KEY: "k"})
    assert [(each.url, each.key) for each in told] == [("http://a:1", "k"), ("https://b", "k")]


def test_a_link_opens_a_panel_and_what_cannot_be_taken_is_told() -> None:
    assert to_query(OperationsState()) == {}
    state, messages = from_query({"panel": "Caches", "gateway": "1"}, 2)
    assert (state.panel, state.gateway, messages) == ("Caches", 1, [])
    assert to_query(state) == {"panel": "Caches", "gateway": "1"}
    state, messages = from_query({"panel": "Root", "gateway": "9", "url": "http://evil"}, 2)
    assert (state.panel, state.gateway, len(messages)) == ("Figures", 0, 3)


def test_quantiles_lie_evenly_in_their_bucket() -> None:
    buckets = ((1.0, 0.0), (2.0, 10.0), (4.0, 20.0), (float("inf"), 21.0))
    assert quantile(5 / 21, buckets) == pytest.approx(1.5)
    assert quantile(15 / 21, buckets) == pytest.approx(3.0)
    assert quantile(1.0, buckets) == 4.0
    assert quantile(0.5, ()) is None
    assert quantile(0.5, ((1.0, 0.0), (float("inf"), 0.0))) is None
    assert difference(buckets, ((1.0, 0.0), (2.0, 4.0))) == ((1.0, 0.0), (2.0, 6.0), (4.0, 20.0), (float("inf"), 21.0))


def test_figures_are_told_by_replica_and_together() -> None:
    text = "".join(
        f'scheduler_running_requests{{model="m",replica="{name}"}} {value}\n'
        f'generation_tokens_total{{model="m",replica="{name}"}} {100 * value}\n'
        f'kv_cache_usage_ratio{{model="m",replica="{name}"}} {value / 10}\n'
        for name, value in (("10", 4), ("2", 1), ("", 0))
    )
    reading = read(text, 0.0)
    assert reading.replicas == ["", "2", "10"]
    assert (reading.total("scheduler_running_requests"), reading.total("generation_tokens_total", replica="2")) == (
        5,
        100,
    )
    assert reading.mean("kv_cache_usage_ratio") == pytest.approx(0.5 / 3)


class Told:
    """A gateway that counts up by ten tokens with each reading, and by one request."""

    def __init__(self) -> None:
        self.calls = 0

    def metrics(self) -> str:
        self.calls += 1
        labels = '{model="m",replica="0"}'
        return (
            f"scheduler_running_requests{labels} 0\nrequests_submitted_total{labels} {self.calls}\n"
            f"generation_tokens_total{labels} {10 * self.calls}\n"
        )

    def read(self, path: str) -> dict[str, Any]:
        return {}


def test_a_gateway_is_asked_once_a_second_whoever_looks_and_forgets_what_is_old() -> None:
    told, now = Told(), [0.0]
    watched = Watch(told, clock=lambda: now[0])  # type: ignore[arg-type]
    for _ in range(5):
        watched.look()
    assert told.calls == 1
    assert watched.seen.rate("generation_tokens_total") is None
    for _ in range(300):
        now[0] += 1.0
        watched.look()
    assert told.calls == 301
    assert watched.seen.rate("generation_tokens_total") == pytest.approx(10.0)
    assert (len(watched.seen.readings), watched.seen.span) == (181, 180.0)
    told.calls = 0
    now[0] += 1.0
    assert len(watched.look().readings) == 1, "a gateway that began anew counts from nothing"


def test_a_gateway_that_is_slow_to_answer_is_asked_less_often() -> None:
    now, asked = [0.0], list[float]()

    class Slow(Told):
        def metrics(self) -> str:
            asked.append(now[0])
            now[0] += 2.0
            raise GatewayError("it did not answer within 2 s")

    watched = Watch(Slow(), clock=lambda: now[0])  # type: ignore[arg-type]
    for _ in range(30):
        watched.look()
        now[0] += 0.5
    assert asked == [0.0, 8.0, 16.0]
    assert watched.seen.problem == "it did not answer within 2 s"


def test_a_reading_is_what_it_says() -> None:
    assert Reading(1.0).total("anything") == 0


def test_every_kind_of_fault_has_its_switch() -> None:
    assert set(OFFERS) == set(KINDS)


# A recorded gateway on the stage


def test_a_recording_is_of_sizes_that_pages_take() -> None:
    assert {name: PAGE_BOUNDS[name][1] for name in MOST_ON_STAGE} == MOST_ON_STAGE
    assert for_the_stage(serving_config("unit").replace(seed=2**61 + 7)).seed == 7


def test_a_gateway_that_failed_on_purpose_is_played_with_its_faults(tmp_path: Path) -> None:
    plan, file = tmp_path / "plan.toml", tmp_path / "run.json.gz"
    plan.write_text('[[faults]]\nkind = "raise"\nfirst = 3\n')
    options = ("--fault-plan", str(plan), "--record", str(file))
    with serve(tmp_path, *options, env={"TICKSCOPE_SERVE_BACKOFF_S": "0"}) as gateway:
        assert complete(gateway.url, "one two three", max_tokens=4) == 200
    opened = read_file("run.json.gz", file.read_bytes(), read_limits({}))
    assert isinstance(opened, ImportedRun)
    told = [f"{line[2]} {line[3]}" for line in payload(opened.trace)["lines"]]
    assert "Planned fault: the model raised. R1 is tried again as R1#2." in told
