"""No piece of a secret in the sources of an import is in the stack file, in the list of what is left
out, or in an error.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import yaml

from inferplan.commands.import_stack.import_stack import import_stack
from inferplan.errors import RequestError
from tests.disclosure.canaries import Case, shown
from tests.disclosure.strangers import VALUES, filled
from tests.unit.importing.conftest import one_salt

ARGS = ["--model=/models/llama"]


def deployment(container: dict[str, Any], pod: Any = None, metadata: Any = None) -> dict[str, Any]:
    server = {
        "name": "server",
        "image": "vllm/vllm-openai:v0.30.0",
        "args": ARGS,
        "resources": {"limits": {"nvidia.com/gpu": 1}},
        "volumeMounts": [{"name": "w", "mountPath": "/models"}],
    }
    volumes = [{"name": "w", "persistentVolumeClaim": {"claimName": "weights"}}]
    spec = {"containers": [server | container], "volumes": volumes} | (pod or {})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat"} | (metadata or {}),
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "chat"}},
            "template": {"metadata": {"labels": {"app": "chat"}}, "spec": spec},
        },
    }


def values(model: dict[str, Any], **more: Any) -> dict[str, Any]:
    listed = [{"name": "llama3", "modelURL": "a/b", "requestGPU": 1} | model]
    return {"servingEngineSpec": {"modelSpec": listed, **more.pop("engine", {})}, **more}


CASES: dict[str, Any] = {
 "env": deployment({"env":[{"name":"VLLM_API_KEY","value":"§"}]}), "env plain": deployment({"env":[{"name":"APP_SETTING","value":"§"}]}), "env log": deployment({"env":[{"name":"VLLM_LOGGING_LEVEL","value":"§"}]}), "env url": deployment({"env":[{"name":"HTTPS_PROXY","value":"http://u:§u@proxy.acme.example:3128"}]}), "env hf": deployment({"env":[{"name":"HF_TOKEN","value":"§"}]}), "env hfendpoint": deployment({"env":[{"name":"HF_ENDPOINT","value":"https://hub.acme.example/§u"}]}),
 "arg key": deployment({"args":[*ARGS,"--api-key","§"]}), "arg eq": deployment({"args":[*ARGS,"--api-key=§"]}), "arg served": deployment({"args":[*ARGS,"--served-model-name","§"]}), "arg unknown": deployment({"args":[*ARGS,"--upstream=§"]}), "arg hf": deployment({"args":[*ARGS,"--hf-token","§"]}), "arg override": deployment({"args":[*ARGS,"--hf-overrides",json.dumps({"x":"§"})]}), "arg int": deployment({"args":[*ARGS,"--max-model-len","§"]}), "arg dtype": deployment({"args":[*ARGS,"--dtype","§"]}), "arg tmpl": deployment({"args":[*ARGS,"--chat-template","§"]}), "arg pos": deployment({"args":[*ARGS,"§"]}), "cmd sh": deployment({"command":["sh","-c","export T=§; vllm serve /models/llama"],"args":[]}),
 "annotation": deployment({},metadata={"annotations":{"acme.example/x":"§"}}), "label": deployment({},metadata={"labels":{"x":"§"}}), "image pull": deployment({},pod={"imagePullSecrets":[{"name":"§"}]}), "image": deployment({"image":"registry.acme.example/vllm:§"}), "node sel": deployment({},pod={"nodeSelector":{"acme.example/x":"§"}}), "tol": deployment({},pod={"tolerations":[{"key":"x","value":"§"}]}), "sidecar": deployment({},pod={"initContainers":[{"name":"i","image":"a:1","command":["mc","alias","set","s","http://m","root","§"]}]}), "vol": deployment({},pod={"volumes":[{"name":"w","csi":{"driver":"blob","volumeAttributes":{"k":"§"}}}]}), "replicas": {**deployment({}),"spec":{**deployment({})["spec"],"replicas":"§"}}, "limits": deployment({"resources":{"limits":{"nvidia.com/gpu":"§"}}}), "probe": deployment({"livenessProbe":{"httpGet":{"path":"/h?k=§u","port":8000}}}),
 "kserve": {"apiVersion":"serving.kserve.io/v1beta1","kind":"InferenceService","metadata":{"name":"q"},"spec":{"predictor":{"model":{"modelFormat":{"name":"vllm"},"storageUri":"https://m.acme.example/x?sig=§u","args":["--hf_token=§"],"env":[{"name":"K","value":"§"}]}}}}, "kserve s3": {"apiVersion":"serving.kserve.io/v1beta1","kind":"InferenceService","metadata":{"name":"q"},"spec":{"predictor":{"model":{"modelFormat":{"name":"vllm"},"storageUri":"s3://bucket/§u/model"}}}},
 "secret obj": [deployment({}),{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"stringData":{"k":"§"}}], "cm obj": [deployment({}),{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s"},"data":{"k":"token: §"}}], "ingress": [deployment({}),{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"s","annotations":{"nginx.ingress.kubernetes.io/configuration-snippet":"proxy_set_header X \"§\";"}},"spec":{"rules":[{"host":"a.example"}]}}],
 "values token": values({"hf_token":"§"}), "values apikey": {"servingEngineSpec":{"vllmApiKey":"§","modelSpec":[{"name":"llama3","modelURL":"meta-llama/Llama-3.1-8B-Instruct","requestGPU":1,"vllmConfig":{"extraArgs":["--api-key","§"]},"env":[{"name":"X","value":"§"}]}]}}, "values url": {"servingEngineSpec":{"modelSpec":[{"name":"llama3","modelURL":"https://u:§u@m.acme.example/x","requestGPU":1}]}}, "values bad": {"servingEngineSpec":{"modelSpec":[{"name":"llama3","modelURL":"a/b","requestGPU":"§","requestMemory":"§","replicaCount":"§"}]}},"values router":{"routerSpec":{"extraArgs":["--api-key","§"]},"servingEngineSpec":{"modelSpec":[{"name":"llama3","modelURL":"a/b","requestGPU":1,"pvcAccessMode":["§"]}]}},
}  # fmt: skip


@pytest.fixture
def result(tmp_path, monkeypatch):
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    monkeypatch.setattr("inferplan.commands.import_stack.rejections.new_salt", one_salt)
    path = tmp_path / "source.yaml"

    def run(document: Any) -> dict[str, str]:
        documents = document if isinstance(document, list) else [document]
        path.write_text(yaml.safe_dump_all(documents, width=1000))
        try:
            imported = import_stack(path, accelerator="nvidia-h100")
        except RequestError as error:
            return {"error": str(error)}
        return {"stack": imported.text, "left out": "\n".join(imported.left)}

    return run


@pytest.mark.parametrize("name", CASES)
def test_no_piece_of_a_secret_is_imported_or_listed(name, result):
    leaks = []
    for shape in sorted(VALUES):
        if shape == "digits":
            continue  # A number is public where a number belongs.
        secret = VALUES[shape](random.Random(name + shape))  # noqa: S311 - repeatable, and no secret
        case = Case(shape, name, "", "", (secret, secret), b"")
        leaks += shown(case, result(filled(CASES[name], secret)))
    assert leaks == []
