"""The network policies of a stack on the real node: which connections open among its pods and those
of other namespaces, with every port of every pair tried.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml

from inferplan.components.metrics_ports import METRICS_PORT, STATUS_PORT
from inferplan.kube.api import Api
from inferplan.pulumi_engine.values import reveal
from inferplan.rehearsal.cluster import Cluster, start
from inferplan.workspace.workspace import open_workspace
from tests.rehearsal.pod_network import Address, listening, process_in, reached
from tests.rehearsal.real_node import PASSPHRASE, STACKS, Lane, apply, idle_pod, space, until
from tests.rehearsal.test_real_node import pytestmark

__all__ = ["pytestmark"]
SPACE = "policed"
PROMETHEUS = {"app.kubernetes.io/name": "prometheus"}
GATEWAY_PORT, MODEL_PORT = 8080, 8000
PORTS = {
    "gateway": [GATEWAY_PORT, STATUS_PORT],
    "tiny": [MODEL_PORT, 9000],
    "preheat": [METRICS_PORT],
    "neighbour": [MODEL_PORT],
    "minio": [9000, 9001],
    "qdrant": [6333, 6334],
    "prometheus": [9090],
    "grafana": [3000],
    "visitor": [MODEL_PORT],
}
"""The servers of each pod."""
ALLOWED = {
    ("gateway", "tiny", MODEL_PORT),
    ("preheat", "minio", 9000),
    ("tiny", "qdrant", 6333),
    ("prometheus", "gateway", STATUS_PORT),
    ("prometheus", "tiny", MODEL_PORT),
    ("prometheus", "preheat", METRICS_PORT),
}
"""Every connection from or to the stack's pods, besides calls of the gateway by other namespaces."""
OUTSIDE = ("minio", "qdrant", "prometheus", "grafana", "visitor")
"""Pods of other namespaces, which have no policies."""


def expected() -> set[tuple[str, str, int]]:
    return ALLOWED | {
        (source, target, port)
        for source in OUTSIDE
        for target in (*OUTSIDE, "gateway")
        for port in PORTS[target]
        if source != target and port != STATUS_PORT
    }


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> list[dict[str, Any]]:
    document = yaml.safe_load((STACKS / "Pulumi.small.yaml").read_text())
    config = document["config"]
    config["inferplan:namespace"] = SPACE
    config["inferplan:nodePools"]["l4"]["nodes"] = 2
    share = {"kind": "nfs", "server": "10.9.0.1", "path": "/models", "capacity": "1Ti"}
    config["inferplan:storage"]["shared"] = share
    config["inferplan:models"]["tiny"] |= {
        "preheat": {"into": "shared"},
        "replicas": {"min": 1, "max": 2, "on": {"requestsInFlight": 4}},
        "egress": {"to": [{"host": "qdrant.vectors.svc", "ports": [6333]}]},
    }
    config["inferplan:monitoring"] = {
        "prometheus": {"namespace": "monitoring", "url": "http://prometheus.monitoring.svc:9090"},
        "scrape": {"preheats": True},
    }
    path = tmp_path_factory.mktemp("policed") / "Pulumi.small.yaml"
    path.write_text(yaml.safe_dump(document))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PULUMI_CONFIG_PASSPHRASE", PASSPHRASE)
        return [reveal(each.inputs) for each in open_workspace(str(path)).record()]


def labels_of(recording: list[dict[str, Any]], kind: str, name: str) -> dict[str, str]:
    [template] = [
        each["spec"]["template"]
        for each in recording
        if each.get("kind") == kind and each["metadata"]["name"].startswith(name)
    ]
    return template["metadata"]["labels"]


