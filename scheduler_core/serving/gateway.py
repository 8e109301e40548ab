"""The HTTP front in OpenAI's wire format: models, completions, chats, health, metrics."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from scheduler_core.errors import RequestError
from scheduler_core.request import FinishReason, SamplingParams
from scheduler_core.serving.answers import Answer, body_of, error_body, usage
from scheduler_core.serving.ask import Ask
from scheduler_core.serving.body_limit import ARRIVED, BodyLimit
from scheduler_core.serving.errors import NeverFits, ServingError
from scheduler_core.serving.front import Front
from scheduler_core.serving.keys import ApiKeys, KeyGuard
from scheduler_core.serving.metrics import GatewayMetrics
from scheduler_core.serving.served_model import Codec
from scheduler_core.serving.stream import Stream
from scheduler_core.serving.text_stream import TextStream
from scheduler_core.serving.token_stream import EventStream, unless_left
from scheduler_core.serving.wire import ChatBody, CompletionBody

CHATS = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
_DEFAULT_COMPLETION_TOKENS = 16
#: How much longer than the answer a client may take to read it.
_READING_S = 60.0


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """The most that one request may bring and ask for."""

    max_body_bytes: int = 1024 * 1024
    max_prompt_tokens: int = 8_192
    max_output_tokens: int = 4_096


class BadRequest(Exception):
    """A request that is wrong in itself: the field, and what to do about it."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param = param
        self.code = code
        self.status = status


