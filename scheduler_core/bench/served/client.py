"""Sends a request over HTTP as a client does, and tells when each token came and how it ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import httpx

from scheduler_core.request import FinishReason, RequestSpec
from scheduler_core.request_facts import RequestFacts
from scheduler_core.whereabouts import COMPLETED

_COMPLETIONS = "/v1/completions"
_TIMEOUT_S = 120.0
#: The server closes a connection that idles for five seconds; whoever uses it at that moment gets no answer.
_KEEP_ALIVE_S = 2.0

#: The code of an error -> how the gateway counts it.
_ENDS = {
    "queue_full": FinishReason.REJECTED,
    "context_length_exceeded": FinishReason.REJECTED,
    "model_failed": FinishReason.ERROR,
    "deadline_exceeded": FinishReason.ABORT,
}
_COMPLETED = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}


class LostAnswer(Exception):
    """An answer that ended in no way in which one may."""


@dataclass(frozen=True, slots=True)
class WireRequest:
    """A prompt in text or in token ids; the answer has `max_tokens` tokens, whatever the model wants to say."""

    id: str
    prompt: str | tuple[int, ...]
    max_tokens: int
    priority: int = 0
    salt: str = ""

    @classmethod
    def of(cls, spec: RequestSpec) -> Self:
        """A request in tokens."""
        return cls(spec.id, spec.prompt_token_ids, spec.sampling.max_tokens, spec.priority, spec.salt)

    def body(self, model: str, *, stream: bool) -> dict[str, Any]:
        return {
            "model": model,
            "prompt": self.prompt,
            "max_tokens": self.max_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "priority": self.priority,
            "cache_salt": self.salt,
            "stream": stream,
            **({"stream_options": {"include_usage": True}} if stream else {}),
        }


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """As many connections as there are requests under way; proxies of the environment are not asked."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=_KEEP_ALIVE_S)
    async with httpx.AsyncClient(base_url=url, timeout=_TIMEOUT_S, limits=limits, trust_env=False) as client:
        yield client


@dataclass(slots=True)
class _Heard:
    """What has come of an answer so far."""

    times: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    prompt_tokens: int = 0
    end: FinishReason | None = None

    def hear(self, event: Mapping[str, Any], now: float) -> None:
        """One event of a stream."""
        if "error" in event:
            self.end = _end_by_error(200, event)
        elif not event["choices"]:
            self.prompt_tokens = event["usage"]["prompt_tokens"]
        else:
            choice = event["choices"][0]
            self.times.append(now)
            self.texts.append(choice["text"])
            self.end = _COMPLETED[choice["finish_reason"]] if choice["finish_reason"] else None


class Client:
    """Sends requests and keeps the texts of those that were asked for with `keep`."""

    def __init__(self, http: httpx.AsyncClient, model: str) -> None:
        self._http = http
        self._model = model
        self.texts: dict[str, str] = {}

    async def stream(
        self, request: WireRequest, planned: float, *, leave_after: int | None = None, keep: bool = False
    ) -> RequestFacts:
        """Read token by token; a client that leaves goes after so many, 0 as soon as the server has taken it in.

        Times are of the running loop's clock. Raises `LostAnswer` for what is no proper end.
        """
        heard = _Heard()
        clock = asyncio.get_running_loop().time
        body = request.body(self._model, stream=True)
        async with self._http.stream("POST", _COMPLETIONS, json=body) as answer:
            if answer.status_code != 200:
                await answer.aread()
                heard.end = _end_by_error(answer.status_code, _json(answer))
            elif leave_after == 0:
                heard.end = FinishReason.ABORT
            else:
                # To the end mark, so that the connection can be used again.
                async for event in _events(answer):
                    heard.hear(event, clock())
                    if heard.end is None and leave_after is not None and len(heard.times) >= leave_after:
                        heard.end = FinishReason.ABORT
                        break
        return self._facts(request, planned, heard, keep)

    async def whole(self, request: WireRequest, planned: float, *, keep: bool = False) -> RequestFacts:
        """Wait for the answer at once; its tokens have no times of their own, and all count as come at the end."""
        answer = await self._http.post(_COMPLETIONS, json=request.body(self._model, stream=False))
        heard, body = _Heard(), _json(answer)
        if answer.status_code != 200:
            heard.end = _end_by_error(answer.status_code, body)
        else:
            choice, usage = body["choices"][0], body["usage"]
            heard.times = [asyncio.get_running_loop().time()] * usage["completion_tokens"]
            heard.texts, heard.prompt_tokens = [choice["text"]], usage["prompt_tokens"]
            heard.end = _COMPLETED[choice["finish_reason"]]
        return self._facts(request, planned, heard, keep)

    def _facts(self, request: WireRequest, planned: float, heard: _Heard, keep: bool) -> RequestFacts:
        """A completed answer ended with its last token, as in vLLM's client, whatever came after it."""
        if heard.end is None:
            raise LostAnswer(f"the stream ended after {len(heard.times)} tokens without a reason")
        if heard.end is FinishReason.LENGTH and len(heard.times) != request.max_tokens:
            raise LostAnswer(f"{len(heard.times)} tokens came of {request.max_tokens}")
        completed = heard.end in COMPLETED
        if keep and completed:
            self.texts[request.id] = "".join(heard.texts)
        now = heard.times[-1] if completed else asyncio.get_running_loop().time()
        return RequestFacts(request.id, planned, heard.prompt_tokens, heard.times, now, heard.end)


async def _events(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """The bodies of a stream of events, up to its end mark."""
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            if line == "data: [DONE]":
                return
            yield json.loads(line.removeprefix("data: "))


def _json(answer: httpx.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise LostAnswer(f"status {answer.status_code} with a body that is not JSON")
    return body


def _end_by_error(status: int, body: Mapping[str, Any]) -> FinishReason:
    error = body.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    if code not in _ENDS:
        raise LostAnswer(f"status {status}: {json.dumps(body)[:300]}")
    return _ENDS[code]
