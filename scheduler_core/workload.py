"""Workloads in words: requests as a person writes them, and scenarios that put them beside a configuration."""

from __future__ import annotations

import tomllib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from scheduler_core.config import EngineConfig
from scheduler_core.errors import RequestError, TickscopeError, WorkloadError
from scheduler_core.request import RequestSpec, SamplingParams

SCENARIO_FOLDER = Path(__file__).resolve().parent.parent / "assets" / "scenarios"
MAX_PROMPT_CHARACTERS = 200_000
MAX_SCENARIO_BYTES = 4 * 1024 * 1024

_SCENARIO_KEYS = ("title", "description", "look_for", "preset", "config", "system", "requests")
_ALLOWED_CONTROLS = "\n\t"


class Encoder(Protocol):
    """The part of a model runner that turns words into tokens."""

    def encode_chat(self, text: str, system: str | None = None) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True)
class Draft:
    """A request as a person writes it; the prompt is put into the model's chat template."""

    id: str
    prompt: str
    max_tokens: int = 16
    arrival_time: float = 0.0
    priority: int = 0
    system: str | None = None
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    min_tokens: int = 0
    ignore_eos: bool = False
    salt: str = ""

    def spec(self, encoder: Encoder) -> RequestSpec:
        """The request in tokens; raises `RequestError` naming what is wrong with it."""
        if not self.prompt.strip():
            raise RequestError(f"request {self.id!r} has an empty prompt; write at least one word")
        check_text(self.prompt, f"the prompt of request {self.id!r}")
        check_text(self.system or "", f"the system prompt of request {self.id!r}")
        try:
            sampling = SamplingParams(
                self.max_tokens,
                float(self.temperature),
                float(self.top_p),
                self.seed,
                self.min_tokens,
                ignore_eos=self.ignore_eos,
            )
        except RequestError as problem:
            raise RequestError(f"request {self.id!r}: {problem}") from None
        tokens = encoder.encode_chat(self.prompt, self.system)
        return RequestSpec(self.id, tokens, sampling, float(self.arrival_time), self.priority, self.prompt, self.salt)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A workload with its configuration, its title and what to look for, in words."""

    name: str
    title: str
    config: EngineConfig
    requests: tuple[Draft, ...]
    description: str = ""
    look_for: tuple[str, ...] = ()

    def specs(self, encoder: Encoder) -> tuple[RequestSpec, ...]:
        """All requests in tokens of the given model."""
        return tuple(draft.spec(encoder) for draft in self.requests)


def check_text(text: str, what: str) -> None:
    """Refuse text that no tokenizer can take or no person can see; raises `RequestError`."""
    if len(text) > MAX_PROMPT_CHARACTERS:
        raise RequestError(f"{what} has {len(text)} characters; at most {MAX_PROMPT_CHARACTERS} are taken: shorten it")
    for position, character in enumerate(text):
        category = unicodedata.category(character)
        if category == "Cs" or (category == "Cc" and character not in _ALLOWED_CONTROLS):
            kind = "half of a surrogate pair" if category == "Cs" else "a control character"
            raise RequestError(f"{what} holds {kind} (U+{ord(character):04X}) at position {position}: remove it")


def list_scenarios(folder: Path = SCENARIO_FOLDER) -> list[str]:
    """The names of the shipped scenarios: those of the first tour in teaching order, then others by name."""
    return sorted((path.stem for path in folder.glob("*.toml")), key=_teaching_order)


def load_scenario(name_or_path: str | Path) -> Scenario:
    """A shipped scenario by name, or any by path; raises `WorkloadError`."""
    path = _find(name_or_path)
    try:
        if path.stat().st_size > MAX_SCENARIO_BYTES:
            raise WorkloadError(f"{path} has more than {MAX_SCENARIO_BYTES} bytes; a scenario is smaller")
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise WorkloadError(f"cannot read {path}: {problem.strerror or problem}") from None
    except UnicodeDecodeError:
        raise WorkloadError(f"{path} is not UTF-8 text") from None
    try:
        return parse_scenario(text, path.stem)
    except WorkloadError as problem:
        raise WorkloadError(f"{path.name}: {problem}") from None


def parse_scenario(text: str, name: str) -> Scenario:
    """Read a scenario in TOML; raises `WorkloadError` naming the key that is wrong."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise WorkloadError(f"not valid TOML: {problem}") from None
    _check_keys(data, _SCENARIO_KEYS, "a scenario")
    if not isinstance(data.get("title"), str):
        raise WorkloadError("title is missing; give the scenario a title in quotes")
    rows = data.get("requests")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise WorkloadError("there is no request; add at least one [[requests]]")
    drafts = tuple(_draft(row, number, data.get("system")) for number, row in enumerate(rows, 1))
    if repeated := _repeated([draft.id for draft in drafts]):
        raise WorkloadError(f"the id {repeated!r} is used twice; give each request its own")
    return Scenario(name, data["title"], _config(data), drafts, str(data.get("description", "")), _look_for(data))


