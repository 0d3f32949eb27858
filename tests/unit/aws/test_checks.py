"""Errors between the AWS parts of a stack, and the table that the checks rest on."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from inferplan.components.platforms.aws import tables
from inferplan.components.platforms.aws.aws_api import API_FILE, aws_api, region_of_zone
from inferplan.documents.errors import dotted
from inferplan.hardware.machines import machines
from tests.lanes import in_full
from tests.unit.aws.rig import ADOPTED, BUCKET, CREATED, L40S, SYSTEM, model, settings

ROOT = Path(__file__).resolve().parents[3]
H100 = {
    "provider": "eks",
    "accelerator": "nvidia-h100",
    "capacityTypes": ["CAPACITY_BLOCK"],
    "capacityReservation": {"id": "cr-0123456789abcdef0", "zone": "us-east-1b"},
    "size": {"max": 2},
}
SUBNETS = {"us-east-1a": "subnet-0000000a", "us-east-1b": "subnet-0000000b"}
KEY = "arn:aws:kms:us-east-1:111122223333:key/1"
CERTIFICATE = "arn:aws:acm:eu-west-1:111122223333:certificate/3f1d9f5e-2c1b-4e0a-9a43-7d0e5b6c8a21"
BIG = {
    "engine": "vllm",
    "weights": {"store": "weights", "path": "big", "size": "142Gi"},
    "pool": "h100",
    "tensorParallelSize": 4,
}


def found(**parts: Any) -> dict[str, str]:
    stack = settings(**{"storage": {"weights": BUCKET}, **parts})
    return {dotted(error.path): error.message for error in stack.cluster.errors(stack)}


def test_a_sound_stack_has_no_fault():
    assert found(models={"llama": model()}) == {}
    assert (
        found(
            cluster=CREATED, nodePools={"l40s": L40S, "system": SYSTEM}, models={"llama": model()}
        )
        == {}
    )


@pytest.mark.parametrize(
    ("parts", "path", "said"),
    [
        ({"cluster": {"provider": "existing", "context": "c"}}, "nodePools.l40s.provider", "Pools of provider eks require a cluster of provider eks"),
        ({"cluster": {"provider": "simulated"}, "storage": {"s": {"kind": "efs"}}}, "storage.s.kind", "Use kind: nfs"),
        ({"cluster": {"provider": "simulated"}, "storage": {"s": {**BUCKET, "create": {}}}}, "storage.s.create", "no AWS region"),
        ({"nodePools": {"p": {"provider": "simulated", "nodes": 1}}}, "nodePools.p.provider", "Simulated pools are not allowed on EKS."),
        (
            {"cluster": {"provider": "existing", "context": "c"}, "nodePools": {"p": {"provider": "simulated", "nodes": 1}}},
            "nodePools.p.provider",
            "Simulated pools are not allowed on a real cluster. Use provider: existing.",
        ),
        ({"nodePools": {"p": {**L40S, "zones": ["eu-west-1a"]}}}, "nodePools.p.zones[0]", "is not a zone of us-east-1"),
        ({"nodePools": {"p": {**L40S, "zones": ["us-east-1a"]}}}, "nodePools.p.zones[0]", "Add cluster.subnets: {us-east-1a: subnet-...}"),
        ({"nodePools": {"p": H100}}, "nodePools.p.capacityReservation.zone", "Add cluster.subnets"),
        (
            {"cluster": {**ADOPTED, "subnets": SUBNETS}, "nodePools": {"p": {**L40S, "zones": ["us-east-1c"]}}},
            "nodePools.p.zones[0]",
            "Use us-east-1a or us-east-1b",
        ),
        (
            {"cluster": {**ADOPTED, "region": "eu-west-1"}, "nodePools": {"p": {"provider": "eks", "accelerator": "gaudi-1", "amiId": "ami-01234567", "size": {"max": 1}}}},
            "nodePools.p.accelerator",
            "EC2 does not offer dl1.24xlarge in eu-west-1",
        ),
        (
            {"cluster": {**ADOPTED, "subnets": SUBNETS}, "nodePools": {"p": {**L40S, "capacityTypes": ["SPOT"], "zones": ["us-east-1a"]}}},
            "nodePools.p.zones",
            "acceptScarcity: true",
        ),
        (
            {"nodePools": {"l40s": {**L40S, "capacityTypes": ["SPOT"]}}, "models": {"llama": model(drainSeconds=100)}},
            "models.llama.drainSeconds",
            "Lower drainSeconds to 95",
        ),
        ({"models": {"llama": model(drainSeconds=1800)}}, "models.llama.drainSeconds", "update.force: true"),
        ({"storage": {"weights": BUCKET, "s": {"kind": "efs"}}}, "storage.s", "Add cluster.subnets"),
        (
            {"cluster": {**ADOPTED, "subnets": SUBNETS}, "storage": {"weights": BUCKET, "s": {"kind": "efs"}}, "models": {"llama": model(preheat={"into": "s"})}},
            "storage.s.openTo",
            "on any untainted node of the existing cluster. Set openTo: cluster.",
        ),
        (
            {"cluster": CREATED, "nodePools": {"system": SYSTEM, "old": {"provider": "existing", "accelerator": "nvidia-l40s", "nodes": 1}},
             "storage": {"s": {"kind": "efs"}}, "models": {"llama": model(pool="old", weights={"store": "s", "path": "llama"})}},
            "storage.s.openTo",
            "whose nodes this stack did not create. Set openTo: cluster.",
        ),
        ({"storage": {"weights": {**BUCKET, "create": {}, "region": "eu-west-1"}}}, "storage.weights.region", "Remove region"),
        ({"storage": {"weights": {**BUCKET, "kmsKeyArn": KEY.replace("us-east-1", "eu-west-1")}}}, "storage.weights.kmsKeyArn", "Use one of us-east-1"),
        ({"storage": {"weights": {**BUCKET, "region": "eu-west-1", "kmsKeyArn": KEY}}}, "storage.weights.kmsKeyArn", "Use one of eu-west-1"),
        ({"cluster": CREATED, "storage": {"s": {"kind": "efs", "kmsKeyArn": KEY.replace("us-east-1", "eu-west-1")}}}, "storage.s.kmsKeyArn", "the file system is in us-east-1"),
        ({"gateway": {"host": "a.example", "ingressClassName": "alb", "alb": {"certificateArn": CERTIFICATE}}}, "gateway.alb.certificateArn", "is in eu-west-1"),
        ({"gateway": {"host": "a.example", "exposure": "loadBalancer", "nlb": {"certificateArn": CERTIFICATE}}}, "gateway.nlb.certificateArn", "is in eu-west-1"),
        ({"cluster": CREATED}, "nodePools", "Add a pool without accelerator"),
        ({"cluster": CREATED, "nodePools": {"system": {**SYSTEM, "size": {"max": 3}}}}, "nodePools", "size.min of system is 0"),
    ],
)  # fmt: skip
def test_a_fault_names_the_key_and_the_way_out(parts, path, said):
    messages = found(**parts)
    assert path in messages, messages
    assert said in messages[path]


def test_said_scarcity_is_accepted():
    pool = {
        **L40S,
        "capacityTypes": ["SPOT"],
        "zones": ["us-east-1a"],
        "instanceTypes": ["g6e.4xlarge"],
        "acceptScarcity": True,
    }
    assert found(cluster={**ADOPTED, "subnets": SUBNETS}, nodePools={"p": pool}) == {}


ROOMLESS = {
    "cluster": CREATED,
    "nodePools": {"l40s": L40S, "system": SYSTEM},
    "storage": {"weights": BUCKET, "s": {"kind": "efs"}},
}


@pytest.mark.parametrize(("asked", "key"), [({"cpu": "8"}, "cpu"), ({"memory": "32Gi"}, "memory")])
def test_a_preheat_that_no_plain_node_can_hold_is_refused_where_all_nodes_are_known(asked, key):
    models = {"llama": model(preheat={"into": "s", **asked})}
    assert (
        "nodes without taints have at most"
        in found(**ROOMLESS, models=models)[f"models.llama.preheat.{key}"]
    )
    larger = {"l40s": L40S, "system": {**SYSTEM, "instanceTypes": ["m7i.4xlarge"]}}
    assert found(**{**ROOMLESS, "nodePools": larger}, models=models) == {}
    untainted = {**ROOMLESS["nodePools"], "l40s": {**L40S, "taints": []}}
    assert found(**{**ROOMLESS, "nodePools": untainted}, models=models) == {}
    # Who adopts a cluster may have larger nodes in it.
    adopted = {
        "cluster": {**ADOPTED, "subnets": SUBNETS},
        "storage": {**ROOMLESS["storage"], "s": {"kind": "efs", "openTo": "cluster"}},
    }
    assert found(**{**ROOMLESS, **adopted}, models=models) == {}


def test_a_share_that_is_open_to_the_cluster_may_be_filled_from_any_of_its_nodes():
    storage = {"weights": BUCKET, "s": {"kind": "efs", "openTo": "cluster"}}
    assert (
        found(
            cluster={**ADOPTED, "subnets": SUBNETS},
            storage=storage,
            models={"llama": model(preheat={"into": "s"})},
        )
        == {}
    )


def drained(sizes: list[int], cards: int, nodes: int, held: int) -> bool:
    """Whether emptying one node after another, none in its stead, ever ends: one replica of a model
    leaves at a time, and the next of the same model only once that one runs again on another node.
    """
    placed = {
        (index, replica): replica % nodes if count * cards <= held * nodes else 0
        for index, count in enumerate(sizes)
        for replica in range(count)
    }
    room = {
        node: held - cards * sum(1 for at in placed.values() if at == node) for node in range(nodes)
    }
    if min(room.values()) < 0:
        return True
    for node in range(nodes):
        waiting: set[int] = set()
        for key in [key for key, at in placed.items() if at == node]:
            if key[0] in waiting and sizes[key[0]] > 1:
                return False
            other = next((each for each in room if each != node and room[each] >= cards), None)
            if other is None:
                waiting.add(key[0])
            else:
                placed[key] = other
                room[other] -= cards
        room[node] = held - cards * sum(1 for at in placed.values() if at == node)
    return True


LAYOUTS = [
    each
    for each in product([1, 2, 3, 4], [1, 2, 4, 8], [1, 2, 3])
    if each[0] * each[1] <= 8 * each[2]
]


@pytest.mark.parametrize(("replicas", "tensor", "nodes"), LAYOUTS)
def test_a_node_update_that_a_disruption_budget_would_stop_is_refused(replicas, tensor, nodes):
    big = {**BIG, "replicas": replicas, "tensorParallelSize": tensor}
    told = {}
    for force in (False, True):
        pool = {**H100, "size": {"max": nodes}, "update": {"force": force}}
        told[force] = found(
            cluster={**ADOPTED, "subnets": SUBNETS}, nodePools={"h100": pool}, models={"big": big}
        )
    assert told[True] == {}
    if not drained([replicas], tensor, nodes, 8):
        assert "update.force: true" in told[False]["models.big.replicas"]


def test_the_layouts_hold_some_that_a_budget_stops_and_some_that_it_does_not():
    stopped = [each for each in LAYOUTS if not drained([each[0]], each[1], each[2], 8)]
    assert 0 < len(stopped) < len(LAYOUTS)


def test_a_default_update_brings_a_successor_first_and_is_never_refused():
    pool = {**L40S, "size": {"max": 1}, "instanceTypes": ["g6e.12xlarge"]}
    assert found(nodePools={"l40s": pool}, models={"llama": model(replicas=4)}) == {}


def test_the_table_says_what_the_installed_botocore_says():
    recorded = API_FILE.read_text()
    said = json.loads(recorded)["botocore"]
    assert recorded == tables.enumerations(), (
        f"aws_api.json is of botocore {said}; run python -m"
        " inferplan.components.platforms.aws.tables"
    )


def test_every_ec2_machine_of_the_hardware_table_is_one_that_ec2_has():
    assert {
        name for name, row in machines().items() if row.provider == "ec2"
    } <= aws_api().instance_types


def test_what_is_emitted_is_in_the_table():
    from inferplan.components.platforms.aws.node_pool import _EFFECTS
    from inferplan.components.platforms.aws.pool_parts import PLAIN_AMIS
    from inferplan.hardware.accelerators import vendors

    assert set(_EFFECTS.values()) == set(aws_api().taint_effects)
    assert {*vendors()["nvidia"].ami_types, *PLAIN_AMIS, "CUSTOM"} <= set(aws_api().ami_types)
    assert {"ON_DEMAND", "SPOT", "CAPACITY_BLOCK"} == set(aws_api().capacity_types)
    assert {"DEFAULT", "MINIMAL"} == set(aws_api().update_strategies)


def test_botocore_still_lists_no_kubernetes_versions_so_the_bounds_are_kept_by_hand():
    """When this fails, `aws_api.generate` can generate them, and OLDEST_KUBERNETES and
    NEWEST_KUBERNETES must go.
    """
    eks: Any = botocore.session.get_session().get_service_model("eks")
    assert list(eks.shape_for("CreateClusterRequest").members["version"].enum) == []
    listed = [
        name
        for name in eks.shape_names
        if any(re.fullmatch(r"1\.\d\d", each) for each in getattr(eks.shape_for(name), "enum", ()))
    ]
    assert listed == []
    assert "DescribeClusterVersions" in eks.operation_names


@pytest.mark.parametrize(
    ("service", "shape", "words"),
    [
        ("eks", "SupportType", {"STANDARD", "EXTENDED"}),
        ("eks", "AuthenticationMode", {"API"}),
        ("eks", "ResolveConflicts", {"OVERWRITE"}),
        ("ec2", "MarketType", {"capacity-block"}),
        ("ec2", "PlacementStrategy", {"cluster"}),
        ("ec2", "LaunchTemplateHttpTokensState", {"required"}),
    ],
)
def test_words_that_are_written_by_hand_are_words_of_the_service(service, shape, words):
    known: Any = botocore.session.get_session().get_service_model(service)
    assert words <= set(known.shape_for(shape).enum)


@pytest.mark.parametrize(
    ("zone", "region"),
    [
        ("us-east-1a", "us-east-1"),
        ("us-west-2-lax-1a", "us-west-2"),
        ("eu-central-2b", "eu-central-2"),
        ("mars-1a", ""),
    ],
)
def test_a_zone_belongs_to_the_region_that_its_name_starts_with(zone, region):
    assert region_of_zone(zone) == region


@pytest.mark.slow
@pytest.mark.parametrize("stack", ["onprem", *in_full("local")])
def test_checking_and_planning_a_stack_without_aws_never_imports_pulumi_aws(stack):
    program = (
        "import sys\nfrom inferplan.commands.main import run\ntry: run(['plan',"
        f" '{stack}'])\nexcept SystemExit as end: assert not end.code, end.code\nprint('loaded:',"
        " [name for name in sys.modules if name.split('.')[0] in ('pulumi_aws', 'botocore')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "loaded: []"
