"""Kueue itself, next to a simulated cluster, on a stack with every engine: what it admits, by which
flavors, what it holds back and why.

KubeRay and LeaderWorkerSet do not run: the rehearsal makes their pods, and only where Kueue lets
it.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from inferplan.errors import ToolchainError
from inferplan.progress import silent
from inferplan.rehearsal.apply.run import apply, down
from inferplan.rehearsal.cluster import delete, start
from inferplan.rehearsal.cluster.definitions import installer
from inferplan.rehearsal.wait.object_events import Waiting
from inferplan.status.status import read_state
from inferplan.workspace.contract import contract_of
from inferplan.workspace.workspace import open_workspace
from tests.rehearsal.kueue_manager import kueue, parts
from tests.rehearsal.test_fields_of_every_engine import ENGINES, LLAMA, SECTIONS

pytestmark = [pytest.mark.cluster, pytest.mark.full]

ROOT = Path(__file__).resolve().parents[2]
SPACE = "/namespaces/inference"
WORKLOADS = f"/apis/kueue.x-k8s.io/v1beta2{SPACE}/workloads"
DEPLOYMENTS = f"/apis/apps/v1{SPACE}/deployments"
PENDING = "insufficient unused quota for nvidia.com/gpu in flavor inference-l40s, 1 more needed"
LOW = {
    "engine": "vllm", "weights": LLAMA, "preheat": {"into": "shared"}, "pool": "l40s", "replicas": 3, "queue": "serving",
    "queuePriority": "batch", "resources": {"cpu": "3", "memory": "24Gi"},
}  # fmt: skip
# Four cards in the queue and nothing to borrow: three of them are asked for, so a neighbour that
# wants two takes one of ours.
NARROW = {
    **{key: value for key, value in SECTIONS.items() if key != "benchmark"},
    "queues": {
        "serving": {
            **SECTIONS["queues"]["serving"],
            "pools": {"l40s": {"accelerators": 4, "borrowingLimit": 0}, "gaudi2": {}},
        }
    },
    "models": {"low": LOW},
}


@pytest.fixture(scope="module")
def cluster(state_directory, tmp_path_factory):  # noqa: ARG001 - it must be set before a cluster starts
    """A cluster with Kueue at work."""
    try:
        made = parts()
    except ToolchainError as error:
        if "could not be fetched" not in str(error):
            raise
        pytest.skip(str(error))
    found = start("kueue")
    try:
        with kueue(found, made, tmp_path_factory.mktemp("kueue") / "run"):
            yield found
    finally:
        delete("kueue")


@pytest.fixture(scope="module")
def api(cluster):
    client = cluster.api()
    yield client
    client.close()


@pytest.fixture(scope="module")
def up(cluster, tmp_path_factory):
    """Brings up a stack of these sections; its workspace and the outcome."""
    local = (ROOT / "stacks" / "Pulumi.local.yaml").read_text()
    head, rest = (
        local[: local.index("  inferplan:cluster:")],
        local[local.index("  inferplan:gateway:") :],
    )
    storage = local[local.index("  inferplan:storage:") : local.index("  inferplan:models:")]
    path = tmp_path_factory.mktemp("stack") / "Pulumi.queued.yaml"

    def run(sections: dict[str, Any], listener: Any = lambda _event: None) -> tuple[Any, Any]:
        path.write_text(
            head
            + "".join(
                f"  inferplan:{name}: {json.dumps(value)}\n" for name, value in sections.items()
            )
            + storage
            + rest
        )
        workspace = open_workspace(str(path))
        given: Any = {
            **workspace.engine_input(),
            "ensure_crds": installer(cluster, silent),
            "listener": listener,
        }
        return workspace, apply(workspace.rehearsed, cluster, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
        patch.chdir(ROOT)
        yield run


@pytest.fixture(scope="module")
def every_engine(up):
    """The stack with every engine, up: it would not be, had Kueue admitted less than all of it."""
    return up(SECTIONS)


def owner(workload):
    # The workload of a group belongs to its pods, too.
    found = [(each["kind"], each["name"]) for each in workload["metadata"]["ownerReferences"]]
    return next((each for each in found if each[0] != "Pod"), found[0])


def condition(thing, kind):
    return next(
        (each for each in thing.get("status", {}).get("conditions", []) if each["type"] == kind), {}
    )


def seen(api, path, check):
    """The first state in which `check` holds of an object of the collection; None after two
    minutes.
    """
    watch = api.watch(path, {"timeoutSeconds": "120"})
    try:
        return next(
            (live for kind, live in watch if kind in ("ADDED", "MODIFIED") and check(live)), None
        )
    finally:
        watch.close()


def test_engines_and_builds_are_admitted_and_pods_without_accelerators_skip_the_queue(
    every_engine,  # noqa: ARG001 - it brings the stack up
    api,
):
    workloads = api.request("GET", WORKLOADS)["items"]
    assert {
        condition(each, "Admitted").get("status") or condition(each, "QuotaReserved").get("status")
        for each in workloads
    } == {"True"}
    owners = [owner(each) for each in workloads]
    single = [name for name in ENGINES if name not in ("wide", "served")]
    assert sorted(name.rsplit("-", 2)[0] for kind, name in owners if kind == "Pod") == sorted(
        single
    )
    assert sorted(pair for pair in owners if pair[0] not in ("Pod", "Job")) == [
        ("LeaderWorkerSet", "wide-group"),
        ("RayService", "served"),
    ]
    [build] = [each for each in workloads if owner(each)[0] == "Job"]
    assert owner(build)[1].startswith("built-engines-")
    assert condition(build, "Finished")["reason"] == "Succeeded"


def test_flavor_of_the_model_s_pool_grants_all_requested_resources(every_engine, api):  # noqa: ARG001 - as above
    pools = {"wide-group": "h100", "gaudi": "gaudi2"}
    for workload in api.request("GET", WORKLOADS)["items"]:
        kind, name = owner(workload)
        model = name.rsplit("-", 2)[0] if kind == "Pod" else name
        assigned = {
            each["name"]: each["flavors"]
            for each in workload["status"]["admission"]["podSetAssignments"]
        }
        for pods in workload["spec"]["podSets"]:
            spec = pods["template"]["spec"]
            containers = [*spec["containers"], *spec.get("initContainers", [])]
            asked = {
                resource
                for each in containers
                for resource in each["resources"].get("requests", {})
            }
            assert assigned[pods["name"]] == dict.fromkeys(
                asked, f"inference-{pools.get(model, 'l40s')}"
            )


def test_second_up_keeps_fields_of_kueue(every_engine, up, api):  # noqa: ARG001 - as above
    service = f"/apis/ray.io/v1{SPACE}/rayservices/served"
    before = api.request("GET", service)["metadata"]["generation"]
    assert up(SECTIONS)[1].total_changes == 0
    assert api.request("GET", service)["metadata"]["generation"] == before


def neighbour(api):
    """Another Deployment in the queue, with the higher priority and two cards: a copy of the
    model's own.
    """
    made = copy.deepcopy(api.request("GET", f"{DEPLOYMENTS}/low"))
    labels = {"app": "neighbour"}
    waits = {
        "kueue.x-k8s.io/queue-name": "serving",
        "kueue.x-k8s.io/priority-class": "inference-serving-online",
    }
    spec = made["spec"]["template"]["spec"]
    for side in ("requests", "limits"):
        spec["containers"][0]["resources"][side]["nvidia.com/gpu"] = "2"
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {
        "metadata": {"name": "neighbour", "labels": waits},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    api.request("POST", DEPLOYMENTS, body)


def test_higher_priority_preempts_accelerators_and_status_names_what_is_missing(up, cluster, api):
    down(cluster)
    workspace, _ = up(NARROW)
    neighbour(api)
    assert seen(
        api,
        DEPLOYMENTS,
        lambda each: (
            each["metadata"]["name"] == "neighbour" and each["status"].get("availableReplicas") == 1
        ),
    )
    waiting = seen(
        api, WORKLOADS, lambda each: PENDING in condition(each, "QuotaReserved").get("message", "")
    )
    assert waiting is not None
    assert owner(waiting)[1].startswith("low-")
    assert condition(waiting, "QuotaReserved")["status"] == "False"
    [row] = read_state(workspace.settings, contract_of(workspace.settings), cluster.get).models
    assert (row.ready, row.wanted) == (2, 3)
    assert row.reason.startswith("waits in queue serving: couldn't assign flavors")
    assert PENDING in row.reason
    told = []

    def leave(event: Any) -> None:
        if isinstance(event, Waiting) and PENDING in event.reason and not told:
            told.append((event.target.name, event.reason))
            api.request("DELETE", f"{DEPLOYMENTS}/neighbour")

    assert up(NARROW, leave)[1].total_changes == 0
    [(name, reason)] = told
    assert name == "low"
    assert "queue serving: couldn't assign flavors" in reason
    assert {
        row.ready
        for row in read_state(
            workspace.settings, contract_of(workspace.settings), cluster.get
        ).models
    } == {3}
