from __future__ import annotations

import pytest

from inferplan.audit.documents import manifests_in
from inferplan.audit.removals import VERSIONS, removed, unknown_of_nodes
from inferplan.commands.audit.audit import audit
from inferplan.errors import RequestError
from inferplan.rehearsal.toolchain.pins import CONTROL_PLANES, SOURCES
from inferplan.review.findings import Findings, load, save, table

NEW = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: clone}
spec: {jobTemplate: {spec: {template: {spec: {volumes: [{name: a, emptyDir: {}}, {name: b, gitRepo: {repository: x}}]}}}}}
---
apiVersion: v1
kind: Service
metadata: {name: api}
spec: {externalIPs: [192.0.2.1], trafficDistribution: PreferSameZone}
---
apiVersion: storage.k8s.io/v1beta1
kind: VolumeAttributesClass
metadata: {name: fast}
"""


def judged(target: str) -> dict[str, tuple[str, str]]:
    found = removed(manifests_in(NEW.encode(), "new.yaml"), target)
    return {manifest.kind: (code, field) for code, manifest, field, _ in found}


def test_the_first_version_of_the_table_is_that_of_the_simulated_cluster():
    assert next(each.version for each in SOURCES if each.name == "kubernetes").startswith(
        f"v{VERSIONS[0]}."
    )


def test_a_field_is_removed_or_deprecated_from_the_version_of_its_row_on():
    volume = "spec.jobTemplate.spec.template.spec.volumes[1].gitRepo"
    assert judged("1.34") == {
        "CronJob": ("removed", volume),
        "VolumeAttributesClass": ("deprecated", "apiVersion"),
    }
    assert judged("1.36")["Service"] == ("deprecated", "spec.externalIPs")
    assert judged("1.37")["VolumeAttributesClass"] == ("removed", "apiVersion")


def test_every_finding_says_that_a_table_judged_it_and_what_to_use():
    for _, _, _, reason in removed(manifests_in(NEW.encode(), "new.yaml"), "1.37"):
        assert reason.startswith("judged by table: ")
        assert "; use " in reason


def test_the_needs_of_a_kubelet_are_named_because_nodes_do_not_show_them():
    assert not list(unknown_of_nodes("1.34"))
    assert [
        word in text
        for text, word in zip(unknown_of_nodes("1.36"), ("cgroup v1", "containerd"), strict=True)
    ] == [True, True]


def test_a_version_that_the_table_does_not_know_is_rejected(tmp_path):
    with pytest.raises(
        RequestError, match=r"--kubernetes: '1.99' cannot be rehearsed. Choose from: 1.34, "
    ):
        audit(tmp_path, nodes=tmp_path, kubernetes="1.99")


def test_each_version_of_the_table_has_a_control_plane():
    assert ["1.34", *CONTROL_PLANES] == list(VERSIONS)


def test_an_operator_that_cannot_run_is_one_line_with_those_that_can(tmp_path):
    with pytest.raises(RequestError) as caught:
        audit(tmp_path, nodes=tmp_path, operators=["keda=2.21", "cert-manager=1.18"])
    choice = "keda=2.21, keda=2.21.0, envoy-gateway=1.9, envoy-gateway=1.9.0"
    assert (
        str(caught.value)
        == f"--operator: 'cert-manager=1.18' cannot run here. Choose from: {choice}"
    )


def test_a_quiet_audit_speaks_of_its_nodes_file_and_of_no_stack():
    result = Findings(
        stack="chart",
        base="an empty cluster",
        head="chart",
        outcome="ready",
        seconds=8,
        nodes="those of nodes.yaml",
    )
    loaded = load(save(result), source="findings.json")
    assert loaded is not None
    [note] = table(loaded).notes
    assert "those of nodes.yaml" in note
    assert "stack" not in note
    assert "minutes" not in note
