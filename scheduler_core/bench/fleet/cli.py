"""The command `bench fleet`."""

from __future__ import annotations

from time import perf_counter
from typing import Annotated

import typer

from scheduler_core import terminal


def fleet(
    replicas: Annotated[str, typer.Option(metavar="N,N", help="Numbers of replicas, 1 to 1,000.")] = "1,10,100",
    router: Annotated[str, typer.Option(help="all, or names with commas between.")] = "all",
    requests: Annotated[int, typer.Option(min=1, max=1_000, help="Requests for each replica.")] = 20,
    rate: Annotated[float, typer.Option(help="Requests a second for each replica.")] = 10.0,
    prompt_len: Annotated[str, typer.Option(help="Own tokens of a prompt, as in `bench load`.")] = "128",
    output_len: Annotated[str, typer.Option(help="The same for outputs.")] = "32",
    prefix_groups: Annotated[int, typer.Option(min=0, max=100, help="Shared prefixes for each replica.")] = 8,
    prefix_len: Annotated[int, typer.Option(help="Tokens of such a prefix.")] = 1_024,
    prefix_skew: Annotated[float, typer.Option(help="Prefix k is as frequent as k^-SKEW.")] = 0.8,
    num_blocks: Annotated[int, typer.Option(help="KV blocks of each replica.")] = 2_048,
    load_bound: Annotated[float, typer.Option(help="Most outstanding tokens of a home, over the mean.")] = 1.25,
    load_floor: Annotated[int, typer.Option(help="A home with no more outstanding tokens keeps its prefix.")] = 0,
    kill_at: Annotated[float | None, typer.Option(help="Kill the last replica at this second.")] = None,
    restart_after: Annotated[
        float | None, typer.Option(help="Start it anew so many seconds after the kill, with an empty cache.")
    ] = None,
    start_s: Annotated[float, typer.Option(help="Seconds for which a new process loads the weights.")] = 30.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result, to the byte.")] = 0,
    machine: Annotated[str, typer.Option(help="A machine of the cost model.")] = "llama-3.1-8b-h100",
    preset: Annotated[str, typer.Option(help="Schedule as this preset does.")] = "vllm",
    json_: terminal.JsonOption = None,
) -> None:
    """Simulated replicas behind a router: hit rate, balance and latency as their number and their load grow."""
    from scheduler_core.bench.fleet import report
    from scheduler_core.bench.fleet.plan import Plan, parse_replicas, parse_routers
    from scheduler_core.load.lengths import Lengths
    from scheduler_core.serving_config import serving_config

    start = perf_counter()
    numbers, names = parse_replicas(replicas), parse_routers(router)
    plan = Plan(
        serving_config(machine, preset).replace(num_blocks=num_blocks),
        seed,
        requests,
        rate,
        Lengths.parse(prompt_len),
        Lengths.parse(output_len),
        prefix_groups,
        prefix_len,
        prefix_skew,
        load_bound,
        load_floor,
        kill_at,
        restart_after,
        start_s,
    )
    runs = []
    with terminal.remark_console().status("starting") as status:
        for number in numbers:
            for name in names:
                status.update(f"{number:,} replicas, {name}")
                runs.append(report.run_figures(plan.run(number, name)))
    figures = report.document(plan, runs)
    took = f"took {perf_counter() - start:.1f} s"
    terminal.tell(figures, json_, [report.table(figures)], (*report.remarks(plan), took))
