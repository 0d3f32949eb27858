"""Claims that exist on a real cluster, and that a rehearsal creates."""

from __future__ import annotations

from pathlib import Path

from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from inferplan.workspace.simulated_nodes import simulated_objects

EXAMPLE = Path(__file__).resolve().parents[3] / "docs" / "storage" / "Pulumi.stores.yaml"


def test_a_claim_of_the_stack_is_created_with_a_volume_that_is_bound_to_it():
    made = {
        each["kind"]: each
        for each in simulated_objects(validate(read_stack(EXAMPLE)))
        if each["kind"].startswith("Persistent")
    }
    volume, claim = made["PersistentVolume"], made["PersistentVolumeClaim"]
    assert (
        claim["metadata"]
        == volume["spec"]["claimRef"]
        == {"name": "models", "namespace": "inference"}
    )
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    assert (
        claim["spec"]["resources"]["requests"] == volume["spec"]["capacity"] == {"storage": "10Ti"}
    )
    assert volume["metadata"]["name"] != claim["metadata"]["name"], (
        "volumes belong to the whole cluster"
    )
