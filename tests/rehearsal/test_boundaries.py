"""What validation accepts at the edges of its patterns and numbers, the API server accepts too: a
dry run of every object and pod.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from inferplan.errors import ProgramFailed
from inferplan.kube.api import ApiError
from inferplan.progress import silent
from inferplan.pulumi_engine.program.record import record
from inferplan.pulumi_engine.values import UNKNOWN, Secret
from inferplan.rehearsal.cluster.definitions import installer
from tests.lanes import in_full

pytestmark = pytest.mark.cluster

PROGRAM = Path(__file__).parents[2] / "inferplan" / "infra"
SEED = "c0ffee5c1a0e4b7d9f3a8e2b6d417590aa53f1c2e8d96b04"
SERVED: dict[str, Any] = {"pool": "gpu", "consumers": ["app"]}
FILES: dict[str, Any] = {
    "weights": {"store": "s3", "path": "m", "revision": "v1", "size": "16Gi"},
    "preheat": {"into": "shared"},
}
TENSOR = {"dataType": "TYPE_FP32", "dims": [3]}
NET = {
    "kind": "onnx",
    "file": "n.onnx",
    "maxBatchSize": 8,
    "input": {"x": TENSOR},
    "output": {"y": TENSOR},
}
STACK: dict[str, Any] = {
    "cluster": {"provider": "simulated"},
    "nodePools": {
        "gpu": {
            "provider": "simulated",
            "accelerator": "nvidia-l40s",
            "instanceType": "g6e.12xlarge",
            "nodes": 4,
        },
        "gaudi": {"provider": "simulated", "accelerator": "gaudi-2", "nodes": 2},
        "plain": {"provider": "simulated", "nodes": 2},
    },
    "storage": {
        "s3": {
            "kind": "s3",
            "bucket": "edge-weights",
            "endpoint": "http://minio.storage.svc:9000",
            "credentials": {"secretName": "minio"},
        },
        "web": {"kind": "http", "url": "http://mirror.files.svc/llm"},
        "claim": {"kind": "pvc", "claimName": "models"},
        "shared": {
            "kind": "nfs",
            "server": "nfs.edge.example",
            "path": "/models",
            "capacity": "4Ti",
        },
    },
    "models": {
        "chat": {"engine": "vllm", **SERVED, **FILES, "replicas": {"min": 1, "max": 2}},
        "net": {
            "engine": "triton",
            **SERVED,
            **FILES,
            "accelerators": 1,
            "repository": {"net": NET},
        },
        "talk": {
            "engine": "pytriton",
            **SERVED,
            "pool": "gaudi",
            "image": "registry.edge.example/t:1",
            "scriptFile": "/app/serve.py",
        },
        "find": {
            "engine": "ray-serve",
            **SERVED,
            "image": "registry.edge.example/f:1",
            "rayVersion": "2.56.0",
            "applications": {
                "find": {"kind": "custom", "importPath": "find.app:build", "routePrefix": "/find"}
            },
        },
    },
    "gateway": {
        "host": "llm.edge.example",
        "tls": {"secretName": "tls"},
        "ingressClassName": "nginx",
    },
    "monitoring": {
        "prometheus": {"namespace": "monitoring", "url": "http://prometheus.monitoring.svc:9090"}
    },
    "consumers": {"app": {"keys": [1]}},
}
L63, L64, L253 = "a" * 63, "a" * 64, ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
DNS = (
    "a",
    L63,
    L64,
    L253,
    "a" * 253,
    "a" * 254,
    "0",
    "10.0.7.3",
    "a-.b",
    "a--b",
    "a..b",
    "A",
    "a_b",
    "*.a.b",
    "xn--p1ai.example",
    "a.b.",
)
NAMES = ("a", L63, L64, "a-", "a--b", "0a", "a.b", "kube-system")
KEYS = (
    "A.b-c_d",
    L63,
    L64,
    "a.b/c",
    "A/b",
    "a..b/c",
    "a.-b/c",
    f"{L253}/x",
    f"{'a' * 254}/x",
    f"a/{L64}",
    "0/0",
    "a//b",
    "kubernetes.io/x",
)
VALUES = ("", L63, L64, "A.b_c", "-a", "a-", "0", "a b", "a/b")
CPUS = ("1", "1m", "0.5", "0.001", "0.0001", "1e3", "1k", "0", "-1", "1u")
SIZES = (
    "1",
    "1.5Gi",
    "1e9",
    "1G",
    "1000m",
    "1Ei",
    "8Ei",
    "1k",
    "1Ki",
    "2Mi",
    "3Mi",
    "0",
    "1g",
    "1.0001Gi",
)
PORTS = (0, 1, 80, 1023, 8000, 8001, 8002, 65_535, 65_536)
PATHS = (
    "/",
    "/data",
    "/data/",
    "/ü",
    "/a:b",
    "/models/x",
    "/data/../x",
    "/etc",
    "/ca",
    "/var/log/habana_logs",
    f"/{'a' * 511}",
)
HOSTS = (
    "a",
    "A.b.svc",
    "a.svc",
    "a.-b.svc",
    f"a.{L64}.svc",
    f"{L63}.{L63}.svc",
    "256.1.1.1",
    "10.1",
    "a.b.svc.cluster.local",
    "a.b.svc.",
)
CLAIM = {"persistentVolumeClaim": {"claimName": "x"}, "mountPath": "/data"}
PARENT = {"name": "p", "namespace": "n"}
ROUTED = {"host": "a.example", "exposure": "gatewayApi", "parent": PARENT}
REFERENCE = {"secretName": "s", "key": "k"}
CHAT = ("models", "chat")


# By group: paths in the stack with the value's place in what is written there, and the values.
GROUPS: dict[str, list[tuple[tuple[str, ...], Callable[[Any], Any], tuple[Any, ...]]]] = {
    "hosts": [
        (("gateway", "host"), lambda v: v, DNS),
        (("gateway",), lambda v: {**ROUTED, "host": v}, DNS),
        (("gateway",), lambda v: {**ROUTED, "parent": {**PARENT, "sectionName": v}}, DNS),
        ((*CHAT, "egress"), lambda v: {"to": [{"host": v, "ports": [443]}]}, HOSTS),
        (("models", "find", "gcsFaultTolerance"), lambda v: {"redisAddress": f"{v}:6379"}, HOSTS),
        (("storage", "web", "url"), lambda v: f"http://{v}/x", HOSTS),
    ],
    "keys": [
        ((*CHAT, "labels"), lambda v: {v: "x"}, KEYS),
        ((*CHAT, "annotations"), lambda v: {v: "x"}, KEYS),
        ((*CHAT, "tolerations"), lambda v: [{"key": v, "operator": "Exists"}], KEYS),
        (
            (*CHAT, "affinity"),
            lambda v: {"requiredNodes": [{"key": v, "operator": "Exists"}]},
            KEYS,
        ),
        (("monitoring", "prometheus", "podLabels"), lambda v: {v: "x"}, KEYS),
        (("nodePools", "plain", "labels"), lambda v: {v: "x"}, KEYS),
        (
            ("nodePools", "plain", "taints"),
            lambda v: [{"key": v, "value": "x", "effect": "NoSchedule"}],
            KEYS,
        ),
    ],
    "values": [
        ((*CHAT, "labels"), lambda v: {"a": v}, VALUES),
        ((*CHAT, "tolerations"), lambda v: [{"key": "a", "value": v}], VALUES),
        (
            (*CHAT, "affinity"),
            lambda v: {"requiredNodes": [{"key": "a", "operator": "In", "values": [v]}]},
            VALUES,
        ),
        (
            (*CHAT, "affinity"),
            lambda v: {"requiredNodes": [{"key": "a", "operator": "Gt", "values": [v]}]},
            ("1", "a", "-5"),
        ),
        (
            ("nodePools", "plain", "taints"),
            lambda v: [{"key": "a", "value": v, "effect": "NoSchedule"}],
            VALUES,
        ),
        ((*CHAT, "annotations"), lambda v: {"a": v}, ("", "ü", "\n", "x" * 1000, "x" * 262_145)),
    ],
    "names": [
        (("namespace",), lambda v: v, NAMES),
        ((*CHAT, "volumes"), lambda v: {v: CLAIM}, (*NAMES, "a" * 56, "a" * 57)),
        *(
            (where, lambda v: v, DNS)
            for where in (
                (*CHAT, "schedulerName"),
                ("gateway", "ingressClassName"),
                ("storage", "claim", "claimName"),
            )
        ),
        (("gateway", "tls"), lambda v: {"secretName": v, "clusterIssuer": v}, DNS),
        ((*CHAT, "imagePullSecrets"), lambda v: [{"name": v}], DNS),
        (
            (*CHAT, "volumes"),
            lambda v: {"d": {**CLAIM, "persistentVolumeClaim": {"claimName": v}}},
            DNS,
        ),
        (("monitoring", "prometheus", "namespace"), lambda v: v, NAMES),
        (
            ("extraObjects",),
            lambda v: {"x": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": v}}},
            DNS,
        ),
    ],
    "variables": [
        (
            (*CHAT, "env"),
            lambda v: {v: "x"},
            ("A", "a.b-c", "_a", "-a", ".a", "...", "1a", "A" * 128, "A" * 129, "a b", "a=b", "."),
        ),
        ((*CHAT, "env"), lambda v: {"A": {**REFERENCE, "secretName": v}}, DNS),
        (
            (*CHAT, "env"),
            lambda v: {"A": {**REFERENCE, "key": v}},
            ("a.b", ".", "..", "..a", ".a", "-", "a/b", "k" * 253, "k" * 254),
        ),
    ],
    "quantities": [
        ((*CHAT, "resources"), lambda v: {"cpu": v}, CPUS),
        *(
            ((*CHAT, "resources"), lambda v, field=field: {field: v}, SIZES)
            for field in ("memory", "hugepages2Mi")
        ),
        (("models", "talk", "resources"), lambda v: {"hugepages2Mi": v}, SIZES),
        ((*CHAT, "sharedMemory"), lambda v: v, SIZES),
        (("storage", "shared", "capacity"), lambda v: v, SIZES),
        ((*CHAT, "preheat"), lambda v: {"into": "shared", "ephemeralStorage": v}, SIZES),
        (("models", "find", "head"), lambda v: {"cpu": "1", "memory": v}, SIZES),
    ],
    "numbers": [
        (("models", "net", "ports"), lambda v: {"http": v}, PORTS),
        (
            (*CHAT, "egress"),
            lambda v: {"to": [{"cidrs": ["10.0.0.0/8"], "ports": v}]},
            ([1], [65_535], [443, 443], [0], [65_536]),
        ),
        (
            (*CHAT, "egress"),
            lambda v: {"to": [{"cidrs": v, "ports": [443]}]},
            (["0.0.0.0/0"], ["fd00::/8"], ["10.0.0.1/32"], ["::/0"]),
        ),
        ((*CHAT, "warmupSeconds"), lambda v: v, (0, 604_800, 10**12)),
        ((*CHAT, "drainSeconds"), lambda v: v, (0, 3600)),
        (
            (*CHAT, "replicas"),
            lambda v: v,
            (0, 1, 1000, {"min": 0, "max": 1}, {"min": 1, "max": 2, "on": {"cpu": 1}}),
        ),
        (("gateway", "drainSeconds"), lambda v: v, (1, 86_400)),
        (("gateway", "autoscaling"), lambda v: {"maxReplicas": 3, "cpuPercent": v}, (10, 95)),
        (
            (*CHAT, "preheat"),
            lambda v: {"into": "shared", "runAsUser": v},
            (0, 1, 65_535, 2**31 - 1, 2**31),
        ),
        (
            (*CHAT, "preheat"),
            lambda v: {"into": "shared", "deadlineSeconds": v},
            (1, 60, 604_800, 10**10),
        ),
    ],
    "ports": [
        (("models", "net", "ports"), lambda v, port=port: {port: v}, PORTS)
        for port in ("grpc", "metrics")
    ],
    "paths": [
        *(
            (("models", model, "volumes"), lambda v: {"d": {**CLAIM, "mountPath": v}}, PATHS)
            for model in ("chat", "talk", "find")
        ),
        (
            (*CHAT, "volumes"),
            lambda v: {"d": {**CLAIM, "subPath": v}},
            ("a", "a/b", "a/", "./a", "..", "a/../b", "$(A)"),
        ),
        (
            (*CHAT, "volumes"),
            lambda v: {"d": CLAIM, "e": {**CLAIM, "mountPath": v}},
            ("/data", "/data/x", "/data/"),
        ),
        (("storage", "shared", "path"), lambda v: v, PATHS),
        (
            ("models", "find", "applications", "find", "routePrefix"),
            lambda v: v,
            ("/", "/a/b", "/a~b", f"/{'a' * 199}"),
        ),
    ],
}


def changed(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    stack = copy.deepcopy(STACK)
    node = stack
    for key in path[:-1]:
        node = node.setdefault(key, {})
    node[path[-1]] = value
    return stack


class Server:
    """The API server of a simulated cluster, asked without effect. An object that was sent once is
    not sent again.
    """

    def __init__(self, cluster: Any) -> None:
        self.api = cluster.api()
        self.install = installer(cluster, silent)
        self.answers: dict[str, list[str]] = {}
        self.namespaces: set[str] = set()

    def rejections(self, stack: dict[str, Any]) -> Iterator[str]:
        """What the server says against the objects of `stack` and their pods. Raises ProgramFailed
        if validation rejects the stack.
        """
        written = {
            f"inferplan:{key}": value if isinstance(value, str) else json.dumps(value)
            for key, value in stack.items()
        }
        config = {**written, "inferplan:apiKeySeed": SEED}
        for each in record(
            PROGRAM,
            project="inferplan",
            stack="edges",
            config=config,
            secret_keys=frozenset({"inferplan:apiKeySeed"}),
        ):
            if each.custom and each.type.startswith("kubernetes:"):
                version, kind = (
                    each.type.removeprefix("kubernetes:").removeprefix("core/").split(":")
                )
                body = {"apiVersion": version, "kind": kind, **plain(each.inputs)}
                key = json.dumps(body, sort_keys=True)
                if key not in self.answers:
                    self.answers[key] = [
                        text for one in (body, *pods(body)) if (text := self._rejection(one))
                    ]
                yield from self.answers[key]

    def _rejection(self, body: dict[str, Any]) -> str:
        try:
            resource = self.api.resource(body["apiVersion"], body["kind"])
        except LookupError:
            self.install(body["apiVersion"].rpartition("/")[0])
            resource = self.api.resource(body["apiVersion"], body["kind"])
        namespace = body["metadata"].get("namespace", "") if resource.namespaced else ""
        if namespace and namespace not in self.namespaces:
            self.namespaces.add(namespace)
            labels = {"pod-security.kubernetes.io/enforce": "restricted"}
            try:
                self.api.request(
                    "POST",
                    "/api/v1/namespaces",
                    {"metadata": {"name": namespace, "labels": labels}},
                )
            except ApiError as error:
                assert error.status == 409  # noqa: PT017 - every other answer is an error of the test itself
        try:
            self.api.apply(
                resource.path(namespace, body["metadata"]["name"]),
                body,
                manager="edges",
                force=True,
                dry_run=True,
            )
        except ApiError as error:
            return f"{body['kind']}/{body['metadata']['name']}: {error.message}"
        return ""


def pods(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The pods of `body` without what admission looks up, so that the server judges those of
    operators too.
    """
    spec = body.get("spec") or {}
    cluster = spec.get("rayClusterConfig")
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]] if cluster else [spec]
    for template in (
        group["template"] for group in groups if isinstance(group.get("template"), dict)
    ):
        left = {
            key: value
            for key, value in template["spec"].items()
            if key not in ("serviceAccountName", "priorityClassName", "runtimeClassName")
        }
        metadata = {
            **template.get("metadata", {}),
            "name": "edge",
            "namespace": body["metadata"]["namespace"],
        }
        containers = [{"command": ["true"], **each} for each in left["containers"]]
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {**left, "containers": containers},
        }


