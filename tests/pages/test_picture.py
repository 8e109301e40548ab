"""Pictures of a run: what they show is what was recorded, and no text of a user becomes markup."""

from __future__ import annotations

import dataclasses
import io
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from pages.components.picture.gif import LAST_MILLISECONDS, MAX_FRAMES, GifMaker, GifOrder
from pages.components.picture.palette import DARK, LIGHT, PALETTES, Palette
from pages.components.picture.paper import Paper, one_line
from pages.components.picture.raster import to_png
from pages.components.picture.scene import Activity, Scenes
from pages.components.picture.stage_picture import WIDE, StagePicture
from pages.components.picture.timeline import axis_step
from pages.components.picture.timeline_picture import timeline_svg
from pages.components.picture.typeface import drawable, fit, fit_end, width
from scheduler_core.errors import TraceError
from scheduler_core.request import RequestStatus
from scheduler_core.trace import Trace
from tests.helpers import create_engine, create_request, random_workload, run

TRACES = Path(__file__).resolve().parents[2] / "assets" / "traces"
NAMES = sorted(path.name.removesuffix(".json.gz") for path in TRACES.glob("*.json.gz"))
SVG = "{http://www.w3.org/2000/svg}"


@cache
def recorded(name: str) -> Trace:
    return Trace.load(TRACES / f"{name}.json.gz")


