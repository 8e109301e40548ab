"""Why a tick went as it did, in the words of narration and explanation: shown after a guess, right or wrong."""

from __future__ import annotations

from scheduler_core.batch_story import batch_story
from scheduler_core.events import BlockPublished, RequestAdmitted, RequestArrived
from scheduler_core.explain import explain, hit_check, size_checks
from scheduler_core.explanation import Explanation
from scheduler_core.narration import narrate
from scheduler_core.prediction_scene import Scene
from scheduler_core.reasons import preemption_cause
from scheduler_core.victim_choice import VictimChoice, preemptions
from scheduler_core.words import count, names


def victim_reason(scene: Scene, said: str) -> str:
    """Why the victims had to leave, and why the one that was named did not."""
    events = preemptions(scene.trace, scene.tick)
    if not events:
        return _joined("Nobody had to leave.", *_turned_away(scene))
    causes = [
        f"{event.request_id} lost its lane. {preemption_cause(event, scene.trace, scene.tick)}" for event in events
    ]
    choice = VictimChoice(scene.trace, scene.tick, events[0])
    spared = said in choice.others and said not in scene.victims
    return _joined(*causes, choice.spared_because(said) if spared else "")


def admitted_reason(scene: Scene, said: str) -> str:
    """What let the first one in, or what kept it out; and why the one that was named has to wait."""
    entries = [event for event in scene.record.events if isinstance(event, RequestAdmitted)]
    told = [event for event in entries if event.request_id == said] or entries[:1]
    if not told:
        return _joined("Nobody was let in.", *_turned_away(scene))
    entry = narrate(told[0], scene.trace, scene.tick).whole
    waits = bool(said) and said not in scene.admitted
    return _joined(entry, _stopped(explain(scene.trace, scene.tick, said)) if waits else "")


def scheduled_reason(scene: Scene, said: str, right: tuple[str, ...]) -> str:
    """What the batch was, and why the one that was named is not in it."""
    story = batch_story(scene.trace, scene.record)
    whole = story.whole if story else ""
    return _joined(whole, "" if said in right else _stopped(explain(scene.trace, scene.tick, said)))


def cause_reason(scene: Scene, subject: str) -> str:
    return preemption_cause(scene.preemption_of(subject), scene.trace, scene.tick)


def hits_reason(scene: Scene, subject: str) -> str:
    """How much the cache had, why not more, and who had computed it."""
    event = scene.lookup_of(subject)
    publishers: dict[int, str] = {}
    for record in scene.trace.records[: scene.tick]:
        for told in record.events:
            if isinstance(told, BlockPublished) and told.block_id in event.hit_block_ids:
                publishers[told.block_id] = told.request_id
    by = list(dict.fromkeys(publishers.values()))
    return _joined(hit_check(event, scene.config).text, f"{names(by)} had computed it before." if by else "")


def chunk_reason(scene: Scene, subject: str) -> str:
    """Which bound was the smallest, or what kept the request out."""
    item = scene.scheduled.get(subject)
    if item is None:
        return _stopped(explain(scene.trace, scene.tick, subject))
    return _joined(*(check.text for check in size_checks(scene.trace, scene.tick, item, scene.config)))


def first_token_reason(scene: Scene, subject: str) -> str:
    """How many ticks went by until the first token, and how many of them it was in the batch."""
    last = scene.first_token_tick(subject)
    assert last is not None, f"{subject} gets no first token"
    arrival = next(
        record.tick
        for record in scene.trace.records
        if any(isinstance(event, RequestArrived) and event.request_id == subject for event in record.events)
    )
    records = scene.trace.records[arrival : last + 1]
    taken = sum(any(item.request_id == subject for item in record.output.scheduled) for record in records)
    rest = len(records) - taken
    ran = f"It took part in {count(taken, 'tick')}" + (f" and had to wait in {rest:,}" if rest else "")
    end = "The first token is drawn in the tick that computes the last token of the prompt."
    return f"{subject} arrived in tick {arrival:,}. {ran}. {end}"


def _turned_away(scene: Scene) -> list[str]:
    return [narrate(event, scene.trace, scene.tick).whole for event in scene.turned_away]


def _stopped(explanation: Explanation) -> str:
    """The headline, and the rules that stopped the request."""
    failed = [check.text for check in explanation.checks if check.ok is False]
    return _joined(explanation.headline, *(failed or [check.text for check in explanation.checks[:1]]))


def _joined(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)
