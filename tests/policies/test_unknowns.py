"""An unknown of one resource hides no violation of another, and is told of the resource that has
it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.evaluate import State, evaluate_resource, evaluate_stack
from inferplan.policies.engine.fields import UNKNOWN as UNREADABLE
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.resource import Resource, Stack
from inferplan.policies.engine.rule import Level
from inferplan.policies.engine.settings import Exemption
from inferplan.pulumi_engine.values import UNKNOWN
from tests.policies.cases import UNJUDGED, Row, base, edited, label, recording_of
from tests.policies.test_rules import ROWS, only

STACK_ROWS = [
    row for row in ROWS if all_rules()[row.rule].subject is None and row.unknown == UNJUDGED
]
# A twin in another namespace that nothing there could be judged by: it guards nobody, scales
# nobody, is nobody's parent.
WITHOUT_SUBJECTS = {
    ("s3-disallow-expiring-weights", "BucketLifecycleConfiguration/weights"),
    ("stack-require-startup-budget-for-model", "Deployment/chat"),
    ("stack-require-disruption-budget", "PodDisruptionBudget/chat"),
    ("stack-require-disruption-budget", "HorizontalPodAutoscaler/scaler"),
    ("pod-require-spread", "HorizontalPodAutoscaler/scaler"),
    ("stack-require-covered-resources", "ClusterQueue/main"),
    ("stack-require-covered-resources", "LeaderWorkerSet/wide"),
    ("stack-require-client-keys", "Secret/consumers"),
    ("stack-require-pool-capacity", "ResourceClaimTemplate/cards"),
    ("stack-require-gateway-before-models", "SecurityPolicy/second"),
    ("stack-require-policy-before-models", "NetworkPolicy/wide"),
    ("stack-require-policy-before-models", "NetworkPolicy/chat"),
    ("stack-require-default-deny", "NetworkPolicy/default-deny"),
    ("s3-require-tls", "BucketPolicy/weights"),
    ("pod-restrict-mounted-files", "ConfigMap/gateway"),
}


def twin_of(row: Row) -> dict[str, Any]:
    """The resource of a row once more, in another namespace, with an unknown in the place that
    decides.
    """
    target = next(each for each in base() if label(each) == row.resource)
    twin = edited({**target, "name": "twin"}, {**row.also, row.path: UNKNOWN})
    metadata = twin["inputs"].get("metadata", {})
    for key, own in (("namespace", "elsewhere"), ("name", "twin")):
        if key in metadata and row.path != f"metadata.{key}":
            metadata[key] = own
    if "bucket" in twin["inputs"]:
        twin["inputs"]["bucket"] = "acme-twin"
    return twin


@pytest.mark.parametrize("before", [True, False], ids=["unknown first", "unknown last"])
@pytest.mark.parametrize("row", STACK_ROWS, ids=lambda row: f"{row.rule}-{row.resource}")
def test_an_unknown_of_a_twin_hides_no_violation_and_is_told_beside_it(row, before):
    broken = [
        edited(each, {**row.also, row.path: row.bad}) if label(each) == row.resource else each
        for each in base()
    ]
    listed = [twin_of(row), *broken] if before else [*broken, twin_of(row)]
    outcomes = check_stack(
        stack_of(recording_of(listed)), only(row.rule, row.parameters)
    ).violations
    violations = {each.resource for each in outcomes if each.state is State.VIOLATION}
    unread = {
        each.resource.rpartition("/")[2] for each in outcomes if each.state is State.NOT_EVALUATED
    }
    assert violations - {f"{row.resource.partition('/')[0]}/twin"}
    # The folder on a claim matters only if a Job of the stack writes the claim.
    silent = (row.rule, row.resource) in WITHOUT_SUBJECTS or row.path.endswith("subPath")
    assert unread == (set() if silent else {"twin"})


def told(rule: str, *resources: Resource) -> set[tuple[str, str, str]]:
    """State, resource and field of what a rule says."""
    outcomes = evaluate_stack(Stack("test", resources), only(rule), [Level.MANDATORY])
    return {(each.state.value, each.resource, each.path) for each in outcomes}


def thing(type_: str, name: str, namespace: str = "a", **inputs: Any) -> Resource:
    metadata = {"name": name, "namespace": namespace}
    return Resource(
        type=type_,
        urn=f"urn:pulumi:test::p::{type_}::{name}",
        name=name,
        inputs={"metadata": metadata, **inputs},
    )


def server(name: str, namespace: str = "a", **spec: Any) -> Resource:
    containers = [
        {
            "name": "x",
            "image": "docker.io/vllm/vllm-openai:v1",
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        }
    ]
    pod = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": containers, **spec.pop("pod", {})},
    }
    return thing(
        "kubernetes:apps/v1:Deployment",
        name,
        namespace,
        spec={"replicas": 2, "template": pod, **spec},
    )


def node(name: str, cards: Any, **labels: Any) -> Resource:
    made = thing("kubernetes:core/v1:Node", name, status={"allocatable": {"nvidia.com/gpu": cards}})
    return Resource(
        type=made.type,
        urn=made.urn,
        name=name,
        inputs={**made.inputs, "metadata": {"name": name, "labels": labels}},
    )


BUDGET = "kubernetes:policy/v1:PodDisruptionBudget"
POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"


def test_what_only_an_unknown_may_excuse_is_not_called_a_violation_and_what_nothing_excuses_is():
    guard = thing(BUDGET, "guard", spec={"selector": {"matchLabels": {"app": UNREADABLE}}})
    assert told("stack-require-disruption-budget", guard, server("near"), server("far", "b")) == {
        ("not evaluated", "PodDisruptionBudget/guard", "spec.selector.matchLabels.app"),
        ("violation", "Deployment/far", "spec.replicas"),
    }


def test_a_known_excuse_is_found_behind_an_unknown_one():
    unknown = thing(BUDGET, "unknown", spec={"selector": {"matchLabels": {"app": UNREADABLE}}})
    known = thing(BUDGET, "known", spec={"selector": {"matchLabels": {"app": "near"}}})
    assert told("stack-require-disruption-budget", unknown, known, server("near")) == set()


def test_a_side_that_nobody_denies_is_told_beside_one_that_is_unknown():
    deny = thing(
        POLICY,
        "deny",
        spec={
            "podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": UNREADABLE,
            "egress": [{}],
        },
    )
    assert told("stack-require-default-deny", deny, server("near")) == {
        ("not evaluated", "NetworkPolicy/deny", "spec.ingress"),
        ("violation", "Deployment/near", "metadata.namespace"),
    }


def test_a_node_of_unknown_size_excuses_only_the_pods_that_it_would_take():
    small, unknown = node("small", "1", pool="small"), node("unknown", UNREADABLE, pool="unknown")
    crowd = [
        server(name, pod={"nodeSelector": {"pool": pool}})
        for name, pool in (("x", "small"), ("y", "unknown"))
    ]
    assert told("stack-require-pool-capacity", small, unknown, *crowd) == {
        ("not evaluated", "Node/unknown", "status.allocatable['nvidia.com/gpu']"),
        ("violation", "Deployment/x", "spec.replicas"),
    }


def test_a_node_of_unknown_labels_may_take_any_pod():
    nowhere = server("x", pod={"nodeSelector": {"pool": "misspelt"}})
    known, unknown = node("known", "1", pool="a"), node("unknown", "1", pool=UNREADABLE)
    assert told("stack-require-matching-pool", known, nowhere) == {
        ("violation", "Deployment/x", "spec.template.spec.nodeSelector"),
    }
    assert told("stack-require-matching-pool", known, unknown, nowhere) == {
        ("not evaluated", "Node/unknown", "metadata.labels.pool"),
    }


def test_a_rival_that_cannot_be_read_makes_no_room():
    surging = {"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}
    rival = server("rival", replicas=UNREADABLE, strategy={"type": "Recreate"})
    assert told(
        "stack-require-room-for-rollout", node("n", "2"), rival, server("x", **surging)
    ) == {
        ("not evaluated", "Deployment/rival", "spec.replicas"),
        ("violation", "Deployment/x", "spec.strategy.rollingUpdate.maxSurge"),
    }


def test_an_unknown_that_is_exempt_hides_no_violation():
    rule = "stack-require-disruption-budget"
    stack = Stack("test", [server("unknown", replicas=UNREADABLE), server("known")])
    excused = Exemption(
        rule, "Deployment/unknown", "spec.replicas", "unknown", "r", "o", "2999-01-01"
    )
    report = check_stack(stack, dataclasses.replace(only(rule), exemptions=(excused,)))
    assert [(each.state, each.resource) for each in report.violations] == [
        (State.VIOLATION, "Deployment/known")
    ]
    assert [(each.outcome.state, each.outcome.resource) for each in report.exempt] == [
        (State.NOT_EVALUATED, "Deployment/unknown")
    ]


def test_a_claim_that_stands_elsewhere_is_not_evaluated_and_hides_no_pod_that_asks_for_too_much():
    claiming = server(
        "claiming",
        pod={"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "elsewhere"}]},
    )
    crowd = (node("n", "1"), claiming, server("x"))
    outcomes = evaluate_stack(
        Stack("test", crowd), only("stack-require-pool-capacity"), [Level.MANDATORY]
    )
    assert [(each.state, each.resource, each.problem) for each in outcomes] == [
        (State.VIOLATION, "Deployment/x", "requests more accelerators than the pool has left"),
        (
            State.NOT_EVALUATED,
            "Deployment/claiming",
            "names a claim that the stack does not declare, so the rule cannot be evaluated",
        ),
    ]


def test_devices_that_are_claimed_and_devices_that_are_asked_for_by_name_are_counted_together():
    requests = [{"name": "x", "deviceClassName": "gpu.nvidia.com", "count": 2}]
    claim = thing(
        "kubernetes:resource.k8s.io/v1beta1:ResourceClaimTemplate",
        "two",
        spec={"spec": {"devices": {"requests": requests}}},
    )
    claiming = server(
        "claiming",
        replicas=1,
        pod={"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "two"}]},
    )
    rule = "stack-require-pool-capacity"
    assert told(rule, node("n", "3"), claim, claiming) == set()
    assert {path for _state, _resource, path in told(rule, node("n", "2"), claim, claiming)} == {
        "spec.replicas",
        "spec.template.spec.containers",
    }


def test_a_claim_whose_parameters_share_the_device_has_several_pods():
    parameters = {"kind": "GpuConfig", "sharing": {"strategy": "MPS"}}
    shared = {"requests": ["x"], "opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}
    requests = [{"name": "x", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]
    kind = "kubernetes:resource.k8s.io/v1:ResourceClaim"
    pods = [
        server(
            name, replicas=2, pod={"resourceClaims": [{"name": "x", "resourceClaimName": "one"}]}
        )
        for name in "ab"
    ]
    rule = "stack-require-own-claims"
    alone = thing(kind, "one", spec={"devices": {"requests": requests}})
    assert {resource for _state, resource, _path in told(rule, alone, *pods)} == {
        "Deployment/a",
        "Deployment/b",
    }
    divided = thing(kind, "one", spec={"devices": {"requests": requests, "config": [shared]}})
    assert told(rule, divided, *pods) == set()


@pytest.mark.parametrize(("driver", "problems"), [("gpu.nvidia.com", 0), ("gaudi.intel.com", 1)])
def test_only_claims_for_nvidia_need_a_writable_root(driver, problems):
    request = {"name": "x", "exactly": {"deviceClassName": driver}}
    claim = thing(
        "kubernetes:resource.k8s.io/v1:ResourceClaimTemplate",
        "one",
        spec={"spec": {"devices": {"requests": [request]}}},
    )
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "x"}]}}
    claims = [{"name": "x", "resourceClaimTemplateName": "one"}]
    claiming = server("a", pod={"resourceClaims": claims, "containers": [container]})
    assert len(told("pod-require-read-only-root", claim, claiming)) == problems


@pytest.mark.parametrize(("devices", "problems"), [(2, 0), (4, 1)])
def test_claimed_devices_are_as_many_as_the_ranks_of_the_engine(devices, problems):
    request = {"name": "x", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": devices}}
    claim = thing(
        "kubernetes:resource.k8s.io/v1:ResourceClaimTemplate",
        "one",
        spec={"spec": {"devices": {"requests": [request]}}},
    )
    container = {
        "name": "c",
        "image": "docker.io/vllm/vllm-openai:v1",
        "command": ["vllm", "serve", "m", "--tensor-parallel-size=2"],
        "resources": {"claims": [{"name": "x"}]},
    }
    claims = [{"name": "x", "resourceClaimTemplateName": "one"}]
    claiming = server("a", pod={"resourceClaims": claims, "containers": [container]})
    assert len(told("accelerator-require-tensor-parallel-fit", claim, claiming)) == problems


@pytest.mark.parametrize(("ranks", "problems"), [(1, 0), (2, 1)])
def test_ranks_on_claimed_devices_need_shared_memory_too(ranks, problems):
    container = {
        "name": "c",
        "image": "docker.io/vllm/vllm-openai:v1",
        "command": ["vllm", "serve", "m", f"--tensor-parallel-size={ranks}"],
        "resources": {"claims": [{"name": "x"}]},
    }
    claims = [{"name": "x", "resourceClaimTemplateName": "elsewhere"}]
    claiming = server("a", pod={"resourceClaims": claims, "containers": [container]})
    rule = only("accelerator-require-shared-memory")
    assert len(evaluate_resource(claiming, rule, [Level.MANDATORY])) == problems
