"""Device plugins on the nodes that this stack creates: they report to the kubelet how many accelerators or EFA interfaces its node has.

Each runs only on nodes of its kind (`Pool.device_plugins`). It installs no driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from inferplan.components.fields import present
from inferplan.components.kubernetes import apps, core
from inferplan.components.naming import labels, selector
from inferplan.components.pod_parts import tolerations_of
from inferplan.images.catalogue import default_image
from inferplan.kube.names import POOL_LABEL

if TYPE_CHECKING:
    from inferplan.components.handles import NodeTarget
    from inferplan.components.nodes.accelerators import Taint

COMPONENT = "device-plugin"
_SOCKETS = "/var/lib/kubelet/device-plugins"


@dataclass(frozen=True, kw_only=True)
class _Plugin:
    """The container of one kind of plugin, from its vendor's manifest. `devices` is the directory of the node's devices, if it mounts one."""

    namespace: str
    image: str
    env: Mapping[str, str]
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    privileged: bool = False
    host_network: bool = False
    devices: str | None = None


_PLUGINS = {
    # NVIDIA/k8s-device-plugin v0.20.0, deployments/static/nvidia-device-plugin.yml, read 2026-11: unprivileged, since the node's default
    # runtime adds the driver. The chart sets NVIDIA_MIG_MONITOR_DEVICES with MIG and SYS_ADMIN only; without them NVIDIA's hook ends the container.
    "nvidia": _Plugin(
        namespace="nvidia-device-plugin",
        image=default_image("nvidia-device-plugin"),
        command=("nvidia-device-plugin",),
        env={"FAIL_ON_INIT_ERROR": "false"},
    ),
    # HabanaAI/habanalabs-k8s-device-plugin, habana-k8s-device-plugin.yaml and README (which names this tag), read 2026-11.
    "habana": _Plugin(
        namespace="habana-system",
        image=default_image("habana-device-plugin"),
        env={"LD_LIBRARY_PATH": "/usr/lib/habanalabs"},
        command=("habanalabs-device-plugin",),
        args=("--dev_type", "gaudi"),
        privileged=True,
    ),
    # aws/eks-charts stable/aws-efa-k8s-device-plugin (daemonset.yaml, values.yaml, v0.5.20 of 2026-06-15), read 2026-11: privileged since
    # v0.5.9. Bottlerocket has none.
    "efa": _Plugin(
        namespace="efa-device-plugin",
        image=default_image("efa-device-plugin"),
        env={},
        privileged=True,
        host_network=True,
        devices="/dev/infiniband",
    ),
}


class DevicePlugin(pulumi.ComponentResource):
    """The DaemonSet for `kind` on the nodes of `targets`, in its own namespace that admits privileged pods."""

    def __init__(self, name: str, kind: str, targets: Sequence[NodeTarget], *, opts: pulumi.ResourceOptions | None = None) -> None:
        pools = sorted(target.pool for target in targets)
        super().__init__("inferplan:nodes:DevicePlugin", name, {"spec": {"kind": kind, "pools": pools}}, opts)
        child = pulumi.ResourceOptions(parent=self)
        plugin = _PLUGINS[kind]
        own = labels(COMPONENT, kind)
        enforce = {"pod-security.kubernetes.io/enforce": "privileged"}
        namespace = core.Namespace(f"{name}-namespace", metadata={"name": plugin.namespace, "labels": {**own, **enforce}}, opts=child)
        taints = dict.fromkeys(taint for target in targets for taint in target.taints)
        # The number of nodes changes with the load: an update does not wait for nodes that do not exist yet.
        apps.DaemonSet(
            name,
            metadata={"name": name, "namespace": namespace.metadata["name"], "labels": own},
            spec={
                "selector": {"match_labels": selector(COMPONENT, kind)},
                "update_strategy": {"type": "RollingUpdate"},
                "template": {"metadata": {"labels": selector(COMPONENT, kind)}, "spec": _pod(plugin, pools, taints)},
            },
            opts=child,
        )
        self.register_outputs({"pools": pools})


def _pod(plugin: _Plugin, pools: list[str], taints: Iterable[Taint]) -> core.PodSpecArgsDict:
    nodes: core.NodeSelectorArgsDict = {
        "node_selector_terms": [{"match_expressions": [{"key": POOL_LABEL, "operator": "In", "values": pools}]}]
    }
    folders = {"sockets": _SOCKETS} | ({} if plugin.devices is None else {"devices": plugin.devices})
    # No read-only root: NVIDIA's container hook writes into it when it adds the driver's libraries (kserve config-llm-template).
    unprivileged: core.SecurityContextArgsDict = {"allow_privilege_escalation": False, "capabilities": {"drop": ["ALL"]}}
    container: core.ContainerArgsDict = {
        "name": "plugin",
        "image": plugin.image,
        "command": list(plugin.command) or None,
        "args": list(plugin.args) or None,
        "working_dir": "/",
        "env": [core.EnvVarArgsDict(name=key, value=value) for key, value in plugin.env.items()] or None,
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "security_context": core.SecurityContextArgsDict(privileged=True) if plugin.privileged else unprivileged,
        "volume_mounts": [{"name": name, "mount_path": path} for name, path in folders.items()],
    }
    pod: core.PodSpecArgsDict = {
        "priority_class_name": "system-node-critical",
        "automount_service_account_token": False,
        "enable_service_links": False,
        "host_network": plugin.host_network or None,
        "affinity": {"node_affinity": {"required_during_scheduling_ignored_during_execution": nodes}},
        # Without effect on privileged containers, which the runtime runs without a profile.
        "security_context": {"seccomp_profile": {"type": "RuntimeDefault"}},
        "tolerations": tolerations_of(taints),
        "containers": [present(container)],
        "volumes": [{"name": name, "host_path": {"path": path, "type": "Directory"}} for name, path in folders.items()],
    }
    return present(pod)
