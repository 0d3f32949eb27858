"""Starts, repairs and removes the real node of a simulated cluster. One process, a supervisor, has
namespaces for processes, mounts and the network; everything of the node ends with it.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from inferplan.documents.files import disk_faults, exclusive, read_json, write_atomically
from inferplan.errors import ClusterError, RequestError
from inferplan.images.catalogue import default_image
from inferplan.kube.api import ApiError
from inferplan.kube.names import REHEARSED_VOLUMES, STUB_IMAGES
from inferplan.kube.objects import is_true
from inferplan.progress import Progress, StepFinished, StepStarted
from inferplan.rehearsal.cluster import Cluster, processes
from inferplan.rehearsal.cluster import node_traces as traces
from inferplan.rehearsal.cluster.components import API_SERVER, NODE, Layout
from inferplan.rehearsal.cluster.record import cluster_directory, lock_file
from inferplan.rehearsal.cluster.startup import free_ports, log_tail
from inferplan.rehearsal.cluster.volumes import make_directory
from inferplan.rehearsal.node.images import container_spec, import_images
from inferplan.rehearsal.node.machine import missing
from inferplan.rehearsal.toolchain.build import ensure_sources
from inferplan.rehearsal.toolchain.pins import COREDNS, KUBE_ROUTER, KUBELET
from inferplan.tables import table

_TABLE: dict[str, Any] = table("rehearsal/node/node.toml")
NAME: Final[str] = _TABLE["node"]
_SUPERVISOR: Final = Path(__file__).parent / "payload" / "supervisor.py"
_READY_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.1
_MOST_ABSENT: Final = 10
_GATEWAY: Final = "gateway"
_KUBELET: Final = "kubelet"
_MANAGER: Final = "inferplan-node"


def folder_of(directory: Path) -> Path:
    """The folder of the node's files, in the `directory` of a cluster."""
    return directory / "node"


def is_running(name: str) -> bool:
    return NODE in processes.running(cluster_directory(name))


def port_of(name: str) -> int | None:
    """The port on 127.0.0.1 that leads to the gateway's Service on the node; None without a node."""
    stored = read_json(folder_of(cluster_directory(name)) / "ports.json") or {}
    return stored.get(_GATEWAY) if is_running(name) else None


def start(
    cluster: Cluster,
    images: Iterable[str],
    progress: Progress,
    *,
    labels: Mapping[str, str] = MappingProxyType({}),
    accelerators: Mapping[str, int] = MappingProxyType({}),
    stubs: Iterable[str] = (),
) -> list[str]:
    """Have the node run on `cluster` with `images`, `labels` and `accelerators` that no device
    backs; return the images that it has. An annotation of the node names the images that `stubs`
    stand for.
    Raises RehearsalError, RequestError on a machine that cannot.
    """
    if reason := missing():
        raise RequestError(f"--node real: {reason}")
    folders = ensure_sources((KUBELET, COREDNS, KUBE_ROUTER), progress)
    programs = {path.name: path for folder in folders for path in folder.iterdir()}
    lock = lock_file(cluster.directory)
    with disk_faults(cluster.directory), exclusive(lock, "start the node", progress):
        began = time.monotonic()
        progress(StepStarted(f"start node {NAME}", 1, 1))
        if NODE not in processes.running(cluster.directory):
            # Images and containers survive, as on a machine that starts again.
            clear(cluster.directory, keep=True)
            _mark_stopped(cluster)
            _spawn(cluster, programs)
        _await(cluster, _socket(cluster).exists)
        imported = import_images(
            _socket(cluster),
            [default_image("pause"), *images],
            folder_of(cluster.directory) / "images.json",
            progress,
        )
        _await(cluster, partial(_is_ready, cluster))
        for volume in cluster.get("/api/v1/persistentvolumes")["items"]:
            make_directory(volume, cluster.volumes)
        marks = {STUB_IMAGES: " ".join(sorted(stubs))}
        counts = {name: str(count) for name, count in accelerators.items()}
        _describe(cluster, {"labels": dict(labels), "annotations": marks}, counts)
        progress(StepFinished(f"start node {NAME}", 1, 1, time.monotonic() - began))
    return imported


