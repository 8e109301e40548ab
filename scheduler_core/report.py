"""A finished run as JSON values, for the command line and its readers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from scheduler_core.metrics import RequestMetrics, request_metrics, totals
from scheduler_core.trace import Trace

Decode = Callable[[Sequence[int]], str]


def report(trace: Trace, decode: Decode) -> dict[str, Any]:
    """`config`, `requests` and `totals` of a run; texts by `decode`."""
    return {
        "scenario": trace.scenario,
        "backend": dataclasses.asdict(trace.backend),
        "config": dataclasses.asdict(trace.config),
        "requests": [_request(metrics, decode) for metrics in request_metrics(trace)],
        "totals": totals(trace),
    }


def _request(metrics: RequestMetrics, decode: Decode) -> dict[str, Any]:
    return {
        "id": metrics.id,
        "status": metrics.status.value,
        "finish_reason": metrics.finish_reason.value if metrics.finish_reason else None,
        "message": metrics.message,
        "text": decode(metrics.output_token_ids),
        "output_token_ids": list(metrics.output_token_ids),
        "num_prompt_tokens": metrics.num_prompt_tokens,
        "num_cached_tokens": metrics.num_cached_tokens,
        "num_preemptions": metrics.num_preemptions,
        "ttft_s": metrics.ttft_s,
        "mean_itl_s": metrics.mean_itl_s,
        "e2e_s": metrics.e2e_s,
    }
