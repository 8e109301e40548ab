"""Decides each tick which tokens of which requests the model computes, and takes the results in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from scheduler_core.backends.base import request_seed
from scheduler_core.chunker import Chunker
from scheduler_core.config import EngineConfig
from scheduler_core.events import (
    Event,
    FaultInjected,
    Numbers,
    PreemptReason,
    PrefixCacheQueried,
    RequestAdmitted,
    RequestArrived,
    RequestFinished,
    RequestPreempted,
    RequestRefused,
    RequestRestored,
    RequestScheduled,
    RequestSkipped,
    SkipReason,
    SliceExpired,
    TokenSampled,
)
from scheduler_core.kv_cache_manager import KVCacheManager
from scheduler_core.laws import BrokenLaw, Law
from scheduler_core.output import BlockCopy, ModelRunnerOutput, SampledToken, ScheduledRequest, SchedulerOutput
from scheduler_core.policy import make_policy
from scheduler_core.preemption import fewest
from scheduler_core.request import FinishReason, Request, RequestSpec, RequestStatus
from scheduler_core.waiting_queue import Key, WaitingQueue, lifted_class

OUT_OF_KV = "out of KV: no block is free and nobody else can give one up"


@dataclass(slots=True)
class Pass:
    """What one call of `schedule` has decided so far.

    `items` maps request id to its tokens of this tick, `later` are those whose turn comes after admission; `left` are
    those preempted for another request, who come back to the queue when the pass is over; `batch_open` tells whether
    nothing ran when the tick began.
    """

    tick: int
    chunker: Chunker
    batch_open: bool
    items: dict[str, int] = field(default_factory=dict)
    later: frozenset[str] = frozenset()
    admitted: set[str] = field(default_factory=set)
    left: list[Request] = field(default_factory=list)
    memory_victims: list[Request] = field(default_factory=list)
    copies_out: list[BlockCopy] = field(default_factory=list)
    copies_in: list[BlockCopy] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The first rule that keeps a waiting request out."""

    reason: SkipReason
    numbers: Numbers = ()


