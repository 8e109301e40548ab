"""The commands `cache stats` and `cache clear`, and the store that `run` opens for its options."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from scheduler_core import terminal
from scheduler_core.storage.backing import Backing, StoreError
from scheduler_core.storage.block_store import BlockStore, TierStats
from scheduler_core.storage.open_store import open_store
from scheduler_core.words import size

app = typer.Typer(
    no_args_is_help=True, help="Look into a prefix cache below memory, or empty it.", rich_markup_mode=None
)

Place = Annotated[str, typer.Argument(metavar="DIR|URL", help="The folder, or redis://HOST:PORT/DATABASE.")]
StoreOption = Annotated[
    Path | None, typer.Option("--store", metavar="DIR", help="Keep KV blocks in this folder, and look them up there.")
]
RedisOption = Annotated[
    str | None, typer.Option("--redis", metavar="URL", help="Share KV blocks with others through this Redis.")
]
_MIB = 1 << 20
LimitOption = Annotated[int, typer.Option("--store-mib", min=1, help="The most that the folder may hold, in MiB.")]
DEFAULT_LIMIT_MIB = 4_096


@contextmanager
def opened(
    folder: Path | None,
    url: str | None,
    limit_mib: int = DEFAULT_LIMIT_MIB,
    wrap: Callable[[Backing], Backing] | None = None,
) -> Iterator[BlockStore | None]:
    """The store that was asked for, closed in the end; None if none was. `wrap` is that of `open_store`."""
    places = [str(place) for place in (folder, url) if place is not None]
    if not places:
        yield None
        return
    store = open_store(*places, limit_bytes=limit_mib * _MIB, wrap=wrap)
    try:
        yield store
    finally:
        store.close()


@app.command()
def stats(place: Place, json_: terminal.JsonOption = None) -> None:
    """How much a prefix cache holds."""
    store = _existing(place)
    try:
        told = store.stats()
    finally:
        store.close()
    _require_answer(told)
    figures = {"tiers": [_figures(each) for each in told]}
    terminal.tell(figures, json_, [_table(told)], [])


@app.command()
def clear(place: Place) -> None:
    """Forget every block in it."""
    store = _existing(place)
    try:
        before = store.stats()
        _require_answer(before)
        store.clear()
        _require_answer(store.stats())
    finally:
        store.close()
    terminal.remark_console().print(f"{sum(each.entries for each in before):,} blocks forgotten", markup=False)


def _existing(place: str) -> BlockStore:
    """Opens what is there, and makes nothing; of a folder it takes the limit as it is."""
    if "://" not in place and not (Path(place) / "data.mdb").is_file():
        raise StoreError(f"there is no prefix cache in {place}; name the folder that `run --store` was given")
    return open_store(place)


def _require_answer(told: tuple[TierStats, ...]) -> None:
    for each in told:
        if each.errors:
            raise StoreError(f"the {each.tier} cache does not answer ({each.last_error}); is it running?")


def _figures(told: TierStats) -> dict[str, object]:
    """What a store that was only looked into can say."""
    known = ("tier", "entries", "num_bytes")
    return {name: value for name, value in dataclasses.asdict(told).items() if name in known}


def _table(told: tuple[TierStats, ...]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("tier", "blocks", "size"):
        table.add_column(heading, justify="left" if heading == "tier" else "right")
    for each in told:
        table.add_row(each.tier, f"{each.entries:,}", size(each.num_bytes))
    return table


def counted(told: TierStats) -> str:
    """A tier's counters in one line, for the end of a run."""
    parts = [f"{told.hits:,} of {told.queries:,} blocks found", f"{told.writes:,} written"]
    for name in ("drops", "unusable", "errors", "evictions"):
        if amount := getattr(told, name):
            parts.append(f"{amount:,} {name}")
    return f"cache {told.tier}: {', '.join(parts)}" + (f" ({told.last_error})" if told.errors or told.unusable else "")
