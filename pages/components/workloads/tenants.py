"""The tab of tenants: what each of them got, and how evenly."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from pages.components.chart import Chart, label, look
from pages.components.plain import visible
from pages.components.workloads.drawn import COLORS, NOTHING, SYMBOLS, amount, draw
from pages.components.workloads.work import Outcome
from scheduler_core.summary import FEWEST_FOR_P99, Targets


def tenants(outcomes: Sequence[Outcome], targets: Targets) -> None:
    """Draw the tab."""
    names = sorted({each.tenant for outcome in outcomes for each in outcome.result.facts})
    if len(names) < 2:
        st.markdown(
            "All requests of this load are of one tenant, so there is nobody to be fair to. Choose the example with "
            "three tenants, give the generator some, or a file with a column `tenant`."
        )
        return
    draw(tenant_chart(outcomes, names, targets))
    st.dataframe(jain_table(outcomes, targets), hide_index=True, key="wl_jain", height="content")
    st.caption(
        "Jain's fairness index is 1 if all tenants are equal and 1/n if one of n has everything. Speed is output "
        "tokens per second of latency: who waits longer for the same is slower. Tokens also differ where tenants "
        f"ask for different amounts. A p99 with * comes from fewer than {FEWEST_FOR_P99} requests."
    )


def tenant_chart(outcomes: Sequence[Outcome], names: Sequence[str], targets: Targets) -> Chart:
    """Median and 99th percentile of TTFT for each tenant."""
    figure, rows = go.Figure(), []
    for number, outcome in enumerate(outcomes):
        found = outcome.figures(targets)["fairness"]["tenants"]
        server = label(outcome.server.name)
        figure.add_scatter(
            x=[label(name) for name in names],
            y=[found.get(name, {}).get("median_ttft_ms") for name in names],
            name=server,
            mode="markers",
            marker={"color": COLORS[number], "symbol": SYMBOLS[number], "size": 13},
            hovertemplate=f"%{{x}}: %{{y:,.4g}} ms<extra>{server}</extra>",
        )
        for name in names:
            each = found.get(name)
            if each is None:
                continue
            few = "*" if each["completed"] < FEWEST_FOR_P99 else ""
            rows.append(
                {
                    "configuration": visible(outcome.server.name),
                    "tenant": visible(name),
                    "completed": f"{each['completed']:,}",
                    "failed": f"{each['failed']:,}",
                    "good": NOTHING if each["good"] is None else f"{each['good']:,}",
                    "tokens": f"{each['tokens']:,}",
                    "tokens/s of latency": amount(each["tokens_per_second_of_latency"]),
                    "TTFT p50 (ms)": amount(each["median_ttft_ms"]),
                    "TTFT p99 (ms)": amount(each["p99_ttft_ms"]) + few,
                    "E2E p50 (ms)": amount(each["median_e2el_ms"]),
                }
            )
    look(figure, height=300, x_title="tenant", y_title="median TTFT, ms")
    # Not bars, as configurations may be a thousandfold apart and a bar has to begin at 0.
    figure.update_yaxes(type="log", tickformat=",")
    alt = f"Median time to first token of {len(names)} tenants under {len(outcomes)} configurations."
    return Chart("tenants", "Who waits how long", "", alt, figure, pd.DataFrame(rows))


def jain_table(outcomes: Sequence[Outcome], targets: Targets) -> pd.DataFrame:
    """The index of each configuration."""
    rows = []
    for outcome in outcomes:
        found = outcome.figures(targets)["fairness"]
        rows.append(
            {
                "configuration": visible(outcome.server.name),
                "Jain's index, speed": _index(found["jain_speed"]),
                "Jain's index, tokens": _index(found["jain_tokens"]),
            }
        )
    return pd.DataFrame(rows)


def _index(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"
