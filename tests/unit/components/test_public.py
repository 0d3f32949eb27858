from __future__ import annotations

import json
from functools import cache
from typing import Any

import pulumi
import pytest
from pulumi.provider.experimental.analyzer import Analyzer

from inferplan.components import ApiKeys, ModelStore, NodePool, Preheat, VllmService
from inferplan.components.public.package import COMPONENTS, Package
from inferplan.errors import ProgramFailed
from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.settings import Settings, today
from inferplan.pulumi_engine.values import Secret
from inferplan.workspace.validation import component_files
from tests.recorder import declare
from tests.unit.components import yaml_program
from tests.unit.components.programs import EXAMPLES, ROOT, SEED, planned

SCHEMA = json.loads((ROOT / "schemas" / "pulumi-package.json").read_text())


current_files = cache(component_files)


@pytest.mark.parametrize(
    "path",
    [
        "inferplan/components/__init__.pyi",
        "inferplan/components/public/args.pyi",
        "schemas/pulumi-package.json",
    ],
)
def test_the_generated_files_are_current(path):
    assert current_files()[path] == (ROOT / path).read_text(), "run: inferplan schema --write"


def test_pulumis_own_analyzer_accepts_every_component():
    analyzed = Analyzer("inferplan").analyze([*COMPONENTS])["component_definitions"]
    assert len(analyzed) == len(COMPONENTS) == 12
    assert {
        "NodePool",
        "ModelStore",
        "Preheat",
        "Gateway",
        "SglangService",
        "VllmService",
        "TritonService",
        "RayService",
    } <= analyzed.keys()


def test_every_input_output_and_type_is_described():
    groups = [
        (name, each)
        for name, resource in SCHEMA["resources"].items()
        for each in (resource["inputProperties"], resource["properties"])
    ]
    groups += [(name, kind["properties"]) for name, kind in SCHEMA["types"].items()]
    assert [
        f"{name}.{key}"
        for name, group in groups
        for key, each in group.items()
        if not each.get("description")
    ] == []
    assert len(groups) > 70


def test_units_defaults_and_allowed_values_of_the_specifications_are_in_the_descriptions():
    inputs = SCHEMA["resources"]["inferplan:index:VllmService"]["inputProperties"]
    assert inputs["drainSeconds"]["description"].endswith("Default: 60.")
    assert inputs["drainSeconds"]["type"] == "integer"
    assert (
        "One of: auto, bfloat16, float, float16, float32, half." in inputs["dtype"]["description"]
    )
    assert inputs["replicas"]["type"] == "integer"
    assert inputs["autoscaling"]["$ref"] == "#/types/inferplan:index:Scaling"
    assert inputs["pool"]["$ref"] == "#/types/inferplan:index:Pool"


def test_the_python_example_has_at_most_30_lines():
    assert len((EXAMPLES / "python" / "__main__.py").read_text().splitlines()) <= 30


@pytest.mark.parametrize("example", ["python", "yaml", "platform"])
def test_the_policy_pack_has_nothing_against_the_example(example):
    report = check_stack(stack_of(planned(example)), Settings(today=today()))
    assert [each.message for each in report.violations] == []


def test_yaml_and_python_declare_the_same_resources():
    python, in_yaml = planned("python"), planned("yaml")
    assert [(each.urn, each.inputs) for each in python] == [
        (each.urn, each.inputs) for each in in_yaml
    ]
    assert python.outputs == in_yaml.outputs == {"url": "http://gateway"}


def test_the_yaml_example_fits_the_served_schema():
    program = yaml_program.read(EXAMPLES / "yaml" / "Pulumi.yaml")
    assert list(yaml_program.mistakes(program, SCHEMA)) == []
    program["resources"]["model"]["properties"] |= {"maxModelLength": 1, "weights": "${hub.store}"}
    assert len(list(yaml_program.mistakes(program, SCHEMA))) == 2


