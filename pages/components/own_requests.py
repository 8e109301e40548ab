"""Requests of a visitor's own, in words: what they are, what is wrong with them, and how they travel in a link."""

from __future__ import annotations

import base64
import binascii
import json
import re
import unicodedata
import zlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from pages.components.plain import cut
from pages.components.settings import Limits
from scheduler_core.errors import RequestError

MAX_PACKED_BYTES = 200_000
MAX_ARRIVAL = 100_000
MAX_CLASS = 1_000
_NAME = re.compile(r"\w[\w.-]{0,15}")


@dataclass(frozen=True, slots=True)
class OwnRequest:
    """One request: `priority` is its class (lower is better), `arrival` a moment in virtual seconds."""

    id: str
    prompt: str
    max_tokens: int = 24
    priority: int = 0
    arrival: int = 0
    system: str = ""


def problems(requests: Sequence[OwnRequest], limits: Limits) -> list[str]:
    """Everything that keeps these requests from running, each with value, bound and remedy; [] if they can run."""
    found = []
    if not requests:
        found.append("There is no request yet; add one.")
    if len(requests) > limits.max_requests:
        found.append(
            f"There are {len(requests)} requests; this site runs at most {limits.max_requests} at once. Delete some."
        )
    ids = [request.id for request in requests]
    for doubled in sorted({name for name in ids if ids.count(name) > 1}):
        found.append(f"Two requests are called {cut(doubled)}; give each a name of its own.")
    for request in requests:
        found += request_problems(request, limits)
    return list(dict.fromkeys(found))


def request_problems(request: OwnRequest, limits: Limits) -> list[str]:
    """What is wrong with one request by itself."""
    who = request.id.strip() or "A request"
    found = []
    if not _NAME.fullmatch(request.id):
        found.append(f"{cut(request.id)} is no name for a request; take 1 to 16 letters and digits, such as R7.")
    if not request.prompt.strip():
        found.append(f"{who} has an empty prompt; write at least one word.")
    found += _unprintable(request.prompt, f"prompt of {who}")
    found += _unprintable(request.system, "system prompt")
    found += _out_of_bounds(f"max tokens of {who}", request.max_tokens, 1, limits.max_output_tokens)
    found += _out_of_bounds(f"class of {who}", request.priority, 0, MAX_CLASS)
    found += _out_of_bounds(f"arrival of {who}", request.arrival, 0, MAX_ARRIVAL)
    return found


def length_problem(request: OwnRequest, num_tokens: int, max_model_len: int, limits: Limits) -> str:
    """What is wrong with a prompt of that many tokens, "" if nothing."""
    if num_tokens > limits.max_prompt_tokens:
        return (
            f"The prompt of {request.id} has {num_tokens:,} tokens; this site takes at most "
            f"{limits.max_prompt_tokens:,}. Shorten it."
        )
    if num_tokens >= max_model_len:
        return (
            f"The prompt of {request.id} has {num_tokens:,} tokens; with the longest sequence at {max_model_len:,} "
            "no answer fits behind it. Shorten it, or raise Longest sequence."
        )
    return ""


def from_pasted(text: str, taken: Sequence[str]) -> list[OwnRequest]:
    """One request for every block of text between blank lines."""
    blocks = [block.strip() for block in text.replace("\r\n", "\n").split("\n\n")]
    made: list[OwnRequest] = []
    for block in filter(None, blocks):
        made.append(OwnRequest(free_id([*taken, *(request.id for request in made)]), block))
    return made


def free_id(taken: Sequence[str]) -> str:
    """The first of R0, R1, ... that nobody has."""
    number = 0
    while f"R{number}" in taken:
        number += 1
    return f"R{number}"


def pack(requests: Sequence[OwnRequest]) -> str:
    """The requests as one word for an address."""
    plain = json.dumps([astuple(request) for request in requests], separators=(",", ":"))
    return base64.urlsafe_b64encode(zlib.compress(plain.encode(), 9)).decode().rstrip("=")


def unpack(word: str) -> tuple[OwnRequest, ...]:
    """Read what `pack` made; raises `RequestError`."""
    try:
        packed = base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_", validate=True)
        reader = zlib.decompressobj()
        data = reader.decompress(packed, MAX_PACKED_BYTES)
        if not reader.eof:
            raise ValueError("too long or cut off")
        rows = json.loads(data)
        return tuple(_from_row(row) for row in rows)
    except (ValueError, TypeError, binascii.Error, zlib.error, RecursionError):
        raise RequestError(
            "The requests in the link are damaged, so they are left out; ask for the link again."
        ) from None


def _from_row(row: object) -> OwnRequest:
    if not isinstance(row, list) or [type(value) for value in row] != [str, str, int, int, int, str]:
        raise ValueError("not a request")
    return OwnRequest(*row)


def _unprintable(text: str, what: str) -> list[str]:
    for position, character in enumerate(text, 1):
        if _is_unprintable(character):
            code = f"U+{ord(character):04X}"
            return [f"The {what} has the character {code} at position {position}, which no text holds; delete it."]
    return []


def _is_unprintable(character: str) -> bool:
    category = unicodedata.category(character)
    return category == "Cs" or (category == "Cc" and character not in "\n\t\r")


def _out_of_bounds(what: str, value: int, low: int, high: int) -> list[str]:
    if low <= value <= high:
        return []
    nearest = low if value < low else high
    return [f"The {what} is {value:,}; it must be from {low} to {high:,}. Set it to {nearest:,}, say."]
