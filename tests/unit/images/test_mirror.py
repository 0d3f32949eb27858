"""Images from a mirror and from private registries, in every pod that a stack declares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inferplan.commands.images.images import images_of
from inferplan.images.catalogue import default_image, facts_of
from inferplan.images.mirror import mirrored, upstream
from inferplan.pulumi_engine.program.record import record
from inferplan.pulumi_engine.recording import Recording
from tests.plans import containers_of
from tests.unit.stackfile.test_checks import CONFIG, MODEL, lines, only

__all__ = ["lines"]
ROOT = Path(__file__).resolve().parents[3]
MIRROR = "registry.acme.example/mirror"
RAY = {
    "engine": "ray-serve",
    "pool": "l40s",
    "rayVersion": "2.56.0",
    "image": "rayproject/ray:2.56.0",
    "imagePullSecrets": [{"name": "ray-registry"}],
    "applications": {"app": {"kind": "custom", "importPath": "app:graph"}},
}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "warm"},
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "warm", "image": "busybox:1.37"}],
            }
        }
    },
}


def declared(**sections: Any) -> Recording:
    pools = CONFIG["nodePools"] | {
        "l40s": {**CONFIG["nodePools"]["l40s"], "nodes": 4, "prePullImages": True}
    }
    stack = {
        **CONFIG,
        "nodePools": pools,
        "models": {"chat-model": MODEL, "rag": RAY},
        "extraObjects": {"warm": JOB},
        **sections,
    }
    config = {
        f"inferplan:{key}": json.dumps(value) for key, value in stack.items() if key != "apiKeySeed"
    }
    seed = {
        "inferplan:apiKeySeed": "8f14e45fceea167a5a36dedd4bea25433a6f1c0d9be27bd24e7b53c6a1d2f3e4"
    }
    return record(
        ROOT / "inferplan" / "infra",
        project="inferplan",
        stack="test",
        config=config | seed,
        secret_keys=frozenset(seed),
    )


@pytest.fixture(scope="module")
def plain():
    return declared()


@pytest.fixture(scope="module")
def rewritten():
    return declared(images={"mirror": MIRROR, "imagePullSecrets": [{"name": "acme-registry"}]})


def test_every_container_pulls_from_the_mirror_by_the_whole_upstream_name(plain, rewritten):
    before = {(str(each)): each.container["image"] for each in containers_of(plain)}
    after = {(str(each)): each.container["image"] for each in containers_of(rewritten)}
    assert len(before) > 8
    assert after == {key: mirrored(image, MIRROR) for key, image in before.items()}
    assert after["Job/warm warm"] == f"{MIRROR}/docker.io/library/busybox:1.37"
    assert f"{MIRROR}/{default_image('preheat')}" in after.values()
    assert f"{MIRROR}/docker.io/rayproject/ray:2.56.0" in after.values()


def test_every_pod_names_the_pull_secrets_of_the_stack_and_of_its_model(plain, rewritten):
    for each in containers_of(plain):
        names = [secret["name"] for secret in each.pod.get("imagePullSecrets", [])]
        assert names == (
            ["ray-registry"] if each.resource in ("RayService/rag", "DaemonSet/l40s-images") else []
        )
    for each in containers_of(rewritten):
        names = [secret["name"] for secret in each.pod["imagePullSecrets"]]
        assert names == (
            ["ray-registry"] if each.resource in ("RayService/rag", "DaemonSet/l40s-images") else []
        ) + ["acme-registry"]


def test_every_image_is_listed_with_its_source_and_its_pods(plain, rewritten):
    listed = images_of(rewritten, MIRROR)
    assert {each.image for each in listed} == {
        each.container["image"] for each in containers_of(rewritten)
    }
    [ray] = [each for each in listed if "ray:" in each.image]
    assert (ray.source, ray.used_by) == (
        "docker.io/rayproject/ray:2.56.0",
        ("DaemonSet/l40s-images", "RayService/rag"),
    )
    assert [each.source for each in images_of(plain, None)] == [
        each.image for each in images_of(plain, None)
    ]


def test_what_the_catalogue_knows_of_an_image_it_knows_of_its_copy():
    for name in ("vllm", "preheat", "gateway"):
        assert (
            facts_of(mirrored(default_image(name), MIRROR))
            is facts_of(default_image(name))
            is not None
        )
    assert facts_of("registry.acme.example/vllm-openai:v0.33.0") is None


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("nginx:1", "docker.io/library/nginx:1"),
        ("vllm/vllm-openai:v1@sha256:ab", "docker.io/vllm/vllm-openai:v1@sha256:ab"),
        ("localhost/a:1", "localhost/a:1"),
        ("registry:5000/a:1", "registry:5000/a:1"),
    ],
)
def test_a_name_in_the_mirror_has_the_registry_and_stays_when_rewritten_again(image, name):
    once = mirrored(image, MIRROR)
    assert once == f"{MIRROR}/{name}" == mirrored(once, MIRROR)
    assert upstream(once, MIRROR) == name or name.startswith("localhost")


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (
            {"mirror": "https://registry.acme.example/"},
            "has a scheme. Use host[:port][/path]: registry.acme.example",
        ),
        (
            {"mirror": "Registry"},
            (
                "'Registry' is not a registry. Use host[:port][/path] in lower case, for example"
                " registry.acme.example"
            ),
        ),
        (
            {"imagePullSecrets": ["acme"]},
            (
                "images.imagePullSecrets[0]: The value (not repeated here) is not valid. Expected a"
                " mapping with name"
            ),
        ),
    ],
)
def test_a_registry_that_no_pod_can_pull_from_is_rejected(lines, images, message):
    assert message in only(lines(images=images))
