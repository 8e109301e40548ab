"""What every workload file is read into: requests, each with what the file tells of it, and a report."""

from __future__ import annotations

from array import array
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """One request of a file; `line` is where it stands.

    `arrival` is in seconds since the first request. The prompt is known as `text`, as `hash_ids` (one for each block
    of `SourceReport.block_size` tokens; 8 bytes each, not to be changed), or only by its length; requests of one
    `conversation` are its turns, in order of arrival. None stands for what the file does not tell.
    """

    line: int
    arrival: float = 0.0
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    text: str = ""
    hash_ids: array[int] | None = None
    priority: int = 0
    tenant: str = ""
    conversation: str = ""
    turn: int = 0

    @property
    def id(self) -> str:
        """The request's id in a run: its line, and its turn where a line has several."""
        return f"r{self.line}.{self.turn}" if self.turn else f"r{self.line}"


@dataclass(frozen=True, slots=True)
class Attribution:
    """Whose data it is, under which licence, and what to cite: to be shown wherever the data is."""

    origin: str
    licence: str
    citation: str

    @property
    def text(self) -> str:
        return "; ".join(part for part in (self.origin, self.licence, self.citation) if part)


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that was left out, and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What was found in a file.

    `bad_rows` lists the first of the `num_bad` rows left out; `out_of_order` counts requests that stand after one
    that arrives later; without `has_times` one request a second is assumed.
    """

    name: str
    format: str
    title: str
    attribution: Attribution
    num_rows: int
    num_requests: int
    num_bad: int
    bad_rows: tuple[BadRow, ...]
    span_s: float
    has_times: bool
    out_of_order: int
    block_size: int | None
    unused_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A file that has been read: requests in order of arrival."""

    requests: tuple[SourceRequest, ...]
    report: SourceReport
