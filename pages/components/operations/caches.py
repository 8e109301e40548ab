"""The tiers of the prefix cache: what each holds and finds, and a way to empty those below memory."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from pages.components.operations.act import act, asking_button, is_open
from pages.components.operations.client import Gateway, within
from pages.components.operations.reading import Reading
from pages.components.operations.state import OperationsState
from pages.components.operations.watch import Seen
from pages.components.plain import plain, visible
from pages.components.workloads.drawn import NOTHING, share
from scheduler_core.words import size

_MEMORY = "memory"
_MOST_TIERS = 8


def caches(state: OperationsState, gateway: Gateway, seen: Seen) -> None:
    """Draw the panel."""
    last = seen.last
    assert last is not None
    details = _details(seen)
    st.dataframe(
        pd.DataFrame([_row(last, tier, details.get(tier, {})) for tier in last.tiers[:_MOST_TIERS]]),
        hide_index=True,
        key="op_tiers",
        height="content",
    )
    st.caption(
        "Tokens are counted at the first admission of each request: a tier is asked for what those before it lack. "
        "A breaker that is open asks a cache nothing for a while, after it has failed several times in a row."
    )
    for tier, told in details.items():
        if told.get("last_error"):
            st.caption(plain(f"The last error of the cache {tier}: {str(told['last_error'])[:300]}"))
    below = [tier for tier in last.tiers if tier != _MEMORY]
    if not below:
        st.markdown(
            "There is no cache below memory. `serve --store DIR` keeps one on disk, `--redis URL` a shared one."
        )
    elif is_open(seen):
        for tier in below[:_MOST_TIERS]:
            _clear(state, gateway, tier)


def _details(seen: Seen) -> dict[str, Mapping[str, Any]]:
    """What the operations say of each tier."""
    told = (seen.status or {}).get("tiers")
    tiers = told if isinstance(told, list) else []
    return {str(each.get("tier")): each for each in tiers[:_MOST_TIERS] if isinstance(each, dict)}


def _row(reading: Reading, tier: str, told: Mapping[str, Any]) -> dict[str, str]:
    asked, hit = (reading.total(f"cache_{each}_tokens_total", tier=tier) for each in ("query", "hit"))
    shown = {
        "tier": visible(tier),
        "tokens asked for": f"{asked:,.0f}",
        "found": f"{hit:,.0f}",
        "hit rate": share(hit / asked) if asked else NOTHING,
    }
    below = {
        "blocks": _count(reading, "cache_store_blocks", tier),
        "size": _size(reading, tier),
        "limit": _limit(told),
        "written": _count(reading, "cache_store_writes_total", tier),
        "thrown out": _count(reading, "cache_store_evictions_total", tier),
        "unusable": _count(reading, "cache_store_unusable_total", tier),
        "errors": _count(reading, "cache_store_errors_total", tier),
        "breaker": NOTHING if "is_paused" not in told else "open" if told["is_paused"] else "closed",
    }
    return shown | (below if tier != _MEMORY else dict.fromkeys(below, NOTHING))


def _count(reading: Reading, name: str, tier: str) -> str:
    value = reading.total(name, tier=tier)
    return NOTHING if value < 0 else f"{value:,.0f}"


def _size(reading: Reading, tier: str) -> str:
    if reading.total("cache_store_blocks", tier=tier) < 0:
        return NOTHING
    return size(int(max(0, reading.total("cache_store_bytes", tier=tier))))


def _limit(told: Mapping[str, Any]) -> str:
    limit = told.get("limit_bytes") if told.get("entries") != -1 else None
    return size(limit) if isinstance(limit, int) and limit > 0 else "its own" if limit == 0 else NOTHING


def _clear(state: OperationsState, gateway: Gateway, tier: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        asking_button(
            state,
            f"Clear {visible(tier)}…",
            key=f"op_clear_{tier}",
            asks=f"All blocks in the cache {visible(tier)} are forgotten, and have to be computed again.",
            confirm=f"Clear {visible(tier)}",
            do=partial(
                act,
                state,
                gateway,
                "DELETE",
                within("cache", tier),
                lambda told: f"The cache {tier} is empty. Blocks forgotten: {told.get('cleared', 0)}.",
            ),
        )
