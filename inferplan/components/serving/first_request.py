"""The expected time of the first request to a model without replicas, in parts. Each part names its
source.
"""

from dataclasses import dataclass

from inferplan.components.nodes.pool import Pool
from inferplan.components.serving.model_parts import TimedModel
from inferplan.components.serving.scaling_spec import POLLING_SECONDS
from inferplan.components.serving.workload import budget

_SCRAPE_SECONDS = 30  # the Prometheus operator's default scrapeInterval (API reference, 2026-11)
# No source gives a figure for accelerator nodes, and none could be measured here.
_NODE_SECONDS = 180
# A 14 GB image at 100 MB/s takes 140 s to pull and about as long to unpack (Triton's compatibility
# page, 2026-08, for the size).
_IMAGE_SECONDS = 280


@dataclass(frozen=True)
class Part:
    """One part of the wait, in seconds, with the source of the figure."""

    name: str
    seconds: int
    source: str


def first_request(name: str, spec: TimedModel, pool: Pool, *, adds_nodes: bool) -> tuple[Part, ...]:
    """Return the parts of the wait for the first answer of `spec` on `pool`, called `name`;
    `adds_nodes` says that nodes come and go.
    """
    times = budget(spec, pool.target(name))
    pulls = adds_nodes or not pool.pre_pull_images
    size = (
        spec.stored_files.size
        if spec.stored_files and spec.stored_files.size
        else "as much as the accelerators hold"
    )
    warmup = "warmupSeconds" if spec.warmup_seconds is not None else "the default of warmupSeconds"
    parts = (
        Part(
            "signal",
            _SCRAPE_SECONDS + POLLING_SECONDS,
            f"a scrape every {_SCRAPE_SECONDS} s, KEDA polls every {POLLING_SECONDS} s",
        ),
        Part(
            "node start",
            _NODE_SECONDS if adds_nodes else 0,
            "an assumption, if the autoscaler has removed the node",
        ),
        Part(
            "image pull",
            _IMAGE_SECONDS if pulls else 0,
            "14 GB at 100 MB/s, and unpacking, if the node does not have the image",
        ),
        Part("loading", times.reading, f"{size} at loadMibPerSecond {spec.load_mib_per_second}"),
        Part("warm-up", times.warmup, warmup),
    )
    return tuple(part for part in parts if part.seconds)
