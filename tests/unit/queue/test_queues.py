from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from inferplan.components.queue.queues import Queues
from inferplan.components.queue.quota import quantity_of, quota_amounts
from inferplan.components.queue.spec import PoolQuota, QueueSpec, priority_class, queue_labels
from inferplan.components.serving.affinity import AffinitySpec
from inferplan.kube.names import PRIORITY_LABEL, QUEUE_LABEL
from tests.recorder import declare
from tests.unit.serving.models import GAUDI2, L40S, declared, deployment_of, pool, vllm
from tests.unit.serving.test_ray_serve import ray
from tests.unit.serving.test_tensorrt_llm import engines

H100 = pool("nvidia-h100")
TARGETS = {"l40s": L40S, "gaudi2": GAUDI2}


def queue(**written: Any) -> QueueSpec:
    return QueueSpec.model_validate(
        {"pools": {"l40s": {"accelerators": 4}, "gaudi2": {}}, **written}
    )


def made(kind: str, spec: QueueSpec) -> Any:
    recording = declare(
        lambda: Queues(
            "queues", {"serving": spec}, targets=TARGETS, scope="models", namespace="models"
        )
    )
    return recording.one(f"kubernetes:kueue.x-k8s.io/v1beta2:{kind}").inputs


def test_every_pool_hands_out_every_covered_resource_in_the_same_order_and_nothing_of_what_it_lacks():
    [group] = made("ClusterQueue", queue())["spec"]["resourceGroups"]
    assert group["coveredResources"] == [
        "cpu",
        "memory",
        "habana.ai/gaudi",
        "nvidia.com/gpu",
        "hugepages-2Mi",
        "ephemeral-storage",
    ]
    for flavor in group["flavors"]:
        assert [each["name"] for each in flavor["resources"]] == group["coveredResources"]
    quota = {
        flavor["name"]: {each["name"]: each["nominalQuota"] for each in flavor["resources"]}
        for flavor in group["flavors"]
    }
    assert (quota["models-l40s"]["nvidia.com/gpu"], quota["models-l40s"]["habana.ai/gaudi"]) == (
        "4",
        "0",
    )
    assert quota["models-gaudi2"]["habana.ai/gaudi"] == str(
        GAUDI2.nodes * GAUDI2.capacity.accelerators
    )


def test_cpu_and_memory_follow_the_cards_unless_they_are_written():
    half = quota_amounts(PoolQuota.model_validate({"accelerators": 4}), L40S)
    assert half["cpu"] == L40S.capacity.cpu_millicores * L40S.nodes // 2
    assert half["memory"] % 2**20 == 0
    written = quota_amounts(
        PoolQuota.model_validate({"accelerators": 4, "cpu": "3", "memory": "7Gi", "pods": 9}), L40S
    )
    assert (written["cpu"], written["memory"], written["pods"]) == (3000, 7 * 2**30, 9)


def test_quantities_are_exact():
    for resource, amount, text in (
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 3 * 2**30, "3Gi"),
        ("memory", 5, "5"),
        ("pods", 7, "7"),
    ):
        assert quantity_of(resource, amount) == text


def test_a_queue_is_open_to_its_own_namespace_and_its_objects_of_the_cluster_are_called_after_it():
    inputs = made("ClusterQueue", queue(cohort="acme"))
    assert inputs["metadata"]["name"] == "models-serving"
    assert inputs["spec"]["namespaceSelector"] == {
        "matchLabels": {"kubernetes.io/metadata.name": "models"}
    }
    assert inputs["spec"]["cohortName"] == "acme"
    local = made("LocalQueue", queue())
    assert (local["metadata"]["name"], local["spec"]) == (
        "serving",
        {"clusterQueue": "models-serving"},
    )


def test_a_limit_of_cards_stands_at_the_cards_and_nowhere_else():
    [group] = made(
        "ClusterQueue",
        queue(cohort="acme", pools={"l40s": {"accelerators": 4, "borrowingLimit": 2}}),
    )["spec"]["resourceGroups"]
    limits = {each["name"]: each.get("borrowingLimit") for each in group["flavors"][0]["resources"]}
    assert {name for name, limit in limits.items() if limit} == {"nvidia.com/gpu"}