def _socket(cluster: Layout) -> Path:
    return traces.runtime_folder(cluster.directory) / "containerd.sock"


def _weigh(group: Path) -> None:
    """Give the pods of the node the processor time of one process per core while others want it too:
    by default all of them together count as one process.
    """
    cores = os.cpu_count() or 1
    for name, each, most in (("cpu.shares", 1024, 2**18), ("cpu.weight", 100, 10_000)):
        if (group / name).exists():
            (group / name).write_text(str(min(cores * each, most)))


def _spawn(cluster: Cluster, programs: Mapping[str, Path]) -> None:
    folder, socket = folder_of(cluster.directory), _socket(cluster)
    folder.mkdir(mode=0o700, exist_ok=True)
    cluster.volumes.mkdir(mode=0o711, exist_ok=True)
    socket.parent.mkdir(mode=0o700, exist_ok=True)
    ports = free_ports((_GATEWAY, _KUBELET))
    values = {
        **{key: each for key, each in _TABLE.items() if isinstance(each, str)},
        **{name: str(path) for name, path in programs.items()},
        "directory": str(folder),
        "socket": str(socket),
        "kubeconfig": str(cluster.kubeconfig),
        "pki": str(cluster.pki),
        "pause": default_image("pause"),
        "volumes": REHEARSED_VOLUMES,
        "stored": str(cluster.volumes),
        "group": traces.name_on_machine(cluster.directory),
    }
    for group in traces.control_groups(cluster.directory):
        group.mkdir(exist_ok=True)
        _weigh(group)
    for name, text in _TABLE["files"].items():
        write_atomically(folder / name, text.format_map(values).encode())
    for name, more in ((_KUBELET, {"port": ports[_KUBELET]}), ("kube-proxy", {})):
        write_atomically(folder / f"{name}.json", _json({**_TABLE[name], **more}, values))
    (folder / "network").mkdir(exist_ok=True)
    write_atomically(folder / "network" / "10-pods.conflist", _json(_TABLE["network"], values))
    write_atomically(folder / "container.json", container_spec())
    api = cluster.ports[API_SERVER]
    relays = [
        {"listen": ["inside", "127.0.0.1", api], "connect": ["outside", "127.0.0.1", api]},
        {"listen": ["inside", values["bridge"], 6443], "connect": ["outside", "127.0.0.1", api]},
        {
            "listen": ["outside", "127.0.0.1", ports[_GATEWAY]],
            "connect": ["inside", str(folder / _GATEWAY), 80],
        },
        # For logs, exec and port-forward, whose calls the API server passes on.
        {
            "listen": ["outside", "127.0.0.1", ports[_KUBELET]],
            "connect": ["inside", "127.0.0.1", ports[_KUBELET]],
        },
    ]
    plan = {
        "setup": _filled(_TABLE["setup"], values),
        "relays": relays,
        "programs": [
            {"command": _filled(command, values), "log": str(cluster.log(name))}
            for name, command in _TABLE["programs"].items()
        ],
    }
    write_atomically(folder / "plan.json", json.dumps(plan, indent=1).encode())
    write_atomically(folder / "ports.json", json.dumps(ports).encode())
    _publish_api(cluster, values["bridge"])
    unshare = (
        "exec 3</proc/self/ns/net && exec unshare --fork --kill-child --pid --mount-proc --net"
    )
    command = f"{unshare} --mount --propagation private {sys.executable} -P {_SUPERVISOR} {folder}/plan.json"
    processes.spawn(
        NODE, Path("/bin/sh"), ["-c", command], cluster.directory, cluster.log(NODE), {}
    )


def _json(document: Mapping[str, Any], values: Mapping[str, str]) -> bytes:
    return json.dumps(_filled(document, values), indent=1).encode()


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    match value:
        case str():
            return value.format_map(values)
        case dict():
            return {key: _filled(each, values) for key, each in value.items()}
        case list():
            return [_filled(each, values) for each in value]
        case _:
            return value