def _config(data: dict[str, Any]) -> EngineConfig:
    settings = data.get("config", {})
    if not isinstance(settings, dict):
        raise WorkloadError("config is not a table; write [config] and the settings below it")
    # TOML has no null, so an optional setting is switched off with "none".
    settings = {name: None if value == "none" else value for name, value in settings.items()}
    try:
        return EngineConfig.preset(data.get("preset", "tickscope")).replace(**settings)
    except TickscopeError as problem:
        raise WorkloadError(str(problem)) from None


_DRAFT_TYPES: dict[str, tuple[type, ...]] = {
    "id": (str,),
    "prompt": (str,),
    "max_tokens": (int,),
    "arrival_time": (int, float),
    "priority": (int,),
    "system": (str,),
    "temperature": (int, float),
    "top_p": (int, float),
    "seed": (int,),
    "min_tokens": (int,),
    "ignore_eos": (bool,),
    "salt": (str,),
}


def _draft(row: dict[str, Any], number: int, system: Any) -> Draft:
    what = f"request {row.get('id', number)!r}"
    _check_keys(row, tuple(_DRAFT_TYPES), what)
    for name, value in row.items():
        types = _DRAFT_TYPES[name]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise WorkloadError(f"{what}: {name} is {value!r}; it must be of type {types[-1].__name__}")
    if "prompt" not in row:
        raise WorkloadError(f"{what} has no prompt")
    values = {"id": f"R{number}", "system": system, **row}
    return Draft(**values)


def _look_for(data: dict[str, Any]) -> tuple[str, ...]:
    hints = data.get("look_for", [])
    if not isinstance(hints, list) or not all(isinstance(hint, str) for hint in hints):
        raise WorkloadError("look_for is not a list of sentences")
    return tuple(hints)


def _check_keys(table: dict[str, Any], known: Sequence[str], what: str) -> None:
    if unknown := [key for key in table if key not in known]:
        raise WorkloadError(f"{what} has no key {unknown[0]!r}; the keys are {', '.join(known)}")


def _repeated(ids: list[str]) -> str | None:
    return next((name for name in ids if ids.count(name) > 1), None)


def _find(name_or_path: str | Path) -> Path:
    shipped = SCENARIO_FOLDER / f"{name_or_path}.toml"
    if str(name_or_path) in list_scenarios():
        return shipped
    path = Path(name_or_path)
    if path.suffix == ".toml" or path.exists():
        return path
    names = ", ".join(list_scenarios())
    raise WorkloadError(f"there is no scenario {str(name_or_path)!r}; the scenarios are {names}, or give a .toml file")


_ORDER = (
    "first_steps",
    "long_prompt_meets_chat",
    "burst",
    "shared_system_prompt",
    "time_slices",
    "memory_pressure",
    "priorities",
)


def _teaching_order(name: str) -> tuple[int, str]:
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)