def test_a_priority_is_a_class_whose_name_fits_a_label():
    inputs = made("WorkloadPriorityClass", queue(priorities={"online": 1000}))
    assert (inputs["metadata"]["name"], inputs["value"]) == ("models-serving-online", 1000)
    assert len(priority_class("n" * 40, "q" * 40, "online")) <= 63


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"pools": {}}, "at least 1"),
        ({"pools": {"l40s": {"borrowingLimit": 1}}}, "require cohort"),
        ({"preemption": {"reclaimWithinCohort": "Any"}}, "requires cohort"),
        (
            {"cohort": "c", "pools": {"l40s": {"accelerators": 2, "lendingLimit": 3}}},
            r"lendingLimit \(3\) is more than",
        ),
        ({"queueingStrategy": "Fair"}, "BestEffortFIFO"),
    ],
)
def test_a_queue_that_kueue_would_refuse_is_refused(written, said):
    with pytest.raises(ValidationError, match=said):
        queue(**written)


def test_a_model_in_a_queue_carries_its_label_on_the_workload_and_in_its_pods_and_waits_for_the_queue():
    labels = queue_labels("models", "serving", "online")
    recording = declared(vllm(), queue_labels=labels)
    workload = recording.one("kubernetes:apps/v1:Deployment").inputs
    for carrier in (workload["metadata"], workload["spec"]["template"]["metadata"]):
        assert carrier["labels"][QUEUE_LABEL] == "serving"
        assert carrier["labels"][PRIORITY_LABEL] == "models-serving-online"
    assert QUEUE_LABEL not in workload["spec"]["selector"]["matchLabels"]
    assert (
        QUEUE_LABEL not in recording.one("kubernetes:core/v1:Service").inputs["metadata"]["labels"]
    )
    assert queue_labels("models", None, None) == {}


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (
            vllm(tensorParallelSize=8, pipelineParallelSize=2, nnodes=2),
            "leaderworkerset.x-k8s.io/v1:LeaderWorkerSet",
        ),
        (ray(), "ray.io/v1:RayService"),
        (engines(), "batch/v1:Job"),
    ],
)
def test_whatever_holds_cards_carries_the_queue_s_label(spec, kind):
    labels = queue_labels("models", "serving", "online")
    carried = (
        declared(spec, target=H100, queue_labels=labels)
        .one(f"kubernetes:{kind}")
        .inputs["metadata"]["labels"]
    )
    assert labels.items() <= carried.items()


TERMS = {
    "requiredNodes": [{"key": "topology.kubernetes.io/zone", "values": ["a"]}],
    "preferredNodes": [
        {"key": "node.kubernetes.io/instance-type", "operator": "Exists", "weight": 5}
    ],
    "apartFrom": ["other"],
    "beside": ["near"],
}


def test_terms_of_ones_own_stand_on_top_of_the_pools():
    pod = deployment_of(vllm(affinity=TERMS))["template"]["spec"]
    assert pod["nodeSelector"] == dict(L40S.node_selector)
    assert pod["tolerations"]
    nodes, apart = pod["affinity"]["nodeAffinity"], pod["affinity"]["podAntiAffinity"]
    [term] = nodes["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
    ]
    [preferred] = nodes["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["weight"] == 5
    [other] = apart["requiredDuringSchedulingIgnoredDuringExecution"]
    assert other["topologyKey"] == "kubernetes.io/hostname"
    assert other["labelSelector"]["matchLabels"]["app.kubernetes.io/instance"] == "other"
    assert "affinity" not in deployment_of(vllm())["template"]["spec"]


@pytest.mark.parametrize(
    ("term", "said"),
    [
        ({"key": "a"}, "needs values"),
        ({"key": "a", "operator": "Exists", "values": ["x"]}, "Remove values"),
        ({"key": "a", "operator": "Gt", "values": ["many"]}, "one whole number"),
    ],
)
def test_a_term_that_kubernetes_would_refuse_is_refused(term, said):
    with pytest.raises(ValidationError, match=said):
        AffinitySpec.model_validate({"requiredNodes": [term]})


def test_a_term_that_no_node_of_the_pool_can_meet_is_a_fault():
    [(key, value)] = L40S.node_selector.items()
    terms = [
        {"key": key, "values": ["elsewhere"]},
        {"key": key, "values": [value]},
        {"key": key, "operator": "DoesNotExist"},
    ]
    faults = list(AffinitySpec.model_validate({"requiredNodes": terms}).errors_on(L40S))
    assert [fault.path for fault in faults] == [("requiredNodes", 0), ("requiredNodes", 2)]
