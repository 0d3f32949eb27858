"""Replicas of several pods: one LeaderWorkerSet, whose leader answers and whose workers join it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.unit.serving.models import BUCKET, GAUDI2, KEY, declared, deployment_of, pool, vllm

H100 = pool("nvidia-h100")
WIDE = {"tensorParallelSize": 8, "pipelineParallelSize": 2, "nnodes": 2}


def made(spec=None, **where):
    return declared(spec or vllm(**WIDE), **{"target": H100, **where})


def group_of(recording):
    return recording.one("kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet")


def server_of(template):
    [container] = template["spec"]["containers"]
    return container


def test_a_replica_over_two_nodes_is_one_set_of_a_leader_and_a_worker_and_no_deployment():
    recording = made()
    spec = group_of(recording).inputs["spec"]
    assert (spec["replicas"], spec["leaderWorkerTemplate"]["size"]) == (1, 2)
    assert recording.of_type("kubernetes:apps/v1:Deployment") == []
    for key in ("leaderTemplate", "workerTemplate"):
        resources = server_of(spec["leaderWorkerTemplate"][key])["resources"]
        assert (
            resources["limits"]["nvidia.com/gpu"] == resources["requests"]["nvidia.com/gpu"] == "8"
        )


def test_leader_and_worker_share_every_argument_but_their_rank_and_who_listens():
    inner = group_of(made()).inputs["spec"]["leaderWorkerTemplate"]
    leader, worker = (server_of(inner[key])["args"] for key in ("leaderTemplate", "workerTemplate"))
    assert [each for each in leader if each not in worker] == ["--node-rank=0"]
    assert [each for each in worker if each not in leader] == [
        "--node-rank=$(LWS_WORKER_INDEX)",
        "--headless",
    ]
    assert {
        "--nnodes=2",
        "--master-addr=$(LWS_LEADER_ADDRESS)",
        "--tensor-parallel-size=8",
        "--pipeline-parallel-size=2",
    } <= set(leader)


def test_a_worker_has_no_port_no_probe_and_not_the_servers_key_but_the_buckets_credentials():
    inner = group_of(made(weights=BUCKET)).inputs["spec"]["leaderWorkerTemplate"]
    leader, worker = server_of(inner["leaderTemplate"]), server_of(inner["workerTemplate"])
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= leader.keys()
    assert not {"startupProbe", "readinessProbe", "livenessProbe"} & worker.keys()
    assert not worker.get("ports")
    names = {each["name"] for each in worker["env"]}
    assert "VLLM_API_KEY" in {each["name"] for each in leader["env"]}
    assert "VLLM_API_KEY" not in names
    assert "AWS_SECRET_ACCESS_KEY" in names
    assert KEY.name not in str(worker)


def test_requests_reach_the_leader_only_and_the_operators_service_has_a_name_of_its_own():
    recording = made()
    [service] = recording.of_type("kubernetes:core/v1:Service")
    inner = group_of(recording).inputs["spec"]["leaderWorkerTemplate"]
    chosen = service.inputs["spec"]["selector"].items()
    assert chosen <= inner["leaderTemplate"]["metadata"]["labels"].items()
    assert not chosen <= inner["workerTemplate"]["metadata"]["labels"].items()
    assert (
        group_of(recording).inputs["metadata"]["name"]
        == "chat-group"
        != service.inputs["metadata"]["name"]
    )


def test_the_pods_of_a_replica_reach_each_other_and_the_gateway_reaches_its_port():
    spec = made().one("kubernetes:networking.k8s.io/v1:NetworkPolicy").inputs["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    own = spec["podSelector"]["matchLabels"]
    gateway, inside = spec["ingress"]
    assert gateway["ports"] == [{"port": 8000, "protocol": "TCP"}]
    assert inside["from"] == [{"podSelector": {"matchLabels": own}}]
    assert spec["egress"] == [
        {"to": [{"podSelector": {"matchLabels": own}}], "ports": inside["ports"]}
    ]


def waited_for(group):
    return int((group.options.custom_timeouts.create or "0s").removesuffix("s"))


def test_a_set_is_waited_for_until_it_is_available_for_as_long_as_its_rollout_takes():
    group = group_of(made(vllm(**WIDE, replicas=2)))
    assert group.inputs["metadata"]["annotations"] == {"pulumi.com/waitFor": "condition=Available"}
    assert waited_for(group) >= 2 * 600
    assert "annotations" not in group_of(made(vllm(**WIDE, replicas=0))).inputs["metadata"]


def test_a_group_is_replaced_in_place_unless_the_user_asks_for_surge():
    def rolling(**fields):
        return group_of(made(vllm(**WIDE, **fields))).inputs["spec"]["rolloutStrategy"][
            "rollingUpdateConfiguration"
        ]

    assert rolling() == {"maxSurge": 0, "maxUnavailable": 1}
    assert rolling(rollout="surge") == {"maxSurge": 1, "maxUnavailable": 0}


def test_weights_of_unknown_size_are_given_the_time_that_all_cards_of_a_replica_take():
    unknown = vllm(**WIDE, weights={"store": "weights", "path": "llama"})
    assert waited_for(group_of(made(unknown))) > waited_for(group_of(made()))


def test_a_replica_of_one_pod_stays_a_deployment_without_a_word_of_ranks():
    assert not [
        each
        for each in server_of(deployment_of(vllm(), target=H100)["template"])["args"]
        if "node" in each
    ]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"tensorParallelSize": 4, "nnodes": 3},
            "4 x pipelineParallelSize 1 = 4 accelerators do not spread evenly over nnodes 3",
        ),
        ({**WIDE, "accelerators": 8}, "8 x pipelineParallelSize 2 = 16, but accelerators is 8"),
        ({**WIDE, "extraArgs": ["--node-rank=1"]}, r"--node-rank \(inferplan sets it\)"),
        ({**WIDE, "extraArgs": ["--master-addr", "h"]}, r"--master-addr \(inferplan sets it\)"),
        ({"extraArgs": ["--headless"]}, r"--headless \(inferplan sets it\)"),
        ({"extraArgs": ["-n", "2"]}, r"-n \(use the field nnodes\)"),
    ],
)
def test_a_wrong_spread_is_refused_with_the_reason(fields, words):
    with pytest.raises(ValidationError, match=words):
        vllm(**fields)


@pytest.mark.parametrize(
    ("target", "fields", "words"),
    [
        (GAUDI2, WIDE, "vLLM over several nodes is not validated on Gaudi"),
        (
            H100,
            {"tensorParallelSize": 8, "nnodes": 2},
            "the 8 accelerators of a replica fit one node of pool 'p', which has 8.*Remove nnodes",
        ),
        (
            H100,
            {"tensorParallelSize": 8, "pipelineParallelSize": 3, "nnodes": 3},
            "a replica spans 3 nodes and pool 'p' has 2",
        ),
    ],
)
def test_a_pool_that_does_not_suit_several_nodes_is_named(target, fields, words):
    import re

    [fault] = vllm(**fields).errors_on(target)
    assert fault.path == ("nnodes",)
    assert re.search(words, fault.message)


def test_a_pool_of_two_full_nodes_suits_a_replica_over_both():
    assert list(vllm(**WIDE).errors_on(H100)) == []
