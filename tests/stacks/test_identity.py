"""Identity of resources over changes of a stack file: one URN stands for one Kubernetes object, and
the reverse.

Pulumi knows a resource by its URN, Kubernetes an object by kind, namespace and name. Where the two
part, an update that fails halfway leaves an object that waits for deletion under a name that the
next update wants to create.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from inferplan.pulumi_engine.program.record import record
from inferplan.pulumi_engine.recording import Recording
from inferplan.pulumi_engine.values import UNKNOWN

PROJECT = Path(__file__).resolve().parents[2]
SEED = "8f14e45fceea167a5a36dedd4bea25433a6f1c0d9be27bd24e7b53c6a1d2f3e4"
REVISION = "8afb486c1db24fe5011ec46dfbe5b5dccdb575c2"
Sections = dict[str, Any]


def served(path: str, engine: str = "vllm", **more: Any) -> Sections:
    weights = {"store": "weights", "path": path, "revision": REVISION, "size": "16Gi"}
    return {
        "engine": engine,
        "weights": weights,
        "preheat": {"into": "shared"},
        "pool": "l40s",
        "consumers": ["chat"],
        **more,
    }


BASE: Sections = {
    "cluster": {"provider": "simulated"},
    "namespace": "team-a",
    "nodePools": {
        "l40s": {
            "provider": "simulated",
            "accelerator": "nvidia-l40s",
            "instanceType": "g6e.12xlarge",
            "nodes": 5,
        },
        "other": {
            "provider": "simulated",
            "accelerator": "nvidia-l40s",
            "instanceType": "g6e.12xlarge",
            "nodes": 5,
        },
        "system": {"provider": "simulated", "nodes": 1},
    },
    "storage": {
        "weights": {
            "kind": "s3",
            "bucket": "acme-weights",
            "endpoint": "http://minio.storage.svc:9000",
            "credentials": {"secretName": "s"},
        },
        "shared": {
            "kind": "nfs",
            "server": "nfs.storage.svc",
            "path": "/models",
            "capacity": "2Ti",
        },
    },
    "models": {
        "support": served("support", replicas=2),
        "search": served("search", "tensorrt-llm", maxSeqLen=8192, build={"modelFamily": "qwen"}),
    },
    "gateway": {"host": "llm.example.com", "insecure": True, "ingressClassName": "nginx"},
    "consumers": {"chat": {"keys": [1]}, "batch": {"keys": [1]}},
    "monitoring": {"prometheus": {"namespace": "monitoring"}},
    "apiKeySeed": SEED,
}
TRITON = {"repository": {"text": {"kind": "textGeneration"}}}
RAY = {
    "image": "docker.io/rayproject/ray-llm:2.56.0-py312-cu130",
    "rayVersion": "2.56.0",
    "applications": {"llm": {"kind": "llm"}},
}
PARENT = {"name": "public", "namespace": "gateways"}
# What is named by its content, so that a new content is a new object next to the old one.
CONFIG = r"ConfigMap gateway-config-\w+"
KEYS = r"Secret gateway-keys-\w+"
FILES = r"ConfigMap (support|search)-(files|engines)-[\w-]+"
PREHEAT = r"Job (support|search)-preheat-\w+"
BUILD = r"(Job|ConfigMap) search-engines-[\w-]+"
VOLUMES = r"PersistentVolume(Claim)? \S*nfs-\w+"


def at(path: str, value: Any) -> Callable[[Sections], None]:
    """A change that sets the value at a dotted path, or removes it where it is None."""

    def change(sections: Sections) -> None:
        *parents, last = path.split("/")
        place = sections
        for part in parents:
            place = place[part]
        if value is None:
            del place[last]
        else:
            place[last] = value

    return change


def another_key(sections: Sections) -> None:
    sections["consumers"]["chat"] = {"keys": [1, 2]}
    sections["keyHistory"] = {"chat": {"issued": 2}}


def renamed(section: str, old: str, new: str) -> Callable[[Sections], None]:
    """A change that renames an entry of a section, and what the models say of it."""

    def change(sections: Sections) -> None:
        sections[section][new] = sections[section].pop(old)
        text = json.dumps(sections["models"])
        for key in ("store", "into", "pool"):
            text = text.replace(f'"{key}": "{old}"', f'"{key}": "{new}"')
        sections["models"] = json.loads(text)

    return change


def model_as(engine: str, **more: Any) -> Callable[[Sections], None]:
    def change(sections: Sections) -> None:
        sections["models"]["support"] = served("support", engine, **{"replicas": 2, **more})

    return change


def envoy(sections: Sections) -> None:
    sections["gateway"] = {
        "implementation": "envoyGateway",
        "exposure": "gatewayApi",
        "host": "llm.example.com",
        "parent": PARENT,
    }
    for model in sections["models"].values():
        model |= {"engine": "vllm"}
        model.pop("maxSeqLen", None)
        model.pop("build", None)


# A change of the stack file, and the objects that it may create and delete: (kind name) patterns.
# Everything else must be an update.
CHANGES: dict[str, tuple[Callable[[Sections], None], tuple[str, ...]]] = {
    "nothing": (lambda _sections: None, ()),
    "engine triton": (model_as("triton", **TRITON), (CONFIG, FILES)),
    "engine pytriton": (model_as("pytriton", image="docker.io/acme/pytriton:1.0"), (CONFIG, FILES)),
    "engine ray-serve": (
        model_as("ray-serve", **RAY),
        (CONFIG, FILES, r"Deployment support", r"Service support", r"RayService support"),
    ),
    "replicas of several pods": (
        model_as("vllm", pipelineParallelSize=2, tensorParallelSize=4, nnodes=2),
        (CONFIG, r"Deployment support", r"LeaderWorkerSet support-group"),
    ),
    "pool of a model": (at("models/support/pool", "other"), ()),
    "image of a model": (at("models/support/image", "docker.io/vllm/vllm-openai:v0.99.0"), ()),
    "one replica": (at("models/support/replicas", 1), (r"PodDisruptionBudget support",)),
    "revision of a model": (at("models/support/weights/revision", "v2"), (PREHEAT,)),
    "round of a preheat": (at("models/support/preheat/round", 1), (PREHEAT,)),
    "round of a build": (at("models/search/build/round", 1), (BUILD,)),
    "deadline of a preheat": (at("models/support/preheat/timeoutSeconds", 7200), ()),
    "consumers of a model": (at("models/support/consumers", ["chat", "batch"]), (CONFIG,)),
    "a consumer more": (
        at("consumers/late", {"keys": [1]}),
        (CONFIG, KEYS, "Secret consumer-late"),
    ),
    "a key more": (another_key, (KEYS,)),
    "another seed": (at("apiKeySeed", SEED[::-1]), ()),
    "capacity of a share": (at("storage/shared/capacity", "3Ti"), ()),
    "name of a share": (renamed("storage", "shared", "fast"), ()),
    "name of a bucket's store": (renamed("storage", "weights", "models"), ()),
    "another share": (at("storage/shared/path", "/new"), (VOLUMES, PREHEAT, BUILD)),
    "name of a pool": (renamed("nodePools", "l40s", "spare"), (r"Node (l40s|spare)-\d",)),
    "nodes of a pool": (at("nodePools/other/nodes", 6), (r"Node other-5",)),
    "a model less": (
        at("models/support", None),
        (CONFIG, KEYS, FILES, PREHEAT, r"\w+ support(-\S+)?"),
    ),
    "name of a model": (
        renamed("models", "support", "helpdesk"),
        (CONFIG, KEYS, r"\w+ (support|helpdesk)(-\S+)?"),
    ),
    "envoy": (
        envoy,
        (
            CONFIG,
            FILES,
            BUILD,
            PREHEAT,
            (
                r"(ServiceAccount|Deployment|Service|PodDisruptionBudget|Ingress|NetworkPolicy)"
                r" gateway"
            ),
            r"Secret gateway-(keys-\w+|clients)",
            r"NetworkPolicy gateway-proxies",
            r"(HTTPRouteFilter|SecurityPolicy|BackendTrafficPolicy|HTTPRoute) gateway-\S+",
        ),
    ),
    "exposure": (
        at("gateway", {"exposure": "gatewayApi", "host": "llm.example.com", "parent": PARENT}),
        (CONFIG, r"Ingress gateway", r"(HTTP|GRPC)Route gateway(-grpc)?"),
    ),
    "no monitoring": (at("monitoring", None), (r"NetworkPolicy (support|search)-metrics",)),
    "namespace": (at("namespace", "team-b"), (r"(?!Node |RuntimeClass ).*",)),
}


def recorded(change: Callable[[Sections], None]) -> Recording:
    """What the changed stack registers."""
    sections = copy.deepcopy(BASE)
    change(sections)
    config = {
        f"inferplan:{key}": value if isinstance(value, str) else json.dumps(value)
        for key, value in sections.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(PROJECT)
        return record(
            PROJECT / "inferplan" / "infra",
            project="inferplan",
            stack="test",
            config=config,
            secret_keys={"inferplan:apiKeySeed", "inferplan:previousApiKeySeed"},
        )


@cache
def objects(change: str) -> dict[str, tuple[str, str, str]]:
    """Kind, namespace and name of each object of the changed stack, by URN."""
    found = {}
    for each in recorded(CHANGES[change][0]):
        if isinstance(each.inputs.get("kind"), str):
            metadata = each.inputs["metadata"]
            namespace = metadata.get("namespace", "")
            assert namespace is not UNKNOWN, f"{each.urn} has a namespace that a plan does not know"
            found[each.urn] = (each.inputs["kind"], namespace, metadata["name"])
    return found


@pytest.mark.parametrize("change", CHANGES)
def test_a_urn_stands_for_one_object_and_an_object_for_one_urn(change):
    before, after = objects("nothing"), objects(change)
    assert len(set(after.values())) == len(after), "two resources declare the same object"
    moved = {
        urn: (before[urn], after[urn])
        for urn in before.keys() & after.keys()
        if before[urn] != after[urn]
    }
    assert not moved, (
        "the same URN names another object, so an update that is reverted halfway finds its own"
        " object in the way"
    )
    urns = {identity: urn for urn, identity in before.items()}
    renamed_urns = {
        identity: (urns[identity], urn)
        for urn, identity in after.items()
        if urns.get(identity, urn) != urn
    }
    assert not renamed_urns, (
        "the same object has another URN, so the update would create what exists already"
    )


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_creates_and_deletes_nothing_but_what_it_has_to(change):
    before, after = set(objects("nothing").values()), set(objects(change).values())
    moved = sorted({f"{kind} {name}" for kind, _, name in before ^ after})
    allowed = CHANGES[change][1]
    assert [
        each for each in moved if not any(re.fullmatch(pattern, each) for pattern in allowed)
    ] == []
