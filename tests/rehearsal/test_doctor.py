"""`inferplan doctor` against a real API server: it names what a rack lacks, and its own commands
repair that.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
import yaml

from inferplan.commands import main
from inferplan.rehearsal.cluster import Cluster
from tests.rehearsal.commands import ROOT
from tests.rehearsal.rack import bare_rack

KUBECTL = shutil.which("kubectl") or ""
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not KUBECTL, reason="no kubectl on PATH, through which a cluster is asked"),
]
CLASS = "doctor-nginx"
EDITS = {
    "context: onprem": "context: rack",
    "ingressClassName: nginx": f"ingressClassName: {CLASS}",
}


@pytest.fixture
def rack(cluster: Cluster, tmp_path, monkeypatch):
    """The shared cluster as the context `rack`, with two Gaudi servers that nobody has labelled,
    and the file of a stack for it.
    """
    text = (ROOT / "stacks" / "Pulumi.onprem.yaml").read_text()
    for old, new in EDITS.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "Pulumi.rack.yaml").write_text(text)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    monkeypatch.chdir(ROOT)
    with bare_rack(cluster, tmp_path, ("doctor-0", "doctor-1")) as kubeconfig:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        yield tmp_path


def kubectl(*arguments: str) -> None:
    subprocess.run([KUBECTL, "--context", "rack", *arguments], check=True, capture_output=True)


def doctor(stack, capsys, *codes: int) -> dict[str, list[dict[str, str]]]:
    with pytest.raises(SystemExit) as ended:
        main.run(["doctor", str(stack), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert int(ended.value.code or 0) in codes, [
        each for each in document["findings"] if each["result"] != "ok"
    ]
    findings: dict[str, list[dict[str, str]]] = {}
    for each in document["findings"]:
        findings.setdefault(each["check"], []).append(each)
    return findings


def test_doctor_prints_commands_that_repair_its_findings(rack, capsys):
    stack = rack / "Pulumi.rack.yaml"
    before = doctor(stack, capsys, 1)
    [labels], [runtime], [ingress] = (
        before["node labels"],
        before["runtime classes"],
        before["ingress"],
    )
    assert {each["result"] for each in (labels, runtime, ingress)} == {"error"}
    assert (
        labels["remedy"]
        == "kubectl --context rack label node doctor-0 doctor-1 inferplan.dev/pool=gaudi2"
    )
    assert [each["result"] for each in (*before["operators"], *before["rights"])] == ["ok", "ok"]
    for each in (labels, runtime):
        subprocess.run(each["remedy"], shell=True, check=True, capture_output=True)  # noqa: S602 - a user pastes it into a shell
    manifest = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IngressClass",
        "metadata": {"name": CLASS},
        "spec": {"controller": "x.y/z"},
    }
    (rack / "class.json").write_text(json.dumps(manifest))
    kubectl("apply", "-f", str(rack / "class.json"))
    try:
        # Other tests leave objects on the shared cluster, which may be findings of their own.
        after = doctor(stack, capsys, 0, 1)
    finally:
        kubectl("delete", f"ingressclass/{CLASS}", "runtimeclass/habana")
    repaired = (
        "node labels",
        "node taints",
        "devices",
        "node sizes",
        "runtime classes",
        "ingress",
        "rights",
    )
    assert {each["result"] for check in repaired for each in after[check]} == {"ok"}


def test_remedies_in_the_namespace_add_and_keep_what_others_have(rack, capsys):
    """A cordoned node, Secrets that lack everything or one key, a quota with another team's value
    and a LimitRange with two rules: each command is pasted, with a file where it says FILE.
    """
    stack, space = rack / "Pulumi.rack.yaml", "doctor-remedies"
    stack.write_text(stack.read_text() + f"  inferplan:namespace: {space}\n")
    kubectl("create", "namespace", space)
    kubectl("label", "node", "doctor-0", "doctor-1", "inferplan.dev/pool=gaudi2")
    kubectl("cordon", "doctor-1")
    kubectl("-n", space, "create", "secret", "generic", "minio", "--from-literal=theirs=kept")
    objects = [
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "team", "namespace": space},
            "spec": {"hard": {"requests.cpu": "1", "services.nodeports": "7"}},
        },
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "team", "namespace": space},
            "spec": {
                "limits": [
                    {"type": "PersistentVolumeClaim", "max": {"storage": "9Ti"}},
                    {"type": "Container", "max": {"memory": "1Gi", "cpu": "999"}},
                ]
            },
        },
    ]
    (rack / "objects.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    )
    kubectl("apply", "-f", str(rack / "objects.json"))
    (rack / "FILE").write_text("a key of a test")
    subprocess.run(
        [shutil.which("openssl") or "openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=llm.acme.example",
         "-keyout", "tls.key", "-out", "tls.crt"],
        check=True, capture_output=True, cwd=rack,
    )  # fmt: skip
    checks = ("node labels", "secrets", "quotas")
    try:
        before = doctor(stack, capsys, 1)
        remedies = [
            each["remedy"] for check in checks for each in before[check] if each["result"] != "ok"
        ]
        assert len(remedies) >= 5
        for each in remedies:
            subprocess.run(each, shell=True, check=True, capture_output=True, cwd=rack)  # noqa: S602 - a user pastes it into a shell
        after = doctor(stack, capsys, 0, 1)
        kept = json.loads(
            subprocess.run(
                [KUBECTL, "--context", "rack", "-n", space, "get", "secret/minio",
                 "resourcequota/team", "limitrange/team", "-o", "json"],
                check=True,
                capture_output=True,
            ).stdout
        )["items"]  # fmt: skip
    finally:
        kubectl("delete", "namespace", space, "--wait=false")
    assert not [each for check in checks for each in after[check] if each["result"] != "ok"]
    secret, quota, limits = kept
    assert "theirs" in secret["data"]
    assert quota["spec"]["hard"]["services.nodeports"] == "7"
    assert limits["spec"]["limits"][0]["max"] == {"storage": "9Ti"}
    assert limits["spec"]["limits"][1]["max"]["cpu"] == "999"


@pytest.mark.full
def test_doctor_prints_permissions_that_an_account_lacks(rack, capsys):
    config = yaml.safe_load((rack / "kubeconfig").read_text())
    config["users"][0]["user"]["as"] = "intern@acme.example"
    (rack / "kubeconfig").write_text(yaml.safe_dump(config))
    findings = doctor(rack / "Pulumi.rack.yaml", capsys, 1)
    [labels] = findings["node labels"]
    assert (
        labels["message"]
        == "not checked, because user 'intern@acme.example' may not list nodes; needs permission list"
        " nodes"
    )
    assert any(
        "deployments.apps in namespace inference" in each["message"] for each in findings["rights"]
    )
    # An administrator pastes the command, and the question is answered.
    administrator = {**os.environ, "KUBECONFIG": str(rack / "administrator")}
    del config["users"][0]["user"]["as"]
    (rack / "administrator").write_text(yaml.safe_dump(config))
    subprocess.run(labels["remedy"], shell=True, check=True, capture_output=True, env=administrator)  # noqa: S602 - a user pastes it into a shell
    try:
        [granted] = doctor(rack / "Pulumi.rack.yaml", capsys, 1)["node labels"]
    finally:
        for kind in ("clusterrole", "clusterrolebinding"):
            subprocess.run(
                [KUBECTL, "delete", kind, "inferplan-doctor-nodes"],
                check=True,
                env=administrator,
                capture_output=True,
            )
    assert granted["message"].startswith("pool gaudi2: 0 of 2 nodes")


@pytest.mark.full
def test_doctor_reports_unreachable_cluster_as_one_error(rack, capsys):
    (rack / "kubeconfig").write_text("apiVersion: v1\nkind: Config\n")
    findings = doctor(rack / "Pulumi.rack.yaml", capsys, 1)
    assert [*findings] == ["cluster"]
    assert "kubectl config get-contexts" in findings["cluster"][0]["message"]
