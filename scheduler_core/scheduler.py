"""Decides each tick which tokens of which requests the model computes, and takes the results in."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_core.admission import Admission
from scheduler_core.backends.base import request_seed
from scheduler_core.chunker import Chunker
from scheduler_core.config import EngineConfig
from scheduler_core.events import (
    Event,
    PreemptReason,
    RequestArrived,
    RequestScheduled,
    RequestSkipped,
    SkipReason,
    SliceExpired,
    TokenSampled,
)
from scheduler_core.kv_cache_manager import KVCacheManager
from scheduler_core.lanes import Lanes
from scheduler_core.laws import BrokenLaw, Law
from scheduler_core.loading import Loading
from scheduler_core.output import (
    BlockCopy,
    BlockLoad,
    ModelRunnerOutput,
    SampledToken,
    ScheduledRequest,
    SchedulerOutput,
)
from scheduler_core.ranking import Ranking
from scheduler_core.refusal import refusal
from scheduler_core.request import FinishReason, Request, RequestSpec
from scheduler_core.roster import Roster
from scheduler_core.scheduling_pass import Obstacle, Pass
from scheduler_core.swap import Swap

OUT_OF_KV = "out of KV: no block is free and nobody else can give one up"


class Scheduler:
    """The rules of a tick over the roster and the KV. `log` receives every event.

    Unless `tell_parts`, it does not receive `RequestScheduled`, which only repeats what the batch says.
    """

    #: What decides who enters.
    admission_class: type[Admission] = Admission

    def __init__(
        self,
        config: EngineConfig,
        kv: KVCacheManager,
        log: list[Event],
        *,
        block_bytes: int = 0,
        eos_token_ids: tuple[int, ...] = (),
        tell_parts: bool = True,
    ) -> None:
        self.config = config
        self.kv = kv
        self.roster = Roster(config)
        self._swap = Swap(kv, log, block_bytes)
        self.loading = Loading(kv, log, block_bytes)
        self._lanes = Lanes(self.roster, kv, self._swap, self.loading, log)
        self._log = log
        self._eos_token_ids = eos_token_ids
        self.tell_parts = tell_parts
        self._prompts_were_last = False

    # Arrivals, aborts, changes of settings: between ticks

    def add(self, spec: RequestSpec, tick: int) -> None:
        """Take a request in, or refuse it at once if it could never run."""
        longest = min(len(spec.prompt_token_ids) + spec.sampling.max_tokens, self.config.max_model_len)
        request = Request(spec, self.roster.next_number(), longest, request_seed(self.config.seed, spec))
        self._log.append(RequestArrived(spec.id, len(spec.prompt_token_ids), spec.sampling.max_tokens, spec.priority))
        if refused := refusal(request, self.kv):
            self._log.append(refused)
            self._lanes.finish(request, FinishReason.REJECTED, refused.message)
        else:
            self.roster.add(request, tick)

    def abort(self, request_id: str, tick: int) -> None:
        """End a live request; its private blocks and its saved copy are free at once."""
        request = self.roster.requests[request_id]
        if request in self.roster.waiting:
            self.roster.waiting.remove(request, tick)
        self._lanes.finish(request, FinishReason.ABORT)

    def reconfigure(self, config: EngineConfig, tick: int) -> list[BlockCopy]:
        """Take new settings; lanes that no longer exist are emptied, worst first. Returns the copies to make."""
        self.config = self.kv.config = config
        self.roster.reconfigure(config, tick)
        emptied = self._begin(tick)
        while len(self.roster.running) > config.max_num_seqs:
            victim = emptied.running.worst()
            self._lanes.preempt(emptied, victim, PreemptReason.LANES, victim.id)
        self._lanes.requeue(emptied)
        return emptied.copies_out

    def resize(self, config: EngineConfig) -> None:
        """Take settings that differ in the chunk size and the budget alone."""
        self.config = self.kv.config = self.roster.config = config

    # A tick

    def schedule(self, tick: int) -> SchedulerOutput:
        """Choose the batch of a tick."""
        self._prepare_queue(tick)
        now = self._begin(tick)
        if not self.config.mixed_batches:
            self._schedule_apart(now)
        elif self.config.batch_order == "running_order":
            self._schedule_running(now, [*self.roster.running.values()])
            self._admit_waiting(now, 0)
        elif self.config.batch_order == "decode_first":
            decodes, prefills = self._decodes_and_prefills()
            self._schedule_running(now, [*decodes, *prefills])
            self._admit_waiting(now, 0)
        else:
            decodes, prefills = self._decodes_and_prefills()
            self._schedule_running(now, prefills)
            now.later = frozenset(r.id for r in decodes)
            self._admit_waiting(now, self._blocks_to_grow(decodes))
            self._schedule_running(now, decodes)
        self._lanes.requeue(now)
        return self._output(now)

    def update_from_output(self, output: SchedulerOutput, result: ModelRunnerOutput) -> None:
        """Take in what the model computed; a request whose forward failed publishes nothing and ends."""
        for copy in output.copies_in:
            self.kv.release_host(copy.request_id)
        failed = result.failed or {}
        for item in output.scheduled:
            request = self.roster.running[item.request_id]
            if item.request_id in failed:
                self._lanes.finish(request, FinishReason.ERROR, failed[item.request_id])
            else:
                self._commit(request, item, result.sampled.get(item.request_id))

    def copy_out_failed(self, request_id: str, problem: str) -> None:
        """A save that did not work."""
        self._swap.save_failed(self.roster.requests[request_id], problem)

    def copy_in_failed(self, output: SchedulerOutput, copy: BlockCopy, problem: str) -> SchedulerOutput:
        """A restore that did not work; returns the batch that can still run."""
        return self._swap.restore_failed(self.roster.requests[copy.request_id], output, copy, problem)

    def load_failed(self, output: SchedulerOutput, load: BlockLoad, num_loaded: int, problem: str) -> SchedulerOutput:
        """A load of which only the first blocks worked; returns the batch that can still run."""
        return self.loading.failed(self.roster.requests[load.request_id], output, load, num_loaded, problem)

    def _prepare_queue(self, tick: int) -> None:
        waiting = self.roster.waiting
        waiting.promote(tick)
        if self.roster.policy.looks_up_prefix:
            for request in waiting.oldest(64):
                hit_blocks = len(self.kv.lookup(request))
                if hit_blocks != request.hit_blocks:
                    request.hit_blocks = hit_blocks
                    waiting.rekey(request, tick)

    def _begin(self, tick: int) -> Pass:
        roster = self.roster
        return Pass(
            tick,
            Chunker(self.config, len(roster.requests)),
            Ranking(roster.key, roster.running),
            Ranking(roster.key, roster.expired),
            batch_open=not roster.running,
        )

    # Running requests

    def _decodes_and_prefills(self) -> tuple[list[Request], list[Request]]:
        decodes: list[Request] = []
        prefills: list[Request] = []
        for request in self.roster.running.values():
            (decodes if request.is_decoding else prefills).append(request)
        return decodes, prefills

    def _schedule_running(self, now: Pass, requests: Sequence[Request]) -> None:
        for request in requests:
            if request.id not in self.roster.running:
                continue
            count = now.chunker.chunk(request.num_tokens_left)
            if count == 0:
                self._skip(request, now.no_budget())
            elif self._make_room(now, request, request.num_computed_tokens + count):
                self._put_in_batch(now, request, count)

    def _make_room(self, now: Pass, request: Request, num_tokens: int) -> bool:
        """Blocks for `num_tokens` of a running request, if need be those of the worst running one."""
        while not self.kv.allocate(request, num_tokens):
            if len(self.roster.running) == 1:
                self._lanes.finish(request, FinishReason.ERROR, OUT_OF_KV)
                return False
            victim = now.running.worst()
            self._lanes.preempt(now, victim, PreemptReason.MEMORY, request.id)
            if victim is request:
                return False
        return True

    def _put_in_batch(self, now: Pass, request: Request, count: int) -> None:
        start = request.num_computed_tokens
        if not self.kv.is_writable(request, start, start + count):
            raise BrokenLaw(Law.WRITES, f"{request.id} would write to a shared block")
        now.put_in(request, count)

    def _blocks_to_grow(self, decodes: Sequence[Request]) -> int:
        """Blocks that these requests will ask for later in this tick."""
        tables = self.kv.tables
        return sum(self.kv.blocks_for(r.num_tokens) > len(tables[r.id]) for r in decodes if r.id in tables)

    def _skip(self, request: Request, obstacle: Obstacle) -> None:
        self._log.append(RequestSkipped(request.id, obstacle.reason, obstacle.numbers))

    # Prompts and decodes in ticks of their own

    def _schedule_apart(self, now: Pass) -> None:
        """Decodes if the last tick was for prompts, else prompts; the other kind where nothing else is to be done.

        Who comes back after a preemption comes in with the prompts, whatever is left to compute.
        """
        decodes, prefills = self._decodes_and_prefills()
        if decodes and self._prompts_were_last:
            self._schedule_running(now, decodes)
            best = self.roster.waiting.best()
            self._leave_out([*prefills, *([best] if best else [])], now, for_prompts=False)
        else:
            self._schedule_running(now, prefills)
            self._admit_waiting(now, 0)
            if now.items:
                self._leave_out(decodes, now, for_prompts=True)
            else:
                self._schedule_running(now, decodes)
        decoding = {request.id for request in decodes}
        self._prompts_were_last = any(request_id not in decoding for request_id in now.items)

    def _leave_out(self, requests: Sequence[Request], now: Pass, *, for_prompts: bool) -> None:
        preempted = {request.id for request in now.left}
        for request in requests:
            if request.id not in preempted:
                self._skip(request, Obstacle(SkipReason.TURN, (("for_prompts", int(for_prompts)),)))

    # Waiting requests

    def _admit_waiting(self, now: Pass, reserved: int) -> None:
        """Let the best in, one after the other, until one has to wait."""
        waiting = self.roster.waiting
        admission = self.admission_class(self.kv, self.roster, now, reserved)
        while (request := waiting.best()) is not None:
            hits = self.kv.lookup(request)
            verdict = admission.verdict(request, hits)
            if verdict.obstacle is None:
                for victim, reason in verdict.leavers:
                    self._lanes.preempt(now, victim, reason, request.id)
                found = self.loading.find(now, request, hits, reserved)
                self._put_in_batch(now, request, self._lanes.enter(now, request, hits, found))
            elif verdict.obstacle.reason is SkipReason.MEMORY and not self.roster.running:
                waiting.remove(request, now.tick)
                self._lanes.finish(request, FinishReason.ERROR, OUT_OF_KV)
            else:
                self._skip(request, verdict.obstacle)
                return

    # The batch

    def _output(self, now: Pass) -> SchedulerOutput:
        scheduled = tuple(self._item(self.roster.running[i], count) for i, count in now.items.items())
        if self.tell_parts:
            self._log += [
                RequestScheduled(item.request_id, item.start, item.num_tokens, item.recomputed_tokens, item.is_decode)
                for item in scheduled
            ]
        return SchedulerOutput(now.tick, scheduled, tuple(now.copies_out), tuple(now.copies_in), tuple(now.loads))

    def _item(self, request: Request, count: int) -> ScheduledRequest:
        start = request.num_computed_tokens
        end = start + count
        return ScheduledRequest(
            request.id,
            tuple(request.token_ids[start:end]) if count > 1 else (request.token_ids[start],),
            start,
            self.kv.tables[request.id][: self.kv.blocks_for(end)],
            end == request.num_tokens,
            request.num_output_tokens,
            request.spec.sampling,
            request.seed,
            request.num_computed_before(start, end),
        )

    # The end of a tick

    def _commit(self, request: Request, item: ScheduledRequest, token: SampledToken | None) -> None:
        request.advance_to(item.end)
        if item.samples:
            assert token is not None, f"the model drew no token for {request.id}"
            request.token_ids.append(token.token_id)
            self._log.append(TokenSampled(request.id, item.output_index, token.token_id, token.text, token.top))
        self.kv.publish(request)
        if reason := self._end_of_text(request, token):
            self._lanes.finish(request, reason)
        elif quantum := self.roster.expire(request):
            self._log.append(SliceExpired(request.id, quantum))

    def _end_of_text(self, request: Request, token: SampledToken | None) -> FinishReason | None:
        if token is not None and request.stops_at(token.token_id, self._eos_token_ids):
            return FinishReason.STOP
        return FinishReason.LENGTH if request.num_tokens >= request.max_total_tokens else None
