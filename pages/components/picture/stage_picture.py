"""The stage at one tick as a picture: queue, lanes, blocks, timeline and what happened, as on screen."""

from __future__ import annotations

from base64 import b64encode
from functools import cached_property
from math import ceil, sqrt

from pages.components.picture.box import PAD
from pages.components.picture.budget import draw_budget
from pages.components.picture.cards import draw_cards
from pages.components.picture.footer import draw_mark, mark_width
from pages.components.picture.lane import draw_idle_lane, draw_lane
from pages.components.picture.memory import draw_blocks, draw_host, grid_for
from pages.components.picture.narration import Narration
from pages.components.picture.palette import COMPUTED, GENERATED, PREEMPTED, Palette, mix
from pages.components.picture.paper import Paper, one_line
from pages.components.picture.raster import to_png
from pages.components.picture.scene import RequestView, Scene, Scenes
from pages.components.picture.timeline import Timeline
from pages.components.picture.typeface import fit, width
from scheduler_core.trace import Backend
from scheduler_core.words import count, duration

WIDE, EDGE, GAP = 1120, 24, 12
LEFT, RIGHT = 216, 222
MIDDLE = WIDE - 2 * EDGE - LEFT - RIGHT - 2 * GAP
HEAD, HEADER, FOOTER = 76, 30, 40
MAX_LANES = 12
TIMELINE_HIGH = 288
#: Signs of the timeline stand over the edge of its rows by so much.
_RIM = 20

_LEGEND = ("cached", "computed", "this tick", "to do", "generated", "preempted")


def made_by(backend: Backend) -> str:
    """What made the tokens: "SmolLM2-135M", "made-up tokens"."""
    if "synthetic" in (backend.kind, backend.recorded_kind):
        return "made-up tokens"
    return backend.model.rpartition("/")[2].partition("-Instruct")[0] or "a model"