def publish_gateway(cluster: Cluster, namespace: str) -> int | None:
    """Let the node's port on 127.0.0.1 lead to the Service of the gateway, and return the port."""
    with suppress(ClusterError, ApiError):
        service = cluster.get(f"/api/v1/namespaces/{namespace}/services/{_GATEWAY}")
        write_atomically(
            folder_of(cluster.directory) / _GATEWAY, service["spec"]["clusterIP"].encode()
        )
    return port_of(cluster.name)


def _publish_api(cluster: Cluster, address: str) -> None:
    """Point the Service `kubernetes` to the relay in the node's network."""
    slice_ = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}],
    }
    with closing(cluster.api()) as api:
        path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
        api.apply(path, slice_, manager=_MANAGER, force=True)


def _await(cluster: Cluster, condition: Callable[[], bool]) -> None:
    deadline, absent = time.monotonic() + _READY_SECONDS, 0
    while not condition():
        # A process has no command line for a moment while it becomes another program.
        absent = 0 if NODE in processes.running(cluster.directory) else absent + 1
        if absent > _MOST_ABSENT or time.monotonic() > deadline:
            logs = (NODE, "kubelet", "containerd")
            tail = tuple(line for each in logs for line in log_tail(cluster.log(each)))
            if absent:
                clear(cluster.directory, keep=True)
            raise ClusterError(
                f"the node {NAME} {'ended' if absent else f'is not ready after {_READY_SECONDS:.0f} s'}",
                "read its last log lines below, then run the same command again",
                log_tail=tail,
                log_path=str(cluster.log("kubelet")),
            )
        time.sleep(_POLL_SECONDS)  # the node object does not exist at first


def _is_ready(cluster: Cluster) -> bool:
    with suppress(ClusterError, ApiError):
        return is_true(cluster.get(f"/api/v1/nodes/{NAME}"), "Ready")
    return False


def _mark_stopped(cluster: Cluster) -> None:
    """Say in the statuses of a node that ended, and of its pods, that they are not ready: its next
    kubelet says when they are.
    """
    media = "application/strategic-merge-patch+json"
    with closing(cluster.api()) as api:
        for path, state in (
            *((f"/api/v1/nodes/{NAME}", "Unknown"),),
            *(
                (
                    f"/api/v1/namespaces/{each['metadata']['namespace']}/pods/{each['metadata']['name']}",
                    "False",
                )
                for each in api.get(f"/api/v1/pods?fieldSelector=spec.nodeName={NAME}")["items"]
            ),
        ):
            condition = {"type": "Ready", "status": state, "reason": "NodeStopped"}
            with suppress(ApiError):  # the node does not exist before its first start
                api.request(
                    "PATCH", f"{path}/status", {"status": {"conditions": [condition]}}, media=media
                )


def _describe(
    cluster: Cluster, metadata: Mapping[str, Any], accelerators: Mapping[str, str]
) -> None:
    path, media = f"/api/v1/nodes/{NAME}", "application/merge-patch+json"
    # The API server reaches the kubelet at the external address, a relay.
    places = {"Hostname": NAME, "InternalIP": _TABLE["bridge"], "ExternalIP": "127.0.0.1"}
    addresses = [{"type": each, "address": place} for each, place in places.items()]
    parts = {"capacity": accelerators, "allocatable": accelerators, "addresses": addresses}
    with closing(cluster.api()) as api:
        # Without taints: the kubelet waits for a cloud that says the node's addresses.
        document = {"metadata": metadata, "spec": {"taints": None}}
        api.request("PATCH", path, document, media=media)
        api.request("PATCH", f"{path}/status", {"status": parts}, media=media)


def clear(directory: Path, *, keep: bool = False) -> None:
    """End the node of the cluster in `directory` and delete what it left: control groups, and files
    except those to `keep` for the next start.
    """
    processes.end(directory, (NODE,))
    traces.remove(directory)
    if not keep:
        shutil.rmtree(folder_of(directory), ignore_errors=True)
