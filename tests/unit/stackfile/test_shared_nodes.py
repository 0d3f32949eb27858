"""Nodes that models share with every other pod: a warning if there is no room for all of them."""

from __future__ import annotations

import pytest

from inferplan.stackfile.advice import advice
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from tests.rehearsal.real_node import STACKS

STACK = STACKS / "Pulumi.small.yaml"


@pytest.fixture
def warnings(tmp_path):
    def of(pool: str, model: str = "") -> list[str]:
        text = STACK.read_text()
        text = text.replace("{provider: simulated, accelerator: nvidia-l4, nodes: 1}", pool)
        text = text.replace("      resources: {cpu: 100m, memory: 3Gi}\n", model)
        path = tmp_path / "Pulumi.small.yaml"
        path.write_text(
            text.replace("{provider: simulated}", "{provider: existing, context: kind}")
        )
        return [each.message for each in advice(validate(read_stack(path)))]

    return of


ONE = "provider: existing, accelerator: nvidia-l4, nodes: 1, taints: []"
NODE = "instanceType: {cpu: '%s', memory: 16Gi, accelerators: 1}"


def test_the_sum_of_a_node_that_every_pod_shares_is_stated(warnings):
    # The default takes 3.5 of 4 CPUs; 0.75 are for the gateway and its surge pod, 0.2 for DNS.
    [text] = warnings(f"{{{ONE}, {NODE % 4}}}")
    assert "Its 1 node offers 4 cpu to every pod, and pods request 4450m: models 3500m," in text
    assert "gateway 500m, its surge pod 250m, DNS 200m" in text


def test_room_or_nodes_of_their_own_for_other_pods_need_no_warning(warnings):
    small = "      resources: {cpu: '3', memory: 8Gi}\n"
    assert warnings(f"{{{ONE}, {NODE % 4}}}", small) == []
    tainted = ONE.replace("taints: []", "taints: [{key: a, value: b, effect: NoSchedule}]")
    assert warnings(f"{{{tainted}, {NODE % 4}}}") == []