def plain(value: Any) -> Any:
    if isinstance(value, Secret):
        return plain(value.value)
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return "unknown" if value is UNKNOWN else value


@pytest.fixture(scope="module")
def server(cluster):
    made = Server(cluster)
    yield made
    made.api.close()


@pytest.mark.parametrize(
    "group", ["numbers", *in_full(*(each for each in GROUPS if each != "numbers"))]
)
def test_the_server_accepts_what_validation_accepts(server, group):
    accepted, rejected = 0, []
    for path, shape, values in GROUPS[group]:
        for value in values:
            try:
                rejected += [
                    f"{'.'.join(path)} {value!r}: {each}"[:400]
                    for each in server.rejections(changed(path, shape(value)))
                ]
                accepted += 1
            except ProgramFailed as error:
                if "Nothing was registered." not in str(error):
                    rejected.append(f"{'.'.join(path)} {value!r}: {error}"[:400])
    assert rejected == []
    assert accepted >= len(GROUPS[group])


# What the server rejected after objects of the stack existed, when validation still accepted it.
ONCE_ACCEPTED: list[tuple[tuple[str, ...], Any, str]] = [
    (("gateway", "host"), "10.0.7.3", "gateway.host: '10.0.7.3' is an IP address"),
    ((*CHAT, "labels"), {"a..b/c": "x"}, "models.chat.labels"),
    (
        ("nodePools", "plain", "taints"),
        [{"key": "a.-b/c", "value": "x", "effect": "NoSchedule"}],
        "nodePools.plain.taints[0].key",
    ),
    ((*CHAT, "annotations"), {"a": "x" * 262_145}, "Use at most 131072"),
    ((*CHAT, "env"), {"A": {**REFERENCE, "key": ".."}}, "models.chat.env.A.key"),
    ((*CHAT, "resources"), {"hugepages2Mi": "1G"}, "'1G' is not a multiple of 2Mi"),
    (
        ("models", "talk", "volumes"),
        {"d": {**CLAIM, "mountPath": "/var/log/habana_logs"}},
        "which inferplan or the system mounts",
    ),
    ((*CHAT, "warmupSeconds"), 10**12, "Expected at most 604800"),
    (
        ("extraObjects",),
        {"x": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a..b"}}},
        "metadata.name is 'a..b'",
    ),
]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    ONCE_ACCEPTED,
    ids=lambda each: ".".join(each) if isinstance(each, tuple) else "",
)
def test_validation_rejects_what_the_server_would(server, path, value, words):
    with pytest.raises(ProgramFailed) as failure:
        list(server.rejections(changed(path, value)))
    assert words in str(failure.value)
