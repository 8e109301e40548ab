"""Lessons: their format, their places in a run, their figures, and that what they claim is so."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pages.components.lesson_question import question_of
from pages.components.lesson_runs import LessonRuns
from scheduler_core.cost_model import MACHINES
from scheduler_core.errors import LessonError
from scheduler_core.events import ChunkSteered, RequestPreempted, SteerReason
from scheduler_core.lesson import LESSON_FOLDER, Lesson, list_lessons, load_lesson, parse_lesson
from scheduler_core.lesson_figures import FIGURES, figure, fill
from scheduler_core.lesson_stop import Stop
from scheduler_core.metrics import request_metrics, totals
from scheduler_core.roofline import cost, prefill
from scheduler_core.trace import Trace
from tests.helpers import create_engine, create_request, run

HEAD = '+++\ntitle = "T"\nsummary = "S"\nnumber = 1\nscenario = "first_steps"\nminutes = 5\n+++\n'
WITHOUT_BLOCKS = HEAD.replace("minutes", 'without = ["blocks"]\nminutes')
STEP = '## One\n\n```toml\nstop = { event = "RequestAdmitted", request = "R1" }\n```\n\nIt has {prompt:R1} tokens.\n'

NAMES = list_lessons()


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Three requests of ten tokens on two lanes, slices of two ticks."""
    engine = create_engine(max_num_seqs=2, quantum=2)
    return run(engine, *(create_request(f"R{n}", list(range(20 * n, 20 * n + 10)), 6) for n in (1, 2, 3)))


def runs_of(name: str) -> tuple[Lesson, LessonRuns]:
    lesson = load_lesson(name)
    return lesson, LessonRuns(lesson)


# --- the format ---------------------------------------------------------------------------------------------------


def test_a_lesson_is_read():
    lesson = parse_lesson(HEAD + STEP + "# Check yourself\n\n## Why?\n\nSo.\n\n# Sources\n\n- a\n", "demo")
    assert (lesson.title, lesson.number, lesson.minutes) == ("T", 1, 5)
    assert [(step.number, step.title, step.text) for step in lesson.steps] == [(1, "One", "It has {prompt:R1} tokens.")]
    assert lesson.steps[0].stop == Stop(event="RequestAdmitted", request="R1")
    assert [(check.question, check.answer) for check in lesson.checks] == [("Why?", "So.")]
    assert lesson.sources == "- a"
    assert [run.name for run in lesson.runs] == ["base"]


def test_a_line_parts_what_is_told_before_an_answer_from_the_rest():
    asking = STEP.replace('"R1" }\n', '"R1" }\nask = { kind = "hits", subject = "R1" }\n', 1) + "\n---\n\nAfter.\n"
    step = parse_lesson(HEAD + asking, "demo").steps[0]
    assert (step.text, step.after) == ("It has {prompt:R1} tokens.", "After.")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("no fences", "demo.md: a lesson starts with settings in TOML between two lines of +++"),
        (HEAD.replace("minutes = 5", "minutes = "), "demo.md: not valid TOML"),
        (HEAD.replace("minutes = 5", 'minutes = "5"') + STEP, "demo.md: minutes is '5'; it must be of type int"),
        (HEAD.replace("number", "numbre") + STEP, "demo.md: a lesson has no key 'numbre'"),
        (HEAD, "demo.md: there is no step"),
        (HEAD + "## One\n\nNo settings.\n", "demo.md: step 1 (One): the heading of a step is followed by its settings"),
        (HEAD + "Stray.\n\n" + STEP, "demo.md: the text 'Stray.' stands before the first heading"),
        (HEAD + STEP + "# Appendix\n", "demo.md: there is no part 'Appendix'"),
        (HEAD + STEP.replace("stop =", "stoop ="), "demo.md: step 1 (One): a step has no key 'stoop'"),
        (HEAD + STEP.replace("RequestAdmitted", "RequestAmitted"), "step 1 (One): there is no event 'RequestAmitted'"),
        (HEAD + STEP.replace('request = "R1"', "request = 1"), "step 1 (One): in stop, request is 1"),
        (HEAD + STEP.replace("stop =", 'run = "x"\nstop ='), "step 1 (One): there is no run 'x'"),
        (HEAD + STEP.replace("stop =", 'spotlight = { panel = "x" }\nstop ='), "there is no panel 'x'; the panels are"),
        (
            HEAD.replace("minutes", 'without = ["kv"]\nminutes') + STEP,
            "demo.md: without is ['kv']; it must be a list of",
        ),
        (
            WITHOUT_BLOCKS + STEP.replace("stop =", 'spotlight = { panel = "host" }\nstop ='),
            "the lesson is without blocks",
        ),
        (HEAD + STEP.replace("{prompt:R1}", "{promt:R1}"), "step 1 (One): placeholder {promt:R1}: there is no figure"),
        (HEAD + STEP.replace("{prompt:R1}", "{x.prompt:R1}"), "placeholder {x.prompt:R1}: there is no run 'x'"),
        (HEAD + STEP.replace("{prompt:R1}", "{prompt:R1@soon}"), "placeholder {prompt:R1@soon}: 'soon' is no place"),
        (HEAD + STEP + "\n---\n\nAfter.\n", "step 1 (One): a line of ---"),
        (HEAD + STEP.replace("stop =", 'bars = ["x"]\nstop ='), "step 1 (One): bars is a list of pairs"),
        (HEAD + STEP.replace("stop =", 'bars = [["a", "b"]]\nstop ='), "placeholder {b}: there is no figure 'b'"),
    ],
)
def test_a_mistake_is_told_with_file_step_and_remedy(text: str, told: str):
    with pytest.raises(LessonError) as problem:
        parse_lesson(text, "demo")
    assert str(problem.value).startswith("demo.md: ")
    assert told in str(problem.value)


