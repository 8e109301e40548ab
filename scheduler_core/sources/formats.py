"""The kinds of workload files: how each is recognised, what its rows say, and whose data it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

from scheduler_core.sources.limits import MAX_PRIORITY, MAX_SECONDS, MAX_TOKENS
from scheduler_core.sources.record import Attribution, SourceRequest
from scheduler_core.sources.rows import Row
from scheduler_core.sources.values import (
    NANOSECONDS,
    RowError,
    Values,
    checked_prose,
    clock_nanoseconds,
    nanoseconds,
    prose,
    shown,
    whole,
    word,
)

MAX_TURNS = 1_000
MAX_HASH_ID = 2**64 - 1


class Draft(NamedTuple):
    """A request before its arrival is known relative to the first one's; `time` in nanoseconds, None if not told."""

    time: int | None
    request: SourceRequest


class Format(ABC):
    """A kind of file. One object reads one file, and may remember earlier rows."""

    name: ClassVar[str]
    title: ClassVar[str]
    attribution: ClassVar[Attribution]
    #: What a file must have to be of this kind, and what else is read, as its owners spell it.
    needs: ClassVar[tuple[str, ...]] = ()
    also: ClassVar[tuple[str, ...]] = ()
    #: Tables are CSV; else there is one JSON object a line.
    may_be_table: ClassVar[bool] = False
    may_be_objects: ClassVar[bool] = True

    @abstractmethod
    def drafts(self, row: Row) -> Iterable[Draft]:
        """The requests of a row; raises `RowError`."""

    @classmethod
    def fits(cls, names: set[str], *, is_table: bool) -> bool:
        """Whether columns of these lower-case names make a file of this kind."""
        may_be = cls.may_be_table if is_table else cls.may_be_objects
        return may_be and {name.lower() for name in cls.needs} <= names


class Azure(Format):
    """Lengths and times of Azure's LLM inference traces; no content."""

    name = "azure"
    title = "Azure LLM inference trace"
    attribution = Attribution(
        "Azure Public Dataset, LLM inference traces (Microsoft)",
        "CC-BY 4.0",
        "Patel et al., Splitwise, ISCA 2024",
    )
    needs = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
    may_be_table = True
    may_be_objects = False

    def drafts(self, row: Row) -> Iterable[Draft]:
        time = clock_nanoseconds(row.values, "TIMESTAMP")
        prompt = whole(row.values, "ContextTokens", 1, MAX_TOKENS)
        output = whole(row.values, "GeneratedTokens", 1, MAX_TOKENS)
        return [Draft(time, SourceRequest(row.line, prompt_tokens=prompt, output_tokens=output))]


class Mooncake(Format):
    """Lengths, times in milliseconds, and an id for each block of the prompt: equal ids, equal content."""

    name = "mooncake"
    title = "Mooncake trace"
    attribution = Attribution(
        "Mooncake traces (Moonshot AI, kvcache-ai/Mooncake)",
        "Apache-2.0",
        "Qin et al., Mooncake, FAST 2025",
    )
    needs: ClassVar[tuple[str, ...]] = ("timestamp", "input_length", "output_length", "hash_ids")
    also: ClassVar[tuple[str, ...]] = ("block_size",)
    unit = NANOSECONDS // 1_000
    block_size = 512

    def drafts(self, row: Row) -> Iterable[Draft]:
        return [self._draft(row.line, row.values)]

    def _draft(self, line: int, values: Values, conversation: str = "", turn: int = 0) -> Draft:
        time = nanoseconds(values, "timestamp", self.unit, MAX_SECONDS)
        request = SourceRequest(
            line,
            prompt_tokens=whole(values, "input_length", 1, MAX_TOKENS),
            output_tokens=whole(values, "output_length", 1, MAX_TOKENS),
            hash_ids=_hash_ids(values.get("hash_ids")),
            conversation=conversation,
            turn=turn,
        )
        return Draft(time, request)


class Bailian(Mooncake):
    """As Mooncake's, with times in seconds, blocks of 16 tokens, and the chat that a turn belongs to."""

    name = "bailian"
    title = "Qwen-Bailian trace"
    attribution = Attribution(
        "Qwen-Bailian anonymous dataset (Alibaba Cloud, alibaba-edu/qwen-bailian-usagetraces-anon)",
        "Apache-2.0",
        "Wang et al., KVCache Cache in the Wild, USENIX ATC 2025",
    )
    needs = (*Mooncake.needs, "chat_id")
    also = ("parent_chat_id", "turn", "block_size", "type")
    unit = NANOSECONDS
    block_size = 16

    def __init__(self) -> None:
        self._first_chat: dict[int, int] = {}

    def drafts(self, row: Row) -> Iterable[Draft]:
        chat = whole(row.values, "chat_id", 0, MAX_HASH_ID)
        parent = whole(row.values, "parent_chat_id", -1, MAX_HASH_ID, default=-1)
        first = chat if parent < 0 else self._first_chat.get(parent, parent)
        draft = self._draft(row.line, row.values, str(first))
        self._first_chat[chat] = first
        return [draft]


