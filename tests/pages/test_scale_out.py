"""The page of many replicas without a browser: what it shows is what the core computed."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from pages.components.runs import scenario_names
from pages.components.scale_out import STAGES
from pages.components.scale_out_loads import DEFAULT_LOAD, EXAMPLES, load_names, load_of
from pages.components.scale_out_routing import MOST_TOLD, routing_figure, routing_table, told_at
from pages.components.scale_out_runs import chosen_run
from pages.components.scale_out_state import ScaleOutState, from_query, to_query
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.replicas.config import ROUTERS
from scheduler_core.replicas.fleet import Fleet
from scheduler_core.replicas.fleet_trace import FleetTrace
from scheduler_core.replicas.words import ROUTER_NAMES
from tests.pages.helpers import component, everything_said, open_page, stage_data


def fleet_of(state: ScaleOutState) -> FleetTrace:
    specs, engine = load_of(state.load, state.replicas, state.seed)
    return Fleet(state.fleet(), engine, SyntheticRunner, record="none").run(specs)


def sound(at: AppTest) -> AppTest:
    assert not at.exception, at.exception
    assert not at.error
    return at


def stages(at: AppTest) -> int:
    return sum(each.proto.component_name == "tickscope.stage" for each in at.get("bidi_component"))


def click_tile(at: AppTest, number: int, tick: int) -> None:
    """What a click in the browser comes to."""
    at.session_state["scale_out_command"] += at.session_state["scale_out"].click(number, tick)
    at.run()


def tile(at: AppTest, name: str) -> str:
    return next(metric.value for metric in at.metric if metric.label == name)


def test_the_page_opens_with_three_replicas_and_the_figures_of_the_core() -> None:
    at = sound(open_page("scale_out"))
    figures = fleet_of(ScaleOutState(DEFAULT_LOAD)).figures()
    assert stages(at) == 3
    assert tile(at, "Hit rate") == f"{100 * figures['prefix_hit_rate']:.1f} %"
    assert tile(at, "Jain's index") == f"{figures['jain_load']:.3g}"
    routers = at.dataframe[-1].value
    assert list(routers["router"]) == [ROUTER_NAMES[name] for name in (*ROUTERS, "prefix_affinity")]
    assert list(routers["shown"]) == ["", "", "", "", "●", ""]


def test_a_kill_is_told_with_its_cost_and_nobody_is_lost() -> None:
    at = sound(open_page("scale_out", kill="1", kill_at="40"))
    fleet = fleet_of(ScaleOutState(DEFAULT_LOAD, kill=1, kill_at=40))
    assert "Replica 1 was killed at tick 40" in everything_said(at)
    assert f"{fleet.figures()['moved_tokens']:,} tokens" in everything_said(at)
    assert fleet.figures()["completed"] == len(fleet.facts)
    replicas = at.dataframe[-2].value
    assert list(replicas["killed at tick"]) == ["40", "–", "–"]


def test_a_kill_after_the_end_is_told() -> None:
    at = sound(open_page("scale_out", kill="1", kill_at="900"))
    assert "over before tick 900" in everything_said(at)


def test_choices_change_the_run_and_the_tick_stays() -> None:
    at = open_page("scale_out", tick="20")
    at.selectbox(key="so_router").set_value("round_robin").run()
    at.selectbox(key="so_replicas").set_value(2).run()
    assert stages(sound(at)) == 2
    assert at.session_state["scale_out"].tick == 20
    assert at.selectbox(key="so_bound").disabled


def test_who_is_killed_has_to_be_there() -> None:
    at = open_page("scale_out", replicas="4", kill="4")
    at.selectbox(key="so_replicas").set_value(2).run()
    assert sound(at).session_state["scale_out"].kill == 0


def test_a_shared_tier_is_told_by_replica() -> None:
    at = sound(open_page("scale_out", router="round_robin", shared="on"))
    fleet = fleet_of(ScaleOutState(DEFAULT_LOAD, router="round_robin", shared="on"))
    column = at.dataframe[-2].value["tokens from the shared tier"]
    assert list(column) == [f"{each.shared_hit_tokens:,}" for each in fleet.replicas]
    assert fleet.figures()["shared_hit_tokens"] > 0


def test_of_many_replicas_one_stage_is_shown_with_a_tile_for_each() -> None:
    at = sound(open_page("scale_out", replicas="8", router="bounded_hash", kill="8"))
    assert stages(at) == 1
    assert stage_data(at)["run"]["title"] == "Replica 8"
    assert len(at.dataframe[-2].value) == len(component(at, "tickscope_fleet")["run"]["replicas"]) == 8
    assert component(at, "tickscope_fleet")["opened"] == 8


def test_a_click_on_a_tile_opens_that_stage_at_the_tick_shown() -> None:
    at = open_page("scale_out", replicas="8")
    click_tile(at, 5, 12)
    assert stage_data(sound(at))["run"]["title"] == "Replica 5"
    assert (at.session_state["scale_out"].open, at.session_state["scale_out"].tick) == (5, 12)


def test_where_few_are_a_second_click_brings_all_stages_back() -> None:
    at = open_page("scale_out")
    click_tile(at, 2, 7)
    assert (stages(sound(at)), stage_data(at)["run"]["title"]) == (1, "Replica 2")
    click_tile(at, 2, 9)
    assert (stages(sound(at)), stage_data(at)["command"]["tick"]) == (3, 9)


def test_tiles_show_what_the_traces_hold() -> None:
    state = ScaleOutState(DEFAULT_LOAD, kill=2, kill_at=30, restart="10")
    run = chosen_run(state)
    for number, each in enumerate(run.overview):
        trace = run.trace(number)
        assert len(trace.records) == len(each.state) == run.last_tick + 1
        shown = [(r.counts.waiting, r.counts.running, r.counts.used_blocks) for r in trace.records]
        assert [*zip(each.waiting, each.running, each.used_blocks, strict=True)] == shown
    states = run.overview[1].state
    assert states == (0,) * 30 + (1,) * 10 + (2,) * 8 + (0,) * (len(states) - 48)
    assert set(run.overview[0].state) == {0}


def test_a_restart_is_told_with_what_it_found_in_its_caches() -> None:
    query = {"kill": "2", "kill_at": "30", "restart": "10", "shared": "on"}
    at = sound(open_page("scale_out", **query))
    comeback = fleet_of(ScaleOutState(DEFAULT_LOAD, kill=2, restart="10", shared="on")).replicas[1].comeback
    assert comeback is not None
    assert comeback.shared_hit_tokens > 0
    said = everything_said(at)
    assert "Started anew at tick 40, it loaded the weights for 8 ticks and took requests again from tick 48 on" in said
    assert f"{comeback.shared_hit_tokens:,} of them in the shared tier" in said
    assert list(at.dataframe[-2].value["back at tick"]) == ["–", "48", "–"]


def test_a_restart_that_comes_too_late_is_told() -> None:
    at = sound(open_page("scale_out", kill="2", kill_at="70", restart="40"))
    assert "would be back at tick 118, but this run is over before that" in everything_said(at)


@pytest.mark.parametrize("load", [*EXAMPLES, *scenario_names()])
def test_every_load_runs_with_every_request_ended(load: str) -> None:
    at = sound(open_page("scale_out", load=load, kill="2", kill_at="5"))
    assert stage_data(at)["run"]["ticks"] > 1
    fleet = fleet_of(ScaleOutState(load, kill=2, kill_at=5))
    assert all(each.reason is not None for each in fleet.facts)


def test_the_stages_are_driven_as_one() -> None:
    at = open_page("scale_out")
    at.session_state[STAGES[1]] = {"view": {"tick": 8, "selected": None, "playing": False}}
    at.run()
    at.session_state["scale_out"].tick = 8
    at.run()
    fleet = fleet_of(ScaleOutState(DEFAULT_LOAD))
    assert any(told_at(fleet, 8)[0] in markdown.value for markdown in sound(at).markdown)


# Words and figures


def test_every_decision_is_in_the_figure_and_in_its_table() -> None:
    fleet = fleet_of(ScaleOutState(DEFAULT_LOAD, kill=2, kill_at=30))
    drawn = sum(len(trace.x) for trace in routing_figure(fleet, 90).data if trace.mode == "markers")
    assert drawn == len(fleet.routed) + len(fleet.kills)
    assert len(routing_table(fleet)) == len(fleet.routed)


def test_a_tick_is_told_in_few_lines_and_a_quiet_one_tells_the_last_decision() -> None:
    fleet = fleet_of(ScaleOutState("hot", replicas=4, kill=1, kill_at=20))
    last = int(fleet.routed[-1].time)
    assert all(1 <= len(told_at(fleet, tick)) <= MOST_TOLD for tick in range(last + 9) if tick >= fleet.routed[0].time)
    assert told_at(fleet, last + 5) == told_at(fleet, last)[-1:]
    assert "is killed" in told_at(fleet, 20)[0]


def test_a_restart_is_drawn_and_told_tick_by_tick() -> None:
    fleet = fleet_of(ScaleOutState(DEFAULT_LOAD, kill=2, kill_at=30, restart="10"))
    drawn = {trace.name: list(trace.x) for trace in routing_figure(fleet, 90).data if trace.mode == "lines"}
    assert drawn == {"gone": [30, 40], "starting": [40, 48]}
    assert told_at(fleet, 40)[0] == "**Tick 40: replica 2 starts anew.** It loads the weights until tick 48."
    assert told_at(fleet, 48)[0] == "**Tick 48: replica 2 is back.** It was gone for 18 ticks; its memory is empty."


# The address


def test_a_link_brings_back_what_was_seen() -> None:
    state = ScaleOutState("hot", 4, "bounded_hash", "1.5", "on", 2, 17, "20", 5, 3, 0)
    assert from_query(to_query(state, DEFAULT_LOAD), load_names(), DEFAULT_LOAD) == (state, [])
    assert to_query(ScaleOutState(DEFAULT_LOAD), DEFAULT_LOAD) == {}


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("load", "<b>"),
        ("replicas", "5"),
        ("router", "x"),
        ("bound", "-1"),
        ("shared", "yes"),
        ("kill", "4"),
        ("kill_at", "0"),
        ("restart", "7"),
        ("open", "4"),
        ("seed", "1e9"),
        ("tick", "-3"),
        ("nothing", "1"),
    ],
)
def test_what_a_link_cannot_have_is_told_and_left(part: str, value: str) -> None:
    state, messages = from_query({part: value}, load_names(), DEFAULT_LOAD)
    assert state == ScaleOutState(DEFAULT_LOAD)
    assert len(messages) == 1
