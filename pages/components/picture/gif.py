"""An animated GIF of a stretch of a run, a frame a tick, made in small steps so that nobody waits for it at once."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import GifImagePlugin, Image

from pages.components.picture.palette import Palette
from pages.components.picture.raster import to_png
from pages.components.picture.scene import Scenes
from pages.components.picture.stage_picture import WIDE, StagePicture

Pixels = npt.NDArray[np.uint32]
Indexed = npt.NDArray[np.uint8]
Channels = npt.NDArray[np.uint8]

MAX_FRAMES = 120
MAX_BYTES = 12 * 1024 * 1024
WIDTHS = (960, 1120, 1200)
#: Ticks a second. A browser shows no more than 50 frames a second, an eye that reads far less.
SPEEDS = (0.5, 1.0, 2.0, 4.0, 8.0)
#: The last frame stands a while before it starts again.
LAST_MILLISECONDS = 2000
#: So many frames, spread over the stretch, say which colours there are.
_SAMPLES = 6
_COLORS = 255
_FLAT = 160
_UNCHANGED = 255


@dataclass(frozen=True, slots=True)
class GifOrder:
    """What is asked for: ticks `first` to `last`, both shown."""

    first: int
    last: int
    ticks_a_second: float
    width: int

    @property
    def num_frames(self) -> int:
        return self.last - self.first + 1

    def problem(self, num_ticks: int) -> str:
        """What keeps it from being made, "" if nothing."""
        if not 0 <= self.first <= self.last < num_ticks:
            return (
                f"The ticks asked for are {self.first} to {self.last}; choose a first and a last one from 0 to "
                f"{num_ticks - 1}, the first not after the last."
            )
        if self.num_frames > MAX_FRAMES:
            return (
                f"Ticks {self.first} to {self.last} are {self.num_frames} frames; a GIF here has at most {MAX_FRAMES}. "
                f"End at tick {self.first + MAX_FRAMES - 1}, say."
            )
        return ""


class GifMaker:
    """Makes one GIF: call `step` until it `is_done`. It keeps the file so far and one frame, no more."""

    def __init__(self, scenes: Scenes, palette: Palette, order: GifOrder, title: str = "") -> None:
        self.order = order
        self._scale = order.width / WIDE
        self._picture = StagePicture(scenes, palette, title, scale=self._scale)
        self._colors: Colors | None = None
        self._samples: list[Pixels] = []
        self._before: Indexed | None = None
        self._parts: list[bytes] = []
        self.num_made = 0
        self.is_too_large = False

    @property
    def is_done(self) -> bool:
        return self.is_too_large or self.num_made == self.order.num_frames

    @property
    def share(self) -> float:
        """How much is made, from 0 to 1."""
        if self.is_done:
            return 1.0
        steps = len(self._sampled) + self.order.num_frames
        made = len(self._samples) if self._colors is None else len(self._sampled)
        return (made + self.num_made) / steps

    @property
    def data(self) -> bytes:
        """The file; whole once it `is_done` and not too large."""
        return b"".join(self._parts) + b";"

    def step(self) -> None:
        """Look at one frame's colours, or add one frame."""
        if self.is_done:
            return
        if self._colors is None:
            self._samples.append(self._draw(self._sampled[len(self._samples)]))
            if len(self._samples) == len(self._sampled):
                self._colors = Colors(self._samples)
                self._samples = []
            return
        self._add(self._colors, self._draw(self.order.first + self.num_made))

    @property
    def _sampled(self) -> list[int]:
        steps = min(_SAMPLES, self.order.num_frames)
        last = self.order.num_frames - 1
        return sorted({self.order.first + round(last * step / max(steps - 1, 1)) for step in range(steps)})

    def _draw(self, tick: int) -> Pixels:
        """One number a pixel: red, green and blue, eight bits each."""
        with Image.open(io.BytesIO(to_png(self._picture.svg(tick), self._scale))) as image:
            rgb = np.asarray(image.convert("RGB")).astype(np.uint32)
        return rgb[..., 0] << 16 | rgb[..., 1] << 8 | rgb[..., 2]

    def _add(self, colors: Colors, frame: Pixels) -> None:
        now = colors.index(frame)
        is_last = self.num_made + 1 == self.order.num_frames
        pause = LAST_MILLISECONDS if is_last else round(1000 / self.order.ticks_a_second)
        if self._before is None:
            image = colors.image(now)
            self._parts += GifImagePlugin.getheader(image, info={"loop": 0, "optimize": False})[0]
            self._parts += GifImagePlugin.getdata(image, duration=pause, disposal=1)
        else:
            part, offset = _changed(now, self._before)
            self._parts += GifImagePlugin.getdata(
                colors.image(part), offset, duration=pause, disposal=1, transparency=_UNCHANGED
            )
        self._before = now
        self.num_made += 1
        self.is_too_large = sum(map(len, self._parts)) > MAX_BYTES
        if self.is_done:
            # The file is all that is kept.
            self._colors = self._before = None


class Colors:
    """One palette for all frames: the flat colours exactly, what is left for the soft edges.

    One place stays free for what does not change from frame to frame.
    """

    def __init__(self, samples: Sequence[Pixels]) -> None:
        codes, counts = np.unique(np.concatenate([sample.ravel() for sample in samples]), return_counts=True)
        flat = codes[np.argsort(-counts, kind="stable")][:_FLAT]
        rest = np.setdiff1d(codes, flat)
        self._table = np.concatenate([_channels(flat), _softened(rest, _COLORS - len(flat))])
        # Code -> place in the palette, filled as colours turn up.
        self._places = np.full(1 << 24, _UNCHANGED, np.uint8)

    def index(self, frame: Pixels) -> Indexed:
        """The place in the palette of the nearest colour, for every pixel."""
        found = self._places[frame]
        unknown = np.unique(frame[found == _UNCHANGED])
        if not len(unknown):
            return found
        for some in np.array_split(unknown, len(unknown) // 512 + 1):
            apart = _channels(some)[:, None, :].astype(np.int32) - self._table[None, :, :]
            self._places[some] = (apart**2).sum(axis=2).argmin(axis=1)
        return self._places[frame]

    def image(self, indexed: Indexed) -> Image.Image:
        image = Image.fromarray(indexed, "P")
        padded = np.zeros((256, 3), np.uint8)
        padded[: len(self._table)] = self._table
        image.putpalette(padded.tobytes())
        return image


def _softened(codes: Pixels, room: int) -> Channels:
    """At most so many colours for all these."""
    if len(codes) <= room:
        return _channels(codes)
    strip = Image.fromarray(_channels(codes).reshape(1, -1, 3))
    few = strip.quantize(room, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    return np.array(few.getpalette(), np.uint8).reshape(-1, 3)[:room]


def _channels(codes: Pixels) -> Channels:
    return np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=-1).astype(np.uint8)


def _changed(now: Indexed, before: Indexed) -> tuple[Indexed, tuple[int, int]]:
    """The smallest part that holds all changes, what is unchanged in it left out, and where it goes."""
    differs = now != before
    rows, columns = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
    if not len(rows):
        rows = columns = np.array([0])
    top, bottom, left, right = int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1
    part = np.where(differs, now, _UNCHANGED)[top:bottom, left:right].astype(np.uint8)
    return part, (left, top)
