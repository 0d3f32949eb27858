"""What sources of others hold: secrets, scripts, arguments with blanks, variables, other vendors,
wrong types.
"""

from __future__ import annotations

import json

import pytest

from inferplan.errors import RequestError


def deployment(*args, command=None, image="vllm/vllm-openai:v1", **more):
    container = {"name": "server", "image": image, "args": list(args)} | (
        {"command": command} if command else {}
    )
    pod = {"containers": [container | more.pop("container", {})]} | more
    return json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "chat"},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "a"}},
                "template": {"metadata": {"labels": {"app": "a"}}, "spec": pod},
            },
        },
        indent=1,
    )


def values(**model):
    entry = {
        "name": "chat",
        "repository": "vllm/vllm-openai",
        "modelURL": "org/m",
        "replicaCount": 1,
    } | model
    return json.dumps({"servingEngineSpec": {"modelSpec": [entry]}}, indent=1)


def lines(result):
    return "\n".join(result.left)


CANARY = "canary-71"


@pytest.mark.parametrize(
    ("source", "field"),
    [
        (
            values(vllmConfig={"extraArgs": ["--api-key", CANARY, "--enforce-eager"]}),
            "extraArgs[0]: --api-key: inferplan sets it",
        ),
        (
            values(vllmConfig={"extraArgs": ["--enforce-eager", f"--api-key {CANARY}"]}),
            "extraArgs[1]: --api-key",
        ),
        (
            values(repository=f"user:{CANARY}@registry.example/vllm"),
            "modelSpec[0].repository: the stack's own image is used",
        ),
        (values(vllmConfig={"dtype": CANARY}), "vllmConfig.dtype: '…' is not valid. Expected auto"),
        (
            deployment("--model=org/m", f"--download-dir=https://u:{CANARY}@x/y"),
            "args[1]: --download-dir",
        ),
        (
            deployment("--model=org/m", f"--otlp-traces-endpoint=https://u:{CANARY}@x/y"),
            "args[1]: --otlp-traces-endpoint: ",
        ),
        (
            deployment("--model=org/m", "--kv-transfer-config", json.dumps({"password": CANARY})),
            "args[1]: --kv-transfer-config",
        ),
        (
            deployment("--model=org/m", "--chat-template", f"Use --api-key {CANARY}"),
            "args[1]: --chat-template: The value may",
        ),
        (deployment("--model=org/m", CANARY), "args[1]: a word without an option"),
        (
            deployment(command=["sh", "-c", f"export A={CANARY} && vllm serve org/m # {CANARY}"]),
            "command[2]: only the command of the server",
        ),
    ],
)
def test_a_value_that_may_be_a_secret_is_listed_by_its_field_only(imported, source, field):
    result, settings = imported(source)
    assert field in lines(result)
    assert CANARY not in result.text + lines(result)
    assert settings.models["chat"].engine == "vllm"


@pytest.mark.parametrize(
    "model",
    [f"https://u:{CANARY}@hub/org/m", f"hf://u:{CANARY}@org/m", f"s3://k:{CANARY}@bucket/m"],
)
def test_an_unknown_model_is_not_repeated(imported, model):
    with pytest.raises(
        RequestError, match=r"source.yaml:7: .*modelURL: it is neither a repository"
    ) as raised:
        imported(values(modelURL=model))
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize(
    "words",
    [
        ['--speculative-config={"method": "ngram", "num_speculative_tokens": 5}'],
        ["--chat-template", "You are\na `model` of $HOME # here"],
        ["--response-role", "it's a b"],
        ["--model-impl", "vllm", "--response-role", "bash"],
        ["--cudagraph-capture-sizes", "1", "2", "4"],
        ["--seed", "-1"],
        ["--hf-overrides.foo", "1e5"],
    ],
)
def test_an_argument_is_one_word(imported, words):
    _, settings = imported(deployment("--model=org/m", *words))
    assert settings.models["chat"].extra_args == words