def test_a_file_that_is_not_there_is_told():
    with pytest.raises(LessonError, match="cannot read"):
        load_lesson(Path("/nowhere/x.md"))


# --- places -------------------------------------------------------------------------------------------------------


def test_a_place_is_found_by_what_happens_there(trace: Trace):
    out = [r.tick for r in trace.records for e in r.events if isinstance(e, RequestPreempted)]
    assert Stop.parse("RequestPreempted").find(trace) == out[0]
    assert Stop.parse("RequestPreempted#2+1").find(trace) == out[1] + 1
    assert Stop.parse("-1").find(trace, here=4) == 3
    assert Stop.parse("last").find(trace) == len(trace.records) - 1
    assert Stop.of({"tick": -2}).find(trace) == len(trace.records) - 2
    assert Stop.of(3).find(trace) == 3


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("RequestRefused", "this run has 0 of RequestRefused"),
        ("RequestPreempted.R9", "this run has 0 of RequestPreempted of R9"),
        ("999", "this run has ticks 0 to"),
        ("-1", "this run has ticks 0 to"),
    ],
)
def test_a_place_that_the_run_does_not_have_is_told(place: str, told: str, trace: Trace):
    with pytest.raises(LessonError, match=told):
        Stop.parse(place).find(trace)


# --- figures ------------------------------------------------------------------------------------------------------


def test_figures_are_the_run_s(trace: Trace):
    first = trace.records[0]

    def told(text: str, tick: int = 0) -> str:
        return fill(text, {"base": trace}, "base", tick)

    assert told("{prompt:R1} {limit:R2}") == "10 6"
    assert told("{ttft:R3}") == f"{figures_of(trace, 'R3').ttft_s:.0f} ticks"
    assert told("{chunk:R1} of {batch}") == f"10 of {first.counts.scheduled_tokens}"
    assert told("{total:preemptions}") == str(totals(trace)["preemptions"])
    assert told("{setting:quantum} {batch@last}") == f"2 {trace.records[-1].counts.scheduled_tokens}"
    assert told("{times:prompt:R1/setting:quantum}") == "5.0"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{prompt:R9}", "placeholder {prompt:R9}: there is no request 'R9'"),
        ("{saved:R1@0}", "placeholder {saved:R1@0}: R1 is not preempted in tick 0"),
        ("{chunk:R1@999}", "placeholder {chunk:R1@999}: "),
        ("{setting:nonsense}", "there is no setting 'nonsense'"),
        ("{total:nonsense}", "there is no total 'nonsense'"),
        ("{times:prompt:R1}", "times takes two figures"),
        ("{tick_of:none}", "'none' is no number of tokens from 1 to 4096"),
        ("{knee:abacus}", "cost is 'abacus'; it must be one of"),
        ("{key:R1 99}", "published no block number 99"),
    ],
)
def test_a_figure_that_the_run_does_not_have_is_told_with_its_placeholder(text: str, told: str, trace: Trace):
    with pytest.raises(LessonError) as problem:
        fill(text, {"base": trace}, "base", 0)
    assert told in str(problem.value)


def test_values_are_escaped_and_the_text_is_not(trace: Trace):
    assert fill("**{prompt:R1}**", {"base": trace}, "base", 0, escape=lambda value: f"<{value}>") == "**<10>**"


