"""How long a model may take to start, to drain and to roll out, from its size: arithmetic, no Kubernetes.

Every timeout of a model comes from here, so that a kubelet never kills a server that is still loading and
Pulumi never gives up before Kubernetes does.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

# KServe moved from liveness delays to a startup probe of 60 x 10 s because large models were killed in a loop
# (kserve PR 5063); nothing is gained by a shorter budget, since the probe passes as soon as the server answers.
SHORTEST_STARTUP_SECONDS = 600
PROBE_PERIOD_SECONDS = 10
# KServe's config-llm-template waits 15 s before SIGTERM so that the proxies have dropped the pod (kserve PR 5485).
PRE_STOP_SECONDS = 15
GRACE_MARGIN_SECONDS = 10
# A 14 GB image at 100 MB/s takes 140 s to pull and about as long to unpack (Triton's compatibility page, 2026-08, for the size).
IMAGE_PULL_SECONDS = 600
SCHEDULING_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The time budgets of one model, all in seconds."""

    startup: int
    drain: int
    grace: int
    progress_deadline: int
    rollout: int

    @property
    def startup_failures(self) -> int:
        """`failureThreshold` of a startup probe with a period of PROBE_PERIOD_SECONDS."""
        return ceil(self.startup / PROBE_PERIOD_SECONDS)


def timing(*, model_bytes: int, load_mib_per_second: int, warmup_seconds: int, drain_seconds: int, replicas: int) -> Timing:
    """The budgets of a model of `model_bytes` that is read at `load_mib_per_second`.

    Startup is twice the reading time plus the warm-up, 600 s at least; the grace period exceeds preStop plus
    drain; a rollout replaces one replica after another, so its deadline grows with `replicas`.
    """
    reading = ceil(model_bytes / (load_mib_per_second * 2**20))
    startup = max(SHORTEST_STARTUP_SECONDS, 2 * reading + warmup_seconds)
    grace = PRE_STOP_SECONDS + drain_seconds + GRACE_MARGIN_SECONDS
    one_replica = grace + SCHEDULING_SECONDS + IMAGE_PULL_SECONDS + startup
    return Timing(
        startup=startup,
        drain=drain_seconds,
        grace=grace,
        progress_deadline=one_replica,
        rollout=one_replica * max(1, replicas),
    )
