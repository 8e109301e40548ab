"""What is told of a slider's positions: the curve, where nothing changes and why, and the same as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pages.components.controls import position_label
from pages.components.sweep import Hole
from scheduler_core.sensitivity import FIGURES, Figure, Reading, same_as, stretches
from scheduler_core.words import count, number

Position = int | str
Span = tuple[int, int]
Results = Mapping[int, Reading | Hole]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: neighbours whose runs are the same, or one position."""

    position: str
    value: str
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """All that is drawn and said under a slider.

    `values` has None where nothing is drawn: `holes` says why, "" for positions that were not tried (yet). `same` are
    the stretches whose run is the one at the slider, `line` says so in words and `why` why it is so.
    """

    positions: list[str]
    at: int
    values: list[float | None]
    texts: list[str]
    holes: list[str]
    same: list[Span]
    line: str
    why: str
    label: str
    rows: list[Row] = field(default_factory=list)


def curve(
    field: str, label: str, positions: Sequence[Position], at: int, results: Results, name: str, asked: int,
    reasons: Mapping[Span, str],
) -> Curve:  # fmt: skip
    """The figure `name` at each position of a slider, of which `asked` are or will be tried."""
    figure = FIGURES[name]
    found = [results.get(i) for i in range(len(positions))]
    values = [result.figures[name] if isinstance(result, Reading) else None for result in found]
    holes = [_gap(result, value, figure) for result, value in zip(found, values, strict=True)]
    runs = [result.decisions if isinstance(result, Reading) else None for result in found]
    same = same_as(runs, at) if runs[at] else []
    texts = [amount(figure, value) for value in values]
    line = _line(positions, at, results, same, asked, holes)
    return Curve(
        positions=[position_label(field, position) for position in positions],
        at=at,
        values=values,
        texts=texts,
        holes=holes,
        same=same if len(same) > 1 or _is_wide(same) else [],
        line=line,
        why=_why(runs, at, reasons),
        label=_label(
            figure, label, position_label(field, positions[at]), values, texts[at], _missing(positions, holes), line
        ),
        rows=_rows(field, positions, at, found, runs, texts, holes),
    )


def amount(figure: Figure, value: float | None) -> str:
    """A figure for people: "24 s", "44 ms", "96"; a dash where there is none."""
    if value is None:
        return "–"
    if not figure.is_time:
        return f"{int(value):,}"
    return f"{number(float(f'{value * 1e3:.3g}'))} ms" if 0 < value < 1 else f"{number(value)} s"


def span(positions: Sequence[Position], stretch: Span) -> str:
    """Positions without their unit: "8", "8 to 32", "24 to off"."""
    first, last = (_short(positions[i]) for i in stretch)
    return first if first == last else f"{first} to {last}"


def _short(position: Position) -> str:
    return "the budget" if position == "budget" else str(position)


def _gap(result: Reading | Hole | None, value: float | None, figure: Figure) -> str:
    if isinstance(result, Hole):
        return result.message
    if result is None or value is not None:
        return ""
    return f"needs {count(figure.least, 'completed request')}" if figure.least > 1 else "nothing to measure in this run"


def _is_wide(same: Sequence[Span]) -> bool:
    return any(first != last for first, last in same)


def _line(
    positions: Sequence[Position], at: int, results: Results, same: Sequence[Span], asked: int, holes: Sequence[str]
) -> str:
    if len(results) < asked:
        return f"computing {len(results)} of {asked}"
    if holes[at]:
        return f"{_short(positions[at])}: {holes[at]}"
    if same == [(0, len(positions) - 1)]:
        return "every position: the same run"
    if len(same) > 1 or _is_wide(same):
        return f"{_joined([span(positions, stretch) for stretch in same])}: the same run"
    return f"no other position{' tried' if asked < len(positions) else ''} runs the same"


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _why(runs: Sequence[str | None], at: int, reasons: Mapping[Span, str]) -> str:
    """The reason that is known for the stretch around the slider, over positions that were not tried."""
    tried = [i for i, run in enumerate(runs) if run is not None]
    around = [(tried[a], tried[b]) for a, b in stretches([runs[i] for i in tried])]
    reason = next((reasons.get(stretch, "") for stretch in around if stretch[0] <= at <= stretch[1]), "")
    return f"{reason[:1].upper()}{reason[1:]}." if reason else ""


def _missing(positions: Sequence[Position], holes: Sequence[str]) -> str:
    """Where there is no value: "1 to 4 and off"; "" if there is one everywhere."""
    found = [stretch for stretch in stretches([hole or None for hole in holes]) if holes[stretch[0]]]
    return _joined([span(positions, stretch) for stretch in found]) if found else ""


def _label(
    figure: Figure, label: str, here: str, values: Sequence[float | None], text: str, missing: str, line: str
) -> str:
    known = [value for value in values if value is not None]
    parts = [f"from {amount(figure, min(known))} to {amount(figure, max(known))}"] if known else []
    parts += [f"no value at {missing}"] if missing else []
    return f"{figure.words} at each position of {label}: {'; '.join([*parts, f'here, at {here}, {text}'])}. {line}."


def _rows(
    field: str,
    positions: Sequence[Position],
    at: int,
    found: Sequence[Reading | Hole | None],
    runs: Sequence[str | None],
    texts: Sequence[str],
    holes: Sequence[str],
) -> list[Row]:
    rows = []
    # Neighbours that cannot be told for one and the same reason share a line too.
    kinds = [f"no value: {hole}" if run is None and hole else run for run, hole in zip(runs, holes, strict=True)]
    for first, last in stretches(kinds):
        if found[first] is None:
            continue
        ends = [position_label(field, positions[i]) for i in (first, last)]
        if first != last and isinstance(positions[last], int):
            ends[0] = str(positions[first])
        is_same = runs[at] is not None and runs[first] == runs[at]
        mark = "here" if first <= at <= last else "same run" if is_same else ""
        rows.append(Row(" to ".join(dict.fromkeys(ends)), holes[first] or texts[first], mark))
    return rows
