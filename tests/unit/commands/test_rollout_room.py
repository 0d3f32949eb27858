"""Rollouts that have no room on the nodes are named before they start, and those that hang are ended."""

from __future__ import annotations

import copy

import pytest

from inferplan.updating.rollout_room import crowded_rollouts, hung_rollouts, make_room
from inferplan.workspace.live import LiveCluster
from tests.unit.gateway.declared import CONSUMERS, DEPLOYMENT, ConsumerSpec, declare

SPACE = "inference"
ROOM = {"cpu": "2", "memory": "4Gi"}
_KINDS = {
    "v1": [("Node", "nodes", False), ("Pod", "pods", True)],
    "apps/v1": [("Deployment", "deployments", True), ("ReplicaSet", "replicasets", True)],
}


def cluster(**objects):
    """A cluster with `objects` by the plural of their kind."""

    def get(path):
        if path == "/apis":
            return {"groups": [{"versions": [{"groupVersion": "apps/v1"}]}]}
        for version, kinds in _KINDS.items():
            base = f"/apis/{version}" if "/" in version else f"/api/{version}"
            if path == base:
                listed = [
                    {"kind": kind, "name": plural, "namespaced": inside}
                    for kind, plural, inside in kinds
                ]
                return {"resources": listed}
        return {"items": objects.get(path.rpartition("/")[2], [])}

    return LiveCluster(get)


def pod(name, owner="old", *, ready=False, node="n", cpu="250m", **status):
    conditions = [{"type": "Ready", "status": str(ready)}, *status.pop("conditions", ())]
    requests = {"cpu": cpu, "memory": "128Mi"}
    return {
        "metadata": {"name": name, "namespace": SPACE, "ownerReferences": [{"uid": owner}]},
        "spec": {"nodeName": node, "containers": [{"resources": {"requests": requests}}]},
        "status": {"phase": "Running", "conditions": conditions, **status},
    }


def node(**allocatable):
    return {"metadata": {"name": "n"}, "spec": {}, "status": {"allocatable": ROOM | allocatable}}


def replica_set(uid, revision):
    return {
        "metadata": {
            "name": f"gateway-{uid}",
            "namespace": SPACE,
            "uid": uid,
            "annotations": {"deployment.kubernetes.io/revision": str(revision)},
            "ownerReferences": [{"name": "gateway", "uid": "d"}],
        }
    }


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
WAITING = pod("new-1", "new", node=None, conditions=[UNSCHEDULABLE])


@pytest.fixture
def changed():
    """The live gateway, and what a key more declares."""
    before = copy.deepcopy(declare(preview=False).one(DEPLOYMENT).inputs)
    before["metadata"] |= {"uid": "d"}
    three = CONSUMERS | {"chat": ConsumerSpec.model_validate({"keys": [3, 2, 1]})}
    return before, declare(consumers=three, preview=False)


@pytest.mark.parametrize(
    ("used", "crowded"), [("1500m", False), ("1750m", False), ("1800m", True), ("2", True)]
)
def test_a_rollout_without_room_for_its_surge_pod_is_named(changed, used, crowded):
    before, after = changed
    live = cluster(deployments=[before], nodes=[node()], pods=[pod("a", cpu=used)])
    lines = list(crowded_rollouts(live, SPACE, after))
    assert bool(lines) == crowded
    if crowded:
        assert lines[0].startswith(
            "gateway: its rollout starts a pod more, which requests 250m CPU"
        )
        assert "Of the 1 nodes that admit it, none has more than" in lines[0]
        assert "3968Mi left" in lines[0]


def test_an_update_that_changes_no_pod_or_has_room_elsewhere_is_silent(changed):
    before, after = changed
    full = [pod("a", cpu="2")]
    same = {**after.one(DEPLOYMENT).inputs, "metadata": {**before["metadata"]}}
    live = cluster(deployments=[same], nodes=[node()], pods=full)
    assert list(crowded_rollouts(live, SPACE, after)) == []
    other = node() | {"metadata": {"name": "other"}}
    live = cluster(deployments=[before], nodes=[node(), other], pods=full)
    assert list(crowded_rollouts(live, SPACE, after)) == []


@pytest.mark.parametrize(
    ("pods", "ends"),
    [
        ([pod("a"), pod("b"), WAITING], True),
        # One old pod still answers: its traffic must not be cut.
        ([pod("a"), pod("b", ready=True), WAITING], False),
        ([pod("a"), pod("b"), pod("new-1", "new")], False),
        ([WAITING], False),
    ],
)
def test_old_pods_that_do_not_work_give_their_room_to_new_ones(pods, ends):
    sets = [replica_set("old", 9), replica_set("new", 10)]
    live = cluster(replicasets=sets, pods=pods)
    deleted, said = [], []
    make_room(live, SPACE, deleted.append, said.append)
    path = "/apis/apps/v1/namespaces/inference/replicasets/gateway-old"
    assert deleted == ([path] if ends else [])
    assert len(said) == len(deleted)
    assert len(list(hung_rollouts(live, SPACE))) == len(deleted)
