"""The prompts of the engine benchmark: eight chats, long prompts among chats, and a long system prompt shared."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scheduler_core.errors import BenchError

QUESTIONS = (
    "What is the capital of France?",
    "Write a haiku about the sea.",
    "Explain gravity to a child.",
    "List three colours and what they make you think of.",
    "Who wrote Hamlet, and when?",
    "Tell me a short joke about cats.",
    "How do I boil an egg?",
    "What is 12 plus 30?",
    "Why is the sky blue?",
    "Name a river in Africa and say where it ends.",
    "What does a scheduler do?",
    "Give me a word that rhymes with light.",
    "How many days does a leap year have?",
    "What is bread made of?",
    "Describe a thunderstorm in one sentence.",
    "Which planet is the largest?",
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A user's message and, perhaps, a system prompt before it."""

    text: str
    system: str | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests that are sent at once; each answer has `max_tokens` tokens, whatever the model wants to say."""

    name: str
    title: str
    prompts: tuple[Prompt, ...]
    max_tokens: int


def ferry_log(num_days: int, seed: int) -> str:
    """A dull report of about 20 tokens a day."""
    rng = random.Random(seed)
    return " ".join(
        f"Day {day}: the ferry left at {rng.randint(6, 11)}:{rng.randint(10, 59)} with {rng.randint(9, 90)} people."
        for day in range(1, num_days + 1)
    )


def rules(num_rules: int) -> str:
    """A system prompt of about 15 tokens a rule."""
    subjects = ("the timetable", "tickets", "lost luggage", "the weather", "food on board", "dogs and bicycles")
    lines = (f"Rule {n}: when asked about {subjects[n % 6]}, answer politely." for n in range(1, num_rules + 1))
    return " ".join(("You answer the passengers of a ferry.", *lines))


def workloads() -> tuple[Workload, ...]:
    chats = tuple(Prompt(question) for question in QUESTIONS)
    long = tuple(Prompt(f"Sum this report up in one sentence. {ferry_log(12 + 6 * n, n)}") for n in range(4))
    mixed = tuple(prompt for n in range(4) for prompt in (*chats[3 * n : 3 * n + 3], long[n]))
    return (
        Workload("chats", "8 chats, 48 tokens each", chats[:8], 48),
        Workload("mixed", "16 mixed: 4 long prompts among 12 chats, 32 tokens each", mixed, 32),
        Workload(
            "shared",
            "16 chats behind one system prompt of 512 tokens, 32 tokens each",
            tuple(Prompt(question, rules(37)) for question in QUESTIONS),
            32,
        ),
    )


def choose(names: Sequence[str] | None, max_tokens: int | None = None) -> tuple[Workload, ...]:
    """The workloads of these names, all if there are none, with other output lengths if asked; raises `BenchError`."""
    by_name = {workload.name: workload for workload in workloads()}
    if unknown := [name for name in names or () if name not in by_name]:
        raise BenchError(f"there is no workload {unknown[0]!r}; name one of {', '.join(by_name)}")
    chosen = (by_name[name] for name in names or by_name)
    return tuple(replace(workload, max_tokens=max_tokens or workload.max_tokens) for workload in chosen)
