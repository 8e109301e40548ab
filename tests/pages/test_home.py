"""The home page."""

from __future__ import annotations

import gc
import subprocess
import sys

from pages.components.plain import plain
from pages.components.runs import DEFAULT_SCENARIO, recording, scenario_names, shipped
from scheduler_core.lesson import list_lessons, load_lesson
from tests.pages.helpers import ROOT, assert_drawn, open_home, stage_data

#: Runs in a fresh process, as the suite's own has imported everything.
SCRIPT = """
import sys
from streamlit.testing.v1 import AppTest
at = AppTest.from_file("app.py", default_timeout=60).run()
assert not at.exception, at.exception
assert at.title
at.switch_page("pages/playground.py").run()
assert not at.exception, at.exception
assert at.select_slider
loaded = {name.partition(".")[0] for name in sys.modules}
print(sorted(loaded & {"torch", "transformers", "safetensors", "gguf"}))
"""


def test_it_shows_a_run_that_stands_at_its_first_tick():
    at = open_home()
    assert_drawn(at)
    assert stage_data(at)["command"]["tick"] == 0


def test_its_run_is_the_real_model_s():
    run = stage_data(open_home())["run"]
    assert run["backend"]["kind"] == "model"
    trace = recording(DEFAULT_SCENARIO)
    assert trace is not None
    assert run["ticks"] == len(trace.records)


def test_it_has_a_card_for_every_scenario():
    at = open_home()
    cards = {element.value for element in at.markdown if element.value.startswith("**")}
    assert {f"**{plain(shipped(name).title)}**" for name in scenario_names()} <= cards


def test_it_has_a_card_for_every_lesson():
    at = open_home()
    cards = {element.value for element in at.markdown if element.value.startswith("**")}
    lessons = [load_lesson(name) for name in list_lessons()]
    assert len(lessons) == 3
    assert {f"**{lesson.number}. {lesson.title}**" for lesson in lessons} <= cards


def test_neither_page_imports_the_model_s_libraries():
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_what_was_imported_is_out_of_the_collector_s_rounds():
    open_home()
    assert gc.get_freeze_count() > 100_000
