"""How the gateway is, in one line and ten tiles; and how to start one where none is."""

from __future__ import annotations

from html import escape

import streamlit as st

from pages.components.operations.client import DEFAULT_URL, URLS, Gateway
from pages.components.operations.offers import OFFERS
from pages.components.operations.reading import Reading
from pages.components.operations.watch import Seen
from pages.components.plain import visible
from pages.components.workloads.drawn import NOTHING, amount, share

START = "python -m scheduler_core serve --backend synthetic --operations"
_STATES = {
    "ok": "answers",
    "draining": "shuts down and takes nothing new",
    "stalled": "waits for a model that hangs",
    "broken": "cannot compute any more; start it again",
}


def status_line(gateway: Gateway, seen: Seen) -> None:
    """Where it is and how it does; told to screen readers when it changes."""
    kind, words = _state(seen)
    where = escape(gateway.url)
    badge = _fault_badge(seen)
    st.html(
        f'<div class="op-line"><div class="op-told"><span class="op-dot op-{kind}" aria-hidden="true"></span>'
        f'<span role="status"><b>{where}</b> {escape(visible(words))}</span></div>{badge}</div>'
    )


def _state(seen: Seen) -> tuple[str, str]:
    if seen.problem and seen.last is None:
        return "none", f"does not answer: {seen.problem}"
    if seen.problem:
        return "bad", f"does not answer any more: {seen.problem}. Shown is what it told last."
    if seen.status is None:
        return "good", "answers"
    state = str(seen.status.get("state", "ok"))
    told = _STATES.get(state, "answers")
    model = str(seen.status.get("model", ""))[:60]
    up = _number(seen.status.get("uptime_s"))
    return ("good" if state == "ok" else "bad"), f"{told} · {model}" + (f" · up {_span(up)}" if up else "")


def _fault_badge(seen: Seen) -> str:
    on = faults_on(seen)
    if not on:
        return ""
    labels = [OFFERS[kind].label for kind in dict.fromkeys(str(each["kind"]) for each in on)]
    named = ", ".join(label[0].lower() + label[1:] for label in labels)
    return f'<span class="op-badge">Planned faults on: {named}</span>'


def faults_on(seen: Seen) -> list[dict[str, object]]:
    """The faults that the gateway has on, as far as this app knows their kinds."""
    told = (seen.status or {}).get("faults")
    on = told.get("faults") if isinstance(told, dict) else None
    faults = on if isinstance(on, list) else []
    return [each for each in faults if isinstance(each, dict) and str(each.get("kind")) in OFFERS]


def how_to_start(gateway: Gateway, seen: Seen) -> None:
    """What stands there while no gateway answers."""
    with st.container(border=True, key="op_start"):
        st.markdown("**Start a gateway in a terminal**, and this page finds it by itself:")
        local = gateway.url.startswith("http://127.0.0.1:")
        port = gateway.url.rsplit(":", 1)[1] if local and gateway.url != DEFAULT_URL else ""
        st.code(START + (f" --port {port}" if port.isdigit() else ""), language=None)
        st.caption(
            "Without `--backend synthetic` it serves the model. Leave `--operations` away and this page shows figures "
            f"only. To watch a gateway elsewhere, set `{URLS}` and start the app again."
        )


def tiles(seen: Seen) -> None:
    """The figures that tell at a glance how it does."""
    last = seen.last
    assert last is not None
    total = last.total
    rows = (
        (
            ("Running", amount(total("scheduler_running_requests")), "Requests on a lane."),
            ("Waiting", amount(total("scheduler_queue_length")), "Requests that are neither answered nor on a lane."),
            ("Tokens per second", _rate(seen, "generation_tokens_total"), "Drawn in the last 10 seconds."),
            ("Answers per second", _rate(seen, "requests_finished_total"), "Completed in the last 10 seconds."),
            ("KV in use", share(last.mean("kv_cache_usage_ratio")), "KV blocks held by running requests."),
        ),
        (
            ("Cache hits", hit_share(last), "Prompt tokens found in any tier, of those looked up, since the start."),
            ("Preemptions", amount(total("preemption_count_total")), "Since the start."),
            ("Retries", amount(total("model_call_retries_total")), "Attempts after a failed one, since the start."),
            ("Dead letters", amount(total("dead_letters")), "Requests whose every attempt failed, kept on disk."),
            ("Engine restarts", amount(total("engine_restarts_total")), "Times the engine broke and began anew."),
        ),
    )
    with st.container(key="op_tiles"):
        for row in rows:
            for column, (name, value, told) in zip(st.columns(len(row)), row, strict=True):
                column.metric(name, value, help=told)


def _rate(seen: Seen, name: str) -> str:
    return amount(seen.rate(name))


def hit_share(reading: Reading) -> str:
    """Tokens found in any tier per token that memory was asked for."""
    asked = reading.total("cache_query_tokens_total", tier="memory")
    return share(reading.total("cache_hit_tokens_total") / asked) if asked else NOTHING


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
