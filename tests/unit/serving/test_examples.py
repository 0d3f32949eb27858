"""The examples of docs/engines: each loads without a fault, plans, and keeps to its size."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan.pulumi_engine.program.record import record
from inferplan.pulumi_engine.recording import Recording
from inferplan.pulumi_engine.secrets import open_secrets
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from inferplan.workspace.contract import contract_of
from tests.unit.serving.vllm_flags import FLAGS, complaints

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "docs" / "engines").glob("Pulumi.*.yaml"))
PASSPHRASE = {"PULUMI_CONFIG_PASSPHRASE": "inferplan-example"}


@pytest.fixture(params=EXAMPLES, ids=lambda path: path.name)
def example(request, monkeypatch):
    monkeypatch.chdir(ROOT)
    return request.param


def test_every_engine_of_the_union_has_an_example_and_a_page():
    from typing import get_args

    from inferplan.components.serving.spec import ModelSpec

    union = get_args(ModelSpec)[0]
    engines = {get_args(member.model_fields["engine"].annotation)[0] for member in get_args(union)}
    assert {path.name.removeprefix("Pulumi.").removesuffix(".yaml") for path in EXAMPLES} == engines
    assert {path.stem for path in (ROOT / "docs" / "engines").glob("*.md")} == engines


def test_reading_models_imports_no_engine():
    heavy = (
        "[m for m in sys.modules if m.endswith('.service') or m.startswith(('tritonclient',"
        " 'pulumi_kubernetes', 'pulumi_aws'))]"
    )
    code = f"import sys, inferplan.components.serving.spec; print({heavy})"
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert answer.stdout == "[]\n"


def test_an_example_has_no_fault(example):
    validate(read_stack(example))


def test_a_model_of_an_example_takes_twelve_lines_at_most(example):
    text = example.read_text().splitlines()
    settings = validate(read_stack(example))
    starts = sorted(text.index(f"    {name}:") for name in settings.models)
    after = next(
        index
        for index, line in enumerate(text)
        if index > max(starts) and line.startswith("  inferplan:")
    )
    assert max(end - start for start, end in zip(starts, [*starts[1:], after], strict=True)) <= 12
    assert max(map(len, text[starts[0] : after])) <= 180


@pytest.fixture
def recording(example):
    """What an example declares."""
    return _recorded(example)


@cache
def _recorded(example: Path) -> Recording:
    file = read_stack(example)
    secrets = open_secrets(
        file.secrets, salt=file.encryption_salt, provider=None, environment=PASSPHRASE
    )
    given = {**file.config, **secrets.values}
    return record(
        ROOT / "inferplan" / "infra",
        project="inferplan",
        stack=example.name.split(".")[1],
        config=given,
        secret_keys=frozenset(secrets.values),
    )


def test_an_example_plans_with_fourteen_resources_a_model_at_most(example, recording):
    for model in validate(read_stack(example)).models:
        tops = [
            each.urn
            for each in recording
            if each.name == model and each.type.startswith("inferplan:")
        ]
        mine = [
            each
            for each in recording
            if each.parent in tops or each.urn in tops or each.name == f"api-keys-server-{model}"
        ]
        assert 6 <= len(mine) <= 14, [each.urn for each in mine]


def servers_of(recording, model: str) -> Iterator[dict[str, Any]]:
    """The containers that answer for `model`: of a Deployment, of a group's leader, or of Ray's
    workers.
    """
    for each in recording:
        spec: dict[str, Any] = each.inputs.get("spec") or {}
        if each.name != model:
            continue
        if each.type.endswith(":Deployment"):
            yield from spec["template"]["spec"]["containers"]
        elif each.type.endswith(":LeaderWorkerSet"):
            yield from spec["leaderWorkerTemplate"]["leaderTemplate"]["spec"]["containers"]
        elif each.type.endswith(":RayService"):
            for group in spec["rayClusterConfig"]["workerGroupSpecs"]:
                yield from group["template"]["spec"]["containers"]


def test_every_record_of_an_endpoint_is_true_of_the_objects_that_are_declared(example, recording):
    settings = validate(read_stack(example))
    services = {
        each.inputs["metadata"]["name"]: each.inputs["spec"]
        for each in recording
        if each.type == "kubernetes:core/v1:Service"
    }
    secrets = {
        each.inputs["metadata"]["name"]
        for each in recording
        if each.type == "kubernetes:core/v1:Secret"
    }
    for name, endpoint in contract_of(settings).endpoints.items():
        told = asdict(endpoint)
        model, [server] = settings.models[name], servers_of(recording, name)
        ports = {each["containerPort"] for each in server["ports"]}
        reached = {each["port"] for each in told["protocols"]}
        assert {*reached, told["metrics_port"]} <= ports
        if told["host"] in services:
            assert reached <= {each["port"] for each in services[told["host"]]["ports"]}
            assert server["readinessProbe"]["httpGet"]["path"] == told["health_path"]
        else:
            assert told["host"] in {f"{name}-{ending}" for ending in model.operator_services}
        [edges] = [
            each.inputs["spec"]
            for each in recording
            if each.type.endswith(":NetworkPolicy") and each.name == name
        ]
        assert {each["port"] for each in edges["ingress"][0]["ports"]} == reached
        assert told["server_key"] is None or told["server_key"]["name"] in secrets
        assert (endpoint.engine, list(endpoint.consumers)) == (model.engine, model.consumers)


def vllm_servers(recording) -> Iterator[list[str]]:
    """The arguments of every container that runs `vllm serve`."""
    for each in recording:
        spec = each.inputs.get("spec") or {}
        group = (
            spec.get("leaderWorkerTemplate", {}) if each.type.endswith(":LeaderWorkerSet") else {}
        )
        templates = [spec.get("template"), group.get("leaderTemplate"), group.get("workerTemplate")]
        for template in filter(None, templates):
            for container in template["spec"]["containers"]:
                if (
                    container["name"] == "server"
                    and "vllm" in container["image"]
                    and "tritonserver" not in container["image"]
                ):
                    yield container["args"]


def engine_arguments(recording) -> Iterator[str]:
    """The names of engine arguments that Ray's LLM application and Triton's vllm backend hand on to
    vLLM.
    """
    for each in recording:
        if each.type.endswith(":RayService"):
            for app in yaml.safe_load(each.inputs["spec"]["serveConfigV2"])["applications"]:
                yield from (
                    name
                    for config in app.get("args", {}).get("llm_configs", [])
                    for name in config["engine_kwargs"]
                )
        for path, text in (
            (each.inputs.get("data") or {}).items() if each.type.endswith(":ConfigMap") else ()
        ):
            if path.endswith("model.json"):
                yield from json.loads(text)


def test_every_argument_of_an_example_is_one_that_vllm_takes(example, recording):
    servers = list(vllm_servers(recording))
    assert bool(servers) == (example.name == "Pulumi.vllm.yaml")
    for model, *options in servers:
        assert not model.startswith("-")
        assert complaints(options) == []
    # Python's own name for what the command line says the other way round.
    told = {f"--{name.replace('_', '-')}" for name in engine_arguments(recording)} - {
        "--disable-log-stats",
        "--model",
    }
    assert told <= set(FLAGS)
