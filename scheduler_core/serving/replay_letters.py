"""Sends dead letters to a running gateway again."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from scheduler_core.errors import TickscopeError
from scheduler_core.serving.dead_letters import DeadLetter, DeadLetters


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of a letter: the text of the answer, or why there is none."""

    letter_id: str
    text: str | None
    problem: str | None


def replay(box: DeadLetters, letter: DeadLetter, url: str, api_key: str, timeout_s: float = 600.0) -> Replayed:
    """Send it once; it leaves the box if it is answered, or if the gateway has kept it anew.

    Raises `TickscopeError` if there is no gateway at `url`.
    """
    body = {key: value for key, value in letter.body.items() if key not in ("stream", "stream_options")}
    request = urllib.request.Request(
        url.rstrip("/") + letter.endpoint,
        json.dumps(body).encode(),
        {"content-type": "application/json", "authorization": f"Bearer {api_key}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            told = json.load(answer)
    except urllib.error.HTTPError as problem:
        error = _error(problem)
        if error.get("dead_letter"):
            box.remove(letter.id)
        return Replayed(letter.id, None, str(error.get("message", problem)))
    except (OSError, ValueError) as problem:
        raise TickscopeError(f"no gateway answers at {url} ({problem}); start one with `serve`") from None
    box.remove(letter.id)
    choice = told["choices"][0]
    return Replayed(letter.id, choice["text"] if "text" in choice else choice["message"]["content"], None)


def _error(problem: urllib.error.HTTPError) -> dict[str, Any]:
    try:
        told = json.load(problem)
    except ValueError:
        return {}
    error = told.get("error") if isinstance(told, dict) else None
    return error if isinstance(error, dict) else {}
