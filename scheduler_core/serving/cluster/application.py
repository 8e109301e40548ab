"""The application on Ray Serve: engines that compute, and the gateway before them.

`serve deploy` finds it as `scheduler_core.serving.cluster.application:build`; Serve looks at the type of its argument,
so annotations are what they say here, not texts.
"""

from collections.abc import AsyncGenerator
from typing import Any

import stamina
from ray import serve
from ray.serve import Application
from ray.serve.handle import DeploymentHandle
from starlette.types import ASGIApp

from scheduler_core.serving.cluster.args import ClusterArgs
from scheduler_core.serving.cluster.ingress import GatewayIngress
from scheduler_core.serving.cluster.loopback import keep_on_loopback
from scheduler_core.serving.cluster.merged_metrics import Exposition
from scheduler_core.serving.cluster.messages import Part, ReplicaStatus, Work
from scheduler_core.serving.cluster.replica import FULL, EngineReplica
from scheduler_core.serving.cluster.routers import router_config
from scheduler_core.serving.served_backend import ServedBackend, served_config
from scheduler_core.serving.settings import ServeSettings

#: Names of the application and of its two deployments.
APPLICATION = "tickscope"
ENGINES = "engine"
GATEWAYS = "gateway"
#: A replica that dies is noticed, and replaced, within about this time.
_CHECK_S = 1.0
#: What cannot start will not start by trying for long.
_STARTS = 3
#: Serve ends what it drains later than the gateway does, so that whoever is ended is told why.
_GRACE_S = 5.0


class Engine:
    """A replica of the deployment of engines."""

    def __init__(self, args: dict[str, Any]) -> None:
        _prepare()
        self._replica = EngineReplica(ClusterArgs(**args), _rank())
        self._started = False

    async def generate(self, work: Work) -> AsyncGenerator[Part]:
        await self._start()
        async for part in self._replica.generate(work):
            yield part

    async def status(self, gateway: str) -> ReplicaStatus:
        return self._replica.status(_rank(), gateway)

    async def exposition(self) -> Exposition:
        return Exposition(str(_rank()), await self._replica.exposition())

    async def check_health(self) -> None:
        await self._start()
        self._replica.check_health()

    async def _start(self) -> None:
        """Its loop is that of the requests, which is not yet there when it is made."""
        if not self._started:
            self._started = True
            await self._replica.start()

    async def __del__(self) -> None:
        if hasattr(self, "_replica"):
            await self._replica.close()


@serve.ingress()
class Ingress:
    """A replica of the deployment of gateways; keeps nothing that another could not take over."""

    def __init__(self, args: dict[str, Any], engines: DeploymentHandle[Any]) -> None:
        _prepare()
        self._ingress = GatewayIngress(ClusterArgs(**args), engines, _rank(), _siblings(args))

    def __serve_build_asgi_app__(self) -> ASGIApp:
        return self._ingress.gateway.app

    async def drain(self) -> None:
        await self._ingress.gateway.engine.drain()

    async def requests(self) -> Exposition:
        return await self._ingress.requests()


def build(args: ClusterArgs) -> Application:
    """The application, bound; Serve starts it, and may change its `num_replicas` or scale them by itself."""
    settings = ServeSettings(**args.gateway)
    config = served_config(ServedBackend(args.backend), args.preset, args.settings, None)
    told = args.model_dump(mode="json")
    engines = serve.deployment(
        Engine,
        name=ENGINES,
        num_replicas=args.replicas,
        # What more would come goes to another replica, or waits at the gateway: one hot prefix has several homes then.
        max_ongoing_requests=FULL * config.max_num_seqs,
        ray_actor_options={"num_cpus": args.cpus_per_replica, "runtime_env": {"env_vars": {"OMP_NUM_THREADS": "1"}}},
        health_check_period_s=_CHECK_S,
        max_constructor_retry_count=_STARTS,
        graceful_shutdown_timeout_s=settings.drain_s + _GRACE_S,
        request_router_config=router_config(args.router),
    )
    gateways = serve.deployment(
        Ingress,
        name=GATEWAYS,
        num_replicas=args.gateways,
        max_ongoing_requests=settings.max_connections,
        ray_actor_options={"num_cpus": 0},
        health_check_period_s=_CHECK_S,
        max_constructor_retry_count=_STARTS,
        graceful_shutdown_timeout_s=settings.drain_s + _GRACE_S,
    )
    return gateways.bind(told, engines.bind(told))


def _prepare() -> None:
    keep_on_loopback()
    # Failed attempts are logged with their reasons where they happen.
    stamina.instrumentation.set_on_retry_hooks(())


def _rank() -> int:
    return int(serve.get_replica_context().rank.rank)


def _siblings(args: dict[str, Any]) -> DeploymentHandle[Any] | None:
    """All gateways of this application, if there are several."""
    if args["gateways"] == 1:
        return None
    context = serve.get_replica_context()
    return serve.get_deployment_handle(context.deployment, context.app_name)
