"""The same program under Pulumi's own engine and Kubernetes provider, against the simulated
cluster.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from inferplan.policies.engine.identity import own_identity
from inferplan.rehearsal.cluster import start
from tests.engine.requirement import needs_pulumi
from tests.review.verdicts.change import edited

ROOT = Path(__file__).resolve().parents[2]
KINDS = (
    ("v1", "Namespace"),
    ("v1", "Node"),
    ("v1", "PersistentVolume"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Service"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("v1", "ServiceAccount"),
    ("v1", "ResourceQuota"),
    ("apps/v1", "Deployment"),
    ("batch/v1", "Job"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("networking.k8s.io/v1", "Ingress"),
    ("node.k8s.io/v1", "RuntimeClass"),
    ("policy/v1", "PodDisruptionBudget"),
)
# What the API server, the controllers and each engine's own bookkeeping write; everything else must
# be equal.
SERVERS_OWN = {
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "generation",
    "selfLink",
    "finalizers",
}


pytestmark = [pytest.mark.engine, pytest.mark.cluster, needs_pulumi]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A state directory and a file backend that end with the module."""
    directory = tmp_path_factory.mktemp("engine")
    values = {
        **os.environ,
        "INFERPLAN_STATE_DIR": str(directory / "state"),
        "PULUMI_BACKEND_URL": (directory / "backend").as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "inferplan-example",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    (directory / "backend").mkdir()
    yield values
    run(values, "inferplan", "down", "local", "--engine", "rehearsal", "--cluster", check=False)


def run(
    environment: Mapping[str, str], *command: str, check: bool = True, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    program = (
        str(Path(sys.executable).parent / command[0]) if command[0] == "inferplan" else command[0]
    )
    done = subprocess.run(
        [program, *command[1:]],
        cwd=cwd,
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    if check:
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done


def objects(environment: Mapping[str, str]) -> dict[str, Any]:
    """Every object of the stack, by kind and name, without what servers write."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERPLAN_STATE_DIR", environment["INFERPLAN_STATE_DIR"])
        cluster = start("local")
    api = cluster.api()
    found = {}
    for version, kind in KINDS:
        for item in api.request("GET", api.resource(version, kind).path())["items"]:
            meta = item["metadata"]
            if meta.get("namespace", "inference") != "inference" or (
                kind == "Namespace" and meta["name"] != "inference"
            ):
                continue
            found[f"{kind}/{meta['name']}"] = stripped(item)
    api.close()
    return {
        key: value
        for key, value in found.items()
        if key not in ("ConfigMap/kube-root-ca.crt", "ServiceAccount/default")
    }


def stripped(item: dict[str, Any]) -> dict[str, Any]:
    meta = {key: value for key, value in item["metadata"].items() if key not in SERVERS_OWN}
    notes = {
        key: value
        for key, value in meta.pop("annotations", {}).items()
        if not key.startswith(("pulumi.com/", "deployment.kubernetes.io"))
    }
    labels = {
        key: value for key, value in meta.pop("labels", {}).items() if "controller-uid" not in key
    }
    spec = json.loads(
        re.sub(r'"[^"]*controller-uid": "[^"]+",? ?', "", json.dumps(item.get("spec", {})))
    )
    for assigned in ("clusterIP", "clusterIPs", "claimRef", "selector"):
        spec.pop(assigned, None)
    for template in [spec.get("template", {})]:
        template.get("metadata", {}).get("labels", {}).pop("controller-uid", None)
    return {
        "metadata": meta,
        "labels": labels,
        "annotations": notes,
        "spec": spec,
        "data": item.get("data"),
    }


def test_the_engine_and_the_rehearsal_make_the_same_objects(environment):
    run(environment, "inferplan", "up", "local", "--engine", "pulumi")
    state = Path(environment["INFERPLAN_STATE_DIR"]) / "clusters" / "local"
    told = {**environment, "INFERPLAN_KUBECONFIG": str(state / "kubeconfig")}
    run(told, "pulumi", "preview", "--stack", "local", "--expect-no-changes", "--non-interactive")
    run(
        told,
        "pulumi",
        "preview",
        "--stack",
        "local",
        "--refresh",
        "--expect-no-changes",
        "--non-interactive",
    )
    _shows_who_loses_what(told, environment)
    engines = objects(environment)
    _kill_a_destroy(told)
    asked = run(environment, "inferplan", "recover", "local", "--engine", "pulumi", check=False)
    assert asked.returncode == 1
    assert re.search(
        r"the last run was a down that did not finish: \d+ of its objects are left", asked.stderr
    )
    assert len(objects(environment)) < len(engines)
    finished = run(environment, "inferplan", "down", "local", "--engine", "pulumi")
    assert "which no longer runs; the lock is cancelled" in finished.stderr
    assert objects(environment) == {}
    run(environment, "inferplan", "up", "local", "--engine", "rehearsal")
    rehearsals = objects(environment)
    assert rehearsals.keys() == engines.keys()
    assert {key: value for key, value in rehearsals.items() if value != engines[key]} == {}


def _kill_a_destroy(environment):
    """Start a destroy and kill it after the first deletions; its language host and provider end
    with it.
    """
    arguments = ("destroy", "--stack", "local", "--yes", "--skip-preview", "--non-interactive")
    with subprocess.Popen(
        ["pulumi", *arguments],  # noqa: S607 - the user's own CLI
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        deleted = 0
        while deleted < 5:
            deleted += " deleted (" in process.stdout.readline()
        process.kill()


def _shows_who_loses_what(told, environment):
    """The facts of the deployed stack and of its preview reach the report, and so does the identity
    of the pack.
    """
    folder = Path(environment["INFERPLAN_STATE_DIR"]).parent
    text = (ROOT / "stacks" / "Pulumi.local.yaml").read_text()
    changed = folder / "Pulumi.local.yaml"
    changed.write_text(
        edited(
            edited(text, "consumers: [chat, batch]", "consumers: [chat]"),
            "revision: 6f6073b",
            "revision: 1f6073b",
        )
    )
    streaming = {**told, "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true"}
    arguments = (
        "--stack",
        "local",
        "--json",
        "--config-file",
        str(changed),
        "--policy-pack",
        "inferplan/policies",
        "--non-interactive",
    )
    events = folder / "events.ndjson"
    events.write_text(run(streaming, "pulumi", "preview", *arguments).stdout)
    text = run(streaming, "inferplan", "report", str(events)).stdout
    assert "**batch can no longer call** <code>model llama-3-8b</code>" in text
    assert "**serves other weights** <code>model llama-3-70b</code>" in text
    assert "states no facts" not in text
    assert f"judged by <code>inferplan {own_identity()}</code>" in unescape(text)


def test_a_stack_with_faults_registers_nothing_and_shows_no_traceback(environment, tmp_path):
    text = (ROOT / "stacks" / "Pulumi.local.yaml").read_text()
    broken = tmp_path / "Pulumi.local.yaml"
    broken.write_text(text.replace("pool: l40s", "pool: l40"))
    run(environment, "pulumi", "stack", "select", "--create", "local")
    done = run(
        environment,
        "pulumi",
        "preview",
        "--stack",
        "local",
        "--config-file",
        str(broken),
        "--non-interactive",
        check=False,
    )
    words = done.stdout + done.stderr
    assert done.returncode != 0
    assert "Unknown pool 'l40'. Did you mean 'l40s'?" in words
    assert "Traceback" not in words
    assert "unhandled error" not in words
