"""Secrets in audited manifests: no piece of one is in the findings, on the screen, in the file of
`--save`, in a report, or in an error. Some objects are rejected by the API server, which quotes them.
"""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan.commands import main
from tests.disclosure.canaries import Case, shown
from tests.disclosure.strangers import RESOURCES, VALUES, filled
from tests.lanes import in_full

BUILT_IN = ("core/v1", "apps/v1", "batch/v1", "networking.k8s.io/v1", "storage.k8s.io/v1", "admissionregistration.k8s.io/v1")  # fmt: skip
_EVERY = 3


def objects() -> list[dict[str, Any]]:
    """The built-in objects of the strangers, each under a name of its own in `default`."""
    listed = []
    for index, (_, type_, inputs) in enumerate(RESOURCES):
        group, _, kind = type_.removeprefix("kubernetes:").partition(":")
        if group not in BUILT_IN or index % _EVERY:
            continue
        body: dict[str, Any] = copy.deepcopy(inputs) | {
            "apiVersion": group.removeprefix("core/"),
            "kind": kind,
        }
        metadata: dict[str, Any] = {**body.get("metadata", {}), "name": f"o{index}"}
        metadata["namespace"] = "default"
        if kind == "Deployment":
            metadata["annotations"] = {"note": "§", **metadata.get("annotations", {})}
        listed.append(body | {"metadata": metadata})
    return listed


def _pod(container: dict[str, Any]) -> dict[str, Any]:
    containers = [{"name": "c", "image": "ghcr.io/acme/c:1.0"} | container]
    return {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "containers": containers}}  # fmt: skip


# A Job's template is immutable, and the API server rejects the others for their values.
REJECTED: list[dict[str, Any]] = [
    {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "immutable", "namespace": "default"}, "spec": {"suspend": True, "template": _pod({"args": ["--token", "§"], "env": [{"name": "A", "value": "§"}]})}},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "variable", "namespace": "default"}, "spec": _pod({"env": [{"name": "=x", "value": "§"}]})["spec"]},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "key", "namespace": "default"}, "data": {"a b/§": "§"}},
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "encoding", "namespace": "default"}, "data": {"a": "§"}},
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "port", "namespace": "default", "annotations": {"note": "§"}}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 70000}]}},
    {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "type", "namespace": "default"}, "spec": {"replicas": "§", "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "c:1"}]}}}},
]  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "reports"),
    [("alnum", ["report.md"]), *in_full(("password", ["report.md", "report.html"]))],
)
@pytest.mark.usefixtures("own_state")
@pytest.mark.full
def test_no_audit_shows_a_piece_of_a_secret(shape, reports, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    source = random.Random(shape)  # noqa: S311 - repeatable, and no secret
    secrets = VALUES[shape](source), VALUES[shape](source)
    for name, secret in zip(("old", "new"), secrets, strict=True):
        rejected = REJECTED[:1] if name == "old" else REJECTED
        bodies = [filled(each, secret) for each in (*objects(), *rejected)]
        Path(f"{name}.yaml").write_text(yaml.safe_dump_all(bodies))
    Path("nodes.yaml").write_text(
        yaml.safe_dump({"kind": "Fleet", "pools": [{"name": "cpu", "count": 1}]})
    )
    files = {name: tmp_path / name for name in ("found.json", *reports)}
    surfaces = {}
    for report in reports:
        words = ["audit", "new.yaml", "--from", "old.yaml", "--nodes", "nodes.yaml"]
        words += ["--report", report, *(["--save", "found.json"] if report.endswith("md") else [])]
        with pytest.raises(SystemExit) as end:
            main.run([*words, "--timeout", "5"])
        output = capfd.readouterr()
        assert end.value.code == 3, output
        surfaces[f"screen for {report}"] = output.out + output.err
    surfaces |= {name: path.read_text() for name, path in files.items()}
    assert "immutable" in surfaces["found.json"]
    assert shown(Case(shape, "", "", "", secrets, b""), surfaces) == []
