"""Hit rates by size of KV memory, as JSON values and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from scheduler_core.bench.cache.replay import CacheFigures
from scheduler_core.errors import BenchError
from scheduler_core.sources.record import SourceReport
from scheduler_core.sources.report import source_as_plain, source_remarks

POLICIES = ("lru",)
HALVES = ("last", "all")
MAX_NUM_BLOCKS = 1_000_000_000
_UNBOUNDED = "unbounded"


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raises `BenchError` naming what there is."""
    if value not in choices:
        raise BenchError(f"{name} is {value!r}; it must be {' or '.join(choices)}")


def parse_sizes(words: Sequence[str]) -> list[int | None]:
    """Numbers of blocks, in lists with commas or one by one; None = unbounded. Raises `BenchError`."""
    sizes: list[int | None] = []
    for word in (part.strip() for text in words for part in text.split(",")):
        if word == _UNBOUNDED:
            sizes.append(None)
        elif word.isascii() and word.isdigit() and len(word) < 12 and 1 <= int(word) <= MAX_NUM_BLOCKS:
            sizes.append(int(word))
        else:
            raise BenchError(
                f"num-blocks is {word[:40]!r}; each must be a whole number from 1 to {MAX_NUM_BLOCKS:,}, "
                f"or {_UNBOUNDED}"
            )
    return sizes


def document(
    results: Sequence[CacheFigures], source: SourceReport, num_requests: int, block_size: int, policy: str, half: str
) -> dict[str, Any]:
    """All figures as JSON values; those of a single size stand at the top as well."""
    sizes = [_size(figures) for figures in results]
    return {
        "benchmark": "cache",
        **(sizes[0] if len(sizes) == 1 else {}),
        "policy": policy,
        "block_size": block_size,
        "measured": half,
        "requests": num_requests,
        "sizes": sizes,
        "source": source_as_plain(source),
    }


def _size(figures: CacheFigures) -> dict[str, Any]:
    return {
        "num_blocks": figures.num_blocks,
        "hit_rate": figures.hit_rate,
        "hit_tokens": figures.hit_tokens,
        "query_tokens": figures.query_tokens,
        "requests_measured": figures.num_measured,
        "evictions": figures.evictions,
        "blocks_used": figures.blocks_used,
    }


def table(figures: Mapping[str, Any]) -> Table:
    """One line for each size."""
    title = f"prefix cache hit rate, {figures['policy'].upper()}, blocks of {figures['block_size']} tokens"
    result = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for heading in ("blocks", "tokens of KV", "hit rate", "hit tokens", "of prompt tokens", "evictions"):
        result.add_column(heading, justify="right")
    for size in figures["sizes"]:
        blocks = size["num_blocks"]
        result.add_row(
            _UNBOUNDED if blocks is None else f"{blocks:,}",
            f"{(size['blocks_used'] if blocks is None else blocks) * figures['block_size']:,}",
            Text(f"{100 * size['hit_rate']:.1f} %", style="bold"),
            f"{size['hit_tokens']:,}",
            f"{size['query_tokens']:,}",
            f"{size['evictions']:,}",
        )
    return result


def remarks(figures: Mapping[str, Any], source: SourceReport) -> Iterator[str]:
    """How it was counted, and whose data it is."""
    of = "the last half of" if figures["measured"] == "last" else "all"
    measured = figures["sizes"][0]["requests_measured"]
    yield (
        f"counted in tokens over {of} {figures['requests']:,} requests ({measured:,}), after the rest has filled the "
        "cache; a hit is the longest cached prefix, up to the whole prompt; requests are served one at a time, outputs "
        "are not kept"
    )
    yield from source_remarks(source)
