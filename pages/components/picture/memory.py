"""KV memory in a picture: a square a block, and what is saved on the host."""

from __future__ import annotations

from math import ceil, floor

from pages.components.picture.palette import CACHED, COMPUTED, GENERATED, PREEMPTED, mix
from pages.components.picture.paper import Paper
from pages.components.picture.scene import BlockView, Scene
from pages.components.picture.typeface import fit, width
from scheduler_core.words import count

GAP, LARGEST, TALLEST = 3, 38, 176
_SIZES = (21, 19, 17, 15, 13, 11, 9)
_ON_MARK = "#0b1016"
_COLORS = {"computed": COMPUTED, "generated": GENERATED, "cached": CACHED}


def grid_for(blocks: int, wide: float) -> tuple[float, int]:
    """Pitch and columns of the largest squares that fill the width in few rows."""
    found = (float(LARGEST), 1)
    for size in _SIZES:
        rows = max(1, ceil(blocks / max(1, floor(wide / (size + GAP)))))
        columns = ceil(blocks / rows)
        found = min(wide / columns, float(LARGEST)), columns
        if rows * found[0] <= TALLEST:
            break
    return found


def draw_blocks(paper: Paper, blocks: tuple[BlockView, ...], x: float, y: float, wide: float) -> None:
    """All blocks in rows."""
    pitch, columns = grid_for(len(blocks), wide + GAP)
    for number, block in enumerate(blocks):
        row, column = divmod(number, columns)
        _block(paper, block, x + column * pitch, y + row * pitch, pitch - GAP)


def _block(paper: Paper, block: BlockView, x: float, y: float, cell: float) -> None:
    palette, corner = paper.palette, cell * 0.18
    if block.kind == "free":
        paper.rect(x, y, cell, cell, round_=corner, stroke=palette.edge)
        return
    if block.kind == "kept":
        paper.rect(x, y, cell, cell, mix(CACHED, palette.panel, 0.3), round_=corner)
        paper.rect(x, y, cell, cell, "url(#published)", round_=corner)
        paper.rect(x, y, cell, cell, round_=corner, stroke=mix(CACHED, palette.panel, 0.55))
        return
    color = _COLORS[block.kind]
    top = GENERATED if block.kind == "computed" and block.split < block.fill else color
    paper.rect(x, y, cell, cell, mix(top, palette.card, 0.25), round_=corner)
    _fill(paper, x, y, cell, corner, block.fill, top)
    if top != color:
        _fill(paper, x, y, cell, corner, block.split, color)
    if block.kind == "cached" or block.published:
        paper.rect(x, y, cell, cell, "url(#cached)" if block.kind == "cached" else "url(#published)", round_=corner)
    if block.kind == "cached":
        paper.rect(x, y, cell, cell, round_=corner, stroke=palette.cached_edge)
    size = min(cell * 0.5, 12)
    if size >= 5:
        middle = block.fill if top == color else block.split
        ink = palette.ink if block.fill < 0.7 else "#ffffff" if color == COMPUTED and middle > 0.55 else _ON_MARK
        halo = mix(top, palette.card, 0.25) if block.fill < 0.7 else color if middle > 0.55 else top
        _label(paper, block.label, x + cell / 2, y + cell / 2, size, ink, halo)


def _label(paper: Paper, words: str, x: float, y: float, size: float, ink: str, halo: str) -> None:
    """Letters with a rim, so that they can be read over a pattern."""
    paper.add(f'<g stroke="{halo}" stroke-width="2.4" stroke-linejoin="round" stroke-opacity="0.85">')
    paper.text(x, y + size * 0.36, words, size, weight=700, fill=halo, anchor="middle")
    paper.add("</g>")
    paper.text(x, y + size * 0.36, words, size, weight=700, fill=ink, anchor="middle")


def _fill(paper: Paper, x: float, y: float, cell: float, corner: float, share: float, color: str) -> None:
    """The lower part of a square; its upper corners are square unless it is full."""
    if share <= 0:
        return
    high = cell * share
    if high > cell - corner:
        paper.rect(x, y + cell - high, cell, high, color, round_=corner)
        return
    c, low = min(corner, high), y + cell
    paper.path(
        f"M{x:.2f} {low - high:.2f}h{cell:.2f}v{high - c:.2f}a{c:.2f} {c:.2f} 0 0 1 {-c:.2f} {c:.2f}"
        f"h{2 * c - cell:.2f}a{c:.2f} {c:.2f} 0 0 1 {-c:.2f} {-c:.2f}z",
        fill=color,
    )


def draw_host(paper: Paper, scene: Scene, x: float, y: float, wide: float, high: float, is_off: bool) -> None:
    """The copies on the host, by request."""
    soft, size = paper.palette.soft, scene.config.block_size
    note_y = y + high - 3
    if not scene.saved:
        words = "not used: preempted KV is dropped" if is_off else "nothing saved"
        paper.text(x, y + 10, fit(words, wide, 12), 12, fill=soft)
        return
    squares = [view.label for view in scene.saved for _ in range(ceil(view.saved / size))]
    cell = next((c for c in (20, 16, 13, 9, 7) if _fits(len(squares), c, wide, high - 22)), 5)
    gap = GAP if cell >= 13 else 2
    columns = max(1, int((wide + gap) // (cell + gap)))
    rows = max(1, int((high - 22 + gap) // (cell + gap)))
    for number, label in enumerate(squares[: columns * rows]):
        row, column = divmod(number, columns)
        at, top = x + column * (cell + gap), y + row * (cell + gap)
        paper.rect(at, top, cell, cell, PREEMPTED, round_=cell * 0.18)
        if cell >= 13:
            paper.text(at + cell / 2, top + cell / 2 + 4, label, 10.5, weight=700, fill=_ON_MARK, anchor="middle")
    who = ", ".join(view.id for view in scene.saved) if len(scene.saved) <= 3 else count(len(scene.saved), "request")
    told = f"{who} · {sum(view.saved for view in scene.saved):,} tok"
    paper.text(x, note_y, fit(told, wide, 12) if width(told, 12) > wide else told, 12, fill=soft)


def _fits(number: int, cell: int, wide: float, high: float) -> bool:
    gap = GAP if cell >= 13 else 2
    columns = max(1, int((wide + gap) // (cell + gap)))
    return ceil(number / columns) * (cell + gap) - gap <= high
