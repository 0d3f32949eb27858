"""Expectations from the declarations of a scenario: must B fail, and which models have no server
for a while.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from inferplan.pulumi_engine.program.record import record
from inferplan.pulumi_engine.recording import Recording
from inferplan.updating.downtime import declared_servers, without_ready_server
from tests.scenarios.transitions import Config, Transition

ROOT = Path(__file__).resolve().parents[2]


def announced(transition: Transition, wanted: Config) -> set[str]:
    """The models that `plan --against` and `up` say have no ready server during one of the updates."""
    before, after, last = (
        declared_servers(_recording(each)) for each in (transition.before, transition.after, wanted)
    )
    # B may have ended before it changed the model.
    return {
        name
        for pair in ((before, after), (after, last), (before, last))
        for name in without_ready_server(*pair)
    }


def must_fail(transition: Transition, ending: str) -> bool:
    """Whether B changes a Deployment of a model, or for `times out` has it start a pod: then the
    update must fail.
    """
    before, after = (declared_deployments(each) for each in (transition.before, transition.after))
    if ending == "fails":
        return any(before.get(name) != spec for name, spec in after.items())
    return any(
        name not in before
        or before[name]["template"] != spec["template"]
        or before[name]["replicas"] < spec["replicas"]
        for name, spec in after.items()
    )


def declared_deployments(config: Config) -> dict[str, dict[str, Any]]:
    """The spec of each model's Deployment that the stack of `config` declares, by namespace and
    model.
    """
    return {
        f"{each.inputs['metadata']['namespace']}/{each.inputs['metadata']['name']}": each.inputs[
            "spec"
        ]
        for each in _recording(config).of_type("kubernetes:apps/v1:Deployment")
        if each.inputs["metadata"]["labels"]["app.kubernetes.io/component"] == "model"
    }


def _recording(config: Config) -> Recording:
    """What the stack of `config` declares."""
    values = {
        f"inferplan:{key}": value if isinstance(value, str) else json.dumps(value)
        for key, value in config.items()
    }
    return record(
        ROOT / "inferplan" / "infra",
        project="inferplan",
        stack="scenarios",
        config=values,
        secret_keys={"inferplan:apiKeySeed"},
    )
