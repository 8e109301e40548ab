"""The command `bench load`."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from scheduler_core import terminal
from scheduler_core.errors import BenchError

#: Options whose name is not that of their field.
_OPTIONS = {"prompt": "prompt_len", "output": "output_len", "pairs": "lengths_from", "prefix_tokens": "prefix_len"}


def load(
    trace: Annotated[Path | None, typer.Option(help="Requests from a workload file; else they are generated.")] = None,
    first: Annotated[int | None, typer.Option(help="With --trace: only so many requests.")] = None,
    sample: Annotated[float | None, typer.Option(help="With --trace: this share of them.")] = None,
    scale: Annotated[float | None, typer.Option(help="With --trace: divide lengths by this.")] = None,
    arrivals: Annotated[
        str | None, typer.Option(help="poisson, constant, gamma, ramp, onoff or at_once.", show_default="poisson")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Requests per second, on average.", show_default="1")] = None,
    rates: Annotated[str | None, typer.Option(help="A sweep: rates with commas between.")] = None,
    burstiness: Annotated[float | None, typer.Option(help="Shape of gamma gaps: 1 = Poisson, less = bursts.")] = None,
    rate_end: Annotated[float | None, typer.Option(help="Where a ramp ends.")] = None,
    ramp_s: Annotated[float | None, typer.Option(help="Seconds of a ramp.")] = None,
    on_s: Annotated[float | None, typer.Option(help="Seconds of a burst.")] = None,
    off_s: Annotated[float | None, typer.Option(help="Seconds between bursts.")] = None,
    num_requests: Annotated[int | None, typer.Option(help="How many.", show_default="100")] = None,
    prompt_len: Annotated[
        str | None,
        typer.Option(help="TOKENS, uniform:LOW:HIGH, lognormal:MEAN:SIGMA or zipf:EXP:LOW:HIGH.", show_default="512"),
    ] = None,
    output_len: Annotated[str | None, typer.Option(help="The same for outputs.", show_default="128")] = None,
    lengths_from: Annotated[Path | None, typer.Option(help="Draw both lengths from a workload file.")] = None,
    prefix_groups: Annotated[int | None, typer.Option(help="Groups that share a prefix.")] = None,
    prefix_len: Annotated[int | None, typer.Option(help="Tokens of such a prefix.", show_default="256")] = None,
    tenants: Annotated[str | None, typer.Option(help="A number, or NAME=SHARE[:PRIORITY],...")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result, to the byte.")] = 0,
    machine: Annotated[str, typer.Option(help="A machine of the cost model.")] = "llama-3.1-8b-h100",
    preset: Annotated[str, typer.Option(help="Schedule as this preset does.")] = "vllm",
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Change a setting.")] = None,
    target_ttft_ms: Annotated[float | None, typer.Option(help="Good: first token within this.")] = None,
    target_itl_ms: Annotated[float | None, typer.Option(help="Good: no gap between tokens longer.")] = None,
    target_e2el_ms: Annotated[float | None, typer.Option(help="Good: done within this.")] = None,
    details: Annotated[bool, typer.Option("--details", help="Write every request into the JSON.")] = False,
    timing: Annotated[bool, typer.Option("--timing", help="Write wall time and memory into the JSON as well.")] = False,
    json_: terminal.JsonOption = None,
) -> None:
    """A load on a simulated machine: latencies, throughput, goodput, fairness; over several rates with their knee.

    Ctrl-C stops it and shows what there is so far.
    """
    from scheduler_core.bench.load import plan, report
    from scheduler_core.bench.load.sweep import sweep
    from scheduler_core.bench.load.usage import peak_memory_bytes, stop_on_interrupt
    from scheduler_core.load.config import LoadConfig, parse_tenants
    from scheduler_core.load.lengths import Lengths
    from scheduler_core.serving_config import serving_config
    from scheduler_core.sources.shape import Shape
    from scheduler_core.summary import Targets

    start = perf_counter()
    targets = Targets(ttft_ms=target_ttft_ms, itl_ms=target_itl_ms, e2el_ms=target_e2el_ms)
    config = plan.configured(serving_config(machine, preset), set_ or [])
    chosen = plan.rates(rate, rates)
    of_file = _given(first=first, sample=sample, scale=scale)
    of_generator = _given(
        arrivals=arrivals,
        burstiness=burstiness,
        rate_end=rate_end,
        ramp_s=ramp_s,
        on_s=on_s,
        off_s=off_s,
        num_requests=num_requests,
        prompt=None if prompt_len is None else Lengths.parse(prompt_len),
        output=None if output_len is None else Lengths.parse(output_len),
        pairs=None if lengths_from is None else plan.pairs_of(lengths_from),
        prefix_groups=prefix_groups,
        prefix_tokens=prefix_len,
        tenants=None if tenants is None else parse_tenants(tenants),
    )
    if trace is not None:
        _refuse(of_generator, "is only for generated loads; leave it out, or leave out --trace")
        workload = plan.from_file(trace, Shape(seed, **of_file))
    else:
        _refuse(of_file, "is only for loads from a file; give one with --trace, or leave it out")
        workload = plan.generated(LoadConfig(seed=seed, rate=chosen[0] or 1.0, **of_generator))
    with stop_on_interrupt() as should_stop, terminal.remark_console().status("starting") as status:
        runs = sweep(workload, config, targets, chosen, details=details, tell=status.update, should_stop=should_stop)
        stopped = should_stop()
    figures = report.document(workload, config, targets, runs)
    took = {"wall_seconds": perf_counter() - start, "peak_memory_bytes": peak_memory_bytes()}
    shown = figures | ({"timing": took} if timing else {})
    terminal.tell(shown, json_, report.tables(figures), (*report.remarks(figures), _took(took)))
    if stopped:
        raise typer.Exit(130)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _refuse(options: dict[str, Any], why: str) -> None:
    for name in options:
        raise BenchError(f"--{_OPTIONS.get(name, name).replace('_', '-')} {why}")


def _took(took: dict[str, Any]) -> str:
    memory = took["peak_memory_bytes"]
    at_most = "" if memory is None else f", at most {memory / 1e6:,.0f} MB of memory"
    return f"took {took['wall_seconds']:.1f} s{at_most}"
