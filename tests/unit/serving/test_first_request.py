"""The time of the first request to a model without replicas: its parts, and what the gateway and
the plan say.
"""

from __future__ import annotations

from inferplan.components.pools import SimulatedPool
from inferplan.components.serving.first_request import first_request
from tests.unit.serving.models import vllm

ZERO = vllm(replicas={"min": 0, "max": 2})


def pool(**fields):
    return SimulatedPool.model_validate(
        {
            "provider": "simulated",
            "accelerator": "nvidia-l40s",
            "instanceType": "g6e.12xlarge",
            "nodes": 2,
            **fields,
        }
    )


def seconds(**where):
    parts = first_request("p", ZERO, where.pop("pool", pool()), **where)
    return {each.name: each.seconds for each in parts}


def test_the_parts_are_those_that_the_pool_needs():
    # 16Gi at 200 MiB/s are 82 s.
    always = {"signal": 45, "loading": 82, "warm-up": 300}
    assert seconds(adds_nodes=True) == {**always, "node start": 180, "image pull": 280}
    assert seconds(adds_nodes=False) == {**always, "image pull": 280}
    assert seconds(adds_nodes=False, pool=pool(prePullImages=True)) == always


def test_every_figure_names_its_source():
    parts = first_request("p", ZERO, pool(), adds_nodes=True)
    assert all(each.source for each in parts)
    assert "16Gi at loadMibPerSecond 200" in [each.source for each in parts]
