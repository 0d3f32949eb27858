from __future__ import annotations

import re

import pytest
import yaml

from inferplan.errors import RequestError

VALUES = """
servingEngineSpec:
  runtimeClassName: nvidia
  modelSpec:
  - name: llama3
    modelURL: meta-llama/Llama-3.1-8B-Instruct
    replicaCount: 2
    requestGPU: 2
    requestMemory: 64Gi
    vllmConfig: {maxModelLen: 16384, tensorParallelSize: 2, extraArgs: [--gpu-memory-utilization, "0.8", --port, "9000"]}
    hf_token: hf_never_shown
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, labels: {team: a}}
spec:
  replicas: 3
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      containers:
      - name: server
        image: vllm/vllm-openai:v0.11.0
        args: [--model=/models/llama, --max-model-len=8192]
        resources: {limits: {nvidia.com/gpu: 4}}
        volumeMounts: [{name: weights, mountPath: /models}]
      volumes: [{name: weights, persistentVolumeClaim: {claimName: weights-nfs}}]
"""
SERVICE = """
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: qwen}
spec:
  predictor:
    minReplicas: 1
    model: {modelFormat: {name: vllm}, storageUri: "pvc://weights/qwen", args: ["--dtype=bfloat16"], resources: {limits: {nvidia.com/gpu: "1"}}}
---
apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {name: big}
spec: {model: {uri: "hf://Qwen/Qwen3-32B"}, replicas: 2, parallelism: {tensor: 4}, router: {route: {}}}
"""


def test_values_of_the_production_stack_become_models_and_a_list_of_the_rest(imported):
    result, settings = imported(VALUES)
    model = settings.models["llama3"]
    assert (
        model.replicas,
        model.tensor_parallel_size,
        model.max_model_len,
        model.gpu_memory_utilization,
    ) == (2, 2, 16384, 0.8)
    left = "\n".join(result.left)
    for words in (
        "servingEngineSpec.runtimeClassName",
        "requestMemory",
        "hf_token",
        "--port",
        "not pinned",
    ):
        assert words in left
    assert "hf_never_shown" not in result.text + left


def test_a_deployment_keeps_its_claim_and_the_path_in_it(imported):
    result, settings = imported(DEPLOYMENT)
    model = settings.models["chat"]
    assert (
        model.weights.store,
        model.weights.path,
        model.replicas,
        model.tensor_parallel_size,
    ) == ("weights-nfs", "llama", 3, 4)
    assert settings.storage["weights-nfs"].claim_name == "weights-nfs"
    assert any("metadata.labels.team" in each for each in result.left)


def test_objects_of_kserve_become_models(imported):
    result, settings = imported(SERVICE)
    assert settings.models["qwen"].dtype == "bfloat16"
    assert settings.models["big"].tensor_parallel_size == 4
    assert result.models == ("qwen", "big")


def test_a_source_without_a_server_says_what_it_has(imported):
    with pytest.raises(RequestError, match="ConfigMap a: the whole object"):
        imported("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")


