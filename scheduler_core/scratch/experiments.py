"""One small experiment for each flaw of the naive scheduler: it is run, and what it did stands beside the expected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scheduler_core.scratch.naive import Job
from scheduler_core.scratch.prompts import REQUESTS
from scheduler_core.scratch.simulation import Observed, simulate
from scheduler_core.words import count, number

PIECE = 4  # words
SLICE = 3  # seconds, as many pieces


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of an experiment."""

    label: str
    expected: str
    got: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What one would expect of a run, what it did, and the numbers."""

    expected: str
    happened: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Experiment:
    """`why` is the cause in the code, in lines with `marks`; `instead` is what the real scheduler does, in `path`."""

    name: str
    title: str
    setup: str
    run: Callable[[], Finding]
    why: str
    marks: tuple[str, ...]
    instead: str
    path: str


def _jobs(urgency: int | None = None) -> list[tuple[float, Job]]:
    """The four requests; `urgency` in place of that of the urgent one."""
    return [
        (
            sent.arrival,
            Job(
                sent.priority if urgency is None or sent.id != "R4" else urgency,
                sent.id,
                tuple(sent.prompt.split()),
                sent.max_tokens,
            ),
        )
        for sent in REQUESTS
    ]


def _alone(words: int, name: str = "R1", max_tokens: int = 16) -> list[tuple[float, Job]]:
    return [(0.0, Job(1, name, tuple(f"{name}-{index}" for index in range(words)), max_tokens))]


def everybody_starts() -> Finding:
    """Priorities are given, and change nothing."""
    early = simulate(_jobs(), seconds=0.9, piece_size=PIECE)
    urgent, patient = (simulate(_jobs(urgency), seconds=60, piece_size=PIECE) for urgency in (0, 9))
    # It comes while the first call is on its way, so a queue would let it in behind that one.
    pieces = len(urgent.pieces_of("R4"))
    first = number(1.0 + pieces)
    times = [number(run.finished["R4"]) for run in (urgent, patient)]
    return Finding(
        "The urgent R4 goes next, as soon as the call that it finds running has ended.",
        f"All {early.working} were at work and {early.queued} in the queue before the first call had ended: there was "
        f"nothing left to put in order. R4 had read its prompt at second {times[0]} as the most urgent, and at second "
        f"{times[1]} as the least urgent.",
        (
            Figure("requests at work, one model", "1", str(early.working)),
            Figure("R4 has read its prompt, most urgent", f"{first} s", f"{times[0]} s"),
            Figure("R4 has read its prompt, least urgent", f"{number(len(urgent.calls))} s", f"{times[1]} s"),
        ),
    )


def the_wall_clock_counts() -> Finding:
    """A slice is over although its owner hardly ran."""
    run = simulate(_jobs(), seconds=8, piece_size=PIECE, slice_seconds=SLICE)
    figures = []
    for name, left in sorted(dict(reversed(run.put_off)).items()):
        own = sum(caller == name and end <= left for caller, _, end in run.calls)
        figures.append(Figure(f"{name}: seconds of the model in its first slice", str(SLICE), str(own)))
    least = min(int(figure.got) for figure in figures)
    return Finding(
        f"A slice of {SLICE} seconds lets each request use the model for {SLICE} seconds.",
        f"Each was put off once {SLICE} seconds had passed on the clock, whoever used the model in them. The "
        f"unluckiest had used it for {count(least, 'second')}.",
        tuple(figures),
    )


def it_starts_over() -> Finding:
    """A prompt longer than a slice is never read to its end."""
    words, seconds = 6 * PIECE, 60
    run = simulate(_alone(words), seconds=seconds + 0.5, piece_size=PIECE, slice_seconds=SLICE)
    pieces = run.pieces_of("R1")
    different = len(set(pieces))
    return Finding(
        f"R1, alone, reads its {words // PIECE} pieces in {words // PIECE} calls, with a short break after each slice.",
        f"In {seconds} seconds the model was called {len(pieces)} times, for the same {different} pieces over "
        f"and over. R1 was put off {len(run.put_off)} times and has "
        f"{'finished' if run.finished else 'not finished: it never will'}.",
        (
            Figure("calls of the model", str(words // PIECE), str(len(pieces))),
            Figure("different pieces read", str(words // PIECE), str(different)),
            Figure("finished", "yes", "yes" if run.finished else "no"),
        ),
    )


def a_hit_saves_nothing() -> Finding:
    """The same prompt comes again, is found, and is read again."""
    first, second = _alone(4 * PIECE), _alone(4 * PIECE)
    again = [(20.0, Job(1, "R2", second[0][1].words))]
    run = simulate(first + again, seconds=60, piece_size=PIECE)
    calls = len(run.pieces_of("R2"))
    hits = run.hits.count("R2")
    return Finding(
        "R2 has the prompt of R1. All but its last piece is in the cache, so the model reads one piece.",
        f"R2 looked for what comes before each of its pieces and found it {hits} times. Every piece was read all the "
        f"same: {count(calls, 'call')} of the model.",
        (
            Figure("pieces found", "3", str(hits)),
            Figure("calls of the model for R2", "1", str(calls)),
        ),
    )


def max_tokens_is_never_used() -> Finding:
    """One token or a thousand: the same run."""
    short, long = (simulate(_alone(8, max_tokens=most), seconds=20) for most in (1, 1_000))
    prompt = 8 // PIECE
    answers = [len(run.calls) - prompt for run in (short, long)]
    return Finding(
        "An answer of 1,000 tokens takes some 999 calls of the model more than an answer of one.",
        f"They ended at second {number(short.finished['R1'])} and at second {number(long.finished['R1'])}. "
        f"The prompt was read and no token was generated: the limit is stored and nobody looks at it.",
        (
            Figure("calls after the prompt, limit 1", "0", str(answers[0])),
            Figure("calls after the prompt, limit 1,000", "999", str(answers[1])),
        ),
    )


def the_cache_only_grows() -> Finding:
    """Each prompt leaves all its fronts behind, for ever."""
    sizes = []
    for prompts in (5, 10, 20):
        jobs = [job for index in range(prompts) for job in _alone(4 * PIECE, f"R{index + 1}")]
        run = simulate(jobs, seconds=200, piece_size=PIECE)
        sizes.append((prompts, len(run.saved), sum(len(state) for state in run.saved.values())))
    words = 4 * PIECE
    return Finding(
        "The cache has a bound. When it is full, what was used least recently goes.",
        f"Nothing ever left it: {sizes[-1][1]} entries after {sizes[-1][0]} prompts. Each entry holds all "
        f"that comes before it once more, so a prompt of {words} words left {sizes[-1][2] // sizes[-1][0]} "
        f"words in memory.",
        tuple(
            Figure(f"words kept after {prompts} prompts of {words}", f"at most {prompts * words}", str(kept))
            for prompts, _, kept in sizes
        ),
    )


def nothing_is_a_key() -> Finding:
    """The empty front has an entry, and what is stored there counts as not found."""
    run = simulate(_alone(8) + _alone(8, "R2"), seconds=5.1, slice_seconds=0)
    starts = len(run.put_off)
    return Finding(
        "The front of a first piece is empty: there is nothing to store. Whatever is stored can be found again.",
        f"With a slice of 0 seconds each request is put off before its first piece, {starts} times in 5 "
        f"seconds, and its empty state is stored under the key {_keys(run)}, one for all requests. From then "
        f"on it was there at each start, and was found {len(run.hits)} times: an empty state counts as false, "
        f"so it is taken for a miss.",
        (
            Figure("entries for an empty front", "0", str(sum(key == "" for key in run.saved))),
            Figure("stored state found at later starts", str(starts - 1), str(len(run.hits))),
        ),
    )


def _keys(run: Observed) -> str:
    return ", ".join(f"“{key}”" for key in run.saved)


def naive_cache_test() -> Observed:
    """The test that one would write: two prompts begin alike, so what they share is in the cache."""
    jobs = [
        (0.0, Job(1, name, tuple(text.split())))
        for name, text in (("R1", "good morning what is new in Rome"), ("R2", "good morning how are you"))
    ]
    run = simulate(jobs, seconds=30, piece_size=PIECE)
    if "good morning" not in run.saved:
        raise CacheTestFailed(run)
    return run


class CacheTestFailed(AssertionError):
    """The naive cache does not hold what its test asks for; `run` has what it does hold."""

    def __init__(self, run: Observed) -> None:
        super().__init__("“good morning” is not in the cache")
        self.run = run


def its_own_test_cannot_pass() -> Finding:
    """Only whole pieces are stored, and the shared words end inside one."""
    try:
        run, verdict = naive_cache_test(), "passed"
    except CacheTestFailed as failure:
        run, verdict = failure.run, "failed"
    borders = sorted({len(key.split()) for key in run.saved})
    return Finding(
        "Two prompts begin with “good morning”. A test asks the cache for these 2 words, and passes.",
        f"The test {verdict}. The cache holds {_keys(run)}: fronts that end at the border of a piece or of the prompt. "
        f"Two words are half a piece, so no run stores them.",
        (
            Figure("the test of the cache", "passed", verdict),
            Figure("fronts stored, in words", "2 among them", ", ".join(map(str, borders))),
        ),
    )


EXPERIMENTS = (
    Experiment(
        "start",
        "Everybody starts at once",
        "Three long prompts come at second 0. R4, short and urgent, comes half a second later.",
        everybody_starts,
        "Whatever is in the heap is taken out and started at once. The heap puts only those in order that come in the "
        "same quarter of a second; after that, whoever asks the model first is served first.",
        ("while self.line:", "asyncio.create_task"),
        "The scheduler decides anew in every tick who is in the batch, in the order of the policy, and only "
        "as many run as there are lanes.",
        "scheduler_core/scheduler.py",
    ),
    Experiment(
        "clock",
        "The slice runs while others work",
        f"The same four requests, with a slice of {SLICE} seconds. The model reads a piece in one second.",
        the_wall_clock_counts,
        "The slice is measured on the clock on the wall, from the start of the request. Waiting for the "
        "model counts as using it.",
        ("begin = _now()", "_now() - begin"),
        "A slice counts the ticks in which the request itself computed something new.",
        "scheduler_core/request.py",
    ),
    Experiment(
        "over",
        "Back to the beginning",
        f"One prompt of 6 pieces, and a slice of {SLICE} seconds: 3 pieces.",
        it_starts_over,
        "Nobody notes how far the request had come: the loop begins at word 0 each time.",
        ("for start in range(0,",),
        "Every request knows the number of its computed tokens. After a swap it goes on from there; after a recompute "
        "from what the cache still holds.",
        "scheduler_core/request.py",
    ),
    Experiment(
        "hits",
        "A hit that saves nothing",
        "A prompt of 4 pieces, and the same prompt again 20 seconds later.",
        a_hit_saves_nothing,
        "What is found is the state before a piece. The piece itself is read in any case, and so is the next one.",
        ("if found :=", "await self.device.read"),
        "All of a prompt's cached blocks are looked up once, at the start, and the request begins behind them.",
        "scheduler_core/kv_cache_manager.py",
    ),
    Experiment(
        "limit",
        "max_tokens is never used",
        "One prompt of 2 pieces, with a limit of 1 token and with a limit of 1,000.",
        max_tokens_is_never_used,
        "The request carries its limit, and no line reads it. Nothing is generated: the run ends with the prompt.",
        ("max_tokens: int",),
        "After the prompt each tick computes one more token of the request, until its limit or an end token.",
        "scheduler_core/scheduler.py",
    ),
    Experiment(
        "bound",
        "A cache without a bound",
        "5, 10 and 20 different prompts of 4 pieces.",
        the_cache_only_grows,
        "Each front is stored with all that comes before it, and nothing is ever taken out.",
        ('self.saved[" ".join(front + piece)]',),
        "KV lives in a fixed number of blocks. A block holds its own tokens only and knows its parent by a key; free "
        "ones stay findable until they are needed, the least recently used first.",
        "scheduler_core/block_pool.py",
    ),
    Experiment(
        "empty",
        "Nothing is stored, and not found",
        "Two prompts and a slice of 0 seconds.",
        nothing_is_a_key,
        "An empty front makes an empty key, the same one for all. And “if found” asks whether the state is empty, not "
        "whether there is one.",
        ("if found :=", 'self.saved[" ".join(front)]'),
        "Only full blocks have keys, so an empty front has none. What is not there is None, and the look-up asks "
        "for that. A slice shorter than one tick is refused.",
        "scheduler_core/prefix_cache.py",
    ),
    Experiment(
        "test",
        "A test that cannot pass",
        f"Two prompts of 7 and 5 words that begin with the same two; pieces have {PIECE} words.",
        its_own_test_cannot_pass,
        "What is stored ends where a piece ends; what the test asks for ends where two prompts part.",
        ('self.saved[" ".join(front + piece)]',),
        "Shared fronts are found block by block, so the part that is shared is found up to the last full block.",
        "scheduler_core/prefix_cache.py",
    ),
)
