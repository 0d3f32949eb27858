"""The example programs of docs/components, planned without a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inferplan.pulumi_engine.program import record as recording
from inferplan.pulumi_engine.recording import Recording
from inferplan.pulumi_engine.values import Secret
from tests.unit.components import yaml_program

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "docs" / "components"
SEED = "4f9a1c77d0b2e8365a1d9c0f7e6b5a4938271605f4e3d2c1b0a9988776655443"
# What the platform team's stack exports.
PLATFORM = {
    "apiKeySeed": Secret(SEED),
    "kubeconfig": Secret(json.dumps({"apiVersion": "v1", "kind": "Config"})),
}


def config(project: str) -> dict[str, Any]:
    return {
        "project": project,
        "stack": "dev",
        "config": {f"{project}:seed": SEED, f"{project}:platform": "acme/platform/prod"},
        "secret_keys": [f"{project}:seed"],
    }


def planned(example: str) -> Recording:
    """What the example registers, with the outputs of other stacks known, as in a preview."""
    program = EXAMPLES / example
    with pytest.MonkeyPatch.context() as patch:
        answer_stack_references(patch, recording._Preview)
        if example == "yaml":
            return recording.record(
                lambda: yaml_program.run(yaml_program.read(program / "Pulumi.yaml")),
                **config("one-model"),
            )
        return recording.record(
            program, **config("search" if example == "platform" else "one-model")
        )


def answer_stack_references(patch: pytest.MonkeyPatch, realizer: type) -> None:
    """The backend's part: `realizer` answers a StackReference with the outputs of the platform
    team's stack.
    """
    read = realizer.read

    def answered(self, registration):
        if registration.type != "pulumi:pulumi:StackReference":
            return read(self, registration)
        assert registration.id == "acme/platform/prod"
        outputs = {"name": registration.id, "outputs": PLATFORM, "secretOutputNames": [*PLATFORM]}
        return recording.Realized(id=registration.id, outputs=outputs)

    patch.setattr(realizer, "read", answered)
