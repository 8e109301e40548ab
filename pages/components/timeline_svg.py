"""The timeline of a run as a picture file: one row a request, in order of arrival."""

from __future__ import annotations

from itertools import groupby
from xml.sax.saxutils import escape

from pages.components.plain import visible
from scheduler_core.events import PreemptReason, RequestFinished, RequestPreempted
from scheduler_core.request import RequestStatus
from scheduler_core.trace import TickRecord, Trace

ROW, BAR, LEFT, TOP, TICK_MIN, WIDTH = 22, 12, 84, 46, 2.0, 960
COLORS = {"prefill": "#0072B2", "decode": "#009E73"}
_WAIT_COLOR, _PREEMPT_COLOR = "#777777", "#D55E00"


def timeline_svg(trace: Trace) -> str:
    """A complete SVG document; texts are escaped."""
    title, ticks = _text(trace.title or trace.scenario), max(len(trace.records), 1)
    wide = max(TICK_MIN, (WIDTH - LEFT - 20) / ticks)
    height = TOP + ROW * len(trace.requests) + 34
    width = LEFT + wide * ticks + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" font-family="Inter, sans-serif" font-size="12">',
        f'<rect width="{width:.0f}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="24" font-size="15" font-weight="600" fill="#1b2430">{title}</text>',
    ]
    for place, spec in enumerate(trace.requests):
        y = TOP + ROW * place
        parts.append(f'<text x="12" y="{y + 10}" font-weight="600" fill="#1b2430">{_text(spec.id)}</text>')
        parts += _row(trace, spec.id, y, wide)
    parts.append(_legend(height - 12))
    parts.append("</svg>")
    return "\n".join(parts)


def _row(trace: Trace, request_id: str, y: int, wide: float) -> list[str]:
    parts = []
    states = [(_state(record, request_id), record.tick) for record in trace.records]
    for state, run in groupby(states, key=lambda pair: pair[0]):
        ticks = [tick for _, tick in run]
        if state is not None:
            parts.append(_bar(state, LEFT + wide * ticks[0], y, wide * len(ticks)))
    for record in trace.records:
        parts += [_mark(event, LEFT + wide * record.tick, y) for event in record.events if _is_mark(event, request_id)]
    return parts


def _state(record: TickRecord, request_id: str) -> str | None:
    """What a request does in a tick; None before it arrives and after it ends."""
    for item in record.output.scheduled:
        if item.request_id == request_id:
            return "decode" if item.is_decode else "prefill"
    for request in record.snapshot.requests if record.snapshot else ():
        if request.id == request_id and request.status is not RequestStatus.FINISHED:
            return "preempted" if request.status is RequestStatus.PREEMPTED else "waits"
    return None


def _bar(state: str, x: float, y: int, width: float) -> str:
    if state in COLORS:
        return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2" fill="{COLORS[state]}"/>'
    color = _PREEMPT_COLOR if state == "preempted" else _WAIT_COLOR
    middle = y + BAR / 2
    return (
        f'<line x1="{x:.1f}" x2="{x + width:.1f}" y1="{middle}" y2="{middle}" stroke="{color}" stroke-width="2" '
        'stroke-dasharray="3 3"/>'
    )


def _is_mark(event: object, request_id: str) -> bool:
    return isinstance(event, RequestPreempted | RequestFinished) and event.request_id == request_id


def _mark(event: object, x: float, y: int) -> str:
    if isinstance(event, RequestPreempted):
        why = {PreemptReason.SLICE: "slice", PreemptReason.MEMORY: "memory"}.get(event.reason, event.reason.value)
        return f'<text x="{x - 3:.1f}" y="{y + 10}" fill="{_PREEMPT_COLOR}"><title>preempted: {why}</title>×</text>'
    return f'<text x="{x + 3:.1f}" y="{y + 10}" fill="{COLORS["decode"]}">✓</text>'


def _legend(y: int) -> str:
    words = (("prefill", "reads its prompt"), ("decode", "writes its answer"))
    parts, x = [], LEFT
    for state, text in words:
        parts.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" rx="2" fill="{COLORS[state]}"/>')
        parts.append(f'<text x="{x + 15}" y="{y}" fill="#5f6b7a">{text}</text>')
        x += 150
    parts.append(f'<text x="{x}" y="{y}" fill="{_PREEMPT_COLOR}">× preempted</text>')
    parts.append(f'<text x="{x + 110}" y="{y}" fill="{_WAIT_COLOR}">┄ waits</text>')
    return "".join(parts)


def _text(text: str) -> str:
    return escape(visible(text))