def pods_of(recording: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Pods with the labels that the stack's pods have, and pods of other namespaces."""
    for name, namespace, labels in (
        ("gateway", SPACE, labels_of(recording, "Deployment", "gateway")),
        ("tiny", SPACE, labels_of(recording, "Deployment", "tiny")),
        ("preheat", SPACE, labels_of(recording, "Job", "tiny-preheat")),
        ("neighbour", SPACE, {}),
        ("minio", "storage", {}),
        ("qdrant", "vectors", {}),
        ("prometheus", "monitoring", PROMETHEUS),
        ("grafana", "monitoring", {}),
        ("visitor", "elsewhere", PROMETHEUS),
    ):
        yield idle_pod(name, namespace, labels)


@pytest.fixture(scope="module")
def pods(recording, node_lane: Lane) -> Iterator[dict[str, dict[str, Any]]]:
    """The pods by name, each with its address."""
    declared = list(pods_of(recording))
    spaces = {each["metadata"]["namespace"] for each in declared}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERPLAN_STATE_DIR", str(node_lane.state))
        cluster = start(node_lane.cluster)
    with contextlib.closing(cluster.api()) as api, contextlib.ExitStack() as servers:
        apply(api, [*map(space, sorted(spaces)), *declared])
        until(lambda: all(each["status"].get("podIP") for each in running_pods(cluster, spaces)))
        found = {each["metadata"]["name"]: each for each in running_pods(cluster, spaces)}
        for name, pod in found.items():
            servers.enter_context(listening(process_in(pod), PORTS[name]))
        yield found
        for each in sorted(spaces):
            api.request("DELETE", f"/api/v1/namespaces/{each}")


@pytest.fixture
def api(recording, pods, real_node: Lane) -> Iterator[Api]:
    """The API server of a node that enforces the policies of the stack."""
    with contextlib.closing(start(real_node.cluster).api()) as connection:
        apply(connection, [each for each in recording if each.get("kind") == "NetworkPolicy"])
        until(lambda: are_opened(pods, expected()))
        yield connection


def running_pods(cluster: Cluster, spaces: set[str]) -> list[dict[str, Any]]:
    return [
        pod
        for space in sorted(spaces)
        for pod in cluster.get(f"/api/v1/namespaces/{space}/pods")["items"]
    ]


def opened(pods: dict[str, dict[str, Any]]) -> set[tuple[str, str, int]]:
    """Every connection that opens: source, target and port."""
    places: dict[Address, tuple[str, int]] = {
        (pods[name]["status"]["podIP"], port): (name, port)
        for name, ports in PORTS.items()
        for port in ports
    }
    return {
        (source, *places[each])
        for source, pod in pods.items()
        for each in reached(process_in(pod), places)
        if places[each][0] != source
    }


def are_opened(pods: dict[str, dict[str, Any]], wanted: set[tuple[str, str, int]]) -> bool:
    found = opened(pods)
    print(f"closed: {sorted(wanted - found)}, open: {sorted(found - wanted)}")
    return found == wanted


def test_connections_open_where_the_stack_allows_them_and_nowhere_else(
    pods, api: Api, real_node: Lane
):
    # The node itself reaches every server, as its probes must.
    kubelet = real_node.programs()["kubelet"]
    addresses = {
        (pods[name]["status"]["podIP"], port) for name, ports in PORTS.items() for port in ports
    }
    assert reached(kubelet, addresses) == addresses
    # Without the policies every connection opens: nothing else refused one.
    api.request("DELETE", f"/apis/networking.k8s.io/v1/namespaces/{SPACE}/networkpolicies")
    everything = {
        (source, target, port)
        for source in PORTS
        for target, ports in PORTS.items()
        for port in ports
        if source != target
    }
    until(lambda: are_opened(pods, everything))


@pytest.mark.full
def test_nothing_opens_while_the_enforcer_is_away(recording, pods, api: Api, real_node: Lane):
    old = real_node.programs()["kube-router"]
    # Stopped, not killed yet: it would start again within a second.
    os.kill(old, signal.SIGSTOP)
    [model] = [each for each in pods_of(recording) if each["metadata"]["name"] == "tiny"]
    late = {**model, "metadata": {**model["metadata"], "name": "late"}}
    apply(api, [late])
    path = f"/api/v1/namespaces/{SPACE}/pods/late"
    until(lambda: api.get(path)["status"].get("podIP"))
    late = api.get(path)
    address = (late["status"]["podIP"], MODEL_PORT)
    others = {(pod["status"]["podIP"], port) for name, pod in pods.items() for port in PORTS[name]}
    allowed = {(pods["qdrant"]["status"]["podIP"], 6333)}

    def callers() -> set[str]:
        # At once: a packet that is dropped costs seconds.
        with ThreadPoolExecutor() as pool:
            answers = pool.map(lambda pod: reached(process_in(pod), [address]), pods.values())
            return {name for name, answer in zip(pods, answers, strict=True) if answer}

    with listening(process_in(late), PORTS["tiny"]):
        # The rules stay, and a pod that the enforcer does not know reaches and accepts nothing.
        assert are_opened(pods, expected())
        assert reached(process_in(late), others) == set()
        assert callers() == set()
        os.kill(old, signal.SIGKILL)
        until(lambda: callers() or reached(process_in(late), others))
        assert real_node.programs()["kube-router"] != old
        until(lambda: callers() == {"gateway", "prometheus"})
        until(lambda: reached(process_in(late), others) == allowed)
        assert are_opened(pods, expected())
    api.request("DELETE", path)
