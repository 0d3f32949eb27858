"""A change of a field that no table knows is a risk: one new field in each mapping of what the
example stacks register.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from inferplan.pulumi_engine.recording import Recording
from tests.lanes import in_full
from tests.policies.unseen.unseen import CALM, report_of
from tests.review.verdicts.change import recorded, text_of

STACKS = ("local", "prod", "vllm", "ray-serve")
FAMILIES = (
    "Deployment",
    "HorizontalPodAutoscaler",
    "Job",
    "LeaderWorkerSet",
    "NetworkPolicy",
    "PersistentVolume",
    "PersistentVolumeClaim",
)
FAMILIES += ("ClusterRole", "NodePool", "RayService", "ResourceQuota", "Role", "RoleBinding")
# Kinds that no example stack has.
TRIGGER = {
    "type": "prometheus",
    "metadata": {"query": "up"},
    "authenticationRef": {"name": "prometheus"},
}
OTHERS = {
    "LimitRange": (
        "core/v1",
        {"limits": [{"type": "Container", "max": {"cpu": "4"}, "default": {"cpu": "1"}}]},
    ),
    "ScaledObject": (
        "keda.sh/v1alpha1",
        {"scaleTargetRef": {"name": "a"}, "triggers": [TRIGGER], "fallback": {"replicas": 2}},
    ),
}
REFERENCES = ("secretKeyRef", "secretRef", "secret", "imagePullSecrets")
Path = tuple[str | int, ...]


def mappings(value: Any, path: Path = ()) -> Iterator[Path]:
    """Where a field can be added. Keys of metadata and tags are names that users choose, not
    fields; a trigger's are its settings.
    """
    if isinstance(value, dict) and (
        path[-1:] not in {("metadata",), ("tags",)} or "triggers" in path
    ):
        yield path
        for key, each in value.items():
            yield from mappings(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from mappings(each, (*path, index))


def references(value: Any, path: Path = ()) -> Iterator[Path]:
    """Where a pod names a Secret or a key of one."""
    if isinstance(value, str) and set(path) & {*REFERENCES}:
        yield path
    elif isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from references(each, (*path, key))


def changed(recording: Recording, path: Path, value: Any) -> Recording:
    (one,) = recording.registrations
    inputs = copy.deepcopy(one.inputs)
    inner: Any = inputs
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return replace(recording, registrations=(replace(one, inputs=inputs),))


@cache
def objects() -> dict[str, Recording]:
    """By kind, or by type in a cloud, the first object of the example stacks and of `OTHERS`, alone
    in a recording.
    """
    found: dict[str, Recording] = {}
    for stack in STACKS:
        # No example has a scaled gateway.
        recording = recorded(
            stack,
            text_of(stack).replace(
                "inferplan:gateway: {", "inferplan:gateway: {autoscaling: {maxReplicas: 5}, ", 1
            ),
        )
        for each in recording:
            kind = each.type if each.type.startswith("aws:") else each.inputs.get("kind", "")
            if kind in FAMILIES or kind == each.type:
                alone = replace(each, parent="", dependencies=(), property_dependencies={})
                found.setdefault(kind, replace(recording, registrations=(alone,)))
    (role,) = found["Role"].registrations
    for kind, (version, spec) in OTHERS.items():
        inputs = {
            "apiVersion": version.removeprefix("core/"),
            "kind": kind,
            "metadata": role.inputs["metadata"],
            "spec": spec,
        }
        found[kind] = replace(
            found["Role"],
            registrations=(replace(role, type=f"kubernetes:{version}:{kind}", inputs=inputs),),
        )
    return found


def calm_fields(recording: Recording) -> list[Path]:
    """Where a new field is harmless, or a risk without its name."""
    inputs = recording.registrations[0].inputs
    changes = [(*path, "newField") for path in mappings(inputs) if path or "kind" not in inputs]
    assert changes
    outcomes = {path: report_of(recording, changed(recording, path, "x")) for path in changes}
    return [
        path
        for path, (severity, words) in outcomes.items()
        if severity == CALM or not any("newField" in each for each in words)
    ]


@pytest.mark.parametrize("kind", ["Deployment", *OTHERS, *in_full(*FAMILIES[1:])])
def test_a_new_field_is_at_least_disruptive_and_its_cause_is_named(kind):
    assert calm_fields(objects()[kind]) == []


def test_a_new_field_of_a_cloud_resource_is_at_least_disruptive_and_its_cause_is_named():
    kinds = [kind for kind in objects() if kind.startswith("aws:")]
    assert {"aws:eks/nodeGroup:NodeGroup", "aws:s3/bucket:Bucket", "aws:iam/role:Role"} <= {*kinds}
    assert {kind: calm for kind in kinds if (calm := calm_fields(objects()[kind]))} == {}


def test_another_secret_is_at_least_disruptive_wherever_a_pod_refers_to_one():
    cases = [
        (one, path)
        for one in objects().values()
        for path in references(one.registrations[0].inputs)
    ]
    assert len(cases) >= 5
    assert [
        path for one, path in cases if report_of(one, changed(one, path, "other"))[0] == CALM
    ] == []
