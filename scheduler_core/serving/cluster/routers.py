"""Ray Serve's own routers by the names that `--router` takes."""

from __future__ import annotations

from ray.serve.config import RequestRouterConfig

from scheduler_core.serving.cluster.args import RouterName

_HASH = "ray.serve.experimental.consistent_hash_router.ConsistentHashRouter"
# Ray's public name of it imports vLLM.
_AFFINITY = "ray.llm._internal.serve.routing_policies.prefix_aware.prefix_aware_router.PrefixCacheAffinityRouter"


def router_config(name: RouterName) -> RequestRouterConfig:
    """Power of two looks at queues, consistent hashing at a prompt's prefix, affinity at both."""
    if name == "consistent-hash":
        # A home that takes no more leaves it to the next two on the ring.
        return RequestRouterConfig(request_router_class=_HASH, request_router_kwargs={"num_fallback_replicas": 2})
    if name == "prefix-affinity":
        # By default no imbalance is too much, and what a replica was sent is never forgotten.
        bounds = {"imbalanced_threshold": 8, "do_eviction": True}
        return RequestRouterConfig(request_router_class=_AFFINITY, request_router_kwargs=bounds)
    return RequestRouterConfig()
