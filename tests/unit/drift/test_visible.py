"""What people put into a cluster by hand can be a secret: no text of `drift`, `status` or `up` may
show it.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from inferplan.pulumi_engine.values import Secret
from inferplan.status.differences import differences
from inferplan.updating.drift.visible import visible
from inferplan.workspace.deployment import Declared
from tests.unit.drift.comparison import compared, key_of, manifest, pod, texts

REFERENCE = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "k"}}}


@pytest.mark.parametrize(
    ("live", "ours", "name"),
    [
        pytest.param(pod(env=[{"name": "HF_TOKEN", "value": "CANARY"}]), pod(env=[REFERENCE]), "HF_TOKEN", id="a literal for a reference"),
        pytest.param(
            pod(env=[{"name": "DATABASE_URL", "value": "postgres://u:CANARY@h"}]),
            pod(env=[{"name": "DATABASE_URL", "value": "CANARY"}]),
            "DATABASE_URL",
            id="another literal",
        ),
        pytest.param(pod(env=[{"name": "GH_PAT", "value": "CANARY"}, REFERENCE]), pod(env=[REFERENCE]), "GH_PAT", id="another variable"),
        pytest.param(pod(args=["--api-key", "CANARY"]), pod(args=["--api-key", "x"]), "containers[0].args", id="an argument"),
        pytest.param(pod(args=["--api-key", "CANARY", "--y"]), pod(args=["--y"]), "containers[0].args", id="more arguments"),
        pytest.param(pod(args=["--y"]), pod(args=["--api-key", "CANARY", "--y"]), "containers[0].args", id="fewer arguments"),
        pytest.param(
            pod(command=["sh", "-c", "curl -H 'X-Token: CANARY' http://x?a=b"]),
            pod(command=["sh", "-c", "x"]),
            "containers[0].command[2]",
            id="a command with a header",
        ),
        pytest.param(
            pod(startupProbe={"httpGet": {"port": 1, "httpHeaders": [{"name": "X", "value": "CANARY"}]}}),
            pod(startupProbe={"httpGet": {"port": 1, "httpHeaders": [{"name": "X", "value": "y"}]}}),
            "httpHeaders[0].value",
            id="a header of a probe",
        ),
        pytest.param(
            manifest("v1", "ConfigMap", data={"config.yaml": "password: CANARY"}),
            manifest("v1", "ConfigMap", data={"config.yaml": "x: 1"}),
            'data["config.yaml"]',
            id="text of a ConfigMap",
        ),
        pytest.param(
            manifest("v1", "ConfigMap", data={"config.yaml": "CANARY"}), manifest("v1", "ConfigMap"), "config.yaml", id="data of a ConfigMap"
        ),
        pytest.param(
            manifest("v1", "ConfigMap", spec={"auth": "a"}), manifest("v1", "ConfigMap", spec={"auth": {"x": Secret("CANARY")}}), "spec.auth",
            id="a secret below the difference",
        ),
    ],
)  # fmt: skip
def test_free_text_is_not_shown(monkeypatch, live, ours, name):
    result = compared(monkeypatch, live, ours)
    assert result.findings
    assert name in texts(result)
    assert "CANARY" not in texts(result)


def test_an_addition_by_hand_is_named_and_not_shown(monkeypatch):
    container = {
        "f:containers": {
            'k:{"name":"side"}': {".": {}, "f:name": {}, "f:image": {}, "f:env": {}, "f:args": {}}
        }
    }
    written = {"f:spec": {"f:template": {"f:spec": container}}}
    live = pod()
    side = {
        "name": "side",
        "image": "busybox:1",
        "args": ["CANARY"],
        "env": [{"name": "DEBUG", "value": "CANARY"}],
    }
    live["spec"]["template"]["spec"]["containers"].append(side)
    ours = pod()
    result = compared(monkeypatch, live, ours, written)
    assert "side" in texts(result)
    assert "busybox:1" in texts(result)
    assert "CANARY" not in texts(result)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "replicas"), 3),
        (("spec", "template", "spec", "containers", 0, "image"), "docker.io/org/token-server:v1"),
        (("spec", "template", "spec", "containers", 0, "resources", "limits", "memory"), "16Gi"),
        (("spec", "template", "metadata", "labels", "app"), "chat"),
        (("spec", "ports", 0), {"name": "http", "port": 80}),
        (("spec", "taints", 0), {"key": "gpu", "value": "l40s", "effect": "NoSchedule"}),
        (("spec", "template", "spec", "containers", 0, "env", 0, "name"), "HOME"),
    ],
)
def test_plain_fields_are_shown(path, value):
    assert visible(value, path) == value


@pytest.mark.parametrize(
    "value",
    [
        "https://user:CANARY@host",
        "Authorization: Bearer CANARY",
        "password=CANARY",
        "a: 1\nb: CANARY",
        '{"api_key": "CANARY"}',
    ],
)
def test_texts_with_a_secret_are_hidden_as_a_whole(value):
    assert "CANARY" not in str(visible([value], ("spec", "x")))


def test_status_does_not_show_free_text_either():
    live, ours = (
        pod(env=[{"name": "A", "value": "CANARY"}], args=["CANARY"]),
        pod(env=[{"name": "A", "value": "b"}], args=["x"]),
    )
    key = key_of(ours)
    cluster: Any = SimpleNamespace(find=lambda _: live, objects=lambda *_: {})
    declared = Declared(urn="", type="", key=key, inputs=ours)
    sentences = [text for _, text in differences([declared], cluster)]
    assert "args" in sentences[0]
    assert "CANARY" not in str(sentences)
