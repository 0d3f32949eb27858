"""The pod settings that every engine takes in Kubernetes' own words."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.serving.models import declared, deployment_of, vllm
from tests.unit.serving.test_ray_serve import ray

SETTINGS: dict[str, Any] = {
    "env": {
        "HF_TOKEN": {"secretName": "hub-token", "key": "HF_TOKEN"},
        "https_proxy": "http://proxy:3128",
        "app.mode": "x",
    },
    "annotations": {"prometheus.io/scrape": "false"},
    "priorityClassName": "production",
    "schedulerName": "volcano",
    "tolerations": [
        {"key": "team", "value": "search", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists"},
    ],
    "volumes": {
        "datasets": {
            "persistentVolumeClaim": {"claimName": "datasets"},
            "mountPath": "/data",
            "subPath": "2026",
        },
        "prompts": {"configMap": {"name": "prompts"}, "mountPath": "/etc/prompts"},
        "results": {
            "persistentVolumeClaim": {"claimName": "results"},
            "mountPath": "/results",
            "readOnly": False,
        },
    },
}


def templates_of(engine: str) -> list[dict[str, Any]]:
    if engine == "vllm":
        return [deployment_of(vllm(**SETTINGS))["template"]]
    if engine == "vllm on two nodes":
        spec = declared(vllm(**SETTINGS, tensorParallelSize=8, nnodes=2)).one(
            "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"
        )
        return [
            spec.inputs["spec"]["leaderWorkerTemplate"][key]
            for key in ("leaderTemplate", "workerTemplate")
        ]
    cluster = (
        declared(ray(**SETTINGS))
        .one("kubernetes:ray.io/v1:RayService")
        .inputs["spec"]["rayClusterConfig"]
    )
    return [each["template"] for each in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]


@pytest.mark.parametrize("engine", ["vllm", "vllm on two nodes", "ray-serve"])
def test_every_pod_of_a_model_gets_the_settings(engine):
    for template in templates_of(engine):
        pod = template["spec"]
        variables = {each["name"]: each for each in pod["containers"][0]["env"]}
        assert variables["HF_TOKEN"]["valueFrom"] == {
            "secretKeyRef": {"name": "hub-token", "key": "HF_TOKEN"}
        }
        assert "value" not in variables["HF_TOKEN"]
        assert (variables["https_proxy"]["value"], variables["app.mode"]["value"]) == (
            "http://proxy:3128",
            "x",
        )
        assert template["metadata"]["annotations"]["prometheus.io/scrape"] == "false"
        assert (pod["priorityClassName"], pod["schedulerName"]) == ("production", "volcano")
        assert {
            "key": "team",
            "operator": "Equal",
            "value": "search",
            "effect": "NoSchedule",
        } in pod["tolerations"]
        assert {"key": "spot", "operator": "Exists"} in pod["tolerations"]
        assert {
            "key": "nvidia.com/gpu",
            "operator": "Equal",
            "value": "present",
            "effect": "NoSchedule",
        } in pod["tolerations"]
        volumes = {each["name"]: each for each in pod["volumes"]}
        assert volumes["extra-datasets"]["persistentVolumeClaim"] == {
            "claimName": "datasets",
            "readOnly": True,
        }
        assert volumes["extra-results"]["persistentVolumeClaim"] == {"claimName": "results"}
        assert volumes["extra-prompts"]["configMap"] == {"name": "prompts"}
        mounts = {each["name"]: each for each in pod["containers"][0]["volumeMounts"]}
        assert mounts["extra-datasets"] == {
            "name": "extra-datasets",
            "mountPath": "/data",
            "subPath": "2026",
            "readOnly": True,
        }
        assert mounts["extra-results"] == {"name": "extra-results", "mountPath": "/results"}


def test_a_secret_takes_the_place_of_a_default():
    [container] = deployment_of(
        vllm(env={"XDG_CACHE_HOME": {"secretName": "paths", "key": "cache"}})
    )["template"]["spec"]["containers"]
    assert [each["name"] for each in container["env"]].count("XDG_CACHE_HOME") == 1


def test_a_model_without_them_registers_none():
    template = deployment_of(vllm())["template"]
    assert not {"priorityClassName", "schedulerName", "imagePullSecrets"} & set(template["spec"])
    assert not [each for each in template["spec"]["volumes"] if each["name"].startswith("extra-")]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"env": {"VLLM_API_KEY": {"secretName": "a", "key": "b"}}},
            "VLLM_API_KEY (the server key comes from a Secret",
        ),
        (
            {"annotations": {"inferplan.dev/server-key": "x"}},
            "is an annotation that inferplan sets. Use another prefix",
        ),
        (
            {"tolerations": [{"operator": "Exists"}]},
            "A toleration without key matches every taint, also of broken nodes. Add key",
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            "operator Exists matches every value, but value is 'b'. Remove",
        ),
        (
            {"tolerations": [{"key": "a", "tolerationSeconds": 5}]},
            "tolerationSeconds requires effect: NoExecute. Set it",
        ),
        (
            {"volumes": {"a": {"mountPath": "/data"}}},
            "A volume has one source. Set persistentVolumeClaim: {claimName} or configMap: {name}",
        ),
        (
            {"volumes": {"a": {"configMap": {"name": "c"}, "mountPath": "/models/x"}}},
            (
                "'/models/x' is in /models, which inferplan or the system mounts. Use another"
                " directory"
            ),
        ),
        (
            {"volumes": {"a": {"configMap": {"name": "c"}, "mountPath": "/"}}},
            "'/' is not a directory to mount at. Use an absolute path",
        ),
        (
            {"volumes": {"a": {"configMap": {"name": "c"}, "mountPath": "/a/../tmp"}}},
            "is not a directory to mount at",
        ),
        (
            {"volumes": {"a": {"configMap": {"name": "c"}, "mountPath": "/a", "readOnly": False}}},
            "A ConfigMap is always read-only. Remove",
        ),
        (
            {
                "volumes": {
                    name: {"configMap": {"name": "c"}, "mountPath": "/a"} for name in ("a", "b")
                }
            },
            "/a is the mountPath of more than one volume. Use a mountPath for each volume",
        ),
        (
            {"volumes": {"a": {"configMap": {"name": "c"}, "mountPath": "/a", "subPath": "../x"}}},
            "leaves the volume. Use a path without",
        ),
    ],
)
def test_a_setting_that_cannot_work_is_rejected(fields, message):
    with pytest.raises(ValidationError) as error:
        vllm(**fields)
    assert message in str(error.value)
