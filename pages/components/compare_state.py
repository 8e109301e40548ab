"""What a visitor compares: two ways to schedule one workload, and the same as the query of an address."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pages.components.compare_pairs import DEFAULT_PAIR, PAIRS, Pair, Side
from pages.components.fields import value_to_text
from pages.components.link import ELSEWHERE, from_query, tick_from
from pages.components.own_requests import OwnRequest, pack, unpack
from pages.components.plain import cut
from pages.components.play_state import BACKENDS, OWN, PlayState
from scheduler_core.config import FIELD_NAMES, FIXED_FIELDS
from scheduler_core.errors import RequestError

#: Both sides share these: a comparison under two seeds or two clocks would compare chance.
SHARED = ("seed", "cost")
#: More requests than this are not added to a run at one tick.
MAX_ADDED = 8
#: A comparison is computed at once, so nothing is live.
COMPUTED = BACKENDS[:2]

_COMMON = ("scenario", "backend", "requests")


@dataclass(slots=True)
class WhatIf:
    """The second side as a fork of the first: from `at` on, with these requests added and those aborted."""

    at: int
    add: tuple[OwnRequest, ...] = ()
    abort: tuple[str, ...] = ()


@dataclass(slots=True)
class CompareState:
    """`first` holds the workload too; in a what-if `second` is what changes of it. `swapped`: the second is left."""

    first: PlayState
    second: PlayState
    swapped: bool = False
    what_if: WhatIf | None = None
    tick: int = 0
    selected: str = ""

    @property
    def pair(self) -> str:
        """The classic pair that stands, "" if settings were changed."""
        return next((key for key, pair in PAIRS.items() if self._is(pair)), "")

    def _is(self, pair: Pair) -> bool:
        if self.what_if is not None or self.first.scenario != pair.scenario or self.first.backend != BACKENDS[0]:
            return False
        sides = ((self.first, pair.first), (self.second, pair.second))
        return all((state.preset, state.overrides) == (side.preset, side.changes) for state, side in sides)

    def take(self, key: str) -> None:
        """Put up a classic pair."""
        pair = PAIRS[key]
        self.first = _side_state(pair.scenario, pair.first, self.first.requests)
        self.second = _side_state(pair.scenario, pair.second, self.first.requests)
        self.swapped, self.what_if = False, None
        self.tick, self.selected = 0, ""

    def take_scenario(self, scenario: str) -> None:
        """The same two ways to schedule, on other requests."""
        self.first.scenario = self.second.scenario = scenario
        self.what_if = None
        self.tick, self.selected = 0, ""


def _side_state(scenario: str, side: Side, requests: tuple[OwnRequest, ...]) -> PlayState:
    return PlayState(scenario, preset=side.preset, overrides=dict(side.changes), requests=requests)


def default_state() -> CompareState:
    """The first pair."""
    scenario = PAIRS[DEFAULT_PAIR].scenario
    state = CompareState(PlayState(scenario), PlayState(scenario))
    state.take(DEFAULT_PAIR)
    return state


def to_query(state: CompareState) -> dict[str, str]:
    """The parts of an address, but for the tick, which the stages write by themselves."""
    if key := state.pair:
        parts = {"pair": "" if key == DEFAULT_PAIR and not state.swapped else key}
    else:
        own = state.first.scenario == OWN and state.first.requests
        parts = {
            "scenario": state.first.scenario,
            "backend": "" if state.first.backend == BACKENDS[0] else state.first.backend,
            "requests": pack(state.first.requests) if own else "",
            **_side_query("a_", state.first),
            **_side_query("b_", state.second),
            **_what_if_query(state.what_if),
        }
    parts |= {"swap": "on" if state.swapped else "", "selected": state.selected}
    return {name: text for name, text in parts.items() if text}


def _side_query(prefix: str, side: PlayState) -> dict[str, str]:
    settings = {name: value_to_text(name, value) for name, value in sorted(side.overrides.items())}
    return {prefix + name: text for name, text in ({"preset": side.preset} | settings).items()}


def _what_if_query(what_if: WhatIf | None) -> dict[str, str]:
    if what_if is None:
        return {}
    return {"at": str(what_if.at), "add": pack(what_if.add) if what_if.add else "", "abort": ",".join(what_if.abort)}


def from_address(query: Mapping[str, str], scenarios: Collection[str]) -> tuple[CompareState, list[str]]:
    """The comparison that an address asks for, with a message for every part that could not be taken as it stands."""
    messages: list[str] = []
    state = default_state()
    if "pair" in query:
        _take_pair(state, query["pair"], messages)
        messages += _beside_a_pair(query)
    elif query.keys() - {"tick", "selected", "swap", *ELSEWHERE}:
        _take_settings(state, query, scenarios, messages)
    state.swapped = _is_swapped(query, messages)
    state.tick, told = tick_from(query)
    messages += told
    state.selected = query.get("selected", "")
    known = {"pair", "tick", "selected", "swap", "at", "add", "abort", *_COMMON, *ELSEWHERE}
    known |= {side + name for side in ("a_", "b_") for name in ("preset", *_settable())}
    messages += [f"The link has a part {cut(name)} that means nothing here." for name in query if name not in known]
    return state, messages


def _is_swapped(query: Mapping[str, str], messages: list[str]) -> bool:
    asked = query.get("swap", "off")
    if asked not in ("on", "off"):
        messages.append(f"The link asks for swap {cut(asked)}; it can be on or off. The sides are not swapped.")
    return asked == "on"


def _beside_a_pair(query: Mapping[str, str]) -> list[str]:
    """What a link says beside a pair, which settles it already."""
    settled = {
        *_COMMON,
        "at",
        "add",
        "abort",
        *(side + name for side in ("a_", "b_") for name in ("preset", *_settable())),
    }
    return [f"The link names a pair, so its part {cut(name)} is left out." for name in query if name in settled]


def _take_pair(state: CompareState, asked: str, messages: list[str]) -> None:
    if asked in PAIRS:
        state.take(asked)
        return
    messages.append(f"The link asks for the pair {cut(asked)}; there are {', '.join(PAIRS)}. Shown is the first.")


def _take_settings(
    state: CompareState, query: Mapping[str, str], scenarios: Collection[str], messages: list[str]
) -> None:
    shared = {name: query[name] for name in _COMMON if name in query}
    default = state.first.scenario
    state.first, told = from_query(shared | _settings_of("a_", query), scenarios, default)
    messages += told
    state.second, told = from_query(_settings_of("b_", query), scenarios, state.first.scenario)
    messages += [f"Second side: {message}" for message in told]
    state.second.scenario, state.second.requests = state.first.scenario, state.first.requests
    if state.first.backend not in COMPUTED:
        state.first.backend = BACKENDS[0]
        messages.append("A comparison is computed at once, so it plays recorded tokens, not live ones.")
    if "at" in query:
        state.what_if = _what_if(query, messages)
    else:
        stray = [name for name in ("add", "abort") if name in query]
        messages += [f"The link has the part {cut(name)}, but no fork it belongs to; it is left out." for name in stray]


def _settings_of(prefix: str, query: Mapping[str, str]) -> dict[str, str]:
    wanted = ("preset", *_settable())
    return {name: query[prefix + name] for name in wanted if prefix + name in query}


def _settable() -> tuple[str, ...]:
    return tuple(name for name in FIELD_NAMES if name not in SHARED)


def _what_if(query: Mapping[str, str], messages: list[str]) -> WhatIf:
    at, told = tick_from({"tick": query["at"]})
    if told:
        messages.append(
            f"The link asks for a fork at {cut(query['at'])}, which is no tick of a run; it is at tick {at}."
        )
    what_if = WhatIf(at, abort=tuple(filter(None, query.get("abort", "").split(","))))
    if "add" in query:
        try:
            what_if.add = unpack(query["add"])
        except RequestError as problem:
            messages.append(str(problem))
    if len(what_if.add) > MAX_ADDED:
        messages.append(f"The link adds {len(what_if.add)} requests at the fork; the first {MAX_ADDED} are taken.")
        what_if.add = what_if.add[:MAX_ADDED]
    return what_if


def changeable() -> tuple[str, ...]:
    """The settings that can change while a run goes on."""
    return tuple(name for name in FIELD_NAMES if name not in FIXED_FIELDS)
