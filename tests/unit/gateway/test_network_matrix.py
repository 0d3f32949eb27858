"""A stack of several engines with Prometheus beside it: every pair of places, every port, and
exactly the edges that the graph declares.
"""

from __future__ import annotations

import itertools
import json

import pytest

from inferplan.stackfile.reader import read_stack
from tests.unit.gateway.network_policies import NetworkEndpoint, reaches
from tests.unit.gateway.whole_stack import ROOT, recorded

PORTS = (
    22,
    53,
    80,
    443,
    1000,
    2049,
    6379,
    6443,
    8000,
    8001,
    8002,
    8080,
    8081,
    8082,
    8265,
    9000,
    10001,
    10250,
    30000,
)
DNS = NetworkEndpoint("dns", "kube-system", {"k8s-app": "kube-dns"})
PROMETHEUS = NetworkEndpoint(
    "prometheus", "watch", {"app.kubernetes.io/name": "prometheus", "role": "main"}
)
IMPOSTOR = NetworkEndpoint("prometheus elsewhere", "web", {"app.kubernetes.io/name": "prometheus"})
NEIGHBOUR = NetworkEndpoint(
    "another pod beside prometheus", "watch", {"app.kubernetes.io/name": "grafana"}
)
OPERATOR = NetworkEndpoint(
    "ray operator",
    "ray-system",
    {
        "app.kubernetes.io/name": "kuberay-operator",
        "app.kubernetes.io/component": "kuberay-operator",
    },
)
CLIENT = NetworkEndpoint("client", "web", {"app": "chat"})
STRANGER = NetworkEndpoint("unlabelled pod in the namespace", "inference")
INTERNET = NetworkEndpoint("internet", address="203.0.113.7")
# The bucket is at http://minio.storage.svc:9000, so only pods of that namespace are reachable.
STORE = NetworkEndpoint("store", "storage", {"app": "minio"})
METADATA = NetworkEndpoint("metadata", address="169.254.169.254")
METADATA_6 = NetworkEndpoint("metadata over IPv6", address="fd00:ec2::254")
OUTSIDE = (
    DNS,
    PROMETHEUS,
    IMPOSTOR,
    NEIGHBOUR,
    OPERATOR,
    CLIENT,
    INTERNET,
    STORE,
    METADATA,
    METADATA_6,
)
# Per model: the ports that the gateway may call, and the one that Prometheus may read.
MODELS = {"llama-3-8b": ({8000}, 8000), "vision": ({8000, 8001}, 8002), "tuned": ({8000}, 8080)}


@pytest.fixture(scope="module")
def recording():
    def of(engine, model):
        file = read_stack(ROOT / "docs" / "engines" / f"Pulumi.{engine}.yaml")
        return {**json.loads(file.config["inferplan:models"])[model], "consumers": ["chat"]}

    local = json.loads(read_stack(ROOT / "stacks" / "Pulumi.local.yaml").config["inferplan:models"])
    of_triton = json.loads(
        read_stack(ROOT / "docs" / "engines" / "Pulumi.triton.yaml").config["inferplan:models"]
    )
    triton = next(name for name, model in of_triton.items() if model.get("frontend") != "openai")
    models = {
        "llama-3-8b": local["llama-3-8b"],
        "tuned": of("ray-serve", "tuned"),
        "vision": of("triton", triton),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return recorded(models=models, monitoring={"prometheus": {"namespace": "watch"}})


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
            if each.inputs["metadata"]["namespace"] == "inference":
                labels = each.inputs["spec"]["template"]["metadata"]["labels"]
                name = prefix + labels["app.kubernetes.io/instance"]
                made[name] = NetworkEndpoint(name, "inference", labels)
    ray = recording.one("kubernetes:ray.io/v1:RayService").inputs["spec"]["rayClusterConfig"]
    made["tuned"] = NetworkEndpoint(
        "tuned", "inference", ray["headGroupSpec"]["template"]["metadata"]["labels"]
    )
    made["worker of tuned"] = NetworkEndpoint(
        "worker of tuned", "inference", ray["workerGroupSpecs"][0]["template"]["metadata"]["labels"]
    )
    return made


def test_the_stack_has_the_pods_that_the_matrix_speaks_of(pods):
    assert set(pods) == {
        "gateway",
        *MODELS,
        "worker of tuned",
        *(f"preheat of {name}" for name in MODELS),
    }


def _expected(source, target, port):
    """The edges as a reader of the stack would name them."""
    inside = source.namespace == "inference"
    if target is DNS:
        return port == 53 or not inside
    model = target.name.removeprefix("worker of ")
    if model in MODELS:
        called, read = MODELS[model]
        if source.name.removeprefix("worker of ") == "tuned" == model:
            return port >= 1024
        if source is OPERATOR:
            return model == "tuned" and port in (8000, 8265)
        return (source.name == "gateway" and port in called) or (
            source is PROMETHEUS and port == read
        )
    if source.name.startswith("preheat of") and target is STORE:
        return port == 9000
    return not inside and (
        port in (8080, 8082) if target.name == "gateway" else target.namespace != "inference"
    )


def _surprises(pods, policies):
    for source, target in itertools.permutations([*pods.values(), STRANGER, *OUTSIDE], 2):
        for port in PORTS:
            reached = reaches(source, target, port, policies)
            if reached != _expected(source, target, port):
                yield source.name, target.name, port, reached


def test_every_pair_of_places_is_connected_exactly_as_declared(pods, policies):
    assert list(_surprises(pods, policies)) == []


def test_no_policy_is_there_for_nothing(pods, policies):
    for policy in policies:
        rest = [each for each in policies if each is not policy]
        assert next(_surprises(pods, rest), None), policy["metadata"]["name"]


def test_nobody_inside_reaches_the_metadata_address(pods, policies):
    for source in (*pods.values(), STRANGER):
        for address, port, protocol in itertools.product(
            (METADATA, METADATA_6), PORTS, ("TCP", "UDP")
        ):
            assert not reaches(source, address, port, policies, protocol)


def test_without_monitoring_prometheus_reaches_no_model(pods, recording):
    policies = [
        each.inputs
        for each in recording.of_type("kubernetes:networking.k8s.io/v1:NetworkPolicy")
        if "-metrics" not in each.name
    ]
    models = [pods[name] for name in (*MODELS, "worker of tuned")]
    assert not any(reaches(PROMETHEUS, model, port, policies) for model in models for port in PORTS)