class Gateway:
    """Turns bodies into asks and streams into bodies. `app` is the ASGI application."""

    def __init__(
        self,
        engine: Front,
        runner: Codec,
        model: str,
        *,
        limits: GatewayLimits | None = None,
        keys: ApiKeys | None = None,
        metrics: GatewayMetrics | None = None,
    ) -> None:
        self.engine = engine
        self.limits = limits or GatewayLimits()
        self.model = model
        self._runner = runner
        self._metrics = metrics or GatewayMetrics(model)
        self._started = int(time.time())
        # One at a time, as tokenizers may not be called from several threads at once.
        self._tokenizer = ThreadPoolExecutor(1, thread_name_prefix="tokenizer")
        self.api = self._make_api()
        self.app: ASGIApp = KeyGuard(BodyLimit(self.api, self.limits.max_body_bytes), keys or ApiKeys(()))

    # The application

    def _make_api(self) -> FastAPI:
        api = FastAPI(title="Tickscope gateway", lifespan=self._lifespan, docs_url=None, redoc_url=None)
        api.add_exception_handler(RequestValidationError, _invalid)
        api.add_exception_handler(HTTPException, _http_problem)
        api.add_exception_handler(BadRequest, _bad_request)
        api.add_exception_handler(RequestError, _request_error)
        api.add_exception_handler(ServingError, _not_served)
        api.add_exception_handler(Exception, _unexpected)
        api.add_api_route("/health", self.health, methods=["GET"])
        api.add_api_route("/metrics", self.metrics, methods=["GET"], response_class=PlainTextResponse)
        api.add_api_route("/v1/models", self.models, methods=["GET"])
        api.add_api_route("/v1/models/{model:path}", self.one_model, methods=["GET"])
        api.add_api_route(COMPLETIONS, self.completions, methods=["POST"])
        api.add_api_route(CHATS, self.chats, methods=["POST"])
        for body in (CompletionBody, ChatBody):
            api.openapi()["components"]["schemas"][body.__name__]["properties"]["model"]["enum"] = [self.model]
        return api

    @asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        await self.engine.start()
        yield
        await self.engine.close()
        self._tokenizer.shutdown(wait=False)

    # What is asked for

    async def health(self) -> Response:
        """200 while requests are taken and the model answers."""
        status, facts = await self.engine.health()
        return JSONResponse({"status": status, **facts}, 200 if status == "ok" else 503)

    async def metrics(self) -> Response:
        return Response(await self.engine.exposition(self._metrics), media_type=self._metrics.content_type)

    async def models(self) -> Response:
        return JSONResponse({"object": "list", "data": [self._model_card()]})

    async def one_model(self, model: str) -> Response:
        self._check_model(model)
        return JSONResponse(self._model_card())

    async def completions(self, body: CompletionBody, request: Request) -> Response:
        return await self._answer(await self._completion_ask(body), body, request, is_chat=False)

    async def chats(self, body: ChatBody, request: Request) -> Response:
        return await self._answer(await self._chat_ask(body), body, request, is_chat=True)

    async def answer_again(self, endpoint: str, body: Mapping[str, Any]) -> str:
        """The text of the answer to what was sent to `endpoint` once; raises what an answer may raise."""
        fields = {name: value for name, value in body.items() if name not in ("stream", "stream_options")}
        if endpoint == CHATS:
            chat = ChatBody.model_validate(fields)
            ask, stops = await self._chat_ask(chat), chat.stop_strings
        else:
            completion = CompletionBody.model_validate(fields)
            ask, stops = await self._completion_ask(completion), completion.stop_strings
        stream = self.engine.submit(ask)
        text = TextStream(self._decode, stops, ask.sampling.min_tokens)
        return "".join([part async for part, _ in self._texts(stream, text)])

    async def _completion_ask(self, body: CompletionBody) -> Ask:
        self._check(body)
        prompt = body.single_prompt
        token_ids = await self._encode(prompt) if isinstance(prompt, str) else self._checked(prompt)
        shown = prompt if isinstance(prompt, str) else ""
        return self._ask(body, token_ids, body.max_tokens or _DEFAULT_COMPLETION_TOKENS, COMPLETIONS, shown)

    async def _chat_ask(self, body: ChatBody) -> Ask:
        self._check(body)
        turns = [("system" if turn.role == "developer" else turn.role, turn.text) for turn in body.messages]
        token_ids = await self._encode_chat(turns)
        room = min(self.limits.max_output_tokens, self.engine.longest - len(token_ids))
        max_tokens = body.max_completion_tokens or body.max_tokens or max(1, room)
        return self._ask(body, token_ids, max_tokens, CHATS, turns[-1][1])

    # Checks

    def _check(self, body: CompletionBody | ChatBody) -> None:
        self._check_model(body.model)
        if problem := body.unsupported():
            raise BadRequest(problem[1], problem[0], "unsupported_parameter")

    def _check_model(self, name: str) -> None:
        if name != self.model:
            raise BadRequest(
                f"there is no model {name[:100]!r}; this server has {self.model!r}", "model", "model_not_found", 404
            )

    def _checked(self, token_ids: list[int]) -> tuple[int, ...]:
        size = self._runner.vocab_size
        for token_id in token_ids:
            if token_id >= size:
                raise BadRequest(f"prompt has token id {token_id}; the model has ids below {size}", "prompt")
        return tuple(token_ids)

    def _check_lengths(self, prompt_tokens: int, max_tokens: int, param: str) -> None:
        limits, longest = self.limits, self.engine.config.max_model_len
        if not prompt_tokens:
            raise BadRequest("the prompt is empty; it needs at least one token", param)
        if prompt_tokens > limits.max_prompt_tokens:
            raise BadRequest(
                f"the prompt has {prompt_tokens} tokens; at most {limits.max_prompt_tokens} are possible: shorten it",
                param,
                "context_length_exceeded",
            )
        if max_tokens > limits.max_output_tokens:
            raise BadRequest(
                f"max_tokens is {max_tokens}; at most {limits.max_output_tokens} are possible: lower it", "max_tokens"
            )
        if prompt_tokens + max_tokens > longest:
            raise BadRequest(
                f"prompt ({prompt_tokens} tokens) and answer ({max_tokens}) have {prompt_tokens + max_tokens} tokens; "
                f"the model takes {longest}: shorten the prompt or lower max_tokens",
                param,
                "context_length_exceeded",
            )

    # From bodies to asks

    async def _encode(self, text: str) -> tuple[int, ...]:
        return await asyncio.get_running_loop().run_in_executor(self._tokenizer, self._runner.encode, text)

    async def _encode_chat(self, turns: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._tokenizer, self._runner.encode_messages, turns)

    def _ask(
        self,
        body: CompletionBody | ChatBody,
        token_ids: tuple[int, ...],
        max_tokens: int,
        endpoint: str,
        shown: str,
    ) -> Ask:
        """`shown` is what people see of the prompt in a recording."""
        self._check_lengths(len(token_ids), max_tokens, "messages" if endpoint == CHATS else "prompt")
        if (body.min_tokens or 0) > max_tokens:
            raise BadRequest(
                f"min_tokens is {body.min_tokens}; it must be at most max_tokens ({max_tokens})", "min_tokens"
            )
        sampling = SamplingParams(
            max_tokens=max_tokens,
            temperature=1.0 if body.temperature is None else body.temperature,
            top_p=1.0 if body.top_p is None else body.top_p,
            seed=body.seed,
            min_tokens=body.min_tokens or 0,
            stop_token_ids=tuple(body.stop_token_ids or ()),
            ignore_eos=bool(body.ignore_eos),
        )
        return Ask(
            token_ids,
            sampling,
            prompt=shown,
            priority=body.priority or 0,
            salt=body.cache_salt or "",
            endpoint=endpoint,
            body=body.model_dump(exclude_unset=True),
        )

    # From streams to bodies

    async def _answer(self, ask: Ask, body: CompletionBody | ChatBody, request: Request, *, is_chat: bool) -> Response:
        request_id = f"{'chatcmpl' if is_chat else 'cmpl'}-{uuid.uuid4().hex}"
        answer = Answer(request_id, self.model, int(time.time()), is_chat, body.wants_usage)
        text = TextStream(self._decode, body.stop_strings, ask.sampling.min_tokens)
        headers = {"x-request-id": request_id}
        stream = self.engine.submit(replace(ask, arrived=request.scope[ARRIVED]))
        if body.stream:
            longest = self.engine.limits.request_timeout_s + _READING_S
            return EventStream(self._chunks(stream, text, answer), headers, stream.abort, longest)
        try:
            whole = await unless_left(request.receive, self._whole(stream, text, answer))
        finally:
            stream.abort()
        # Nobody reads what is sent after the client has left.
        return JSONResponse(whole, headers=headers) if whole is not None else Response(status_code=499)

    async def _whole(self, stream: Stream, text: TextStream, answer: Answer) -> dict[str, Any]:
        parts = [part async for part in self._texts(stream, text)]
        whole = "".join(said for said, _ in parts)
        return answer.whole(whole, parts[-1][1], self._usage(stream))

    async def _chunks(self, stream: Stream, text: TextStream, answer: Answer) -> AsyncGenerator[dict[str, Any]]:
        """One chunk for each token, the reason of the end in the last; an error is the last one instead."""
        first = True
        try:
            async for part, end in self._texts(stream, text):
                yield answer.chunk(part, end, first=first)
                first = False
        except ServingError as problem:
            yield body_of(problem)
            return
        if answer.wants_usage:
            yield answer.usage_chunk(self._usage(stream))

    async def _texts(self, stream: Stream, text: TextStream) -> AsyncGenerator[tuple[str, FinishReason | None]]:
        """The text that each token adds, possibly none; with the last one comes the reason of the end."""
        async with stream:
            async for token_id in stream:
                part = text.add(token_id)
                if stream.is_at_end and not text.has_stopped:
                    part += text.finish()
                if text.has_stopped:
                    stream.stop()
                    yield part, FinishReason.STOP
                    return
                yield part, stream.reason if stream.is_at_end else None

    def _decode(self, token_ids: list[int]) -> str:
        return self._runner.decode(token_ids)

    def _usage(self, stream: Stream) -> dict[str, Any]:
        return usage(len(stream.ask.prompt_token_ids), stream.num_read, stream.num_cached_tokens)

    def _model_card(self) -> dict[str, Any]:
        return {
            "id": self.model,
            "object": "model",
            "created": self._started,
            "owned_by": "tickscope",
            "max_model_len": self.engine.config.max_model_len,
        }


