"""Remedies in messages: what they show is valid when pasted, and one mistake is one error."""

from __future__ import annotations

import re

import pytest
import yaml

from inferplan.documents.errors import InvalidStack
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from tests.unit.stackfile.test_natural_mistakes import ROOT, VLLM, mistaken


@pytest.mark.parametrize(
    ("typed", "words", "absent"),
    [
        ("autoscaler: yes", "Expected install, existing or none", "true"),
        ("loadBalancerController: on", "Expected install, existing or none", "true"),
        ("autoMode: yes", "Expected true or false. Write autoMode: true.", "uote"),
        ("autoMode: off", "Expected true or false. Write autoMode: false.", "uote"),
    ],
)
def test_a_word_that_some_parsers_read_as_a_boolean_gets_the_values_of_its_field(
    tmp_path, typed: str, words: str, absent: str
):
    name = "    name: inference-prod\n"
    file = tmp_path / "Pulumi.prod.yaml"
    file.write_text(
        (ROOT / "stacks/Pulumi.prod.yaml").read_text().replace(name, f"{name}    {typed}\n")
    )
    with pytest.raises(InvalidStack) as error:
        validate(read_stack(file))
    [line] = error.value.lines
    assert words in line
    assert absent not in line.replace("autoMode: true", "").replace("true or false", "")


@pytest.mark.parametrize("typed", ["'1.30'", "1.30", "v1.30", "'1.30.4'", "'1.99'"])
def test_a_remedy_shows_no_value_that_would_be_rejected(tmp_path, typed: str):
    file = tmp_path / "Pulumi.prod.yaml"
    file.write_text(
        (ROOT / "stacks/Pulumi.prod.yaml")
        .read_text()
        .replace('kubernetesVersion: "1.35"', f"kubernetesVersion: {typed}")
    )
    with pytest.raises(InvalidStack) as error:
        validate(read_stack(file))
    [line] = error.value.lines
    assert "Use 1.32 to 1.36" in line
    assert "Write" not in line
    assert "Quote it" not in line


def test_the_remedy_for_a_missing_prometheus_is_complete_when_pasted(tmp_path):
    tree = mistaken("local", f"{VLLM}.replicas", "{min: 1, max: 2}")
    tree["config"].pop("inferplan:monitoring", None)
    file = tmp_path / "Pulumi.local.yaml"
    file.write_text(yaml.safe_dump(tree, sort_keys=False))
    with pytest.raises(InvalidStack) as error:
        validate(read_stack(file))
    [line] = error.value.lines
    [paste] = re.findall(r"(inferplan:monitoring: \{.*?\}\})", line)
    tree["config"] |= yaml.safe_load(paste)
    file.write_text(yaml.safe_dump(tree, sort_keys=False))
    assert validate(read_stack(file)).monitoring is not None


@pytest.mark.parametrize(
    ("prometheus", "where"),
    [
        ({"url": "http://prometheus.metrics.svc:9090"}, "monitoring.prometheus.namespace: "),
        ({"namespace": "metrics", "url": "prometheus.metrics.svc"}, "monitoring.prometheus.url: "),
        (
            {"namespace": "metrics", "url": "http://prometheus.metrics.svc:99999"},
            "Use a port from 1 to 65535",
        ),
        (
            {"namespace": "metrics"},
            (
                "Set monitoring.prometheus.url, for example"
                " http://prometheus-operated.metrics.svc:9090"
            ),
        ),
    ],
)
def test_one_mistake_in_monitoring_is_one_error(tmp_path, prometheus: dict[str, str], where: str):
    tree = mistaken("local", f"{VLLM}.replicas", "{min: 1, max: 2}")
    tree["config"]["inferplan:monitoring"] = {"prometheus": prometheus}
    file = tmp_path / "Pulumi.local.yaml"
    file.write_text(yaml.safe_dump(tree, sort_keys=False))
    with pytest.raises(InvalidStack) as error:
        validate(read_stack(file))
    [line] = error.value.lines
    assert where in line


@pytest.mark.parametrize(
    ("stack", "share"),
    [
        ("prod", "to storage shared: {kind: efs}."),
        ("dev", "to storage shared: {kind: efs, openTo: cluster}"),
        ("onprem", "to storage shared: {kind: nfs, server: nfs.example.com, path: /models}."),
    ],
)
def test_the_remedy_of_a_missing_preheat_names_a_share_of_the_platform(
    tmp_path, stack: str, share: str
):
    tree = yaml.safe_load((ROOT / f"stacks/Pulumi.{stack}.yaml").read_text())
    config = tree["config"]
    config["inferplan:storage"] = {"weights": {"kind": "huggingface"}}
    for model in config["inferplan:models"].values():
        model.pop("preheat", None)
        model["weights"] |= {
            "store": "weights",
            "path": "Qwen/Qwen3-8B",
            "revision": "b968826d9c46dd6066d109eabc6255188de91218",
        }
    file = tmp_path / f"Pulumi.{stack}.yaml"
    file.write_text(yaml.safe_dump(tree, sort_keys=False))
    with pytest.raises(InvalidStack) as error:
        validate(read_stack(file))
    lines = [line for line in error.value.lines if "engines cannot read directly" in line]
    assert lines
    assert all(f"Add preheat: {{into: shared}} to the model, and {share}" in line for line in lines)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (
            "inferplan:nodePools:",
            "inferplan:nodepools:",
            "Unknown field 'nodepools'. Did you mean 'nodePools'?",
        ),
        ("size: {max: 2}", "nodes: 2", "Write size: {min: 2, max: 2} for the number of nodes."),
    ],
)
def test_a_required_field_under_another_name_is_one_error(
    tmp_path, before: str, after: str, words: str
):
    file = tmp_path / "Pulumi.prod.yaml"
    file.write_text((ROOT / "stacks/Pulumi.prod.yaml").read_text().replace(before, after))
    with pytest.raises(InvalidStack) as error:
        validate(read_stack(file))
    [line] = error.value.lines
    assert words in line
