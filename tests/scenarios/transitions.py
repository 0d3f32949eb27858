"""Changes of mind, A -> B, and what a user may expect of each. Data only; how they are played is
`play.py`.

Whatever way B ends and whatever follows, a stack ends converged, quiet and without orphans, and
each model that A and B both declare keeps a ready endpoint throughout, unless the plan says that
the rollout takes away its last replica. `stops` lists further models for which that cannot be
promised, and `because` says why: a reason that a plan can tell, never a limit of the engine.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Config = dict[str, Any]
Step = tuple[str, str, Any]
"""`("put", "models.alpha.replicas", 3)`, `("drop", "models.beta", None)` or `("move",
"models.beta", "delta")`.
"""

SEED, OTHER_SEED = (
    "a7d06c1be93f5824d1b7e60f3c9a84527be1f0d96c35a8e24709bd1f6e83c5a2",
    "f31c7e9a05d846b2e9017dc4f8a6b35290ce71d4f6b8a35e17d0924c6be8fa30",
)
REVISION, OTHER_REVISION = (
    "8afb486c1db24fe5011ec46dfbe5b5dccdb575c2",
    "b968826d9c46dd6066d109eabc6255188de91218",
)
GPU_IMAGE = "docker.io/vllm/vllm-openai:v0.33.0"


def weights(path: str, revision: str = REVISION) -> Config:
    """A model's files on the object store."""
    return {"store": "origin", "path": path, "revision": revision, "size": "16Gi"}


# Names of no example. The fast pool has two free nodes next to two single pods, so that no rollout
# waits, groups of two nodes included.
BASE: Config = {
    "cluster": {"provider": "simulated"},
    "namespace": "answers",
    "nodePools": {
        "fast": {
            "provider": "simulated",
            "accelerator": "nvidia-l40s",
            "instanceType": "g6e.12xlarge",
            "nodes": 5,
        },
        "gaudi": {"provider": "simulated", "accelerator": "gaudi-2", "nodes": 2},
        "plain": {"provider": "simulated", "nodes": 2},
    },
    "storage": {
        "origin": {
            "kind": "s3",
            "bucket": "acme-files",
            "prefix": "p",
            "endpoint": "http://minio.storage.svc:9000",
            "credentials": {"secretName": "s"},
        },
        "share": {"kind": "nfs", "server": "nfs.storage.svc", "path": "/export", "capacity": "2Ti"},
    },
    "models": {
        "alpha": {
            "engine": "vllm",
            "weights": weights("alpha"),
            "preheat": {"into": "share"},
            "pool": "fast",
            "replicas": 2,
            "consumers": ["desk", "nightly"],
        },
        "beta": {
            "engine": "vllm",
            "weights": weights("beta"),
            "preheat": {"into": "share"},
            "pool": "gaudi",
            # A single replica keeps its endpoint only if its successor starts first.
            "rollout": "surge",
            "consumers": ["desk"],
        },
    },
    "gateway": {"host": "answers.test", "insecure": True, "ingressClassName": "nginx"},
    "consumers": {"desk": {"keys": [2, 1]}, "nightly": {"keys": [1]}},
    "keyHistory": {"desk": {"issued": 2}},
    "apiKeySeed": SEED,
}
# Where a scenario turns to after B instead of back to A: something that no B contains.
ELSEWHERE: tuple[Step, ...] = (
    ("put", "consumers.auditor", {"keys": [1]}),
    ("put", "models.alpha.maxModelLen", 4096),
    ("put", "models.alpha.consumers", ["desk", "auditor"]),
)
_ENVOY = {
    "implementation": "envoyGateway",
    "exposure": "gatewayApi",
    "host": "answers.test",
    "parent": {"name": "public", "namespace": "gateways"},
}
_TRITON = {
    "engine": "triton",
    "repository": {"text": {"kind": "textGeneration", "maxBatchSize": 8}},
}
_RAY = {
    "engine": "ray-serve",
    "image": "docker.io/rayproject/ray-llm:2.56.0-py312-cu130",
    "rayVersion": "2.56.0",
    "applications": {"llm": {"kind": "llm"}},
}
_PYTRITON = {"engine": "pytriton", "image": "docker.io/acme/pytriton:0.7.0-1", "maxBatchSize": 8}
_GAMMA = {
    "engine": "vllm",
    "weights": weights("gamma"),
    "preheat": {"into": "share"},
    "pool": "fast",
    "consumers": ["desk"],
}
_SHARE = {"kind": "nfs", "server": "nfs.storage.svc", "path": "/second", "capacity": "1Ti"}


