"""Sweeps over every kind that the API servers of 1.34 to 1.37 serve: immutable fields, and objects
that are left behind.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan.commands.audit.audit import audit
from inferplan.kube.api import Api, ApiError
from inferplan.kube.paths import Path as FieldPath
from inferplan.kube.paths import leaves, text_of, value_at
from inferplan.progress import silent
from inferplan.rehearsal.cluster import delete, start
from inferplan.rehearsal.cluster.making import upgrade
from inferplan.rehearsal.toolchain.build import ensure_source
from inferplan.rehearsal.toolchain.pins import CONTROL_PLANES
from inferplan.rehearsal.wait.reasons import is_immutable
from tests.lanes import in_full

Object = dict[str, Any]
TEXT = (Path(__file__).parent / "kinds.yaml").read_text()
KINDS: list[Object] = yaml.safe_load(TEXT)
OTHERS = dict(
    pair.split("=")
    for pair in [
        "Retain=Delete",
        "Filesystem=Block",
        "ClientIP=None",
        "IPv4=IPv6",
        "Role=ClusterRole",
        "Opaque=example.com/x",
        "Parallel=OrderedReady",
        "Indexed=NonIndexed",
        "Immediate=WaitForFirstConsumer",
        "File=None",
        "Namespaced=Cluster",
        "Persistent=Ephemeral",
        "ReadWriteOnce=ReadWriteMany",
        "2Gi=1Gi",
        "10.0.7.7=10.0.7.8",
        "system-node-critical=system-cluster-critical",
        "BestEffort=NotBestEffort",
        "Never=OnFailure",
        "Always=Never",
        "Default=ClusterFirst",
        "Failed=TerminatingOrFailed",
    ]
)
# What the API server rejects in an update besides changes of immutable fields.
MUTABLE = {"CustomResourceDefinition spec.versions[0].name", "Service spec.ports[0].port"}
AT_LEAST = {
    "PriorityClass value",
    "StorageClass parameters.a",
    "StorageClass provisioner",
    "VolumeAttributesClass driverName",
    "ResourceClaim spec",
    "RoleBinding roleRef.name",
    "Job spec.template.spec.containers[0].image",
    "PersistentVolume spec.csi.driver",
    "Secret type",
}


def variants(body: Object) -> Iterator[tuple[FieldPath, Any]]:
    """Other values of each field, None to leave it out."""
    for path, value in list(leaves(body)):
        if path[0] in ("apiVersion", "kind", "metadata"):
            continue
        if isinstance(value, bool):
            yield path, not value
        elif isinstance(value, int):
            yield path, value + 1
        elif isinstance(value, str):
            yield path, OTHERS.get(value, f"{value}x")
        if isinstance(path[-1], str):
            yield path, None
    yield from (((key,), None) for key in body if key not in ("apiVersion", "kind", "metadata"))


def changed(body: Object, path: FieldPath, value: Any) -> Object:
    new = copy.deepcopy(body)
    parent = value_at(new, path[:-1])
    if value is None:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return new


def attempt(api: Api, method: str, path: str, body: Object) -> ApiError | None:
    try:
        api.request(method, path, body, query={"dryRun": "All"})
    except ApiError as error:
        return error
    return None


def immutable_fields(api: Api) -> Iterator[tuple[str, ApiError]]:
    """The fields that a new object may have otherwise, and an existing one may not."""
    for body in KINDS:
        resource = api.resource(body["apiVersion"], body["kind"])
        namespace, name = "default" if resource.namespaced else "", body["metadata"]["name"]
        api.request("POST", resource.path(namespace), body)
        for path, value in variants(body):
            new = changed(body, path, value)
            other = copy.deepcopy(new)
            if name.startswith("probe"):
                other["metadata"]["name"] = f"{name}-other"
            created = attempt(api, "POST", resource.path(namespace), other)
            if (
                created
                and created.status != HTTPStatus.CONFLICT
                and "allocated" not in created.message
            ):
                continue
            new["metadata"] = api.request("GET", resource.path(namespace, name))["metadata"]
            error = attempt(api, "PUT", resource.path(namespace, name), new)
            if error and error.status == HTTPStatus.UNPROCESSABLE_ENTITY:
                yield f"{body['kind']} {text_of(path)}", error


@pytest.mark.full
@pytest.mark.parametrize("version", ["1.34", *CONTROL_PLANES])
def test_every_immutable_field_of_every_kind_is_known_as_one(version):
    if version in CONTROL_PLANES:
        ensure_source(CONTROL_PLANES[version])
    cluster = start(f"kinds-{version.replace('.', '-')}")
    try:
        if version in CONTROL_PLANES:
            cluster = upgrade(cluster, CONTROL_PLANES[version], silent)
        with_reason = dict(immutable_fields(cluster.api()))
    finally:
        delete(f"kinds-{version.replace('.', '-')}")
    assert with_reason.keys() >= AT_LEAST
    unknown = {name: str(error) for name, error in with_reason.items() if not is_immutable(error)}
    assert unknown.keys() <= MUTABLE, unknown


WORDS = {
    "value: Forbidden: may not be changed in an update.": True,
    "parameters: Forbidden: updates to parameters are forbidden.": True,
    "spec.clusterIPs[0]: Invalid value: may not change once set": True,
    "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'": False,
    "spec.replicas: Invalid value: -1: must be greater than or equal to 0": False,
}


@pytest.mark.parametrize("words", WORDS)
def test_words_of_the_api_server_on_an_update(words):
    assert is_immutable(ApiError(422, "Invalid", words, {})) == WORDS[words]


SAMPLE = ("ServiceAccount", "PriorityClass", "ValidatingAdmissionPolicy", "Lease")


@pytest.mark.parametrize("kinds", [SAMPLE, *in_full("")])
def test_an_object_of_any_kind_may_be_left_behind_while_a_pod_is_pending(kinds, tmp_path):
    several = [each for each in KINDS if each["kind"] not in ("Namespace", "Node")]
    left = [each for each in several if not kinds or each["kind"] in kinds]
    server = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "server"},
        "spec": {
            "containers": [
                {"name": "server", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 9}}}
            ]
        },
    }
    (tmp_path / "old.yaml").write_text(yaml.safe_dump_all(left))
    (tmp_path / "new.yaml").write_text(yaml.safe_dump(server))
    (tmp_path / "nodes.yaml").write_text("kind: Fleet\npools: [{name: cpu, count: 1}]\n")
    result = audit(tmp_path / "new.yaml", old=tmp_path / "old.yaml", nodes=tmp_path / "nodes.yaml")
    objects = {each.object for each in result.findings.details if each.code == "left"}
    assert {each.partition(" ")[0] for each in objects} == {each["kind"] for each in left}
    assert ("unready", "Pod default/server") in {
        (each.code, each.object) for each in result.findings.details
    }