class StagePicture:
    """Draws any tick of a run; all pictures of a run have one size, so that they can follow one another."""

    def __init__(self, scenes: Scenes, palette: Palette, title: str = "", *, scale: float = 0) -> None:
        """With a `scale` the rows of the timeline are pixels at that scale: a hundred pictures are drawn faster."""
        self.scenes, self.palette, self._scale = scenes, palette, scale
        trace = scenes.trace
        self.title = one_line(title or trace.title or trace.scenario or "A run")
        self._narration = Narration(trace, WIDE - 2 * EDGE - 2 * PAD - 12)
        rows = max(len(scenes.specs), 1)
        self._row = 18 if rows <= 8 else 16 if rows <= 14 else max(min(13.0, TIMELINE_HIGH / rows), 1.5)
        longest = max((width(name, 12, 600) for name in scenes.specs), default=20)
        self._names = min(longest, 110) + 14 if self._row >= 8 else 0
        # The sign of the last end stands behind the last tick.
        self._timeline_wide = WIDE - 2 * EDGE - 2 * PAD - self._names - 14
        self._most = max(scenes.limits.values(), default=1)
        self._name_room = max(28, min(max((width(n, 13, 700) for n in scenes.specs), default=20) + 2, 96))

    @property
    def size(self) -> tuple[int, int]:
        return WIDE, ceil(self._timeline_y + self._timeline_high + GAP + self._narration.high + FOOTER)

    def svg(self, tick: int, *, font: bool = False) -> str:
        """A complete SVG document of one tick."""
        scene = self.scenes.at(tick)
        wide, high = self.size
        label = f"{self.title}, tick {tick} of {len(self.scenes) - 1}. {self._narration.told(tick)}"
        paper = Paper(wide, high, self.palette, label)
        self._head(paper, scene)
        self._waiting(paper, scene)
        self._model(paper, scene)
        self._finished(paper, scene)
        self._memory(paper, scene)
        self._timeline(paper, scene)
        self._narration.draw(paper, tick, EDGE, self._timeline_y + self._timeline_high + GAP, WIDE - 2 * EDGE)
        self._foot(paper, scene, high)
        return paper.svg(font=font)

    # --- where things stand

    @cached_property
    def _lanes(self) -> tuple[int, int, int]:
        """How many lanes are drawn, how high each is, and the gap between."""
        most = min(self.scenes.most_lanes, MAX_LANES)
        return (most, 36, 6) if most <= 5 else (most, 30, 4) if most <= 9 else (most, 26, 3)

    @cached_property
    def _board_high(self) -> float:
        most, high, gap = self._lanes
        more = 20 if self.scenes.most_lanes > most else 0
        return max(208, HEADER + 10 + 32 + most * (high + gap) - gap + more + PAD)

    @cached_property
    def _blocks_wide(self) -> float:
        return LEFT + GAP + MIDDLE - 2 * PAD

    @cached_property
    def _memory_high(self) -> float:
        pitch, columns = grid_for(self.scenes.trace.config.num_blocks, self._blocks_wide + 3)
        rows = ceil(self.scenes.trace.config.num_blocks / columns)
        return max(112, HEADER + 8 + rows * pitch - 3 + PAD)

    @cached_property
    def _memory_y(self) -> float:
        return HEAD + self._board_high + GAP

    @cached_property
    def _timeline_y(self) -> float:
        return self._memory_y + self._memory_high + GAP

    @cached_property
    def _timeline_high(self) -> float:
        return HEADER + 6 + self._row * max(len(self.scenes.specs), 1) + 18 + 8

    # --- the parts

    def _head(self, paper: Paper, scene: Scene) -> None:
        """The title, the tick, and how far the run is."""
        last = len(self.scenes) - 1
        right = WIDE - EDGE
        of = f" of {last}"
        paper.text(right, 34, of, 16, fill=self.palette.soft, anchor="end")
        paper.text(right - width(of, 16), 34, f"tick {scene.tick}", 16, weight=700, anchor="end")
        room = WIDE - 2 * EDGE - 190
        paper.text(EDGE, 35, fit(self.title, room, 19, 700), 19, weight=700)
        top = 54
        share = (scene.tick + 1) / max(last + 1, 1)
        paper.rect(EDGE, top, WIDE - 2 * EDGE, 4, self.palette.edge, round_=2)
        paper.rect(EDGE, top, (WIDE - 2 * EDGE) * share, 4, COMPUTED, round_=2)

    def _panel(self, paper: Paper, x: float, y: float, wide: float, high: float, name: str, told: str) -> None:
        paper.rect(x, y, wide, high, self.palette.panel, round_=12)
        end = paper.text(x + PAD, y + 24, name.upper(), 11, weight=700, fill=self.palette.soft, spacing=0.9)
        paper.text(end + 12, y + 24, fit(told, x + wide - PAD - end - 12, 12), 12, fill=self.palette.soft)

    def _side_panel(self, paper: Paper, x: float, y: float, wide: float, high: float, name: str, told: str) -> None:
        """A panel whose count stands at its right."""
        self._panel(paper, x, y, wide, high, name, "")
        paper.text(x + wide - PAD, y + 24, told, 12, fill=self.palette.soft, anchor="end")

    def _waiting(self, paper: Paper, scene: Scene) -> None:
        self._side_panel(paper, EDGE, HEAD, LEFT, self._board_high, "Waiting", str(scene.num_waiting))
        nobody = f"nobody waits; {scene.to_come} still to come" if scene.to_come else "nobody waits"
        self._cards(paper, EDGE, LEFT, scene.waiting, scene, nobody)

    def _finished(self, paper: Paper, scene: Scene) -> None:
        x = WIDE - EDGE - RIGHT
        self._side_panel(paper, x, HEAD, RIGHT, self._board_high, "Finished", str(len(scene.finished)))
        self._cards(paper, x, RIGHT, scene.finished, scene, "nobody yet")

    def _cards(
        self, paper: Paper, x: float, wide: float, views: tuple[RequestView, ...], scene: Scene, nobody: str
    ) -> None:
        room = self._board_high - HEADER - 8 - PAD
        draw_cards(paper, x, HEAD + HEADER + 8, wide, room, views, scene, nobody)

    def _model(self, paper: Paper, scene: Scene) -> None:
        """The budget of the tick as one bar, and a row for each lane."""
        x, y = EDGE + LEFT + GAP, HEAD
        used, budget = sum(view.scheduled for view in scene.batch), scene.config.max_num_batched_tokens
        over = f", {used - budget:,} over the budget" if used > budget else ""
        told = f"{used:,} of {budget:,} tokens{over}"
        self._side_panel(paper, x, y, MIDDLE, self._board_high, "This tick on the model", told)
        draw_budget(paper, scene, x + PAD, y + HEADER + 6, MIDDLE - 2 * PAD, used, budget)
        most, high, gap = self._lanes
        top = y + HEADER + 6 + 32
        for place, view in enumerate(scene.lanes[:most]):
            at = top + place * (high + gap)
            if view is None:
                draw_idle_lane(paper, x + PAD, at, MIDDLE - 2 * PAD, high, place)
            else:
                share = max(0.34, sqrt(view.limit / self._most))
                room = self._name_room
                draw_lane(paper, x + PAD, at, MIDDLE - 2 * PAD, high, view, scene, share=share, name_room=room)
        if len(scene.lanes) > most:
            running = sum(view is not None for view in scene.lanes[most:])
            words = f"and {count(len(scene.lanes) - most, 'more lane')}, {running} of them taken"
            paper.text(x + PAD, top + most * (high + gap) + 12, words, 12, fill=self.palette.soft)

    def _memory(self, paper: Paper, scene: Scene) -> None:
        y, high = self._memory_y, self._memory_high
        wide = LEFT + GAP + MIDDLE
        used = sum(block.kind not in ("free", "kept") for block in scene.blocks)
        kept = sum(block.kind == "kept" for block in scene.blocks)
        total = len(scene.blocks)
        told = f"{used} of {total} in use · {kept} kept for reuse · {total - used - kept} free"
        self._panel(paper, EDGE, y, wide, high, "KV blocks", told)
        draw_blocks(paper, scene.blocks, EDGE + PAD, y + HEADER + 8, self._blocks_wide)
        x = EDGE + wide + GAP
        snapshot, config = scene.record.snapshot, scene.config
        is_off = config.preemption_mode != "swap" and not scene.saved
        taken = 0 if snapshot is None else snapshot.host_blocks_used
        host = "" if is_off else f"{taken} of {config.num_swap_blocks}"
        self._side_panel(paper, x, y, RIGHT, high, "Host pool", host)
        draw_host(paper, scene, x + PAD, y + HEADER + 8, RIGHT - 2 * PAD, high - HEADER - 8 - PAD, is_off)

    def _timeline(self, paper: Paper, scene: Scene) -> None:
        """The whole run up to now in full, the rest faintly behind."""
        y = self._timeline_y
        told = f"{count(len(self.scenes.specs), 'request')}, {count(len(self.scenes), 'tick')}"
        self._panel(paper, EDGE, y, WIDE - 2 * EDGE, self._timeline_high, "Timeline", told)
        rows = Timeline(self.scenes, paper, self._timeline_wide, self._row)
        left, top = EDGE + PAD + self._names, y + HEADER + 6
        if self._names:
            for place, name in enumerate(self.scenes.specs):
                size = min(12, self._row - 2)
                at = top + (place + 0.5) * self._row + size * 0.36
                paper.text(EDGE + PAD, at, fit(name, self._names - 12, size, 600), size, weight=600)
        edge = (scene.tick + 1) * rows.pitch
        shade = mix(self.palette.ink, self.palette.panel, 0.09)
        paper.rect(left + edge - rows.pitch, top, rows.pitch, rows.high, shade)
        # The sign of an end stands behind its tick: after the last one there is nothing it could give away.
        past = edge + (20 if scene.tick + 1 == len(self.scenes) else 0)
        paper.define(
            f'<clipPath id="past"><rect x="-20" y="-9" width="{past + 20:.2f}" height="{rows.high + 18}"/></clipPath>'
        )
        paper.define(
            f'<clipPath id="future"><rect x="{edge:.2f}" y="-9" width="{rows.wide + 40:.2f}" '
            f'height="{rows.high + 18}"/></clipPath>'
        )
        drawn = self._rows
        paper.add(f'<g transform="translate({left:.2f} {top:.2f})"><g clip-path="url(#past)">{drawn}</g>')
        paper.add(f'<g clip-path="url(#future)" opacity="0.2">{drawn}</g></g>')
        at = left + edge
        paper.rect(at - 1, top, 2, rows.high, self.palette.ink)
        paper.path(f"M{at - 5:.2f} {top}h10l-5 7z", fill=self.palette.ink)
        rows.axis(left, top + rows.high + 2)

    @cached_property
    def _rows(self) -> str:
        """The rows of the timeline, the same in every picture."""
        high = self._row * len(self.scenes.specs)
        sheet = Paper(self._timeline_wide + 2 * _RIM, high + 2 * _RIM, self.palette)
        sheet.add(f'<g transform="translate({_RIM} {_RIM})">')
        Timeline(self.scenes, sheet, self._timeline_wide, self._row).draw()
        sheet.add("</g>")
        if not self._scale:
            return f'<g transform="translate({-_RIM} {-_RIM})">{sheet.body()}</g>'
        data = b64encode(to_png(sheet.svg(clear=True), self._scale)).decode("ascii")
        place = f'x="{-_RIM}" y="{-_RIM}" width="{sheet.wide}" height="{sheet.high}"'
        return f'<image {place} href="data:image/png;base64,{data}"/>'

    def _foot(self, paper: Paper, scene: Scene, high: float) -> None:
        """What the colours mean, the clock, and whose picture it is."""
        at, y = float(EDGE), high - 16
        for name in _LEGEND:
            self._key(paper, name, at, y - 10)
            at = paper.text(at + 17, y, name, 12, fill=self.palette.soft) + 16
        draw_mark(paper, WIDE - EDGE, y)
        clock = f"{duration(scene.record.end)} of virtual time · {made_by(self.scenes.trace.backend)}"
        end = WIDE - EDGE - mark_width() - 18
        paper.text(end, y, fit(clock, end - at - 8, 12), 12, fill=self.palette.soft, anchor="end")

    def _key(self, paper: Paper, name: str, x: float, y: float) -> None:
        match name:
            case "cached":
                paper.rect(x, y, 12, 12, "#cc79a7", round_=3)
                paper.rect(x, y, 12, 12, "url(#cached)", round_=3)
            case "this tick":
                paper.rect(x, y, 12, 12, COMPUTED, round_=3, stroke=self.palette.ink, thick=2)
            case "to do":
                paper.rect(x, y, 12, 12, round_=3, stroke=COMPUTED, thick=1.5, dashed="2.5 2")
            case "preempted":
                paper.rect(x, y, 12, 12, PREEMPTED, round_=3)
                paper.path(f"M{x + 3.5} {y + 3.5}l5 5m0 -5l-5 5", stroke="#0b1016", thick=1.8, cap="round")
            case _:
                paper.rect(x, y, 12, 12, COMPUTED if name == "computed" else GENERATED, round_=3)
