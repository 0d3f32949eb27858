"""An audit names what a kubelet does not start, which fake nodes start."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from inferplan.audit.deployed import Change
from inferplan.audit.kubelet import unstartable
from inferplan.audit.manifest import Manifest
from inferplan.rehearsal.wait.object_events import Key

KEY = Key("Deployment", "n", "a")
TEMPLATE = "spec.template.spec."


def manifest(container: dict[str, Any], **pod: Any) -> Manifest:
    container = {"name": "app", "image": "registry.example/app:1", **container}
    spec = {"template": {"spec": {"containers": [container], **pod}}}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec}
    return Manifest(body=body, place="new.yaml:1")


def found(new: Manifest, old: Manifest | None = None, mode: str = "Block") -> list[tuple[str, str]]:
    session = SimpleNamespace(get=lambda *_: {"spec": {"volumeMode": mode}})
    change = cast("Change", SimpleNamespace(session=session, each=lambda: [(KEY, new, old)]))
    return [(each.weight, each.field.removeprefix(TEMPLATE)) for each in unstartable(change)]


@pytest.mark.parametrize(
    ("image", "is_valid"),
    [
        ("vllm/vllm-openai:v0.11.0", True),
        ("nginx", True),
        ("localhost:5000/a/b_c:1-RC1", True),
        ("Registry.example/a__b/c--d", True),
        (f"[::1]:5000/a@sha256:{'a' * 64}", True),
        (f"registry.example/a:1@sha256:{'0' * 64}", True),
        ("registry.example/Team/app:1", False),
        ("App:1", False),
        ("registry.example/app:1:2", False),
        ("registry.example/app:", False),
        ("registry.example/app@sha256:12", False),
        ("https://registry.example/app:1", False),
        ("registry.example/app:${TAG}", False),
    ],
)
def test_names_of_images_have_the_grammar_of_registries(image, is_valid):
    assert found(manifest({"image": image})) == (
        [] if is_valid else [("blocked", "containers[0].image")]
    )


ENV = [{"name": "CPUS", "valueFrom": {"resourceFieldRef": {"containerName": "other"}}}]
FILE = {"path": "cpus", "resourceFieldRef": {"containerName": "other"}}
USER = {"securityContext": {"runAsNonRoot": True, "runAsUser": 0}}
LIMIT = {"resources": {"limits": {"memory": "512m"}}}
DISK = [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]
BROKEN: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "user": (USER, {}, "containers[0].securityContext.runAsUser"),
    "user of the pod": (
        {"securityContext": {"runAsNonRoot": True}},
        {"securityContext": {"runAsUser": 0}},
        "containers[0].securityContext.runAsNonRoot",
    ),
    "memory": (LIMIT, {}, "containers[0].resources.limits.memory"),
    "variable": (
        {"env": ENV},
        {},
        "containers[0].env[0].valueFrom.resourceFieldRef.containerName",
    ),
    "file": (
        {},
        {"volumes": [{"name": "v", "downwardAPI": {"items": [FILE]}}]},
        "volumes[0].downwardAPI.items[0].resourceFieldRef.containerName",
    ),
    "sysctl": (
        {},
        {"securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]}},
        "securityContext.sysctls[0].name",
    ),
    "hook": (
        {"lifecycle": {"postStart": {"httpGet": {"port": "warm"}}}},
        {},
        "containers[0].lifecycle.postStart.httpGet.port",
    ),
    "path": (
        {"volumeMounts": [{"name": "v", "subPathExpr": "$(POD)/logs"}]},
        {},
        "containers[0].volumeMounts[0].subPathExpr",
    ),
    "block device": (
        {"volumeMounts": [{"name": "d", "mountPath": "/d"}]},
        {"volumes": DISK},
        "containers[0].volumeMounts[0].name",
    ),
}


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_field_that_stops_a_container_blocks_unless_it_was_so(name):
    container, pod, field = BROKEN[name]
    new = manifest(container, **pod)
    assert found(new) == [("blocked", field)]
    assert found(new, manifest({})) == [("blocked", field)]
    assert found(new, new) == [("note", field)]


def test_what_a_kubelet_starts_is_no_finding():
    reference = {"resourceFieldRef": {"containerName": "app"}}
    container = {
        "env": [{"name": "POD", "valueFrom": reference}],
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001},
        "resources": {"limits": {"memory": "6Mi"}},
        "volumeMounts": [{"name": "d", "mountPath": "/d", "subPathExpr": "$(POD)"}],
    }
    sysctls = [{"name": "net.ipv4.ip_local_port_range", "value": "1024 65000"}]
    pod = {"securityContext": {"runAsUser": 0, "sysctls": sysctls}, "volumes": DISK}
    assert found(manifest(container, **pod), mode="Filesystem") == []
