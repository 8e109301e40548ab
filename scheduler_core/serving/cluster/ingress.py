"""The gateway of the cluster: texts, limits, keys, retries and dead letters, before replicas that compute."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from ray.serve.handle import DeploymentHandle

from scheduler_core.serving.cluster.args import ClusterArgs
from scheduler_core.serving.cluster.engine import ClusterEngine
from scheduler_core.serving.cluster.merged_metrics import Exposition
from scheduler_core.serving.dead_letters import DeadLetters
from scheduler_core.serving.gateway import Gateway, GatewayLimits
from scheduler_core.serving.keys import ApiKeys
from scheduler_core.serving.metrics import GatewayMetrics
from scheduler_core.serving.served_backend import ServedBackend, make_texts, served_config
from scheduler_core.serving.settings import ServeSettings

#: What the label `replica` begins with where a gateway tells of requests.
GATEWAY = "gateway"


class GatewayIngress:
    """Loads no weights. The first gateway has the dead letters where `dead-letters` looks for them."""

    def __init__(
        self,
        args: ClusterArgs,
        engines: DeploymentHandle[Any],
        rank: int,
        siblings: DeploymentHandle[Any] | None = None,
    ) -> None:
        backend = ServedBackend(args.backend)
        texts = make_texts(backend)
        # A seed of its own: gateways number their requests alike.
        config = served_config(backend, args.preset, args.settings, texts.max_model_len).replace(
            seed=secrets.randbits(62)
        )
        settings = ServeSettings(**args.gateway)
        name = args.served_name or texts.name
        self._replica = f"{GATEWAY}-{rank}"
        self._metrics = GatewayMetrics(name, self._replica)
        letters = DeadLetters(settings.state if rank == 0 else settings.state / self._replica)
        engine = ClusterEngine(
            config,
            engines,
            args.replicas,
            args.prefix_blocks,
            settings.limits,
            letters=letters,
            observer=self._metrics,
            siblings=siblings,
        )
        sizes = GatewayLimits(settings.max_body_bytes, settings.max_prompt_tokens, settings.max_output_tokens)
        keys = ApiKeys(settings.keys, args.key_digests)
        self.gateway = Gateway(engine, texts.codec, name, limits=sizes, keys=keys, metrics=self._metrics)

    async def requests(self) -> Exposition:
        """What this gateway has counted and measured, for the others."""
        engine = self.gateway.engine
        letters = await asyncio.to_thread(engine.num_letters)
        return Exposition(self._replica, self._metrics.render_requests(engine, letters))