def test_one_forbidden_argument_does_not_take_the_others_with_it(imported):
    result, settings = imported(
        deployment(
            "--model=org/m", "--enforce-eager", "--port", "9000", "--seed", "5", "--model_folder=/x"
        )
    )
    assert settings.models["chat"].extra_args == ["--enforce-eager", "--seed", "5"]
    assert "args[2]: --port: inferplan sets it" in lines(result)
    assert "args[6]: --model-folder" in lines(result)
    assert "is not an option of vLLM" in lines(result)


@pytest.mark.parametrize(
    ("command", "args"),
    [
        (["vllm", "serve", "--port", "8000", "org/m"], []),
        (
            ["python3", "-m", "vllm.entrypoints.openai.api_server"],
            ["--model", "org/m", "--enforce-eager"],
        ),
        (
            ["/bin/bash", "-c", "--"],
            [
                "pip install vllm && \\\n exec vllm serve org/m \\\n --enforce-eager | tee /log; rm -rf /"
            ],
        ),
        (
            ["bash", "-exc"],
            [
                "# vllm serve org/other\nA=1 vllm serve ${MODEL} --enforce-eager # --hidden\nvllm serve org/m2"
            ],
        ),
    ],
)
def test_commands_of_a_server_name_its_model(imported, command, args):
    container = {"env": [{"name": "MODEL", "value": "org/m"}]}
    _, settings = imported(deployment(*args, command=command, container=container))
    assert settings.models["chat"].weights.path == "org/m"
    assert settings.models["chat"].extra_args in ([], ["--enforce-eager"])


@pytest.mark.parametrize("number", ["010", "0x10", "4k"])
def test_a_number_keeps_its_value_or_is_listed(imported, number):
    result, settings = imported(
        deployment(
            "--model=org/m", f"--max-model-len={number}", "--max-num-seqs=010", "--max-num-seqs=12"
        )
    )
    assert (settings.models["chat"].max_model_len, settings.models["chat"].max_num_seqs) == (
        None,
        12,
    )
    assert "args[1]: '…' is not valid. Expected a whole number" in lines(result)
    assert "args[2]: --max-num-seqs: it is repeated" in lines(result)


def test_a_server_of_another_kind_is_listed(imported):
    with pytest.raises(RequestError, match="Deployment chat: the whole object"):
        imported(
            deployment("--model-id=org/m", image="ghcr.io/huggingface/text-embeddings-inference:1")
        )


def test_literal_variables_are_resolved_and_others_are_listed(imported):
    env = [
        {"name": "MODEL_ID", "value": "org/m"},
        {"name": "SEED", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
    ]
    result, settings = imported(
        deployment("--model=$(MODEL_ID)", "--seed=$(SEED)", container={"env": env})
    )
    assert settings.models["chat"].weights.path == "org/m"
    assert settings.models["chat"].extra_args == []
    assert "args[1]: --seed: it refers to a variable" in lines(result)
    assert "env[0]: MODEL_ID" in lines(result)


def test_an_application_of_a_command_keeps_its_path(imported):
    _, settings = imported(
        deployment(
            "run",
            "app.main",
            "--host",
            "localhost",
            command=["serve"],
            image="rayproject/ray:2.55.0",
        )
    )
    assert settings.models["chat"].applications["default"].import_path == "app:main"


def test_the_longest_mount_of_a_model_counts(imported):
    pod = {
        "container": {
            "volumeMounts": [
                {"name": "a", "mountPath": "/data"},
                {"name": "b", "mountPath": "/data2", "subPath": "sub"},
            ]
        },
        "volumes": [
            {"name": name, "persistentVolumeClaim": {"claimName": f"{name}.claim"}} for name in "ab"
        ],
    }
    _, settings = imported(deployment("--model=/data2/x", **pod))
    weights = settings.models["chat"].weights
    assert (settings.storage[weights.store].claim_name, weights.path) == ("b.claim", "sub/x")


@pytest.mark.parametrize(
    ("limits", "accelerator", "size", "listed"),
    [
        (
            {"nvidia.com/gpu": 8, "amd.com/gpu": 3, "habana.ai/gaudi": 2},
            "nvidia-h100",
            8,
            ("amd.com/gpu", "habana.ai/gaudi"),
        ),
        ({"nvidia.com/gpu": 8, "habana.ai/gaudi": 2}, "gaudi-3", 2, ("nvidia.com/gpu",)),
        ({"nvidia.com/mig-1g.10gb": 2}, "nvidia-h100", 1, ("nvidia.com/mig-1g.10gb",)),
    ],
)
def test_accelerators_of_other_vendors_are_listed(imported, limits, accelerator, size, listed):
    result, settings = imported(
        deployment("--model=org/m", container={"resources": {"limits": limits}}), accelerator
    )
    assert settings.models["chat"].tensor_parallel_size == size
    assert all(f'limits["{each}"]' in lines(result) for each in listed)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            {"requestGPU": 8, "vllmConfig": {"tensorParallelSize": 2}},
            "requestGPU: the parallel sizes do not multiply to 8",
        ),
        ({"requestGPU": 0.5}, "modelSpec[0].requestGPU"),
        ({"requestGPU": "lots"}, "modelSpec[0].requestGPU"),
        ({"requestGPU": 2, "requestGPUType": "amd.com/gpu"}, "modelSpec[0].requestGPU"),
        ({"requestGPU": 4}, "requestGPU: the source sets no tensorParallelSize"),
        ({"vllmConfig": {"extraArgs": "--enforce-eager"}}, "extraArgs: it is not a list of words"),
    ],
)
def test_sizes_that_do_not_fit_are_listed(imported, model, words):
    assert words in lines(imported(values(**model))[0])


