"""The example with every kind of store, judged by the policy pack."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferplan.components.stores import StoreSpec
from inferplan.planning.policy_check import judge
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from tests.policies.recorded import recording_with

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "storage" / "Pulumi.stores.yaml"
POD_KINDS = ("Job", "DaemonSet")


@pytest.fixture(scope="module")
def recording():
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return recording_with(EXAMPLE, "stores")


def test_it_shows_every_kind_of_store_that_no_committed_stack_has():
    from typing import get_args

    kinds = {
        get_args(spec.model_fields["kind"].annotation)[0]
        for spec in get_args(get_args(StoreSpec)[0])
    }
    examples = (EXAMPLE, EXAMPLE.with_name("Pulumi.images.yaml"))
    shown = {
        store.kind for each in examples for store in validate(read_stack(each)).storage.values()
    }
    assert shown == kinds - {"s3", "efs"}


def test_it_passes_the_pack_with_no_advice_and_no_needless_exemption(recording):
    report = judge(recording, ROOT)
    assert [outcome.message for outcome in (*report.violations, *report.advice)] == []
    assert report.unused == ()


def test_what_prepares_nodes_mounts_no_path_of_them_and_asks_for_no_card(recording):
    for each in recording:
        if each.type.rpartition(":")[2] in POD_KINDS:
            pod = each.inputs["spec"]["template"]["spec"]
            assert not any("hostPath" in volume for volume in pod.get("volumes", ())), each.urn
            assert "nvidia.com/gpu" not in str(
                [
                    container["resources"]
                    for container in [*pod["containers"], *pod["initContainers"]]
                ]
            ), each.urn
