"""The application as Serve's configuration files name it, its replica's store, and mistakes of whoever starts it."""

from __future__ import annotations

import dataclasses
import logging
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ray.serve import Application
from ray.serve._private.api import call_user_app_builder_with_args_if_necessary
from ray.serve.exceptions import RayServeException
from ray.serve.schema import ServeDeploySchema, ServeStatus

from scheduler_core.__main__ import main
from scheduler_core.errors import TickscopeError
from scheduler_core.request import SamplingParams
from scheduler_core.serving.cluster import launch
from scheduler_core.serving.cluster.application import APPLICATION, ENGINES, GATEWAYS, build
from scheduler_core.serving.cluster.args import ClusterArgs
from scheduler_core.serving.cluster.launch import reason
from scheduler_core.serving.cluster.merged_metrics import Exposition, merged
from scheduler_core.serving.cluster.messages import Part, Work
from scheduler_core.serving.cluster.replica import EngineReplica
from scheduler_core.serving.keys import ApiKeys
from tests.serving.helpers import run

CONFIG = Path(__file__).parents[3] / "assets/ray/serve_config.yaml"
WORK = Work(tuple(range(1_000, 1_040)), SamplingParams(4), 0, "", 1, 60.0, "gateway")


def test_the_sample_configuration_is_one_that_serve_deploys() -> None:
    told = ServeDeploySchema.model_validate(yaml.safe_load(CONFIG.read_text()))
    [application] = told.applications
    module, _, name = application.import_path.partition(":")
    assert (module, name) == (build.__module__, "build")
    bound = call_user_app_builder_with_args_if_necessary(build, application.args)
    assert bound._bound_deployment.name == GATEWAYS
    assert {deployment.name for deployment in application.deployments} == {ENGINES, GATEWAYS}


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(ValueError, match="replica_count"):
        call_user_app_builder_with_args_if_necessary(build, {"replica_count": 3})


@pytest.fixture
def logging_kept() -> Iterator[None]:
    """Ray's router by prefix has handlers of its own for all that is logged."""
    root, handlers = logging.getLogger(), [*logging.getLogger().handlers]
    yield
    root.handlers[:] = handlers


@pytest.mark.usefixtures("logging_kept")
@pytest.mark.parametrize("router", ["power-of-two", "consistent-hash", "prefix-affinity"])
def test_each_router_is_one_of_ray_s_own(router: Any) -> None:
    engines = build(ClusterArgs(backend="synthetic", router=router))._bound_deployment.init_args[1]._bound_deployment
    made = engines._deployment_config.request_router_config.get_request_router_class()
    names = {
        "power-of-two": "PowerOfTwoChoicesRequestRouter",
        "consistent-hash": "ConsistentHashRouter",
        "prefix-affinity": "PrefixCacheAffinityRouter",
    }
    assert made.__name__ == names[router]
    assert made.__module__.startswith("ray.")


async def cached(args: ClusterArgs, rank: int) -> int:
    replica = EngineReplica(args, rank)
    await replica.start()
    parts = [part async for part in replica.generate(WORK)]
    await replica.close()
    assert parts[-1].reason == "LENGTH"
    return parts[0].cached_tokens


def test_the_folder_of_a_replica_goes_to_its_successor_and_to_nobody_else(tmp_path: Path) -> None:
    args = ClusterArgs(backend="synthetic", store=tmp_path, store_mib=16, settings=["block_size=4"])
    assert [run(cached(args, rank)) for rank in (0, 0, 1)] == [0, 36, 0]


def test_what_waits_for_a_token_comes_in_one_part() -> None:
    async def work() -> list[Part]:
        replica = EngineReplica(ClusterArgs(backend="synthetic"), 0)
        await replica.start()
        parts = [part async for part in replica.generate(dataclasses.replace(WORK, sampling=SamplingParams(50)))]
        await replica.close()
        return parts

    parts = run(work())
    assert sum(len(part.token_ids) for part in parts) == 50
    assert [part.waited_s is not None for part in parts] == [True] + [False] * (len(parts) - 1)


def test_expositions_of_many_become_one_with_each_metric_once() -> None:
    one = b'# HELP a_total What.\n# TYPE a_total counter\na_total{model="m",replica="0"} 1.0\n'
    text = merged([Exposition("0", one), Exposition("7", one)]).decode()
    assert text.count("# TYPE a_total counter") == 1
    assert 'a_total{model="m",replica="0"} 1.0' in text
    assert 'a_total{model="m",replica="7"} 1.0' in text


def test_a_key_known_by_its_digest_opens_and_no_other_does() -> None:
    keys = ApiKeys((), ApiKeys(["secret"]).digests)
    assert keys.accept("Bearer secret")
    assert not keys.accept("Bearer " + ApiKeys(["secret"]).digests[0])


Refused = Callable[..., str]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Refused:
    """Starts two replicas with options that are wrong, and returns the one line that says so."""

    def call(*options: str) -> str:
        monkeypatch.setattr(sys, "argv", ["tickscope", "serve", "--backend", "synthetic", "--replicas", "2", *options])
        assert main() == 2
        [line] = capsys.readouterr().err.strip().splitlines()
        return line

    return call


def test_mistakes_are_told_in_one_line_before_anything_is_started(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "look into one engine" in refused("--operations")
    assert "there is no preset 'none'" in refused("--port", "0", "--preset", "none")
    assert "need 2000, and Ray has" in refused("--port", "0", "--cpus-per-replica", "1000")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "choose another --port" in refused("--port", str(taken.getsockname()[1]))
    monkeypatch.setenv("TICKSCOPE_MODEL", "/no/such/model")
    assert "/no/such/model does not exist" in refused("--port", "0", "--backend", "model")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install -r requirements-ray.txt" in refused()


def test_of_a_replica_that_cannot_start_only_the_reason_is_told() -> None:
    raised = (
        'The deployment failed.\nTraceback:\n  File "x.py"\npackage.StoreError: the store /x cannot be opened: full\n'
    )
    assert reason(raised) == "the store /x cannot be opened: full"
    assert reason("The deployment failed to start: see the logs") == "The deployment failed to start: see the logs"


def test_a_serve_that_does_not_come_up_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> None:
        raise RayServeException("the proxy is gone\nand more")

    monkeypatch.setattr(launch.serve, "start", fail)
    monkeypatch.setattr(launch.serve, "status", ServeStatus)
    stopped: list[str | None] = []
    monkeypatch.setattr(launch, "_stop", stopped.append)
    with pytest.raises(TickscopeError, match=r"^the replicas cannot be started: the proxy is gone$"):
        launch._start(Application.__new__(Application), "127.0.0.1", 8000, None)
    assert stopped == [None]


def test_a_cluster_that_serves_one_of_ours_is_not_given_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch.serve, "status", ServeStatus)
    launch._check_free()
    monkeypatch.setattr(launch.serve, "status", lambda: SimpleNamespace(applications={APPLICATION: None}))
    with pytest.raises(TickscopeError, match="serves an application 'tickscope' already"):
        launch._check_free()