class MultiTurn(Format):
    """Conversations of real text, one a row, as in MT-bench: the turns of a user, without the answers."""

    name = "mt_bench"
    title = "MT-bench questions"
    attribution = Attribution(
        "MT-bench and Vicuna-bench questions (LMSYS, FastChat)",
        "Apache-2.0",
        "Zheng et al., Judging LLM-as-a-Judge, NeurIPS 2023",
    )
    needs = ("turns",)
    also = ("question_id", "category")

    def drafts(self, row: Row) -> Iterable[Draft]:
        turns = row.values.get("turns")
        if not isinstance(turns, list) or not 1 <= len(turns) <= MAX_TURNS:
            found = f"{len(turns):,} texts" if isinstance(turns, list) else shown(turns)
            raise RowError(f"turns is {found}; it must be a list of 1 to {MAX_TURNS:,} texts")
        texts = [checked_prose(text, f"turn {number}") for number, text in enumerate(turns, 1)]
        return [
            Draft(None, SourceRequest(row.line, text=text, conversation=f"line {row.line}", turn=turn))
            for turn, text in enumerate(texts, 1)
        ]


class Plain(Format):
    """Our own kind: one request a row, with its text or its lengths; only one of the two is needed."""

    name = "plain"
    title = "plain workload"
    attribution = Attribution("your own file", "", "")
    also = ("arrival", "prompt", "prompt_tokens", "output_tokens", "priority", "tenant", "conversation")
    may_be_table = True

    @classmethod
    def fits(cls, names: set[str], *, is_table: bool) -> bool:
        return bool({"prompt", "prompt_tokens"} & names)

    def drafts(self, row: Row) -> Iterable[Draft]:
        values = row.values
        time = nanoseconds(values, "arrival", NANOSECONDS, MAX_SECONDS) if "arrival" in values else None
        text = prose(values, "prompt") if values.get("prompt") not in (None, "") else ""
        if not text and "prompt_tokens" not in values:
            raise RowError("has neither a prompt nor prompt_tokens")
        output = whole(values, "output_tokens", 1, MAX_TOKENS, default=0)
        request = SourceRequest(
            row.line,
            prompt_tokens=None if text else whole(values, "prompt_tokens", 1, MAX_TOKENS),
            output_tokens=output or None,
            text=text,
            priority=whole(values, "priority", 0, MAX_PRIORITY, default=0),
            tenant=word(values, "tenant"),
            conversation=word(values, "conversation"),
        )
        return [Draft(time, request)]


#: The first that fits is taken.
FORMATS: tuple[type[Format], ...] = (Azure, Bailian, Mooncake, MultiTurn, Plain)


def recognise(names: Iterable[str], *, is_table: bool) -> Format | None:
    """The kind of file that has these columns; None if there is none."""
    found = {name.lower() for name in names}
    return next((kind() for kind in FORMATS if kind.fits(found, is_table=is_table)), None)


def known_columns(*, is_table: bool) -> str:
    """The kinds that could have been, with their columns, for a message."""
    kinds = [kind for kind in FORMATS if (kind.may_be_table if is_table else kind.may_be_objects) and kind.needs]
    told = [f"{', '.join(kind.needs)} ({kind.title})" for kind in kinds]
    optional = ", ".join(name for name in Plain.also if not name.startswith("prompt"))
    return "; ".join([*told, f"prompt or prompt_tokens, and as you like {optional} ({Plain.title})"])


def _hash_ids(value: object) -> array[int]:
    if not isinstance(value, list):
        raise RowError(f"hash_ids is {shown(value)}; it must be a list of whole numbers")
    try:
        if any(type(each) is not int for each in value):
            raise TypeError
        return array("Q", value)
    except (TypeError, OverflowError):
        wrong = next(each for each in value if type(each) is not int or not 0 <= each <= MAX_HASH_ID)
        raise RowError(f"hash_ids holds {shown(wrong)}; each must be a whole number from 0 to 2^64 - 1") from None
