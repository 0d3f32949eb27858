"""The whole stack `local`: every pair of places, every port, and exactly the edges that the graph
declares.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from inferplan.pulumi_engine.program.record import record
from inferplan.stackfile.reader import read_stack
from inferplan.workspace.project import stack_files
from tests.unit.gateway.network_policies import NetworkEndpoint, reaches

ROOT = Path(__file__).resolve().parents[3]
PORTS = (22, 53, 80, 443, 2049, 8000, 8001, 8002, 8080, 8081, 8082, 8265, 6379, 9000, 10250)
DNS = NetworkEndpoint("dns", "kube-system", {"k8s-app": "kube-dns"})
KUBE_SYSTEM = NetworkEndpoint("another pod of kube-system", "kube-system", {"k8s-app": "metrics"})
CLIENT = NetworkEndpoint("client in another namespace", "web", {"app": "chat"})
STRANGER = NetworkEndpoint("unlabelled pod in the namespace", "inference")
INTERNET = NetworkEndpoint("internet", address="203.0.113.7")
# The bucket is at http://minio.storage.svc:9000, so only pods of that namespace are reachable.
STORE = NetworkEndpoint("store", "storage", {"app": "minio"})
METADATA = NetworkEndpoint("metadata", address="169.254.169.254")
METADATA_6 = NetworkEndpoint("metadata over IPv6", address="fd00:ec2::254")
OUTSIDE = (DNS, KUBE_SYSTEM, CLIENT, INTERNET, STORE, METADATA, METADATA_6)


@pytest.fixture(scope="module")
def recording():
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        file = read_stack(stack_files(ROOT)["local"])
        seed = {
            "inferplan:apiKeySeed": (
                "8f14e45fceea167a5a36dedd4bea25433a6f1c0d9be27bd24e7b53c6a1d2f3e4"
            )
        }
        return record(
            ROOT / "inferplan" / "infra",
            project="inferplan",
            stack="local",
            config={**file.config, **seed},
            secret_keys=frozenset(seed),
        )


@pytest.fixture(scope="module")
def policies(recording):
    return [
        each.inputs for each in recording.of_type("kubernetes:networking.k8s.io/v1:NetworkPolicy")
    ]


@pytest.fixture(scope="module")
def pods(recording):
    made = {}
    for kind, prefix in (
        ("kubernetes:apps/v1:Deployment", ""),
        ("kubernetes:batch/v1:Job", "preheat of "),
    ):
        for each in recording.of_type(kind):
            labels = each.inputs["spec"]["template"]["metadata"]["labels"]
            name = prefix + labels["app.kubernetes.io/instance"]
            made[name] = NetworkEndpoint(name, "inference", labels)
    return made


def test_the_stack_has_the_pods_that_the_matrix_speaks_of(pods):
    assert {
        "gateway",
        "llama-3-8b",
        "llama-3-70b",
        "preheat of llama-3-8b",
        "preheat of llama-3-70b",
    } <= set(pods)


def _expected(source, target, port, protocol):
    """The edges as a reader of the stack would name them."""
    inside = source.namespace == "inference"
    model = {"llama-3-8b", "llama-3-70b"}
    if target is DNS:
        return port == 53 or not inside
    if source.name == "gateway" and target.name in model:
        return (port, protocol) == (8000, "TCP")
    if target.name == "gateway":
        return not inside and (port, protocol) == (8080, "TCP")
    if source.name.startswith("preheat of") and target is STORE:
        return (port, protocol) == (9000, "TCP")
    return not inside and target.namespace != "inference"


def _surprises(pods, policies, protocol):
    places = [*pods.values(), STRANGER, *OUTSIDE]
    for source, target in itertools.permutations(places, 2):
        for port in PORTS:
            reached = reaches(source, target, port, policies, protocol)
            if reached != _expected(source, target, port, protocol):
                yield source.name, target.name, port, protocol, reached


@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
def test_every_pair_of_places_is_connected_exactly_as_declared(pods, policies, protocol):
    assert list(_surprises(pods, policies, protocol)) == []


def test_no_policy_is_there_for_nothing(pods, policies):
    for policy in policies:
        rest = [each for each in policies if each is not policy]
        assert next(_surprises(pods, rest, "TCP"), None), policy["metadata"]["name"]


def test_nobody_inside_reaches_the_metadata_address(pods, policies):
    for source in (*pods.values(), STRANGER):
        assert not any(
            reaches(source, address, port, policies)
            for address in (METADATA, METADATA_6)
            for port in PORTS
        )