# --- the lessons that are shipped ---------------------------------------------------------------------------------


def test_there_are_three_in_teaching_order():
    assert NAMES == ["chunked_prefill", "prefix_caching", "preemption"]


@pytest.mark.parametrize("name", NAMES)
def test_every_placeholder_of_a_shipped_lesson_resolves(name: str):
    lesson, traces = runs_of(name)
    for step in lesson.steps:
        tick = step.stop.find(traces[step.run])
        before = fill(step.text, traces, step.run, tick - (step.ask is not None))
        after = fill(step.after, traces, step.run, tick)
        assert all(figure(name, traces, step.run, tick).value for _, name in step.bars)
        assert "{" not in before + after
        for run_name in (step.run, *step.tries):
            assert step.stop.find(traces[run_name]) >= 0
            fill(lesson.run(run_name).result, traces, run_name, 0)
    for check in lesson.checks:
        assert "{" not in fill(f"{check.question} {check.answer}", traces, lesson.steps[-1].run, 0)


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_lesson_has_eight_to_twelve_steps_checks_and_sources(name: str):
    lesson = load_lesson(name)
    assert 8 <= len(lesson.steps) <= 12
    assert 5 <= lesson.minutes <= 10
    assert len(lesson.checks) >= 3
    assert lesson.sources.count("https://") >= 2
    assert all(set(step.tries) <= {run.name for run in lesson.runs if run.result} for step in lesson.steps)


@pytest.mark.parametrize("name", NAMES)
def test_every_step_points_at_something_that_is_there(name: str):
    lesson, traces = runs_of(name)
    for step in lesson.steps:
        assert step.request or step.panel
        assert not step.request or step.request in [spec.id for spec in traces[step.run].requests]