class Scheduler:
    """Queue, lanes and the rules of a tick. `log` receives every event."""

    def __init__(
        self,
        config: EngineConfig,
        kv: KVCacheManager,
        log: list[Event],
        *,
        block_bytes: int = 0,
        eos_token_ids: tuple[int, ...] = (),
    ) -> None:
        self.config = config
        self.kv = kv
        self.policy = make_policy(config)
        self.waiting = WaitingQueue(self.policy, config.aging)
        self.running: dict[str, Request] = {}
        self.requests: dict[str, Request] = {}
        self.finished: list[Request] = []
        self._expired: dict[str, None] = {}
        self._queue_numbers = 0
        self._log = log
        self._block_bytes = block_bytes
        self._eos_token_ids = eos_token_ids

    @property
    def num_alive(self) -> int:
        return len(self.requests)

    # Arrivals, aborts, changes of settings: between ticks

    def add(self, spec: RequestSpec, tick: int) -> Request:
        """Take a request in, or refuse it at once if it could never run."""
        longest = min(len(spec.prompt_token_ids) + spec.sampling.max_tokens, self.config.max_model_len)
        request = Request(spec, self._next_number(), longest)
        self._log.append(RequestArrived(spec.id, len(spec.prompt_token_ids), spec.sampling.max_tokens, spec.priority))
        if refusal := self._refusal(request):
            self._log.append(refusal)
            self._close(request, FinishReason.REJECTED, refusal.message)
            return request
        self.requests[spec.id] = request
        self.waiting.add(request, tick)
        return request

    def abort(self, request_id: str, tick: int) -> None:
        """End a live request; its private blocks and its saved copy are free at once."""
        request = self.requests[request_id]
        if request.status is not RequestStatus.RUNNING:
            self.waiting.remove(request, tick)
        self._finish(request, FinishReason.ABORT)

    def reconfigure(self, config: EngineConfig, tick: int) -> list[BlockCopy]:
        """Take new settings; lanes that no longer exist are emptied, worst first. Returns the copies to make."""
        self.config = self.kv.config = config
        self.policy = make_policy(config)
        queued = [*self.waiting]
        for request in queued:
            self.waiting.remove(request, tick)
        self.waiting = WaitingQueue(self.policy, config.aging)
        for request in queued:
            self.waiting.add(request, tick)
        slices_used = (r for r in self.running.values() if config.quantum and r.slice_used >= config.quantum)
        self._expired = dict.fromkeys(r.id for r in slices_used)
        emptied = self._begin(tick)
        for request in self._worst_first(self.running.values())[: max(0, len(self.running) - config.max_num_seqs)]:
            self._preempt(emptied, request, PreemptReason.LANES, request.id)
        self._requeue(emptied)
        return emptied.copies_out

    # A tick

    def schedule(self, tick: int) -> SchedulerOutput:
        """Choose the batch of a tick."""
        self._prepare_queue(tick)
        now = self._begin(tick)
        decodes = [r for r in self.running.values() if r.is_decoding]
        prefills = [r for r in self.running.values() if not r.is_decoding]
        if self.config.batch_order == "prefill_first":
            self._schedule_running(now, prefills)
            now.later = frozenset(r.id for r in decodes)
            self._admit_waiting(now, self._blocks_to_grow(decodes))
            self._schedule_running(now, decodes)
        else:
            in_order = self.config.batch_order == "running_order"
            self._schedule_running(now, [*self.running.values()] if in_order else [*decodes, *prefills])
            self._admit_waiting(now, 0)
        self._requeue(now)
        return self._output(now)

    def update_from_output(self, output: SchedulerOutput, result: ModelRunnerOutput) -> None:
        """Take in what the model computed; a request whose forward failed publishes nothing and ends."""
        for copy in output.copies_in:
            self.kv.release_host(copy.request_id)
        failed = result.failed or {}
        for item in output.scheduled:
            request = self.running[item.request_id]
            if item.request_id in failed:
                self._finish(request, FinishReason.ERROR, failed[item.request_id])
            else:
                self._commit(request, item, result.sampled.get(item.request_id))

    def copy_out_failed(self, request_id: str, problem: str) -> None:
        """A save that did not work: what it held is lost and will be computed again."""
        request = self.requests[request_id]
        self._drop_saved(request)
        request.num_computed_tokens = 0
        self._log.append(FaultInjected("copy_out", request_id, f"{problem}; its KV will be computed again"))

    def copy_in_failed(self, output: SchedulerOutput, copy: BlockCopy, problem: str) -> SchedulerOutput:
        """A restore that did not work: keep what came from the cache, compute the rest from the next tick on."""
        request = self.requests[copy.request_id]
        self._drop_saved(request)
        request.num_computed_tokens = copy.first_block * self.config.block_size
        self._log[:] = [e for e in self._log if not (isinstance(e, RequestScheduled) and e.request_id == request.id)]
        self._log.append(FaultInjected("copy_in", request.id, f"{problem}; its KV will be computed again"))
        return SchedulerOutput(
            output.tick,
            tuple(item for item in output.scheduled if item.request_id != request.id),
            output.copies_out,
            tuple(other for other in output.copies_in if other is not copy),
        )

    # Keys

    def key(self, request: Request) -> Key:
        """(Effective class, queue number): smaller goes first, everywhere."""
        if request.status is RequestStatus.RUNNING:
            request_class = self.policy.request_class(request)
            return lifted_class(request_class, request.idle_ticks, self.config.aging), request.queue_number
        return self.waiting.key(request)

    def _worst_first(self, requests: Iterable[Request]) -> list[Request]:
        return sorted(requests, key=self.key, reverse=True)

    def _next_number(self) -> int:
        self._queue_numbers += 1
        return self._queue_numbers

    def _prepare_queue(self, tick: int) -> None:
        self.waiting.promote(tick)
        if self.policy.looks_up_prefix:
            for request in self.waiting.oldest(64):
                hit_blocks = len(self.kv.lookup(request))
                if hit_blocks != request.hit_blocks:
                    request.hit_blocks = hit_blocks
                    self.waiting.rekey(request, tick)

    # Running requests

    def _begin(self, tick: int) -> Pass:
        alive = len(self.waiting) + len(self.running)
        return Pass(tick, Chunker(self.config, alive), batch_open=not self.running)

    def _schedule_running(self, now: Pass, requests: Sequence[Request]) -> None:
        for request in requests:
            if request.id not in self.running:
                continue
            count = now.chunker.chunk(request.num_tokens_left)
            if count == 0:
                self._skip(request, self._no_budget(now))
            elif self._make_room(now, request, request.num_computed_tokens + count):
                self._put_in_batch(now, request, count)

    def _make_room(self, now: Pass, request: Request, num_tokens: int) -> bool:
        """Blocks for `num_tokens` of a running request, if need be those of the worst running one."""
        while not self.kv.allocate(request, num_tokens):
            if len(self.running) == 1:
                self._finish(request, FinishReason.ERROR, OUT_OF_KV)
                return False
            victim = max(self.running.values(), key=self.key)
            self._preempt(now, victim, PreemptReason.MEMORY, request.id)
            if victim is request:
                return False
        return True

    def _put_in_batch(self, now: Pass, request: Request, count: int) -> None:
        start = request.num_computed_tokens
        if not self.kv.is_writable(request, start, start + count):
            raise BrokenLaw(Law.WRITES, f"{request.id} would write to a shared block")
        now.items[request.id] = count
        now.chunker.take(count)

    def _blocks_to_grow(self, decodes: Sequence[Request]) -> int:
        """Blocks that these requests will ask for later in this tick."""
        tables = self.kv.tables
        return sum(self.kv.blocks_for(r.num_tokens) > len(tables[r.id]) for r in decodes if r.id in tables)

    # Admission

    def _admit_waiting(self, now: Pass, reserved: int) -> None:
        while (request := self.waiting.best()) is not None:
            hits = self.kv.lookup(request)
            obstacle = self._closed_for(now, request) or self._obstacle(now, request, hits, reserved, ())
            if obstacle and obstacle.reason in (SkipReason.LANES, SkipReason.BUDGET, SkipReason.MEMORY):
                obstacle = self._let_leave(now, request, hits, reserved, obstacle)
            if obstacle is None:
                self._enter(now, request, hits)
                continue
            if obstacle.reason is SkipReason.MEMORY and not self.running:
                self.waiting.remove(request, now.tick)
                self._finish(request, FinishReason.ERROR, OUT_OF_KV)
                continue
            self._skip(request, obstacle)
            break

    def _closed_for(self, now: Pass, request: Request) -> Obstacle | None:
        """Rules that no one's leaving can change."""
        if now.memory_victims:
            return Obstacle(SkipReason.PREEMPTED_FOR_MEMORY, (("preempted", len(now.memory_victims)),))
        if any(self._key_in_queue(left) < self.waiting.key(request) for left in now.left):
            return Obstacle(SkipReason.JUST_PREEMPTED)
        if self.config.admission == "when_empty" and not now.batch_open:
            return Obstacle(SkipReason.BATCH_CLOSED, (("running", len(self.running)),))
        return None

    def _obstacle(
        self, now: Pass, request: Request, hits: Sequence[int], reserved: int, leaving: Sequence[Request]
    ) -> Obstacle | None:
        """Why `request` does not fit once `leaving` have left, or None if it does."""
        running = len(self.running) - len(leaving)
        if running >= self.config.max_num_seqs:
            return Obstacle(SkipReason.LANES, (("lanes", self.config.max_num_seqs), ("lanes_used", running)))
        budget_left = now.chunker.budget_left + sum(now.items.get(r.id, 0) for r in leaving)
        computed = self._computed_on_return(request, hits)
        chunk = now.chunker.chunk(request.num_tokens - computed, budget_left)
        if chunk == 0:
            return self._no_budget(now)
        space = self.kv.space(hits)
        for other in leaving:
            self.kv.leave(space, other)
        needed = self._blocks_to_enter(request, computed + chunk) - len(hits)
        promised = space.promised if self.config.admission in ("whole_minus_promised", "when_empty") else 0
        watermark = self.config.watermark if running else 0
        if needed <= space.free - reserved - promised - watermark:
            return None
        numbers = (("blocks_needed", needed), ("blocks_free", space.free - reserved))
        return Obstacle(SkipReason.MEMORY, (*numbers, ("blocks_promised", promised), ("watermark", watermark)))

    def _blocks_to_enter(self, request: Request, end_of_chunk: int) -> int:
        """Blocks for which admission wants to see room: the whole sequence, or as far as the first chunk goes."""
        first_only = self.config.admission == "first_chunk"
        return self.kv.blocks_for(end_of_chunk if first_only else request.num_tokens)

    def _let_leave(
        self, now: Pass, request: Request, hits: Sequence[int], reserved: int, obstacle: Obstacle
    ) -> Obstacle | None:
        """Make room by ending expired slices, else by pushing out worse classes; else the obstacle stays."""

        def fits(leaving: Sequence[Request]) -> bool:
            return self._obstacle(now, request, hits, reserved, leaving) is None

        expired = self._expired_behind(now, request)
        leaving = fewest(expired, fits)
        if not leaving and self.policy.has_classes and self.config.priority_push_out:
            worse = self._worst_first({*expired, *self._worse_class(now, request)})
            leaving = fewest(worse, fits)
            finishing = [r for r in self.running.values() if self._finishes_now(now, r)]
            if leaving and finishing and fits(finishing):
                return Obstacle(SkipReason.FINISHING, (("finishing", len(finishing)),))
        if not leaving:
            return obstacle
        for victim in self._worst_first(leaving):
            reason = PreemptReason.SLICE if victim in expired else PreemptReason.PUSH_OUT
            self._preempt(now, victim, reason, request.id)
        return None

    def _expired_behind(self, now: Pass, request: Request) -> list[Request]:
        """Running requests with an expired slice that would rank behind `request` after it, worst first."""
        request_class = self.waiting.key(request)[0]
        candidates = (self.running[i] for i in self._expired)
        # A new queue number is larger than any other, so the classes decide.
        behind = (r for r in candidates if self.policy.class_after_expiry(r) >= request_class)
        return self._worst_first(r for r in behind if self._may_leave(now, r))

    def _worse_class(self, now: Pass, request: Request) -> list[Request]:
        request_class = self.waiting.key(request)[0]
        return [r for r in self.running.values() if self.key(r)[0] > request_class and self._may_leave(now, r)]

    def _may_leave(self, now: Pass, request: Request) -> bool:
        return request.id not in now.admitted and not self._finishes_now(now, request)

    def _finishes_now(self, now: Pass, request: Request) -> bool:
        """Whether it reaches max_tokens in this tick."""
        computes_last = request.id in now.later or now.items.get(request.id) == request.num_tokens_left
        return computes_last and request.num_tokens + 1 >= request.max_total_tokens

    def _computed_on_return(self, request: Request, hits: Sequence[int]) -> int:
        return max(request.num_saved_tokens, len(hits) * self.config.block_size)

    def _enter(self, now: Pass, request: Request, hits: Sequence[int]) -> None:
        """Give a waiting request a lane, its cached or saved KV, and its first chunk."""
        space = self.kv.space(hits)
        needed = self.kv.blocks_for(request.num_tokens) - len(hits)
        hit_tokens = len(hits) * self.config.block_size
        resumed = request.status is RequestStatus.PREEMPTED
        if self.config.enable_prefix_caching:
            self._log.append(
                PrefixCacheQueried(request.id, request.num_tokens, hit_tokens, tuple(hits), request.admitted_once)
            )
        self._log.append(RequestAdmitted(request.id, hit_tokens, needed, space.free, space.promised, resumed))
        self.waiting.remove(request, now.tick)
        request.status = RequestStatus.RUNNING
        self.running[request.id] = request
        now.admitted.add(request.id)
        request.slice_used = 0
        request.hit_blocks = len(hits)
        if not request.admitted_once:
            request.admitted_once = True
            request.num_cached_tokens = hit_tokens
        self.kv.attach(request, hits)
        request.num_computed_tokens = self._computed_on_return(request, hits)
        request.max_computed_tokens = max(request.max_computed_tokens, request.num_computed_tokens)
        count = now.chunker.chunk(request.num_tokens_left)
        fitted = self.kv.allocate(request, request.num_computed_tokens + count)
        assert fitted, f"{request.id} was admitted but does not fit"
        self.kv.promise(request)
        if request.num_saved_tokens:
            self._restore(now, request, len(hits))
        self._put_in_batch(now, request, count)

    def _restore(self, now: Pass, request: Request, num_hits: int) -> None:
        """Plan to copy in the saved blocks that the cache did not have."""
        saved_blocks = self.kv.blocks_for(request.num_saved_tokens)
        table = self.kv.tables[request.id]
        tokens = max(0, request.num_saved_tokens - num_hits * self.config.block_size)
        blocks = max(0, saved_blocks - num_hits)
        if blocks:
            now.copies_in.append(BlockCopy(request.id, tuple(table[num_hits:saved_blocks]), num_hits))
        else:
            self.kv.release_host(request.id)
        self._log.append(
            RequestRestored(request.id, num_hits * self.config.block_size, tokens, blocks, blocks * self._block_bytes)
        )
        request.num_saved_tokens = 0

    # Preemption

    def _preempt(self, now: Pass, victim: Request, reason: PreemptReason, for_request: str) -> None:
        """Take a running request off its lane, saving its KV if the mode says so and the host has room."""
        now.chunker.give_back(now.items.pop(victim.id, 0))
        slice_used = victim.slice_used
        del self.running[victim.id]
        self._expired.pop(victim.id, None)
        blocks = self.kv.blocks_for(victim.num_computed_tokens)
        saves = self.config.preemption_mode == "swap" and blocks > 0 and self.kv.can_save(blocks)
        saved = victim.num_computed_tokens if saves else 0
        if saves:
            self.kv.reserve_host(victim, blocks)
            now.copies_out.append(BlockCopy(victim.id, tuple(self.kv.tables[victim.id][:blocks])))
        self._log.append(
            RequestPreempted(
                victim.id,
                reason,
                "swap" if saves else "recompute",
                for_request,
                tokens_saved=saved,
                tokens_lost=victim.num_computed_tokens - saved,
                blocks_saved=blocks if saves else 0,
                bytes_saved=blocks * self._block_bytes if saves else 0,
                slice_used=slice_used,
            )
        )
        self.kv.free(victim)
        victim.status = RequestStatus.PREEMPTED
        victim.num_preemptions += 1
        victim.num_saved_tokens = victim.num_computed_tokens = saved
        if reason is PreemptReason.SLICE:
            victim.level = self.policy.level_after_expiry(victim)
            victim.queue_number = self._next_number()
            victim.waited_ticks = victim.lost_ticks = 0
        if reason is PreemptReason.MEMORY:
            now.memory_victims.append(victim)
        now.left.append(victim)

    def _key_in_queue(self, request: Request) -> Key:
        """The key with which a request that left in this pass will stand in the queue."""
        request_class = self.policy.request_class(request)
        return lifted_class(request_class, request.idle_ticks, self.config.aging), request.queue_number

    def _requeue(self, now: Pass) -> None:
        for request in now.left:
            self.waiting.add(request, now.tick)
        now.left.clear()

    def _drop_saved(self, request: Request) -> None:
        self.kv.release_host(request.id)
        request.num_saved_tokens = 0

    # The end of a tick

    def _output(self, now: Pass) -> SchedulerOutput:
        scheduled = []
        for request_id, count in now.items.items():
            item = self._item(self.running[request_id], count)
            scheduled.append(item)
            self._log.append(RequestScheduled(request_id, item.start, count, item.recomputed_tokens, item.is_decode))
        return SchedulerOutput(now.tick, tuple(scheduled), tuple(now.copies_out), tuple(now.copies_in))

    def _item(self, request: Request, count: int) -> ScheduledRequest:
        start = request.num_computed_tokens
        end = start + count
        return ScheduledRequest(
            request.id,
            tuple(request.token_ids[start:end]),
            start,
            tuple(self.kv.tables[request.id][: self.kv.blocks_for(end)]),
            samples=end == request.num_tokens,
            output_index=request.num_output_tokens,
            sampling=request.spec.sampling,
            seed=request_seed(self.config.seed, request.spec),
            recomputed_tokens=max(0, min(end, request.max_computed_tokens) - start),
        )

    def _commit(self, request: Request, item: ScheduledRequest, token: SampledToken | None) -> None:
        request.num_computed_tokens = item.end
        if item.end > request.max_computed_tokens:
            request.max_computed_tokens = item.end
            request.slice_used += 1
        else:
            request.lost_ticks += 1
        if item.samples:
            assert token is not None, f"the model drew no token for {request.id}"
            request.token_ids.append(token.token_id)
            self._log.append(TokenSampled(request.id, item.output_index, token.token_id, token.text, token.top))
        self.kv.publish(request)
        if token is not None and self._stops(request, token.token_id):
            self._finish(request, FinishReason.STOP)
        elif request.num_tokens >= request.max_total_tokens:
            self._finish(request, FinishReason.LENGTH)
        elif self.config.quantum and request.slice_used >= self.config.quantum and request.id not in self._expired:
            self._expired[request.id] = None
            self._log.append(SliceExpired(request.id, self.config.quantum))

    def _stops(self, request: Request, token_id: int) -> bool:
        sampling = request.spec.sampling
        if request.num_output_tokens < sampling.min_tokens:
            return False
        return token_id in sampling.stop_token_ids or (not sampling.ignore_eos and token_id in self._eos_token_ids)

    def _finish(self, request: Request, reason: FinishReason, message: str = "") -> None:
        """End a live request wherever it is, and free all it holds."""
        if self.running.pop(request.id, None):
            self.kv.free(request)
        self._expired.pop(request.id, None)
        self._drop_saved(request)
        del self.requests[request.id]
        self._close(request, reason, message)

    def _close(self, request: Request, reason: FinishReason, message: str = "") -> None:
        request.status = RequestStatus.FINISHED
        request.finish_reason = reason
        self.finished.append(request)
        self._log.append(RequestFinished(request.id, reason, message))

    def _refusal(self, request: Request) -> RequestRefused | None:
        limit = self.config.max_model_len
        if request.num_prompt_tokens >= limit:
            return RequestRefused(
                request.id,
                f"the prompt has {request.num_prompt_tokens} tokens; it must be below max_model_len ({limit}): "
                "shorten the prompt or raise max_model_len",
                (("prompt_tokens", request.num_prompt_tokens), ("max_model_len", limit)),
            )
        # The last token of an answer is never computed, so it needs no KV.
        kv_tokens = request.max_total_tokens - 1
        if not self.kv.can_ever_fit(kv_tokens):
            needed, blocks = self.kv.blocks_for(kv_tokens), self.config.num_blocks
            return RequestRefused(
                request.id,
                f"prompt and answer may need {needed} blocks of KV; there are {blocks}: "
                "shorten the prompt, lower max_tokens or raise num_blocks",
                (("blocks_needed", needed), ("num_blocks", blocks)),
            )
        return None

    def _no_budget(self, now: Pass) -> Obstacle:
        chunker = now.chunker
        return Obstacle(SkipReason.BUDGET, (("budget", chunker.budget), ("budget_left", max(0, chunker.budget_left))))

    def _skip(self, request: Request, obstacle: Obstacle) -> None:
        self._log.append(RequestSkipped(request.id, obstacle.reason, obstacle.numbers))

    # Laws

    def check_integrity(self, output: SchedulerOutput | None = None) -> None:
        """The laws that hold after every tick."""
        self.kv.check_integrity()
        self._check_places()
        if len(self.running) > self.config.max_num_seqs:
            raise BrokenLaw(Law.LANES, f"{len(self.running)} requests run in {self.config.max_num_seqs} lanes")
        for request in self.running.values():
            if len(self.kv.tables[request.id]) < self.kv.blocks_for(request.num_computed_tokens):
                raise BrokenLaw(Law.BLOCKS, f"{request.id} has computed more tokens than its blocks hold")
        if output is not None:
            self._check_output(output)

    def _check_places(self) -> None:
        waiting = {r.id for r in self.waiting}
        if len(waiting) != len(self.waiting) or not waiting.isdisjoint(self.running):
            raise BrokenLaw(Law.PLACE, "a request is in two places")
        if waiting | set(self.running) != set(self.requests):
            raise BrokenLaw(Law.PLACE, "a live request is nowhere")
        if set(self.kv.tables) != set(self.running):
            raise BrokenLaw(Law.PLACE, "a block table belongs to nobody who runs")
        if not set(self.kv.host_blocks) <= waiting:
            raise BrokenLaw(Law.HOST, "a saved copy belongs to nobody who waits")

    def _check_output(self, output: SchedulerOutput) -> None:
        if any(item.num_tokens < 1 for item in output.scheduled):
            raise BrokenLaw(Law.BATCH, "a part of the batch has no token")
        used, budget = output.num_scheduled_tokens, self.config.max_num_batched_tokens
        if self.config.enable_chunked_prefill and used > budget:
            raise BrokenLaw(Law.BATCH, f"{used} tokens were scheduled with a budget of {budget}")
