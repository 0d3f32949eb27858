"""Kubernetes objects of the user's own, from the stack file to the policies."""

from __future__ import annotations

import pytest

from tests.unit.gateway.whole_stack import recorded, refusals
from tests.unit.stackfile.test_checks import lines, only

__all__ = ["lines"]
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "quota"},
    "spec": {"hard": {"pods": "50"}},
}
PRIORITY = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "production"},
    "value": 1000,
}
POD = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "sidecar", "namespace": "tools"},
    "spec": {
        "selector": {"matchLabels": {"app": "x"}},
        "template": {
            "metadata": {"labels": {"app": "x"}},
            "spec": {"hostNetwork": True, "containers": [{"name": "c", "image": "acme/c:latest"}]},
        },
    },
}


@pytest.fixture(scope="module")
def recording():
    return recorded(extraObjects={"quota": QUOTA, "production": PRIORITY, "sidecar": POD})


def test_objects_are_registered_as_they_are_and_in_the_namespace_of_the_stack(recording):
    quota = recording.one("kubernetes:core/v1:ResourceQuota", "quota")
    assert quota.inputs == {**QUOTA, "metadata": {"name": "quota", "namespace": "inference"}}
    assert recording.one("kubernetes:scheduling.k8s.io/v1:PriorityClass").inputs == PRIORITY
    [sidecar] = [
        each
        for each in recording.of_type("kubernetes:apps/v1:Deployment")
        if each.name == "sidecar"
    ]
    assert sidecar.inputs["metadata"]["namespace"] == "tools"


def test_policies_judge_them_like_all_others(recording):
    rules = {line.partition(" ")[0] for line in refusals(recording) if "sidecar" in line}
    assert {"pod-disallow-host-namespaces", "image-disallow-latest"} <= rules


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"apiVersion": "latest"},
            "apiVersion is 'latest'. Expected v1 or group/version, for example apps/v1",
        ),
        (
            {"kind": "config-map"},
            "kind is 'config-map'. Expected the kind of the object, for example ConfigMap",
        ),
        ({"metadata": {}}, "metadata.name is None. Expected the name of the object in lower case"),
        (
            {"kind": "ConfigMapList", "items": []},
            "kind is ConfigMapList, a list of objects. Write each object under a name of its own",
        ),
        ({"status": {}}, "status is set by the API server. Remove it"),
        (
            {"kind": "Secret", "stringData": {"token": "hunter2"}},
            (
                "Secret 'quota' has values, and a stack file is not secret. Remove the object, and"
                " create it with: kubectl create secret generic quota"
            ),
        ),
    ],
)
def test_an_object_that_cannot_be_applied_is_rejected(lines, fields, message):
    line = only(lines(extraObjects={"quota": {**QUOTA, **fields}}))
    assert message in line
    assert "extraObjects.quota" in line
    assert "hunter2" not in line