# Errors, as OpenAI words them


async def _invalid(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, RequestValidationError)
    if "json" not in request.headers.get("content-type", ""):
        why = "the body is not announced as JSON; send it with content-type: application/json"
        return JSONResponse(error_body(why, "invalid_request_error"), 400)
    errors = [each for each in problem.errors() if each["loc"][:2] == problem.errors()[0]["loc"][:2]]
    # Where a field may be of several types, a bad value of one says more than that it is none of the others.
    first = next((each for each in errors if not each["type"].endswith("_type")), errors[0])
    # The names of the types that pydantic has tried are of no interest to a client.
    where = ".".join(str(each) for each in first["loc"] if each != "body" and "[" not in str(each))
    message = f"{where}: {first['msg']}" if where else f"the body is no request: {first['msg']}"
    return JSONResponse(error_body(message[:500], "invalid_request_error", None, where[:200] or None), 400)


async def _http_problem(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    body = error_body(str(problem.detail), "invalid_request_error", "not_found" if problem.status_code == 404 else None)
    return JSONResponse(body, problem.status_code, headers=problem.headers)


async def _bad_request(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, BadRequest)
    body = error_body(str(problem), "invalid_request_error", problem.code, problem.param)
    return JSONResponse(body, problem.status)


async def _request_error(_: Request, problem: Exception) -> Response:
    return JSONResponse(error_body(str(problem), NeverFits.kind), 400)


async def _not_served(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, ServingError)
    wait = problem.retry_after_s
    headers = {} if wait is None else {"retry-after": str(wait)}
    return JSONResponse(body_of(problem), problem.status, headers)


async def _unexpected(_: Request, problem: Exception) -> Response:
    return JSONResponse(error_body(f"the server failed: {type(problem).__name__}", "server_error"), 500)
