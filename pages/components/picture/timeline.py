"""The rows of the timeline: one a request, a column a tick, as few shapes as will do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from pages.components.picture.palette import CACHED, COMPUTED, GENERATED, PREEMPTED
from pages.components.picture.paper import Paper
from pages.components.picture.scene import Activity, Mark, Scenes

_COLORS = {
    Activity.WAITS: "url(#wait)",
    Activity.AWAY: "url(#away)",
    Activity.READS: COMPUTED,
    Activity.WRITES: GENERATED,
}
#: Pixels between two numbers of the axis, at least.
AXIS_STEP = 48


class Timeline:
    """All rows of a run at a size; drawn once, and shown as often as there are frames."""

    def __init__(self, scenes: Scenes, paper: Paper, wide: float, row: float) -> None:
        self.scenes, self.paper, self.wide, self.row = scenes, paper, wide, row
        self.pitch = wide / max(len(scenes), 1)
        self.thick = min(max(row - 7, row * 0.62), 18)
        self.high = row * len(scenes.specs)
        self._place = {name: place for place, name in enumerate(scenes.specs)}

    def draw(self) -> None:
        """All rows with their top left corner at 0, 0."""
        self._idle()
        shapes: dict[Activity, list[str]] = {activity: [] for activity in Activity}
        states = [self.scenes.activity(record) for record in self.scenes.trace.records]
        for name, place in self._place.items():
            middle = (place + 0.5) * self.row
            for activity, ticks in _runs([state.get(name) for state in states]):
                shapes[activity].append(self._bar(activity, ticks, middle))
        for activity, color in _COLORS.items():
            if shapes[activity]:
                self.paper.path("".join(shapes[activity]), fill=color)
        if shapes[Activity.STALLS]:
            self.paper.path("".join(shapes[Activity.STALLS]), stroke=COMPUTED)
        self._marks()

    def axis(self, x: float, y: float) -> None:
        """The numbers of the ticks, below the rows."""
        step = axis_step(self.pitch)
        soft = self.paper.palette.soft
        for tick in range(0, len(self.scenes), step):
            at = x + tick * self.pitch
            if at > x + self.wide - 20 and tick:
                break
            self.paper.rect(round(at), y, 1, 5, self.paper.palette.edge)
            self.paper.text(round(at) + 4, y + 13, str(tick), 11, fill=soft)

    def _bar(self, activity: Activity, ticks: Sequence[int], middle: float) -> str:
        gap = 1 if self.pitch >= 3 else 0
        x, wide = ticks[0] * self.pitch, max(len(ticks) * self.pitch - gap, 0.8)
        thin = activity in (Activity.WAITS, Activity.AWAY)
        high = min(5.0, self.row * 0.5) if thin else self.thick
        top = middle - high / 2
        if activity is Activity.STALLS:
            x, top, wide, high = x + 0.5, top + 0.5, max(wide - 1, 0.5), high - 1
        corner = 0 if thin else min(2, wide / 2, high / 2)
        return _box(x, top, wide, high, corner)

    def _idle(self) -> None:
        for is_idle, run in groupby(self.scenes.trace.records, key=lambda record: record.is_idle):
            ticks = [record.tick for record in run]
            if is_idle:
                wide = max(len(ticks) * self.pitch, 1)
                self.paper.rect(ticks[0] * self.pitch, 0, wide, self.high, "url(#idle)")

    def _marks(self) -> None:
        # Small rows have no room for signs, and where a tick is a pixel they would cover the run.
        if self.row < 8:
            return
        for mark in self.scenes.marks:
            self._mark(mark, mark.tick * self.pitch, (self._place[mark.request_id] + 0.5) * self.row)

    def _mark(self, mark: Mark, x: float, middle: float) -> None:
        size = min(3.5, self.row * 0.22)
        match mark.kind:
            case "hit":
                wide = max(min(self.pitch * 0.6, 10), 3)
                self.paper.rect(x, middle - self.thick / 2, wide, self.thick, CACHED)
                if wide >= 5:
                    self.paper.rect(x, middle - self.thick / 2, wide, self.thick, "url(#cached)")
                    edge = self.paper.palette.cached_edge
                    self.paper.rect(x, middle - self.thick / 2, wide, self.thick, stroke=edge)
            case "finished":
                color = self.paper.palette.generated_ink
                self.paper.tick_mark(x + self.pitch + 3, middle, color, min(8, self.row * 0.5))
            case _:
                x += 4 if mark.kind == "refused" else 0
                cross = f"M{x - size:.1f} {middle - size:.1f}l{2 * size:.1f} {2 * size:.1f}m0 {-2 * size:.1f}"
                cross += f"l{-2 * size:.1f} {2 * size:.1f}"
                for color, thick in ((self.paper.palette.panel, 4), (PREEMPTED, 2)):
                    self.paper.path(cross, stroke=color, thick=thick, cap="round")


def axis_step(pitch: float) -> int:
    """Ticks between two numbers of the axis: 1, 2 or 5 times a power of ten."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power * pitch >= AXIS_STEP:
                return factor * power
        power *= 10


def _runs(states: Sequence[Activity | None]) -> list[tuple[Activity, list[int]]]:
    """Ticks that follow one another in the same state."""
    numbered = groupby(enumerate(states), key=lambda pair: pair[1])
    return [(state, [tick for tick, _ in run]) for state, run in numbered if state is not None]


def _box(x: float, y: float, wide: float, high: float, corner: float) -> str:
    """A rectangle as a path, so that a thousand of them are one element."""
    if corner < 0.5:
        return f"M{x:.2f} {y:.2f}h{wide:.2f}v{high:.2f}h{-wide:.2f}z"
    a = f"a{corner:.2f} {corner:.2f} 0 0 1"
    straight_x, straight_y = wide - 2 * corner, high - 2 * corner
    return (
        f"M{x + corner:.2f} {y:.2f}h{straight_x:.2f}{a} {corner:.2f} {corner:.2f}v{straight_y:.2f}"
        f"{a} {-corner:.2f} {corner:.2f}h{-straight_x:.2f}{a} {-corner:.2f} {-corner:.2f}v{-straight_y:.2f}"
        f"{a} {corner:.2f} {-corner:.2f}z"
    )