@dataclass(frozen=True, kw_only=True)
class Transition:
    """A change from A (`BASE` after `first`) to B (A after `then`)."""

    name: str
    then: tuple[Step, ...]
    first: tuple[Step, ...] = ()
    stops: frozenset[str] = frozenset()
    because: str = ""

    @property
    def before(self) -> Config:
        """A."""
        return edited(BASE, self.first)

    @property
    def after(self) -> Config:
        """B."""
        return edited(self.before, self.then)

    @property
    def elsewhere(self) -> Config:
        """C."""
        return edited(BASE, ELSEWHERE)


def edited(config: Config, steps: tuple[Step, ...]) -> Config:
    """`config` after `steps`; the argument stays as it is."""
    result = copy.deepcopy(config)
    for verb, path, value in steps:
        *parents, last = path.split(".")
        place = result
        for each in parents:
            place = place[each]
        if verb == "put":
            place[last] = copy.deepcopy(value)
        elif verb == "drop":
            del place[last]
        else:
            place[value] = place.pop(last)
    return result


def _engine(model: str, fields: Config) -> tuple[Step, ...]:
    return tuple(("put", f"models.{model}.{key}", value) for key, value in fields.items())


def _both(name: str, *steps: Step, **more: Any) -> Iterator[Transition]:
    """There and back: B -> A is a transition of its own."""
    yield Transition(name=f"{name}", then=steps, **more)
    back = edited(BASE, ())
    tops = sorted({path.split(".")[0] for _, path, _ in steps})
    restore: list[Step] = [
        ("put", top, back[top]) if top in back else ("drop", top, None) for top in tops
    ]
    yield Transition(name=f"undo {name}", first=steps, then=tuple(restore), **more)


def _one(name: str, *steps: Step, **more: Any) -> Iterator[Transition]:
    yield Transition(name=name, then=steps, **more)


