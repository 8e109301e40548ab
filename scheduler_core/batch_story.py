"""A whole batch in one sentence: who read how much of a prompt, who generated a token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler_core.events import TokenSampled
from scheduler_core.output import ScheduledRequest
from scheduler_core.sentence import Sentence
from scheduler_core.trace import TickRecord, Trace
from scheduler_core.words import MAX_NAMES, count, names, quoted, was


def batch_story(trace: Trace, record: TickRecord) -> Sentence | None:
    """Prompt chunks first, then generated tokens; None where nothing ran."""
    if not record.output.scheduled:
        return _total_only(record.counts.scheduled_tokens)
    drawn = drawn_texts(record)
    chunks = [item for item in record.output.scheduled if not item.is_decode]
    decodes = [item.request_id for item in record.output.scheduled if item.is_decode]
    lucky = [request_id for request_id in decodes if request_id in drawn]
    if not chunks:
        return _decodes_only(decodes, lucky, drawn)
    rest = [_generated(lucky, drawn)] if lucky else []
    if len(chunks) == 1:
        lead = chunk_story(chunks[0], trace, drawn)
        return Sentence(lead, " ".join(rest), "progress", chunks[0].request_id)
    if firsts := [item.request_id for item in chunks if item.output_index == 0 and item.request_id in drawn]:
        verb = "generated its" if len(firsts) == 1 else "each generated their"
        rest.insert(0, f"{names(firsts)} {verb} first token.")
    return Sentence(_chunks(chunks), " ".join([_chunk_list(chunks, trace), *rest]), "progress")


def drawn_texts(record: TickRecord) -> dict[str, str]:
    """Request id -> text of the token drawn for it in this tick."""
    return {event.request_id: event.text for event in record.events if isinstance(event, TokenSampled)}


def _total_only(tokens: int) -> Sentence | None:
    """For a record that keeps aggregates only."""
    return Sentence(f"{count(tokens, 'token')} {was(tokens)} computed.", "", "progress") if tokens else None


def _decodes_only(ids: Sequence[str], lucky: Sequence[str], drawn: Mapping[str, str]) -> Sentence:
    if not lucky:
        return Sentence(f"{names(ids)} computed a token, but none was drawn.", "", "decode")
    if len(lucky) == 1:
        return Sentence(_generated(lucky, drawn), "", "decode", lucky[0])
    shown = [f"{request_id}: {quoted(drawn[request_id])}" for request_id in lucky[:MAX_NAMES] if drawn[request_id]]
    text = ", ".join(shown) + (", …" if len(lucky) > MAX_NAMES else ".") if shown else ""
    return Sentence(_generated(lucky, drawn), text, "decode")


def _generated(ids: Sequence[str], drawn: Mapping[str, str]) -> str:
    if len(ids) > 1:
        return f"{names(ids)} each generated a token."
    return f"{ids[0]} generated {quoted(drawn[ids[0]]) if drawn[ids[0]] else 'a token'}."


def chunk_story(item: ScheduledRequest, trace: Trace, drawn: Mapping[str, str]) -> str:
    """Says "R4 read 32 more tokens of its prompt (96 of 152)."."""
    who, prompt = item.request_id, len(trace.request(item.request_id).prompt_token_ids)
    if item.recomputed_tokens == item.num_tokens:
        return f"{who} computed {count(item.num_tokens, 'lost token')} again ({item.end:,} done)."
    again = f", {item.recomputed_tokens:,} of them again," if item.recomputed_tokens else ""
    if item.end > prompt:
        return f"{who} computed {count(item.num_tokens, 'token')}{again} of its prompt and text ({item.end:,} done)."
    if item.end < prompt:
        amount = count(item.num_tokens, "more token" if item.start else "token")
        return f"{who} read {amount}{again} of its prompt ({item.end:,} of {prompt:,})."
    part = "token" if item.num_tokens == 1 else count(item.num_tokens, "token")
    whole = f"its whole prompt of {count(prompt, 'token')}"
    read = whole if item.start == 0 else f"the last {part}{again} of its prompt"
    return f"{who} read {read}{' and generated its first token' if who in drawn else ''}."


def _chunks(chunks: Sequence[ScheduledRequest]) -> str:
    total = sum(item.num_tokens for item in chunks)
    return f"{names([item.request_id for item in chunks])} read {count(total, 'token')} together."


def _chunk_list(chunks: Sequence[ScheduledRequest], trace: Trace) -> str:
    parts = []
    for item in chunks[:MAX_NAMES]:
        prompt = len(trace.request(item.request_id).prompt_token_ids)
        done = f"{item.end:,} of {prompt:,}" if item.end <= prompt else f"{item.end:,} done"
        again = f", {item.recomputed_tokens:,} of them again" if item.recomputed_tokens else ""
        parts.append(f"{item.request_id}: {item.num_tokens:,} ({done}{again})")
    return ", ".join(parts) + (", …" if len(chunks) > MAX_NAMES else ".")
