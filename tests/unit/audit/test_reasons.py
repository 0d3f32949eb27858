"""Each reason of the scheduler's filters and of admission leads to the field that explains it.

The words are those of pkg/scheduler/framework/plugins and of the admission plugins of Kubernetes 1.34 to 1.37.
"""

from typing import Any

import pytest

from inferplan.audit.blame import blamed_field
from inferplan.audit.fleet import node_objects, read_fleet
from inferplan.audit.manifest import Manifest

POD = "spec.template.spec."
CLAIM = f"{POD}volumes[0].persistentVolumeClaim.claimName"
REASONS = {
    "node(s) didn't have free ports for the requested pod ports": f"{POD}containers[0].ports[0].hostPort",
    "node(s) didn't match the requested node name": f"{POD}nodeName",
    "node(s) didn't match pod affinity rules": f"{POD}affinity",
    "node(s) didn't match pod anti-affinity rules": f"{POD}affinity",
    "node(s) didn't satisfy existing pods anti-affinity rules": "spec.template.metadata.labels",
    "node(s) didn't match pod topology spread constraints": f"{POD}topologySpreadConstraints",
    "node(s) had untolerated taint {a: b}": f"{POD}tolerations",
    "node(s) had taints that the pod didn't tolerate": f"{POD}tolerations",
    "node(s) didn't match Pod's node affinity/selector": f"{POD}nodeSelector",
    "node(s) didn't match PersistentVolume's node affinity": CLAIM,
    "node(s) had volume node affinity conflict": CLAIM,
    "node(s) had no available volume zone": CLAIM,
    "node(s) had no available disk": CLAIM,
    "node(s) exceed max volume count": CLAIM,
    "node(s) did not have enough free storage": CLAIM,
    "node(s) didn't find available persistent volumes to bind": CLAIM,
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)": CLAIM,
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already"
    " in-use by another pod": CLAIM,
    "pod has unbound immediate PersistentVolumeClaims": CLAIM,
    'persistentvolumeclaim "models" not found': CLAIM,
    "3 Insufficient nvidia.com/gpu": f'{POD}containers[0].resources.limits["nvidia.com/gpu"]',
    "3 Insufficient memory": f"{POD}containers[0].resources.requests.memory",
    "Scheduling is blocked due to non-empty scheduling gates": f"{POD}schedulingGates",
    "cannot allocate all claims": f"{POD}resourceClaims[0].resourceClaimTemplateName",
    'pods "a" is forbidden: no PriorityClass with name urgent was found': f"{POD}priorityClassName",
    'pods "a" is forbidden: pod rejected: RuntimeClass "kata" not found': f"{POD}runtimeClassName",
    'pods "a" is forbidden: error looking up service account n/b: serviceaccount "b" not found': f"{POD}serviceAccountName",
    'pods "a" is forbidden: minimum memory usage per Container is 8Gi, but request is 4Gi': f"{POD}containers[0].resources.requests.memory",
    'Pod "a-0" is invalid: metadata.labels: Invalid value: "a": must be no more than 63 characters': "metadata.name",
}


def manifest() -> Manifest:
    resources = {"limits": {"nvidia.com/gpu": 1}, "requests": {"memory": "4Gi"}}
    container = {"name": "c", "ports": [{"hostPort": 1}], "resources": resources}
    pod: dict[str, Any] = {
        "nodeName": "n",
        "nodeSelector": {"a": "b"},
        "affinity": {"podAffinity": {}},
        "tolerations": [],
        "topologySpreadConstraints": [{"maxSkew": 1}],
        "schedulingGates": [{"name": "a.example/b"}],
        "priorityClassName": "urgent",
        "runtimeClassName": "kata",
        "serviceAccountName": "b",
        "resourceClaims": [{"name": "g", "resourceClaimTemplateName": "g"}],
        "volumes": [{"name": "m", "persistentVolumeClaim": {"claimName": "models"}}],
        "containers": [container],
    }
    template = {"metadata": {"labels": {"app": "a"}}, "spec": pod}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
    return Manifest(body={**body, "spec": {"template": template}}, place="new.yaml:1")


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_a_reason_leads_to_its_field(reason):
    assert (
        blamed_field(f"0/5 nodes are available: 5 {reason}.", manifest(), None) == REASONS[reason]
    )


FLEET = b"""
kind: Fleet
pools:
- name: gpu
  count: 2
  labels: {pool: gpu}
  taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
  allocatable: {nvidia.com/gpu: 8}
- {name: cpu, count: 1, labels: {pool: cpu}}
"""
TOLERATES = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
TERM = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["highmem"]}]}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}
    }
}
BESIDES = {
    "tolerations": ({"nodeSelector": {"pool": "gpu"}}, 1),
    "tolerations of a pod that selects no pool": ({}, 1),
    "nodeSelector": ({"nodeSelector": {"pool": "highmem"}}, 0),
    "nodeSelector of accelerators": ({"nodeSelector": {"pool": "highmem"}, **TOLERATES}, 1),
    "affinity": ({"affinity": AFFINITY}, 0),
    "resources": (TOLERATES, 16),
}


@pytest.mark.parametrize("case", BESIDES)
def test_the_field_is_that_which_keeps_the_pods_from_the_nearest_node(case):
    pod, accelerators = BESIDES[case]
    limits = {"limits": {"nvidia.com/gpu": accelerators}} if accelerators else {}
    template = {"spec": {**pod, "containers": [{"name": "c", "image": "x", "resources": limits}]}}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
    deployment = Manifest(body={**body, "spec": {"template": template}}, place="new.yaml:1")
    reason = (
        "0/3 nodes are available: 2 node(s) had untolerated taint(s), 1 Insufficient nvidia.com/gpu,"
        " 1 node(s) didn't match Pod's node affinity/selector."
    )
    field = blamed_field(reason, deployment, None, node_objects(read_fleet(FLEET, "nodes.yaml")))
    assert case.partition(" ")[0] in field