def test_lesson_1_tells_all_lesson_2_asks_last_and_lesson_3_asks_most():
    asking = {name: [step.ask is not None for step in load_lesson(name).steps] for name in NAMES}
    assert not any(asking["chunked_prefill"])
    assert asking["prefix_caching"][-1]
    assert not any(asking["prefix_caching"][: len(asking["prefix_caching"]) // 2])
    assert sum(asking["preemption"]) >= 8


@pytest.mark.parametrize("name", NAMES)
def test_every_question_can_be_asked_of_its_run(name: str):
    lesson, traces = runs_of(name)
    for step in lesson.steps:
        asked = question_of(step, traces)
        assert (asked is None) == (step.ask is None)
        if asked is not None:
            assert len(asked.choices) >= 2
            assert asked.tick == step.stop.find(traces[step.run])


@pytest.mark.parametrize("name", NAMES)
def test_the_text_before_an_answer_tells_nothing_of_its_tick(name: str):
    """Every figure in it would be the same if the run had ended just before, with later arrivals known."""
    lesson, traces = runs_of(name)
    for step in lesson.steps:
        if step.ask is None:
            continue
        tick = step.stop.find(traces[step.run])
        whole = traces[step.run]
        cut = {**traces, step.run: replace(whole, records=whole.records[:tick])}
        assert fill(step.text, cut, step.run, tick - 1) == fill(step.text, traces, step.run, tick - 1)


def test_what_lesson_1_claims_is_so():
    _, all_traces = runs_of("chunked_prefill")
    traces = {name: all_traces[name] for name in ("whole", "base", "tiny", "huge")}
    ttft = {name: figures_of(traces[name], "R4").ttft_s or 0 for name in traces}
    gap = {name: figures_of(traces[name], "R1").worst_gap_s or 0 for name in traces}
    assert ttft["whole"] < ttft["base"] < ttft["tiny"]
    assert ttft["huge"] < ttft["base"]
    assert gap["tiny"] < gap["base"] < gap["huge"] < gap["whole"]
    outputs = {name: [figures.output_token_ids for figures in request_metrics(traces[name])] for name in traces}
    assert all(tokens == outputs["base"] for tokens in outputs.values())


def test_what_lesson_1_claims_of_adaptive_chunks_is_so():
    lesson, traces = runs_of("chunked_prefill")
    by_title = {step.title: step for step in lesson.steps}

    def seen(title: str) -> tuple[float, ChunkSteered | None]:
        """The length of the step's tick in milliseconds, and what was decided after it."""
        step = by_title[title]
        record = traces[step.run].records[step.stop.find(traces[step.run])]
        told = next((e for e in record.events if isinstance(e, ChunkSteered)), None)
        return 1e3 * (record.end - record.start), told

    gap = {name: figures_of(traces[name], "R1").worst_gap_s or 0 for name in ("burst", "adaptive", "hopeless")}
    assert gap["hopeless"] < gap["adaptive"] < 0.8 * gap["burst"]
    assert seen("Three reports at once")[0] > 1.5 * 1e3 * fixed_tick(traces["burst"])
    length, told = seen("Let the server choose")
    assert told is not None
    assert told.new < 64
    assert abs(length - 100) < 30
    burst = traces["hopeless"].records[Stop.parse("RequestAdmitted.R5+4").find(traces["hopeless"])]
    told = next(e for e in burst.events if isinstance(e, ChunkSteered))
    assert (told.reason, told.new) == (SteerReason.AT_LOWEST, 16)
    assert 1e3 * (burst.end - burst.start) > 50
    late = [e for r in traces["hopeless"].records[20:] for e in r.events if isinstance(e, ChunkSteered)]
    assert SteerReason.ON_TARGET in {event.reason for event in late}
    assert (figures_of(traces["hopeless"], "R5").ttft_s or 0) > (figures_of(traces["adaptive"], "R5").ttft_s or 0)
    after = [e.new for r in traces["adaptive"].records for e in r.events if isinstance(e, ChunkSteered)]
    assert after[-1] > min(after)
    outputs = [[m.output_token_ids for m in request_metrics(traces[name])] for name in gap]
    assert outputs[0] == outputs[1] == outputs[2]


def fixed_tick(trace: Trace) -> float:
    """Seconds of the tick in which R3, the first long prompt, is admitted."""
    record = trace.records[Stop.parse("RequestAdmitted.R3").find(trace)]
    return record.end - record.start


def test_what_lesson_1_claims_of_the_knee_is_so():
    cpu = MACHINES["smollm2-cpu"]
    one, four, half, whole = (cost(prefill(tokens), cpu).seconds for tokens in (1, 4, 32, 64))
    assert four < 1.1 * one
    assert 1.6 < whole / half < 2


def test_what_lesson_2_claims_is_so():
    _, traces = runs_of("prefix_caching")
    base, off = traces["base"], traces["off"]
    assert (figures_of(base, "R3").ttft_s or 0) < (figures_of(off, "R3").ttft_s or 0)
    assert (figures_of(base, "R3").ttft_s or 0) < (figures_of(base, "R5").ttft_s or 0)
    assert figures_of(base, "R2").num_cached_tokens == figures_of(base, "R5").num_cached_tokens == 0
    assert base.request("R5").prompt_token_ids == base.request("R1").prompt_token_ids
    assert fill("{key:R1 0} {key:R5 0}", traces, "base", 0).split()[0] == fill("{key:R2 0}", traces, "base", 0)
    assert fill("{key:R1 0}", traces, "base", 0) != fill("{key:R5 0}", traces, "base", 0)
    assert figures_of(traces["small"], "R6").num_cached_tokens > 0
    assert [m.output_token_ids for m in request_metrics(base)] == [m.output_token_ids for m in request_metrics(off)]


def test_what_lesson_3_claims_is_so():
    _, traces = runs_of("preemption")
    moves = {name: totals(traces[name])["preemptions"] for name in traces}
    assert moves["short"] > moves["base"] > moves["long"] > moves["none"] == 0
    starts = [figures_of(traces[name], "R4").ttft_s or 0 for name in ("short", "base", "long", "none")]
    assert starts == sorted(starts)
    assert moves["thrash"] > 3 * moves["calm"]
    assert totals(traces["thrash"])["recomputed_tokens"] > 2 * totals(traces["calm"])["recomputed_tokens"]
    assert (figures_of(traces["ages"], "R1").ttft_s or 0) < (figures_of(traces["starves"], "R1").ttft_s or 0)
    reasons = {e.reason.value for run in traces.values() for r in run.records for e in r.events
               if isinstance(e, RequestPreempted)}  # fmt: skip
    assert reasons == {"slice", "push_out", "memory"}


def figures_of(trace: Trace, request_id: str):
    return next(figures for figures in request_metrics(trace) if figures.id == request_id)


def test_every_figure_of_the_registry_is_used_by_a_lesson():
    texts = "".join((LESSON_FOLDER / f"{name}.md").read_text(encoding="utf-8") for name in NAMES)
    used = set(re.findall(r"[{./](?:times:)?(?:\w+\.)?(\w+)(?=[:@}/])", texts))
    assert set(FIGURES) - used == set()
