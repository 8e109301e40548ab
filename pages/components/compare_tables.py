"""What a comparison comes to: the figures of the whole run, and of each request, on both sides."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from pages.components.plain import plain, visible
from scheduler_core.comparison import Fate, RequestDifference, TotalDifference, request_differences, total_differences
from scheduler_core.request import FinishReason
from scheduler_core.trace import Trace
from scheduler_core.words import names, number, size

TOTAL_WORDS: dict[str, str] = {
    "mean_ttft": "mean TTFT (s)",
    "median_ttft": "median TTFT (s)",
    "worst_ttft": "worst TTFT (s)",
    "worst_gap": "largest gap between tokens (s)",
    "duration": "length of the run (s)",
    "ticks": "ticks",
    "completed": "requests completed",
    "preemptions": "preemptions",
    "recomputed_tokens": "recomputed tokens",
    "hit_tokens": "tokens from the prefix cache",
    "bytes_saved": "KV saved to the host",
}
_ENDS = {
    FinishReason.ABORT: "aborted",
    FinishReason.REJECTED: "refused",
    FinishReason.ERROR: "failed",
}
NOTHING = "–"
#: A table of more rows scrolls by itself.
MOST_ROWS = 16
#: What is told of each request on both sides: the words, and the figure.
COLUMNS = (
    ("TTFT", "ttft_s"),
    ("gap", "worst_gap_s"),
    ("recomputed", "recomputed_tokens"),
    ("finish", "finish_s"),
)


def tables(left: Trace, right: Trace) -> None:
    """Draw both tables, and whether the answers are the same."""
    st.subheader("The whole run", anchor=False)
    st.dataframe(totals_table(total_differences(left, right)), hide_index=True, key="compare_totals", height="content")
    st.subheader("Each request", anchor=False)
    rows = request_differences(left, right)
    st.dataframe(
        requests_table(rows),
        hide_index=True,
        key="compare_requests",
        height="content" if len(rows) <= MOST_ROWS else "auto",
    )
    st.caption(
        "TTFT is the time to the first token, from the arrival; gap the longest pause between two tokens of one "
        "answer; finish the moment of the last token. All in seconds of the run's virtual clock. Recomputed tokens "
        "had been computed before and were lost in a preemption."
    )
    st.caption(plain(answers(rows)))


def answers(rows: Sequence[RequestDifference]) -> str:
    """Whether every request says the same on both sides."""
    different = [row.id for row in rows if not row.says_the_same]
    if not different:
        return "Every request that is on both sides says the same on both: a schedule never changes an answer."
    return f"The answers of {names(different)} differ, as they were drawn by chance or partly made up."


def totals_table(totals: Sequence[TotalDifference]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "figure": [TOTAL_WORDS[total.name] for total in totals],
            "left": [_total(total, total.left) for total in totals],
            "right": [_total(total, total.right) for total in totals],
            "right less left": [_total_change(total) for total in totals],
        }
    )


def requests_table(rows: Sequence[RequestDifference]) -> pd.DataFrame:
    table: dict[str, list[str]] = {"request": [visible(row.id) for row in rows]}
    for label, field in COLUMNS:
        pairs = [(_value(row.left, field), _value(row.right, field)) for row in rows]
        table |= {
            f"{label}, left": [_text(left) for left, _ in pairs],
            f"{label}, right": [_text(right) for _, right in pairs],
        }
        if field != "recomputed_tokens":
            table[f"{label}, change"] = [_signed(left, right) for left, right in pairs]
    for side, fates in (("left", [row.left for row in rows]), ("right", [row.right for row in rows])):
        table[f"finish, {side}"] = [
            _end(fate) or text for fate, text in zip(fates, table[f"finish, {side}"], strict=True)
        ]
    return pd.DataFrame(table)


def _value(fate: Fate | None, field: str) -> float | None:
    return None if fate is None else getattr(fate, field)


def _end(fate: Fate | None) -> str:
    """How a request ended that did not complete, "" if it did."""
    if fate is None:
        return "not sent"
    if fate.finish_reason is None:
        return "unfinished"
    return _ENDS.get(fate.finish_reason, "")


def _text(value: float | None) -> str:
    """A figure with three decimals at most: a column is read from top to bottom."""
    return NOTHING if value is None else number(round(value, 3))


def _signed(left: float | None, right: float | None) -> str:
    """The change with its sign, "" where there is none."""
    if left is None or right is None:
        return NOTHING
    change = round(right - left, 3)
    return "0" if change == 0 else f"{'+' if change > 0 else '−'}{number(abs(change))}"


def _total(total: TotalDifference, value: float | None) -> str:
    if total.name == "bytes_saved" and value is not None:
        return size(int(value))
    return _text(value)


def _total_change(total: TotalDifference) -> str:
    if total.name == "bytes_saved" and total.left is not None and total.right is not None:
        change = int(total.right - total.left)
        return "0" if change == 0 else f"{'+' if change > 0 else '−'}{size(abs(change))}"
    return _signed(total.left, total.right)
