"""The report of an audit tells objects that the deployer deletes from those that it leaves behind."""

from __future__ import annotations

import pytest

from inferplan.audit.manifest import Manifest
from inferplan.commands.audit.change_report import change_report
from inferplan.review.findings import Finding, Findings


def config_map(name: str) -> Manifest:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}}
    return Manifest(body=body, place="old/all.yaml:1")


@pytest.mark.parametrize(("left", "deleted"), [(True, 0), (False, 1)])
def test_an_object_that_the_deployer_leaves_is_not_deleted(left, deleted):
    old = (config_map("first"), config_map("second"))
    row = Finding(
        code="left",
        weight="risk",
        title="left behind",
        object="ConfigMap default/second",
        field="",
        reason="it stays",
        place="old/all.yaml:1",
    )
    # Items of a list and objects of a loop in a template have one place.
    findings = Findings(
        stack="new",
        base="old",
        head="new",
        outcome="ready",
        seconds=1.0,
        details=(row,) if left else (),
    )
    [stack] = change_report(findings, old, old[:1], (), policy="critical").stacks
    assert stack.counts.get("delete", 0) == deleted
    assert "create" not in stack.counts