def test_the_values_of_another_stack_reach_the_provider_and_the_keys_as_secrets():
    recording = planned("platform")
    model = recording.one("kubernetes:apps/v1:Deployment", "bge-m3").inputs
    provider = recording.one("pulumi:providers:kubernetes", "platform")
    assert isinstance(provider.inputs["kubeconfig"], Secret)
    assert SEED not in repr(recording)
    assert model["spec"]["template"]["spec"]["nodeSelector"] == {"acme.example/team": "search"}
    assert recording.outputs["url"] == "http://bge-m3.search.svc:8000/v1"


def test_servers_start_after_the_preheat_of_their_files():
    recording = planned("python")
    job = recording.of_type("kubernetes:batch/v1:Job")[0]
    assert job.urn in recording.one("kubernetes:apps/v1:Deployment", "qwen").dependencies
    assert (
        recording.one(
            "kubernetes:core/v1:PersistentVolumeClaim", "one-model-dev-nfs-3bc5332d4c"
        ).urn
        in job.dependencies
    )


def failure(program) -> str:
    with pytest.raises(ProgramFailed) as failed:
        declare(program)
    return str(failed.value)


def test_all_errors_of_the_inputs_are_reported_together_without_a_traceback():
    args: Any = {"accelerator": "nvidia-l40x", "nodes": 0, "node_count": 2}
    message = failure(lambda: NodePool("l40", args))
    assert {line.split(": ")[1] for line in message.splitlines()} == {
        "accelerator",
        "nodes",
        "node_count",
    }
    assert "NodePool 'l40': accelerator: " in message
    assert "nvidia-l40s" in message
    assert "Traceback" not in message


def test_a_setting_cannot_be_an_output():
    def program():
        args: Any = {"nodes": pulumi.Output.from_input(2)}
        NodePool("l40s", args)

    message = failure(program)
    assert (
        message
        == "NodePool 'l40s': nodes: An Output is only known after the program has run. Pass a plain"
        " value, or a handle of another component."
    )


def test_a_store_has_exactly_one_kind():
    message = failure(
        lambda: ModelStore("share", {"namespace": "a", "claim": {"claim_name": "x"}, "hub": {}})
    )
    assert "2 kinds of store are set (claim, hub). Set one of nfs, claim, s3, http, hub." in message


def test_a_preheat_needs_a_share_that_pods_can_mount():
    store: Any = {"name": "hub", "hub": {}}
    message = failure(
        lambda: Preheat(
            "qwen",
            {
                "namespace": "a",
                "source": store,
                "target": store,
                "path": "Qwen/Qwen2.5-7B-Instruct",
            },
        )
    )
    assert (
        message
        == "Preheat 'qwen': target: Pods cannot mount the store 'hub'. Use a ModelStore with nfs or"
        " claim."
    )


def test_the_checks_of_the_engine_and_the_pool_apply():
    pool = {"name": "l4", "accelerator": "nvidia-l4", "nodes": 1}
    weights = {
        "store": {"name": "share", "claim": {"claim_name": "models"}},
        "path": "a/b",
        "size": "80Gi",
    }
    args = {
        "namespace": "a",
        "pool": pool,
        "weights": weights,
        "server_key_mark": "x",
        "extra_args": ["--port=1"],
    }
    assert "VllmService 'b': extra_args: --port" in failure(lambda: VllmService("b", args))


def test_a_weak_seed_is_rejected_and_not_shown():
    args = {"namespace": "a", "seed": "hunter2hunter2", "consumers": {}, "models": []}
    message = failure(lambda: ApiKeys("keys", args))
    assert "The seed" in message
    assert "hunter2" not in message


def test_callers_in_other_languages_get_each_inputs_error():
    seen = []

    def construct():
        with pytest.raises(pulumi.errors.InputPropertiesError) as error:
            Package().construct(
                "l40s", "inferplan:index:NodePool", {"nodes": 0, "accelerator": "nvidia-l40s"}
            )
        seen.append(error.value)

    declare(construct)
    assert [each["property_path"] for each in seen[0].errors or ()] == ["nodes"]
    # The provider's server passes a RunError on without the paths of the inputs.
    assert not isinstance(seen[0], pulumi.RunError)