def texts(svg: str) -> list[str]:
    return ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def pixels(png: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("name", NAMES)
def test_every_tick_of_every_recording_is_drawn_in_one_size(name: str):
    scenes = Scenes(recorded(name))
    picture = StagePicture(scenes, LIGHT)
    sizes = set()
    for tick in range(len(scenes)):
        svg = picture.svg(tick)
        root = ElementTree.fromstring(svg)
        sizes.add((root.get("width"), root.get("height")))
        assert f"tick {tick}" in texts(svg)
    assert sizes == {(str(picture.size[0]), str(picture.size[1]))}


@pytest.mark.parametrize("seed", range(12))
def test_a_scene_holds_what_the_snapshot_says(seed: int):
    trace = random_workload(seed).run()
    scenes = Scenes(trace)
    for record in trace.records:
        snapshot, scene = record.snapshot, scenes.at(record.tick)
        assert snapshot is not None
        assert [view.id for view in scene.waiting] == list(snapshot.waiting)
        held = {view.id for view in scene.lanes if view is not None}
        batch = {item.request_id for item in record.output.scheduled}
        assert held == {*snapshot.running} | batch
        assert [view.id for view in scene.batch] == [item.request_id for item in record.output.scheduled]
        used = {block for row in snapshot.requests for block in row.block_ids}
        drawn = {number for number, block in enumerate(scene.blocks) if block.kind not in ("free", "kept")}
        assert drawn == used
        kept = {number for number, block in enumerate(scene.blocks) if block.kind == "kept"}
        assert kept == set(snapshot.published_blocks) - used
        assert sum(view.scheduled for view in scene.batch) == record.output.num_scheduled_tokens


@pytest.mark.parametrize("seed", range(6))
def test_a_request_keeps_its_lane_while_it_runs(seed: int):
    trace = random_workload(seed).run()
    scenes = Scenes(trace)
    lanes = [{v.id: lane for lane, v in enumerate(scenes.at(t).lanes) if v} for t in range(len(trace.records))]
    for record, now, then in zip(trace.records[1:], lanes[1:], lanes, strict=False):
        out = {e.request_id for e in record.events if type(e).__name__ == "RequestPreempted"}
        before = trace.records[record.tick - 1].snapshot
        assert before is not None
        stayed = set(before.running) & set(now) - out
        assert {name: now[name] for name in stayed} == {name: then[name] for name in stayed}


def test_the_text_of_a_request_grows_by_what_a_tick_adds():
    trace = recorded("first_steps")
    scenes = Scenes(trace)
    for spec in trace.requests:
        whole = ""
        for tick in range(len(scenes)):
            for view in scenes.at(tick).lanes:
                if view is not None and view.id == spec.id:
                    assert view.text == whole
                    whole += view.fresh
        assert whole.strip()


def test_the_timeline_gives_each_tick_to_one_activity():
    trace = random_workload(3).run()
    scenes = Scenes(trace)
    for record in trace.records:
        batch = {item.request_id for item in record.output.scheduled}
        doing = scenes.activity(record)
        assert {n for n, a in doing.items() if a in (Activity.READS, Activity.WRITES)} == batch
        assert record.snapshot is not None
        waiting = {r.id for r in record.snapshot.requests if r.status is RequestStatus.WAITING}
        assert {n for n, a in doing.items() if a is Activity.WAITS} == waiting - batch


HOSTILE = '<script>alert(1)</script> & "q" \u202e\x07\ud800 ]]> 日本'


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
def test_text_of_users_stays_text(palette: Palette):
    specs = [create_request("R1"), create_request("<b onload=x>"), create_request("a" * 60)]
    trace = dataclasses.replace(run(create_engine(max_num_seqs=2, quantum=2), *specs), title=HOSTILE)
    scenes = Scenes(trace)
    last = len(scenes) - 1
    for svg in (StagePicture(scenes, palette).svg(last), timeline_svg(scenes, palette)):
        root = ElementTree.fromstring(svg)
        assert {node.tag.removeprefix(SVG) for node in root.iter()} <= {
            "svg", "defs", "pattern", "path", "rect", "text", "g", "clipPath", "circle",
        }  # fmt: skip
        assert not any(name.startswith("on") for node in root.iter() for name in node.attrib)
        assert any("<script>" in text for text in texts(svg))
        assert "\u202e" not in svg
        assert pixels(to_png(svg)).std() > 5


def test_a_downloaded_svg_brings_its_typeface():
    trace = recorded("first_steps")
    svg = StagePicture(Scenes(trace), LIGHT).svg(3, font=True)
    assert "data:font/woff2;base64," in svg
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
    assert "woff2" not in StagePicture(Scenes(trace), LIGHT).svg(3)


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
def test_a_png_has_twice_the_size_and_the_ground_of_its_theme(palette: Palette):
    picture = StagePicture(Scenes(recorded("time_slices")), palette)
    shown = pixels(to_png(picture.svg(17), 2))
    assert shown.shape[:2] == (picture.size[1] * 2, picture.size[0] * 2)
    assert tuple(shown[2, 2]) == tuple(bytes.fromhex(palette.ground[1:]))
    codes = shown.astype(np.uint32) @ np.array([65536, 256, 1], np.uint32)
    assert len(np.unique(codes)) > 200


def test_letters_are_drawn_without_any_font_of_the_machine():
    def ink(words: str) -> int:
        paper = Paper(200, 40, LIGHT)
        paper.text(10, 25, words, 16)
        return int((pixels(to_png(paper.svg())) < 128).sum())

    assert ink("Tickscope 123") > 300
    assert ink(" ") == 0


def test_a_line_is_cut_to_its_room():
    assert fit("short", 500, 13) == "short"
    cut = fit("a long line of many words", 80, 13)
    assert cut.endswith("…")
    assert width(cut, 13) <= 80
    tail = fit_end("a long line of many words", 80, 13)
    assert tail.startswith("…")
    assert tail.endswith("words")


def test_what_the_typeface_has_not_is_substituted_and_what_it_has_stays():
    assert drawable("Grüße × “ok” …") == "Grüße × “ok” …"
    assert drawable("日本") == "??"
    assert one_line("a\nb\x07") == "a¶b⟨U+0007⟩"


@pytest.mark.parametrize(("pitch", "step"), [(60, 1), (30, 2), (10, 5), (1, 50), (0.2, 500)])
def test_the_numbers_of_the_axis_stand_apart(pitch: float, step: int):
    assert axis_step(pitch) == step


def test_a_trace_of_aggregates_has_no_picture():
    full = run(create_engine(), create_request("R1"))
    trace = dataclasses.replace(full, records=tuple(dataclasses.replace(r, snapshot=None) for r in full.records))
    with pytest.raises(TraceError):
        Scenes(trace)


def made(trace: Trace, order: GifOrder, palette: Palette = LIGHT) -> GifMaker:
    maker = GifMaker(Scenes(trace), palette, order)
    shares = [maker.share]
    while not maker.is_done:
        maker.step()
        shares.append(maker.share)
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    return maker


def test_a_gif_has_a_frame_for_each_tick_and_each_is_its_picture():
    trace = recorded("time_slices")
    maker = made(trace, GifOrder(15, 18, 4, 960))
    with Image.open(io.BytesIO(maker.data)) as gif:
        assert (gif.n_frames, gif.size[0], gif.info["loop"]) == (4, 960, 0)
        picture = StagePicture(Scenes(trace), LIGHT)
        for frame in range(4):
            gif.seek(frame)
            assert gif.info["duration"] == (250 if frame < 3 else LAST_MILLISECONDS)
            want = pixels(to_png(picture.svg(15 + frame), 960 / WIDE)).astype(int)
            apart = np.abs(np.asarray(gif.convert("RGB")).astype(int) - want)
            # Flat colours are exact, soft edges near.
            assert (apart.max(axis=2) == 0).mean() > 0.9
            assert apart.mean() < 1.5


def test_a_gif_of_one_tick_in_the_dark():
    maker = made(recorded("first_steps"), GifOrder(5, 5, 1, 960), DARK)
    with Image.open(io.BytesIO(maker.data)) as gif:
        assert gif.n_frames == 1
        assert gif.convert("RGB").getpixel((2, 2)) == tuple(bytes.fromhex(DARK.ground[1:]))


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        (5, 4, "the first not after the last"),
        (-1, 4, "from 0 to 199"),
        (0, 200, "from 0 to 199"),
        (0, MAX_FRAMES, f"at most {MAX_FRAMES}"),
        (10, 10 + MAX_FRAMES - 1, ""),
        (3, 3, ""),
    ],
)
def test_what_cannot_be_an_animation_is_told_with_its_bound(first: int, last: int, said: str):
    told = GifOrder(first, last, 2, 960).problem(200)
    assert (said in told) if said else told == ""


def test_a_gif_that_grows_too_large_stops(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pages.components.picture.gif.MAX_BYTES", 60_000)
    maker = GifMaker(Scenes(recorded("first_steps")), LIGHT, GifOrder(0, 20, 2, 960))
    while not maker.is_done:
        maker.step()
    assert maker.is_too_large
    assert maker.num_made < 21
