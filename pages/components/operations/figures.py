"""The figures of the last minutes: latencies, curves, and a row for each replica."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.components.frame import asset
from pages.components.operations.reading import LATENCIES, Reading, quantile
from pages.components.operations.watch import Seen
from pages.components.plain import visible
from pages.components.terms import mark
from pages.components.workloads.drawn import NOTHING, amount, share

_trends = st.components.v2.component("tickscope_trends", css=asset("trends.css"), js=asset("trends.js"))
_SHARES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))


def figures(seen: Seen) -> None:
    """Draw the panel."""
    with st.container(key="op_figures"):
        _figures(seen)


def _figures(seen: Seen) -> None:
    left, right = st.columns([1, 2.1], gap="medium")
    with left:
        _latencies(seen)
    with right:
        _curves(seen)
    if seen.last is not None and len(seen.last.replicas) > 1:
        st.header("Replicas", anchor=False)
        st.dataframe(_replicas(seen), hide_index=True, key="op_replicas", height="content")


def _latencies(seen: Seen) -> None:
    st.header("Latency", anchor=False)
    told = {words: seen.latencies(name) for name, words in LATENCIES.items()}
    rows = [
        f'<tr><th scope="row">{words}</th>'
        + "".join(f"<td>{_seconds(quantile(each, buckets))}</td>" for _, each in _SHARES)
        + f"<td>{buckets[-1][1] if buckets else 0:,.0f}</td></tr>"
        for words, buckets in told.items()
    ]
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("", *(name for name, _ in _SHARES), "count"))
    heads = heads.replace('<th scope="col"></th>', "<td></td>", 1)
    st.html(f'<table class="op-table"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>')
    when = f"the last {_minutes(seen.span)}" if seen.has_window else "all time since the gateway began"
    st.caption(mark(f"Over {when}, estimated from the counts in the histograms' buckets. TTFT, ITL and E2E latency."))


def _seconds(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{1e3 * value:.3g} ms" if value < 1 else f"{value:.3g} s"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def _curves(seen: Seen) -> None:
    """Three small curves of the last minutes, drawn in the browser, and their numbers."""
    now = seen.readings[-1].at
    ages = [round(now - each.at, 1) for each in seen.readings]
    columns = _columns(seen)
    _trends(
        key="op_trends",
        data={
            "ages": ages,
            "charts": [
                {
                    "title": title,
                    "unit": unit,
                    "label": f"{title} over the last {_minutes(seen.span)}. "
                    + ", ".join(f"{name} now {_told(columns[name][-1], unit)}" for name in names)
                    + ".",
                    "top": 1.0 if unit == "%" else 0.0,
                    "series": [{"name": name, "values": columns[name]} for name in names],
                }
                for title, unit, names in (
                    ("Requests", "", ("running", "waiting")),
                    ("Tokens per second", "", ("tokens",)),
                    ("KV and cache", "%", ("KV used", "hits")),
                )
            ],
        },
    )
    with st.expander("As a table", key="op_trends_table", type="compact"):
        table = pd.DataFrame({"seconds ago": ages[::-1], **{name: values[::-1] for name, values in columns.items()}})
        st.dataframe(table, hide_index=True, key="op_trends_data", height=240)


def _told(value: float | None, unit: str) -> str:
    return share(value) if unit == "%" else amount(value)


def _columns(seen: Seen) -> dict[str, list[float | None]]:
    """The values of every curve at each reading."""
    readings = seen.readings
    return {
        "running": [each.total("scheduler_running_requests") for each in readings],
        "waiting": [each.total("scheduler_queue_length") for each in readings],
        "tokens": [_rounded(seen.rate("generation_tokens_total", at=place)) for place in range(len(readings))],
        "KV used": [round(each.mean("kv_cache_usage_ratio"), 4) for each in readings],
        "hits": [_rounded(_hits(each)) for each in readings],
    }


def _hits(reading: Reading) -> float | None:
    asked = reading.total("cache_query_tokens_total", tier="memory")
    return reading.total("cache_hit_tokens_total") / asked if asked else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _replicas(seen: Seen) -> pd.DataFrame:
    """A row a replica; those that run no requests themselves are left out."""
    last = seen.last
    assert last is not None
    return pd.DataFrame(
        [
            {
                "replica": visible(name),
                "running": amount(last.total("scheduler_running_requests", replica=name)),
                "waiting": amount(last.total("scheduler_queue_length", replica=name)),
                "tokens per second": amount(seen.rate("generation_tokens_total", replica=name)),
                "KV in use": share(last.total("kv_cache_usage_ratio", replica=name)),
                "cache hits": _replica_hits(last, name),
                "preemptions": amount(last.total("preemption_count_total", replica=name)),
                "retries": amount(last.total("model_call_retries_total", replica=name)),
            }
            for name in last.replicas
        ]
    )


def _replica_hits(reading: Reading, replica: str) -> str:
    asked = reading.total("cache_query_tokens_total", replica=replica, tier="memory")
    return share(reading.total("cache_hit_tokens_total", replica=replica) / asked) if asked else NOTHING