TRITON = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: vision}
spec:
  replicas: 2
  selector: {matchLabels: {app: vision}}
  template:
    metadata: {labels: {app: vision}}
    spec:
      containers:
      - name: server
        image: nvcr.io/nvidia/tritonserver:26.06-py3
        command: [tritonserver]
        args: [--model-repository=/models/production, --model-control-mode=explicit, --load-model=resnet, --load-model=bert, --log-verbose=1]
        env: [{name: TOKEN, value: never-shown}]
        resources: {limits: {nvidia.com/gpu: 1}}
        volumeMounts: [{name: weights, mountPath: /models}, {name: cache, mountPath: /cache}]
      volumes: [{name: weights, persistentVolumeClaim: {claimName: weights-nfs}}, {name: cache, emptyDir: {}}]
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: old-form}
spec: {predictor: {triton: {storageUri: "pvc://weights/repository", runtimeVersion: 26.06-py3}}}
"""
RAY = """
apiVersion: ray.io/v1
kind: RayService
metadata: {name: assistant}
spec:
  serveConfigV2: |
    applications:
    - name: llm
      route_prefix: /
      import_path: ray.serve.llm:build_openai_app
      args:
        llm_configs:
        - model_loading_config: {model_id: qwen, model_source: Qwen/Qwen3-32B}
          accelerator_type: H100
          deployment_config: {autoscaling_config: {min_replicas: 1, max_replicas: 2}}
          engine_kwargs: {tensor_parallel_size: 2, max_model_len: 8192, enable_chunked_prefill: true}
    - name: rank
      route_prefix: /rank
      import_path: app.rank:app
      runtime_env: {env_vars: {HF_TOKEN: never-shown}}
      deployments: [{name: Ranker, num_replicas: 2, ray_actor_options: {num_gpus: 0.5}, logging_config: {log_level: DEBUG}}]
  rayClusterConfig:
    rayVersion: 2.55.0
    headGroupSpec: {rayStartParams: {dashboard-host: 0.0.0.0}, template: {spec: {containers: [{name: head, image: "rayproject/ray-llm:2.55.0"}]}}}
    workerGroupSpecs:
    - groupName: gpu
      replicas: 2
      template: {spec: {containers: [{name: worker, image: "rayproject/ray-llm:2.55.0", resources: {limits: {nvidia.com/gpu: 4}}}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: plain}
spec: {template: {spec: {containers: [{name: a, image: "rayproject/ray:2.55.1-py311", args: [serve, run, "shop.search:app"]}]}}}
"""


def test_a_server_of_a_repository_keeps_its_claim_and_the_models_that_it_loads(imported):
    result, settings = imported(TRITON)
    repository = settings.models["vision"].existing
    assert (repository.store, repository.path, repository.models) == (
        "weights-nfs",
        "production",
        ["resnet", "bert"],
    )
    assert settings.models["vision"].replicas == 2
    assert settings.models["old-form"].existing.path == "repository"
    left = "\n".join(result.left)
    for words in (
        "--log-verbose",
        "env[0]: TOKEN",
        "volumeMounts[1].mountPath",
        "volumes[1].emptyDir",
        "runtimeVersion",
        "models: the source does not name",
        "containers[0].image: the stack's own image",
    ):
        assert words in left
    assert "never-shown" not in result.text + left


def test_applications_of_a_serving_cluster_are_carried_over_and_the_rest_is_listed(imported):
    result, settings = imported(RAY)
    model = settings.models["assistant"]
    llm, rank = model.applications["llm"], model.applications["rank"]
    assert (model.ray_version, model.replicas, model.accelerators, model.weights.path) == (
        "2.55.0",
        2,
        4,
        "Qwen/Qwen3-32B",
    )
    assert (
        llm.tensor_parallel_size,
        llm.max_model_len,
        llm.engine_kwargs,
        llm.autoscaling.max_replicas,
    ) == (
        2,
        8192,
        {"enable_chunked_prefill": True},
        2,
    )
    assert (rank.import_path, rank.deployments["Ranker"].accelerators) == ("app.rank:app", 0.5)
    assert settings.models["plain"].applications["default"].import_path == "shop.search:app"
    assert settings.models["plain"].ray_version == "2.55.1"
    left = "\n".join(result.left)
    for words in (
        "accelerator_type",
        "env_vars.HF_TOKEN",
        "logging_config",
        "dashboard-host",
        "not pinned",
    ):
        assert words in left
    assert "never-shown" not in result.text + left


@pytest.mark.parametrize("source", [VALUES, DEPLOYMENT, SERVICE, TRITON, RAY])
def test_every_value_of_a_source_is_in_the_stack_or_in_the_list(imported, source):
    """Each scalar that is not an identity of Kubernetes appears in the stack, or its key in the
    list of what is left.
    """
    result, _ = imported(source)
    text = result.text + "\n".join(result.left)

    def missing(value, key):
        if isinstance(value, dict):
            return [each for name, item in value.items() for each in missing(item, name)]
        if isinstance(value, list):
            return [each for item in value for each in missing(item, key)]
        shown = str(value).strip()
        shown = re.split(r"[/=]", shown)[-1]
        carried = {"apiVersion", "kind", "mountPath", "matchLabels", "command"}
        return (
            []
            if key in carried or str(key) in text or shown in text or "\n" in shown
            else [f"{key}: {value}"]
        )

    assert not [each for document in yaml.safe_load_all(source) for each in missing(document, "")]


@pytest.mark.parametrize("source", [VALUES, DEPLOYMENT, SERVICE, TRITON, RAY])
def test_what_is_empty_or_false_is_in_the_stack_or_in_the_list(imported, source):
    """Every mapping of the source gets an empty mapping, an empty list, null and false under names
    of their own. A variable is listed by its name.
    """
    names = []

    def seeded(value):
        if isinstance(value, str) and "\napplications" in f"\n{value}":
            return yaml.safe_dump(seeded(yaml.safe_load(value)), sort_keys=False)
        if isinstance(value, list):
            return [seeded(each) for each in value]
        if not isinstance(value, dict):
            return value
        seeds = {
            f"seed{len(names) + index}": each for index, each in enumerate(({}, [], None, False))
        }
        names.extend(seeds)
        return {
            key: each if key in ("metadata", "env") else seeded(each) for key, each in value.items()
        } | seeds

    result, _ = imported(
        yaml.safe_dump_all([seeded(each) for each in yaml.safe_load_all(source)], sort_keys=False)
    )
    text = result.text + "\n".join(result.left)
    assert [each for each in names if each not in text] == []


def test_settings_that_say_nothing_are_listed(imported):
    result, settings = imported(
        SERVICE.replace(
            "router: {route: {}}", "router: {route: {}, gateway: {}, scheduler: {}}, prefill: null"
        )
    )
    assert settings.models["big"].replicas == 2
    for path in (
        "spec.router.route",
        "spec.router.gateway",
        "spec.router.scheduler",
        "spec.prefill",
    ):
        assert any(f"{path}: " in each for each in result.left)


def test_two_servers_of_one_name_are_both_imported(imported):
    result, _ = imported(
        DEPLOYMENT
        + "---"
        + DEPLOYMENT.replace("metadata: {name: chat, ", "metadata: {name: chat, namespace: b, ")
    )
    assert result.models == ("chat", "chat-2")
