"""Device plugins on the nodes that this stack creates, by kind of node: they report its
accelerators or EFA interfaces.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pulumi

from inferplan.components.fields import present
from inferplan.components.handles import NodeTarget
from inferplan.components.kubernetes import apps, core
from inferplan.components.naming import labels, selector
from inferplan.components.pod_parts import environment, tolerations_of
from inferplan.hardware.accelerators import Taint
from inferplan.images.catalogue import default_image
from inferplan.kube.names import POOL_LABEL
from inferplan.tables import table

COMPONENT = "device-plugin"
_SOCKETS = "/var/lib/kubelet/device-plugins"


class DevicePlugin(pulumi.ComponentResource):
    """The DaemonSet for `kind` on the nodes of `targets`, in its own namespace that admits
    privileged pods.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        targets: Sequence[NodeTarget],
        *,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        pools = sorted(target.pool for target in targets)
        super().__init__(
            "inferplan:nodes:DevicePlugin", name, {"spec": {"kind": kind, "pools": pools}}, opts
        )
        child = pulumi.ResourceOptions(parent=self)
        plugin = table("components/nodes/device_plugins.toml")[kind]
        own = labels(COMPONENT, kind)
        enforce = {"pod-security.kubernetes.io/enforce": "privileged"}
        namespace = core.Namespace(
            f"{name}-namespace",
            metadata={"name": plugin["namespace"], "labels": {**own, **enforce}},
            opts=child,
        )
        taints = dict.fromkeys(taint for target in targets for taint in target.taints)
        # The number of nodes changes with the load: an update does not wait for nodes that do not
        # exist yet.
        apps.DaemonSet(
            name,
            metadata={"name": name, "namespace": namespace.metadata["name"], "labels": own},
            spec={
                "selector": {"match_labels": selector(COMPONENT, kind)},
                "update_strategy": {"type": "RollingUpdate"},
                "template": {
                    "metadata": {"labels": selector(COMPONENT, kind)},
                    "spec": _pod(plugin, pools, taints),
                },
            },
            opts=child,
        )
        self.register_outputs({"pools": pools})


def _pod(
    plugin: Mapping[str, Any], pools: list[str], taints: Iterable[Taint]
) -> core.PodSpecArgsDict:
    nodes: core.NodeSelectorArgsDict = {
        "node_selector_terms": [
            {"match_expressions": [{"key": POOL_LABEL, "operator": "In", "values": pools}]}
        ]
    }
    folders = {"sockets": _SOCKETS} | (
        {"devices": plugin["devices"]} if "devices" in plugin else {}
    )
    # No read-only root: NVIDIA's container hook writes into it when it adds the driver's libraries
    # (kserve config-llm-template).
    unprivileged: core.SecurityContextArgsDict = {
        "allow_privilege_escalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    container: core.ContainerArgsDict = {
        "name": "plugin",
        "image": default_image(plugin["image"]),
        "command": plugin.get("command"),
        "args": plugin.get("args"),
        "working_dir": "/",
        "env": environment(plugin.get("env", {})) or None,
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "security_context": core.SecurityContextArgsDict(privileged=True)
        if plugin.get("privileged")
        else unprivileged,
        "volume_mounts": [{"name": name, "mount_path": path} for name, path in folders.items()],
    }
    pod: core.PodSpecArgsDict = {
        "priority_class_name": "system-node-critical",
        "automount_service_account_token": False,
        "enable_service_links": False,
        "host_network": plugin.get("hostNetwork"),
        "affinity": {
            "node_affinity": {"required_during_scheduling_ignored_during_execution": nodes}
        },
        # Without effect on privileged containers, which the runtime runs without a profile.
        "security_context": {"seccomp_profile": {"type": "RuntimeDefault"}},
        "tolerations": tolerations_of(taints),
        "containers": [present(container)],
        "volumes": [
            {"name": name, "host_path": {"path": path, "type": "Directory"}}
            for name, path in folders.items()
        ],
    }
    return present(pod)