_OTHER_NODES = "the nodes that the model runs on are replaced"
TRANSITIONS: tuple[Transition, ...] = (
    # Models.
    *_both("add a model", ("put", "models.gamma", _GAMMA)),
    *_one("rename a model", ("move", "models.beta", "delta")),
    *_one(
        "rename a model and give its old name to another",
        ("move", "models.beta", "delta"),
        ("put", "models.beta", {**_GAMMA, "pool": "gaudi"}),
    ),
    *_one("more replicas", ("put", "models.alpha.replicas", 3)),
    *_one("fewer replicas", ("put", "models.alpha.replicas", 1)),
    *_one("another revision", ("put", "models.alpha.weights.revision", OTHER_REVISION)),
    *_one(
        "another revision of every model",
        *(("put", f"models.{each}.weights.revision", OTHER_REVISION) for each in ("alpha", "beta")),
    ),
    *_one("another size of the weights", ("put", "models.alpha.weights.size", "17Gi")),
    *_one("another path of the weights", ("put", "models.alpha.weights.path", "alpha-chat")),
    *_one("another round", ("put", "models.alpha.preheat", {"into": "share", "round": 1})),
    *_both("another image", ("put", "models.alpha.image", GPU_IMAGE)),
    *_one("a longer context", ("put", "models.alpha.maxModelLen", 8192)),
    *_one("more accelerators", ("put", "models.alpha.tensorParallelSize", 2)),
    *_one("another pool", ("put", "models.beta.pool", "fast")),
    *_one(
        "another pool in place",
        ("put", "models.beta.pool", "fast"),
        first=(("put", "models.beta.rollout", "inPlace"),),
    ),
    *_both("no preheat", ("drop", "models.alpha.preheat", None)),
    # Engines.
    *_both("vllm to triton", *_engine("alpha", _TRITON)),
    *_both("vllm to pytriton", *_engine("alpha", _PYTRITON)),
    *_both(
        "vllm to ray-serve",
        *_engine("alpha", _RAY),
        stops=frozenset({"alpha"}),
        because="a RayService answers by a Service of another name",
    ),
    *_both(
        "two nodes for a replica",
        ("put", "models.alpha.tensorParallelSize", 4),
        ("put", "models.alpha.pipelineParallelSize", 2),
        ("put", "models.alpha.nnodes", 2),
        ("put", "models.alpha.replicas", 1),
    ),
    # Pools.
    *_both(
        "add a pool",
        (
            "put",
            "nodePools.spare",
            {"provider": "simulated", "accelerator": "nvidia-h100", "nodes": 1},
        ),
    ),
    *_one("more nodes", ("put", "nodePools.fast.nodes", 6)),
    *_one("rename a pool", ("move", "nodePools.gaudi", "hpu"), ("put", "models.beta.pool", "hpu")),
    *_one(
        "another accelerator in a pool",
        (
            "put",
            "nodePools.fast",
            {"provider": "simulated", "accelerator": "nvidia-h100", "nodes": 3},
        ),
        stops=frozenset({"alpha"}),
        because=_OTHER_NODES,
    ),
    # Stores.
    *_both("add a store", ("put", "storage.second", _SHARE)),
    *_one(
        "rename a store",
        ("move", "storage.share", "files"),
        *(("put", f"models.{each}.preheat", {"into": "files"}) for each in ("alpha", "beta")),
    ),
    *_one("another capacity", ("put", "storage.share.capacity", "3Ti")),
    *_one("another NFS server", ("put", "storage.share.server", "nfs-2.storage.svc")),
    *_one("another bucket", ("put", "storage.origin.bucket", "acme-files-2")),
    # Consumers and keys.
    *_both(
        "add a consumer",
        ("put", "consumers.auditor", {"keys": [1]}),
        ("put", "models.beta.consumers", ["desk", "auditor"]),
    ),
    *_one(
        "rename a consumer",
        ("move", "consumers.nightly", "batch"),
        ("put", "models.alpha.consumers", ["desk", "batch"]),
    ),
    *_one(
        "add a key",
        ("put", "consumers.nightly.keys", [2, 1]),
        ("put", "keyHistory.nightly", {"issued": 2}),
    ),
    *_one(
        "retire a key",
        ("put", "consumers.desk.keys", [2]),
        ("put", "keyHistory.desk", {"issued": 2, "spent": 1}),
    ),
    *_one("another model for a consumer", ("put", "models.beta.consumers", ["desk", "nightly"])),
    *_one("another seed", ("put", "apiKeySeed", OTHER_SEED)),
    # Namespace and gateway.
    *_one("another namespace", ("put", "namespace", "replies")),
    *_both("envoy instead of nginx", ("put", "gateway", _ENVOY)),
    *_both(
        "no gateway",
        ("drop", "gateway", None),
        *(("put", f"models.{each}.consumers", []) for each in ("alpha", "beta")),
        ("put", "consumers", {}),
    ),
    *_one("another host", ("put", "gateway.host", "replies.test")),
    *_one("a longer read timeout", ("put", "gateway.readTimeoutSeconds", 900)),
    *_one(
        "monitoring",
        (
            "put",
            "monitoring",
            {"prometheus": {"namespace": "watch", "podLabels": {"app": "prometheus"}}},
        ),
    ),
    # Several at once.
    *_one(
        "everything at once",
        ("move", "models.beta", "delta"),
        ("put", "models.alpha.weights.revision", OTHER_REVISION),
        ("put", "models.alpha.image", GPU_IMAGE),
        ("put", "apiKeySeed", OTHER_SEED),
        ("put", "consumers.auditor", {"keys": [1]}),
        ("put", "gateway.host", "replies.test"),
    ),
)

ENDINGS = (
    "succeeds",
    "fails",
    "times out",
    "interrupted at 3",
    "killed at 1",
    "killed at 4",
    "killed at 9",
)
"""How the update to B ends. `fails`: the cluster denies every new or changed server. `times out`:
no new server gets a pod. `at n`: Ctrl-C or kill -9 right after the n-th change reached the cluster,
before the engine has noted it; an update of fewer changes succeeds.
"""
FOLLOWING = ("repeat", "revert", "elsewhere")
"""What the user does next: apply B again, restore A, or go to C."""
