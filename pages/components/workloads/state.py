"""What a visitor has chosen on the workloads page, and the same as the query of a link."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pages.components.plain import cut
from pages.components.workloads.examples import DEFAULT_EXAMPLE, EXAMPLES, example_load
from pages.components.workloads.work import Server
from scheduler_core.config import EngineConfig
from scheduler_core.errors import ConfigError, TickscopeError
from scheduler_core.load.config import ARRIVALS, LoadConfig, parse_tenants
from scheduler_core.load.lengths import Lengths
from scheduler_core.roofline import REAL
from scheduler_core.serving_config import serving_config
from scheduler_core.summary import Targets

SOURCES = ("example", "generator", "upload")
PANELS = ("Latency", "Over time", "Sweep", "Cache", "Tenants", "Chunking × mixing", "Export")
DEFAULT_MACHINE = "llama-3.1-8b-h100"
DEFAULT_SERVERS = ("vllm", "static_batching")
MAX_SERVERS = 4
#: Configurations of one's own.
MAX_OWN = 4
#: A generated load on this page is no longer than what a site runs; the core takes more.
MAX_SEED = 2**31 - 1

_Value = TypeVar("_Value")

PRESET_LABELS = {
    "vllm": "vLLM",
    "sarathi": "Sarathi",
    "tickscope": "Tickscope",
    "static_batching": "Static batching",
    "article": "One lane",
}

_TARGETS = {
    "llama-3.1-8b-h100": Targets(ttft_ms=300.0, itl_ms=50.0),
    "llama-3.1-8b-a100": Targets(ttft_ms=600.0, itl_ms=80.0),
    "smollm2-cpu": Targets(ttft_ms=3_000.0, itl_ms=200.0),
}


@dataclass(frozen=True, slots=True)
class OwnServer:
    """A preset with changes, as a visitor makes one."""

    preset: str
    changes: tuple[tuple[str, Any], ...]

    @property
    def key(self) -> str:
        return f"{self.preset}:{','.join(f'{name}={_word(value)}' for name, value in self.changes)}"

    @property
    def label(self) -> str:
        told = ", ".join(f"{name.replace('_', ' ')} {_word(value)}" for name, value in self.changes)
        return f"{PRESET_LABELS[self.preset]} with {told}"


#: One switch of vLLM's way each, so that a difference has one cause.
READY = {
    OwnServer("vllm", (("enable_prefix_caching", False),)): "vLLM, no prefix cache",
    OwnServer("vllm", (("enable_chunked_prefill", False),)): "vLLM, no chunks",
}


def _word(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(slots=True)
class WorkloadState:
    """`load` is the generator's; `own` are configurations of the visitor's own; `targets` None = the usual."""

    source: str = "example"
    example: str = DEFAULT_EXAMPLE
    seed: int = 0
    load: LoadConfig = field(default_factory=lambda: example_load(DEFAULT_EXAMPLE, DEFAULT_MACHINE, 0))
    machine: str = DEFAULT_MACHINE
    chosen: tuple[str, ...] = DEFAULT_SERVERS
    own: tuple[OwnServer, ...] = ()
    targets: Targets | None = None
    panel: str = PANELS[0]

    @property
    def goals(self) -> Targets:
        """The targets as set, or those usual for the machine."""
        return self.targets or _TARGETS[self.machine]

    def config(self) -> LoadConfig:
        """The load of an example or of the generator."""
        if self.source == "example":
            return example_load(self.example, self.machine, self.seed)
        return self.load

    def labels(self) -> dict[str, str]:
        """Every configuration on offer: its key and its name."""
        return PRESET_LABELS | {own.key: READY.get(own, own.label) for own in (*READY, *self.own)}

    def servers(self) -> list[Server]:
        """The chosen configurations on the machine; raises `ConfigError`."""
        labels = self.labels()
        return [Server(labels[key], self.server_config(key)) for key in self.chosen]

    def server_config(self, key: str) -> EngineConfig:
        """One configuration on the machine; raises `ConfigError`."""
        preset, _, _ = key.partition(":")
        config = serving_config(self.machine, preset)
        own = next((each for each in (*READY, *self.own) if each.key == key), None)
        return config.replace(**dict(own.changes)) if own else config


# Links


def to_query(state: WorkloadState) -> dict[str, str]:
    """What differs from the usual, as parts of an address."""
    usual = WorkloadState()
    parts = {
        "source": state.source,
        "example": state.example if state.source == "example" else "",
        "seed": str(state.seed) if state.source == "example" else "",
        "machine": state.machine,
        "servers": ";".join(state.chosen),
        "panel": state.panel,
        "goals": _goals_text(state.targets) if state.targets else "",
        **(_load_parts(state.load) if state.source == "generator" else {}),
    }
    defaults = {
        "source": usual.source,
        "example": usual.example,
        "seed": "0",
        "machine": usual.machine,
        "servers": ";".join(usual.chosen),
        "panel": usual.panel,
    }
    return {name: text for name, text in parts.items() if text and text != defaults.get(name)}


def from_query(query: Mapping[str, str], max_requests: int) -> tuple[WorkloadState, list[str]]:
    """The state that an address asks for, with a message for every part that could not be taken."""
    messages: list[str] = []
    state = WorkloadState()
    state.source = _choice(query, "source", SOURCES, state.source, messages)
    state.example = _choice(query, "example", tuple(EXAMPLES), state.example, messages)
    state.machine = _choice(query, "machine", REAL, state.machine, messages)
    state.panel = _choice(query, "panel", PANELS, state.panel, messages)
    state.seed = _taken(query, "seed", lambda text: _whole(text, 0, MAX_SEED), state.seed, messages)
    if "servers" in query:
        _read_servers(state, query["servers"], messages)
    state.targets = _taken(query, "goals", _goals, None, messages)
    state.load = example_load(state.example, state.machine, state.seed)
    if state.source == "generator":
        state.load = _read_load(query, state.load, max_requests, messages)
    return state, messages


def _choice(query: Mapping[str, str], name: str, choices: tuple[str, ...], usual: str, messages: list[str]) -> str:
    asked = query.get(name, usual)
    if asked in choices:
        return asked
    messages.append(f"The link asks for the {name} {cut(asked)}; there are {', '.join(choices)}. Shown is the usual.")
    return usual


def _taken(
    query: Mapping[str, str], name: str, read: Callable[[str], _Value], usual: _Value, messages: list[str]
) -> _Value:
    if name not in query:
        return usual
    try:
        return read(query[name][:2_000])
    except (TickscopeError, ValueError) as problem:
        messages.append(f"In the link, {name} is {cut(query[name])}: {problem}. The usual value is kept.")
        return usual


def _whole(text: str, low: int, high: int) -> int:
    word = text.strip()
    if not (word.isascii() and word.isdigit() and len(word) < 12):
        raise ValueError(f"it must be a whole number from {low:,} to {high:,}")
    return max(low, min(high, int(word)))


def _number(text: str, low: float, high: float) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"it must be a number from {low:g} to {high:g}") from None
    if value != value:
        raise ValueError(f"it must be a number from {low:g} to {high:g}")
    return max(low, min(high, value))


def _read_servers(state: WorkloadState, text: str, messages: list[str]) -> None:
    keys: list[str] = []
    for word in text[:2_000].split(";")[:MAX_SERVERS]:
        try:
            own = parse_own(word, state.machine) if ":" in word else None
        except TickscopeError as problem:
            messages.append(f"In the link, the configuration {cut(word)} cannot be taken: {problem}.")
            continue
        if own is not None:
            state.own = (*(each for each in state.own if each != own), own)
        elif word not in PRESET_LABELS:
            messages.append(f"The link asks for the configuration {cut(word)}; there are {', '.join(PRESET_LABELS)}.")
            continue
        keys.append(own.key if own else word)
    state.chosen = tuple(dict.fromkeys(keys)) or DEFAULT_SERVERS


def parse_own(text: str, machine: str) -> OwnServer:
    """As in a link: PRESET:FIELD=VALUE,FIELD=VALUE; raises `ConfigError`."""
    preset, _, settings = text.partition(":")
    if preset not in PRESET_LABELS:
        raise ConfigError(f"there is no preset {preset!r}; the presets are {', '.join(PRESET_LABELS)}")
    changes = tuple(EngineConfig.parse_setting(each) for each in settings.split(",") if each)
    own = OwnServer(preset, tuple((name, value) for name, value in changes if name not in ("cost", "seed")))
    serving_config(machine, preset).replace(**dict(own.changes))
    return own


def _goals_text(targets: Targets) -> str:
    return ",".join(f"{name.removesuffix('_ms')}={value:g}" for name, value in targets.given.items()) or "none"


def _goals(text: str) -> Targets:
    if text == "none":
        return Targets()
    values = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name not in ("ttft", "tpot", "itl", "e2el"):
            raise ValueError("targets are written as in ttft=300,itl=50")
        values[f"{name}_ms"] = _number(value, 0.001, 1e9)
    return Targets(**values)


# The generator's settings

_NUMBERS = {
    "rate": (1e-3, 1e4),
    "rate_end": (1e-3, 1e4),
    "off_rate": (0.0, 1e4),
    "burstiness": (0.01, 100.0),
    "ramp_s": (0.1, 1e5),
    "on_s": (0.1, 1e5),
    "off_s": (0.1, 1e5),
    "prefix_share": (0.0, 1.0),
    "prefix_skew": (0.0, 5.0),
}
_WHOLES = {"seed": (0, MAX_SEED), "prefix_groups": (0, 10_000), "prefix_tokens": (1, 100_000)}


def lengths_text(lengths: Lengths) -> str:
    """As `Lengths.parse` reads it."""
    match lengths.kind:
        case "uniform":
            return f"uniform:{lengths.low}:{lengths.high}"
        case "lognormal":
            return f"lognormal:{lengths.mean:g}:{lengths.sigma:g}:{lengths.high}"
        case "zipf":
            return f"zipf:{lengths.exponent:g}:{lengths.low}:{lengths.high}"
    return str(lengths.low)


def tenants_text(load: LoadConfig) -> str:
    """As `parse_tenants` reads it."""
    return ",".join(f"{tenant.name}={tenant.share:g}:{tenant.priority}" for tenant in load.tenants)


def _load_parts(load: LoadConfig) -> dict[str, str]:
    usual = LoadConfig()
    parts = {name: f"{getattr(load, name):g}" for name in _NUMBERS if getattr(load, name) != getattr(usual, name)}
    parts |= {name: str(getattr(load, name)) for name in _WHOLES}
    parts |= {"n": str(load.num_requests), "arrivals": load.arrivals}
    return parts | {
        "prompt": lengths_text(load.prompt),
        "output": lengths_text(load.output),
        "tenants": tenants_text(load),
    }


def _read_load(query: Mapping[str, str], usual: LoadConfig, max_requests: int, messages: list[str]) -> LoadConfig:
    base = LoadConfig() if "n" in query else usual
    values: dict[str, Any] = {
        "num_requests": _taken(
            query, "n", lambda text: _whole(text, 1, max_requests), min(base.num_requests, max_requests), messages
        ),
        "arrivals": _choice(query, "arrivals", ARRIVALS, base.arrivals, messages),
        "prompt": _taken(query, "prompt", Lengths.parse, base.prompt, messages),
        "output": _taken(query, "output", Lengths.parse, base.output, messages),
        "tenants": _taken(query, "tenants", parse_tenants, base.tenants, messages),
    }
    for name, (low, high) in _NUMBERS.items():
        values[name] = _taken(query, name, lambda t, a=low, b=high: _number(t, a, b), getattr(base, name), messages)
    for name, (first, last) in _WHOLES.items():
        values[name] = _taken(query, name, lambda t, a=first, b=last: _whole(t, a, b), getattr(base, name), messages)
    try:
        return replace(base, **values)
    except TickscopeError as problem:
        messages.append(f"The load of the link cannot be had: {problem}. Shown is the usual one.")
        return base
