"""Fields of `extraObjects` that the API server would reject or drop are found before anything is
registered.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from inferplan.documents.errors import dotted
from inferplan.kube.object_types import object_types
from inferplan.stackfile.checks.objects import _object_errors

CLAIM = (
    "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c}, spec: {accessModes:"
    " [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}}"
)
QUOTA = (
    "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: 60,"
    " requests.memory: 1Ti}}}"
)
POLICY = (
    "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: n}, spec:"
    " {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: http}]}]}}"
)
DEPLOYMENT = (
    "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 2, selector:"
    " {matchLabels: {a: d}}, template: {metadata: {labels: {a: d}}, spec: {containers: [{name: c,"
    " image: 'a:1', ports: [{containerPort: 80}], env: [{name: A, value: '1'}]}]}}}}"
)
CRD = (
    "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x.y.z},"
    " spec: {group: y.z, scope: Namespaced, names: {kind: X, plural: x}, versions: [{name: v1,"
    " served: true, storage: true, schema: {openAPIV3Schema: {type: object,"
    " x-kubernetes-preserve-unknown-fields: true}}}]}}"
)
OWN = (
    "{apiVersion: acme.example/v1, kind: Tunnel, metadata: {name: t}, spec: {anything: [1, {b:"
    " c}]}}"
)


def found(text):
    return [(dotted(each.path), each.message) for each in _object_errors((), yaml.safe_load(text))]


@pytest.mark.parametrize("text", [CLAIM, QUOTA, POLICY, DEPLOYMENT, CRD, OWN])
def test_objects_of_kubernetes_and_of_others_pass(text):
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "old", "new", "path", "message"),
    [
        (CLAIM, "accessModes", "accessMode", "spec.accessMode", "'accessMode' is not a field of PersistentVolumeClaimSpec in Kubernetes. Did you mean 'accessModes'?"),
        (CLAIM, "[ReadOnlyMany]", "ReadOnlyMany", "spec.accessModes", "'ReadOnlyMany' is not valid. Expected a list. Write accessModes: [\"ReadOnlyMany\"]."),
        (QUOTA, "hard", "limits", "spec.limits", "'limits' is not a field of ResourceQuotaSpec in Kubernetes. Its fields: hard, scopeSelector, scopes."),
        (QUOTA, "pods: 60", "pods: sixty", "spec.hard.pods", "'sixty' is not valid. Expected a quantity, for example 500m, 4 or 16Gi."),
        (CLAIM, "1Gi", "1GB", "spec.resources.requests.storage", "'1GB' is not valid. Expected a quantity, for example 500m, 4 or 16Gi."),
        (POLICY, "ipBlock", "cidrBlock", "spec.ingress[0].from[0].cidrBlock", "'cidrBlock' is not a field of NetworkPolicyPeer in Kubernetes. Did you mean 'ipBlock'?"),
        (DEPLOYMENT, "replicas: 2", "replicas: '2'", "spec.replicas", "'2' is not valid. Expected an integer. Write replicas: 2."),
        (DEPLOYMENT, "value: '1'", "value: 1", "spec.template.spec.containers[0].env[0].value", '1 is not valid. Expected a string. Write value: "1".'),
        (DEPLOYMENT, "containerPort: 80", "containerport: 80", "spec.template.spec.containers[0].ports[0].containerport", "'containerport' is not a field of ContainerPort in Kubernetes. Did you mean 'containerPort'?"),
        (DEPLOYMENT, "kind: Deployment", "kind: Deploymnet", "kind", "'Deploymnet' is not a kind of apps/v1. Did you mean 'Deployment'?"),
        (DEPLOYMENT, "apps/v1", "batch/v1", "kind", "'Deployment' is not a kind of batch/v1. Write apiVersion: apps/v1."),
        (DEPLOYMENT, "template: {metadata", "template: {meta", "spec.template.meta", "'meta' is not a field of PodTemplateSpec in Kubernetes. Did you mean 'metadata'?"),
    ],
)  # fmt: skip
def test_what_the_api_server_would_reject_or_drop_is_named(text, old, new, path, message):
    assert text.count(old) == 1
    assert (path, message) in found(text.replace(old, new))


def test_every_type_that_a_field_names_is_in_theobject_types():
    types = object_types()["types"]
    named = {
        form.lstrip("[{@") for fields in types.values() for form in fields.values() if "@" in form
    } | set(object_types()["kinds"].values())
    assert named == types.keys()


def test_the_table_is_what_the_release_says():
    from tests import openapi_types

    definition = {
        "properties": {
            "metadata": {"$ref": "#/definitions/io.k8s.meta.v1.ObjectMeta"},
            "status": {"type": "object"},
            "sizes": {"type": "array", "items": {"type": "integer"}},
        }
    }
    document = {
        "definitions": {
            "io.k8s.api.apps.v1.Thing": definition | {"x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "Thing"}]},
            "io.k8s.api.apps.v1beta1.Thing": definition | {"x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1beta1", "kind": "Thing"}]},
            "io.k8s.meta.v1.ObjectMeta": {"properties": {"labels": {"type": "object", "additionalProperties": {"type": "string"}}}},
        }
    }  # fmt: skip
    assert openapi_types.table(document, "1.0.0") == {
        "release": "1.0.0",
        "kinds": {"apps/v1/Thing": "apps.v1.Thing"},
        "types": {
            "apps.v1.Thing": {"metadata": "@meta.v1.ObjectMeta", "sizes": "[integer"},
            "meta.v1.ObjectMeta": {"labels": "{string"},
        },
    }
    assert (
        json.loads(Path(openapi_types.TARGET).read_text())["release"] == object_types()["release"]
    )
