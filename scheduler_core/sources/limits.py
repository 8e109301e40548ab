"""How much of a workload file is taken, and which numbers in it."""

from __future__ import annotations

from dataclasses import dataclass

MAX_TOKENS = 1_000_000
MAX_PRIORITY = 1_000
MAX_SECONDS = 1e11


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a file.

    `max_bytes` are counted unpacked, `max_lines` with the blank ones, `max_hash_ids` over all rows; `max_lines_of_row`
    is for quoted texts.
    """

    max_bytes: int = 128 * 1024 * 1024
    max_lines: int = 5_000_000
    max_rows: int = 500_000
    max_hash_ids: int = 20_000_000
    max_line_bytes: int = 4 * 1024 * 1024
    max_lines_of_row: int = 2_000
    max_columns: int = 100
    max_bad_listed: int = 20
