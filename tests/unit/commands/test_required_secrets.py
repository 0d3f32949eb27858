"""Secrets that a user has to create: a stack names each with the command, and an update names those
that the cluster lacks.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from inferplan.planning.required_secrets import RequiredSecret, missing_secrets, required_secrets
from inferplan.pulumi_engine.program.record import record
from inferplan.workspace.live import LiveCluster
from inferplan.workspace.workspace import open_workspace


def declared(kind: str, name: str, body: dict[str, Any], version: str = "v1", **meta: Any) -> Any:
    inputs = {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "chat", **meta},
        **body,
    }
    return SimpleNamespace(
        custom=True, read=False, type=f"kubernetes:{version}:{kind}", inputs=inputs, name=name
    )


def pod(**spec: Any) -> Any:
    return declared(
        "Pod",
        "server",
        {"spec": {"containers": [{"name": "server", **spec.pop("container", {})}], **spec}},
    )


def reference(name: str, key: str = "token", **more: Any) -> dict[str, Any]:
    return {
        "env": [
            {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": name, "key": key, **more}}}
        ]
    }


TLS = {"spec": {"tls": [{"secretName": "llm-tls"}]}}
CREATE = "kubectl -n chat create secret"


@pytest.mark.parametrize(
    ("thing", "command"),
    [
        (pod(container=reference("hub")), f"{CREATE} generic hub --from-file=token=FILE"),
        (
            pod(container={"envFrom": [{"secretRef": {"name": "hub"}}]}),
            f"{CREATE} generic hub --from-file=KEY=FILE",
        ),
        (
            pod(volumes=[{"secret": {"secretName": "ca", "items": [{"key": "ca.crt"}]}}]),
            f"{CREATE} generic ca --from-file=ca.crt=FILE",
        ),
        (
            pod(imagePullSecrets=[{"name": "pull"}]),
            (
                f"{CREATE} docker-registry pull"
                " --from-file=.dockerconfigjson=$HOME/.docker/config.json"
            ),
        ),
        (
            declared("Ingress", "gateway", TLS, "networking.k8s.io/v1"),
            f"{CREATE} tls llm-tls --cert=tls.crt --key=tls.key",
        ),
    ],
)
def test_each_kind_of_secret_has_the_command_that_creates_it(thing, command):
    [required] = required_secrets([thing], "chat")
    assert required.command == command
    assert str(required).endswith(command)
    assert f"{thing.inputs['kind']} {thing.name} reads Secret {required.name}" in str(required)


@pytest.mark.parametrize(
    "objects",
    [
        [pod(container=reference("hub", optional=True))],
        [pod(container=reference("hub")), declared("Secret", "hub", {"data": {}})],
        [
            declared(
                "Ingress",
                "gateway",
                TLS,
                "networking.k8s.io/v1",
                annotations={"cert-manager.io/cluster-issuer": "letsencrypt"},
            )
        ],
    ],
    ids=["optional", "part of the stack", "issued by cert-manager"],
)
def test_a_secret_that_need_not_be_created_is_not_listed(objects):
    assert required_secrets(objects, "chat") == []


def test_the_readers_and_keys_of_one_secret_are_joined():
    objects = [
        pod(container=reference("hub", "b")),
        declared("Pod", "other", {"spec": pod(container=reference("hub", "a")).inputs["spec"]}),
    ]
    [required] = required_secrets(objects, "chat")
    assert (required.keys, required.readers) == (("a", "b"), ("Pod other", "Pod server"))
    assert str(required).startswith("Pod other and 1 more read Secret hub")


def test_only_secrets_that_the_cluster_lacks_are_missing():
    required = [
        RequiredSecret(namespace="chat", name=name, kind="generic", keys=(), readers=("Pod x",))
        for name in ("here", "gone")
    ]
    answers = {
        "/api/v1": {"resources": [{"name": "secrets", "kind": "Secret", "namespaced": True}]},
        "/api/v1/namespaces/chat/secrets": {
            "items": [{"metadata": {"name": "here", "namespace": "chat"}}]
        },
    }
    cluster = LiveCluster(lambda path: answers.get(path, {"groups": [], "versions": ["v1"]}))
    assert [each.name for each in missing_secrets(required, cluster)] == ["gone"]


def test_the_on_premises_example_needs_the_stores_credentials_and_its_certificate():
    workspace = open_workspace("onprem")
    recording = record(workspace.program, **workspace.engine_input())
    required = required_secrets(recording, workspace.settings.namespace)
    assert [(each.name, each.kind, each.keys) for each in required] == [
        ("llm-tls", "tls", ()),
        ("minio", "generic", ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")),
    ]
