"""A change of a field that no table knows is a risk: one new field in each mapping of what the example stacks register."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from inferplan.rehearsal.engine.wire.recording import Recording
from tests.policies.unseen.unseen import CALM, report_of
from tests.review.verdicts.change import recorded, text_of

STACKS = ("local", "prod", "vllm", "ray-serve")
FAMILIES = ("Deployment", "HorizontalPodAutoscaler", "Job", "LeaderWorkerSet", "NetworkPolicy", "PersistentVolume", "PersistentVolumeClaim")
FAMILIES += ("RayService", "ResourceQuota", "Role", "RoleBinding")
REFERENCES = ("secretKeyRef", "secretRef", "secret", "imagePullSecrets")
Path = tuple[str | int, ...]


def mappings(value: Any, path: Path = ()) -> Iterator[Path]:
    """Where a field can be added. Keys of metadata are names that users choose, not fields."""
    if isinstance(value, dict) and "metadata" not in path[-1:]:
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
    """By kind, the first object of the example stacks, alone in a recording."""
    found: dict[str, Recording] = {}
    for stack in STACKS:
        # No example has a scaled gateway.
        recording = recorded(
            stack, text_of(stack).replace("inferplan:gateway: {", "inferplan:gateway: {autoscaling: {maxReplicas: 5}, ", 1)
        )
        for each in recording:
            kind = each.inputs.get("kind", "")
            if each.type.startswith("kubernetes:") and kind in FAMILIES:
                alone = replace(each, parent="", dependencies=(), property_dependencies={})
                found.setdefault(kind, replace(recording, registrations=(alone,)))
    return found


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_new_field_is_at_least_disruptive_and_its_cause_is_named(kind):
    recording = objects()[kind]
    inputs = recording.registrations[0].inputs
    changes = [(*path, "newField") for path in mappings(inputs) if path]
    assert changes
    outcomes = {path: report_of(recording, changed(recording, path, "x")) for path in changes}
    assert [path for path, (severity, words) in outcomes.items() if severity == CALM or not any("newField" in each for each in words)] == []


def test_another_secret_is_at_least_disruptive_wherever_a_pod_refers_to_one():
    cases = [(one, path) for one in objects().values() for path in references(one.registrations[0].inputs)]
    assert len(cases) >= 5
    assert [path for one, path in cases if report_of(one, changed(one, path, "other"))[0] == CALM] == []