def test_the_container_of_the_server_is_found_and_the_others_are_listed(imported):
    first = {"name": "proxy", "image": "istio/proxyv2:1", "args": ["--port", "1"]}
    containers = [first, {"name": "server", "image": "vllm/vllm-openai", "args": ["--model=org/m"]}]
    result, settings = imported(deployment(containers=containers))
    assert settings.models["chat"].weights.path == "org/m"
    assert "containers[0].args[1]" in lines(result)


RAY = """
apiVersion: ray.io/v1
kind: RayService
metadata: {name: assistant}
spec:
  serveConfigV2: |
    applications:
    - name: llm
      route_prefix: /
      import_path: %s
      args:
        llm_configs:
        - model_loading_config: {model_source: Qwen/Qwen3-32B}
          accelerator_type: H100
          engine_kwargs: {hf_token: canary-71, max_model_len: 8192, enable_chunked_prefill: true}
  rayClusterConfig:
    rayVersion: 2.55.0
    headGroupSpec: {template: {spec: {containers: [{name: head, image: "rayproject/ray-llm:2.55.0"}]}}}
"""


def test_an_image_with_a_password_is_not_carried_over(imported):
    source = (RAY % "app:main").replace("rayproject/", f"https://user:{CANARY}@registry.example/")
    with pytest.raises(
        RequestError, match=r"source.yaml:1[0-9]: .*containers\[0\].image: '…' has a scheme"
    ) as raised:
        imported(source)
    assert CANARY not in str(raised.value)


def test_one_forbidden_setting_of_an_application_is_taken_out(imported):
    result, settings = imported(RAY % "ray.serve.llm:build_openai_app")
    assert settings.models["assistant"].applications["llm"].engine_kwargs == {
        "enable_chunked_prefill": True
    }
    assert "hf_token: nothing is downloaded" in lines(result)
    assert (
        "source.yaml:14: spec.serveConfigV2: applications[0].args.llm_configs[0].accelerator_type"
        in lines(result)
    )
    assert CANARY not in result.text + lines(result)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (
            RAY % "bad",
            r"source.yaml:6: spec.serveConfigV2: applications.llm.importPath: '…' is not valid",
        ),
        (RAY % "[a", r"source.yaml:1[0-9]:[0-9]+: Invalid YAML"),
        (
            values(name=7),
            r"source.yaml:5: servingEngineSpec.modelSpec\[0\].name is not a text. Quote it.$",
        ),
    ],
)
def test_a_source_without_a_server_gives_the_reason_with_its_line(imported, source, reason):
    with pytest.raises(RequestError, match=reason) as raised:
        imported(source)
    assert CANARY not in str(raised.value)
