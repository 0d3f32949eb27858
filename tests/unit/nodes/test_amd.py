"""AMD's accelerators: what upstream's device plugin, images and exporter say, in plans of a stack."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from inferplan.components.monitoring.rules import rule_groups
from inferplan.documents.errors import InvalidStack
from inferplan.hardware.accelerators import accelerators, lookup, vendor_of_image
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from tests.plans import recorded
from tests.unit.monitoring.test_alerts import STACK

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "docs" / "hardware" / "Pulumi.amd.yaml"
# Memory in GiB and the image of SGLang, by AMD's data sheets and SGLang's release notes.
EXPECTED = {
    "amd-mi300x": (192, "mi30x"),
    "amd-mi325x": (256, "mi30x"),
    "amd-mi355x": (288, "mi35x"),
}


def test_the_rows_are_those_of_amd():
    assert {name for name, row in accelerators().items() if row.vendor.name == "amd"} == set(
        EXPECTED
    )


@pytest.mark.parametrize("name", EXPECTED)
def test_each_accelerator_has_memory_images_and_refusals(name):
    row, (gibibytes, variant) = lookup(name), EXPECTED[name]
    assert row.memory_bytes == gibibytes * 2**30
    assert row.resource == "amd.com/gpu"
    assert "vllm-openai-rocm:" in (row.engine("vllm").image or "")
    assert (row.engine("sglang").image or "").endswith(f"-{variant}")
    for engine in ("triton", "tensorrt-llm"):
        assert "engine: vllm or engine: sglang" in (row.engine(engine).refusal or "")


def test_pods_request_the_resource_of_the_device_plugin():
    pods = {
        each.name: each.inputs["spec"]["template"]["spec"]
        for each in recorded(EXAMPLE)
        if each.type.endswith(":Deployment") and each.name != "gateway"
    }
    counts = {
        name: pod["containers"][0]["resources"]["limits"]["amd.com/gpu"]
        for name, pod in pods.items()
    }
    assert counts == {"llama-3-70b": "1", "deepseek-r1": "8"}
    for pod in pods.values():
        assert {
            "key": "amd.com/gpu",
            "operator": "Equal",
            "value": "present",
            "effect": "NoSchedule",
        } in pod["tolerations"]
        assert "runtimeClassName" not in pod


@pytest.mark.parametrize("exporters", [(), ("amd",), ("dcgm",)])
def test_the_alert_is_for_stacks_that_scrape_the_exporter_alone(exporters):
    groups = rule_groups(replace(STACK, exporters=exporters))["groups"]
    alerts = {rule.get("alert") for group in groups for rule in group["rules"]}
    assert ("InferplanAmdErrors" in alerts) == ("amd" in exporters)


def rejected(tmp_path: Path, *edits: tuple[str, dict]) -> tuple[str, ...]:
    tree = yaml.safe_load(EXAMPLE.read_text())
    for path, change in edits:
        section, _, name = path.partition(".")
        tree["config"][f"inferplan:{section}"][name].update(change)
    file = tmp_path / "Pulumi.amd.yaml"
    file.write_text(yaml.safe_dump(tree, sort_keys=False))
    with pytest.raises(InvalidStack) as error:
        validate(read_stack(file))
    return error.value.lines


@pytest.mark.parametrize(
    ("path", "change", "words"),
    [
        ("models.llama-3-70b", {"image": "docker.io/vllm/vllm-openai:v0.33.0"}, ("nvidia", "amd")),
        ("models.llama-3-70b", {"gaudi": {"skipWarmup": True}}, ("Gaudi only", "MI300X")),
        ("models.llama-3-70b", {"tensorParallelSize": 16}, ("16", "8")),
        ("nodePools.mi300x", {"accelerator": "amd-mi400x"}, ("amd-mi400x", "amd-mi355x")),
        ("nodePools.mi300x", {"mig": "1g.10gb"}, ("mig", "cannot be divided")),
    ],
)
def test_what_cannot_run_there_is_rejected_with_the_reason(tmp_path, path, change, words):
    lines = rejected(tmp_path, (path, change))
    assert any(all(word.lower() in line.lower() for word in words) for line in lines), lines


def test_an_image_with_rocm_belongs_to_amd():
    for image in (
        "docker.io/vllm/vllm-openai-rocm:v0.33.0",
        "docker.io/rocm/vllm:rocm7.14.0_vllm_0.23.0",
    ):
        assert vendor_of_image(image) == "amd"
