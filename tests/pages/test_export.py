"""The export panel and files that visitors open, without a browser."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image
from streamlit.testing.v1 import AppTest

from pages.components.export import events_csv, file_stem
from pages.components.export_gif import size_words
from pages.components.imported import MAX_FILE_MEGABYTES, MEGABYTE
from pages.components.play_state import IMPORTED
from pages.components.runs import recording
from scheduler_core.trace import Trace
from tests.helpers import create_engine, create_request, run
from tests.pages.helpers import assert_drawn, component, everything_said, open_playground, stage_data, state

TRACES = Path(__file__).resolve().parents[2] / "assets" / "traces"


def drop(at: AppTest, name: str, data: bytes, place: str = "export") -> AppTest:
    """Drop a file on a field."""
    [field] = [one for one in at.file_uploader if one.key.startswith(f"drop_{place}")]
    field.set_value((name, data, "application/octet-stream"))
    return at.run()


def a_run(**knobs: int) -> Trace:
    return run(create_engine(**knobs), create_request("Q1"), create_request("Q2"))


def shown_ids(at: AppTest) -> list[str]:
    return [request["id"] for request in stage_data(at)["run"]["requests"]]


def test_the_link_can_be_copied_and_holds_the_instant():
    at = open_playground(panel="Export", tick="9", scenario="first_steps")
    assert_drawn(at)
    data = component(at, "tickscope_copy")
    assert "tick=9" in data["text"]
    assert data["text"] == at.code[-1].value


def test_a_gif_is_made_when_asked_and_can_be_taken():
    at = open_playground(panel="Export", tick="4", scenario="first_steps")
    first, last = (one for one in at.number_input if one.key.startswith("gif_"))
    first.set_value(2)
    last.set_value(4).run()
    assert "gif_job" not in at.session_state
    at.button(key="gif_make").click().run(timeout=60)
    assert_drawn(at)
    maker = at.session_state["gif_job"].maker
    with Image.open(io.BytesIO(maker.data)) as gif:
        assert gif.n_frames == 3
    assert "Ticks 2 to 4, 3 frames" in everything_said(at)
    assert [one for one in at.get("download_button") if one.proto.label == "Download the GIF"]


def test_a_range_that_is_no_range_is_told():
    at = open_playground(panel="Export", scenario="first_steps")
    next(one for one in at.number_input if one.key.startswith("gif_first")).set_value(30)
    next(one for one in at.number_input if one.key.startswith("gif_last")).set_value(3).run()
    assert "the first not after the last" in at.error[0].value
    assert at.button(key="gif_make").disabled


@pytest.mark.parametrize("place", ["export", "scenario", "anywhere"])
def test_a_dropped_run_stands_on_the_stage(place: str):
    at = open_playground(panel="Export", tick="9")
    drop(at, "mine.json.gz", a_run().to_bytes(), place)
    assert_drawn(at)
    assert shown_ids(at) == ["Q1", "Q2"]
    assert state(at).scenario == IMPORTED
    assert (state(at).tick, state(at).overrides) == (0, {})
    assert "cannot travel in a link" in everything_said(at)
    assert not [e for e in at.get("bidi_component") if e.proto.component_name == "tickscope_copy"]


def test_settings_act_on_an_imported_run_with_its_tokens():
    at = drop(open_playground(panel="Export"), "mine.json", a_run().to_json().encode())
    before = stage_data(at)["run"]
    at.number_input(key="set_max_num_seqs").set_value(1).run()
    assert_drawn(at)
    after = stage_data(at)["run"]
    assert after["ticks"] > before["ticks"]
    assert [r["pieces"] for r in after["requests"]] == [r["pieces"] for r in before["requests"]]


def test_an_imported_run_stays_over_pages():
    at = drop(open_playground(panel="Export"), "mine.json", a_run().to_json().encode())
    at.query_params.clear()
    at.switch_page("app.py").run()
    at.switch_page("pages/playground.py").run()
    assert shown_ids(at) == ["Q1", "Q2"]


def test_what_if_forks_an_imported_run():
    at = drop(open_playground(panel="Export"), "mine.json", a_run().to_json().encode())
    at.query_params.update({"scenario": IMPORTED, "at": "2", "abort": "Q2"})
    at.switch_page("pages/compare.py").run()
    assert not at.exception
    assert shown_ids(at) == ["Q1", "Q2"]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.json", b"{}", "not a Tickscope trace"),
        ("<b>.json.gz", b"\x1f\x8b\x08", "<b>.json.gz"),
        ("a.toml", b"= ", "not valid TOML"),
    ],
)
def test_a_bad_file_is_told_and_the_run_stays(name: str, data: bytes, said: str):
    at = open_playground(panel="Export", scenario="first_steps", tick="5", quantum="2")
    ticks = stage_data(at)["run"]["ticks"]
    drop(at, name, data)
    assert_drawn(at)
    assert said in at.warning[0].value.replace("\\", "")
    assert "<b>" not in at.warning[0].value
    assert (state(at).scenario, state(at).tick, state(at).overrides) == ("first_steps", 5, {"quantum": 2})
    assert stage_data(at)["run"]["ticks"] == ticks


def test_a_dropped_scenario_becomes_requests_of_one_s_own():
    text = 'title = "Mine"\n[config]\nquantum = 3\n[[requests]]\nid = "A"\nprompt = "Hello there"\nsalt = "x"\n'
    at = drop(open_playground(panel="Export"), "mine.toml", text.encode())
    assert_drawn(at)
    assert state(at).scenario == "own"
    assert state(at).overrides == {"quantum": 3}
    assert shown_ids(at) == ["A"]
    assert "salt" in at.warning[0].value


def test_a_file_past_the_limit_is_not_read(monkeypatch: pytest.MonkeyPatch):
    from pages.components import drop as module

    told: list[str] = []
    monkeypatch.setattr(module, "_tell", told.extend)
    monkeypatch.setattr(module, "st", SimpleNamespace(session_state={}))

    def unread() -> bytes:
        raise AssertionError("it was read")

    upload = SimpleNamespace(name="big.json", size=MAX_FILE_MEGABYTES * MEGABYTE + 1, getvalue=unread)
    module.take_file(SimpleNamespace(), upload)
    assert f"at most {MAX_FILE_MEGABYTES} MiB" in told[0]


def test_the_field_takes_no_more_than_the_server():
    config = (TRACES.parents[1] / ".streamlit" / "config.toml").read_text(encoding="utf-8")
    [line] = [line for line in config.splitlines() if line.startswith("maxUploadSize")]
    assert MAX_FILE_MEGABYTES <= int(line.partition("=")[2]) < 200


@pytest.mark.parametrize(
    ("scenario", "stem"), [("time_slices", "time_slices"), ("../../x y", "x-y"), ("", "run"), ("…", "run")]
)
def test_a_file_is_named_by_its_run_whatever_that_holds(scenario: str, stem: str):
    assert file_stem(scenario) == stem


def test_a_text_that_a_spreadsheet_takes_for_a_formula_is_marked():
    trace = run(create_engine(), create_request("=1+1"))
    assert "'=1+1" in events_csv(trace)
    assert ",=1+1" not in events_csv(trace)


def test_sizes_are_told_in_words():
    assert [size_words(1), size_words(2048), size_words(3 * 2**20)] == ["1 KiB", "2 KiB", "3.0 MiB"]


def test_the_recording_that_was_exported_opens_as_it_was():
    recorded = recording("first_steps")
    assert recorded is not None
    at = drop(open_playground(panel="Export"), "again.json.gz", recorded.to_bytes())
    assert at.session_state["imported"].trace == recorded
