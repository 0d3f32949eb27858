"""Device plugins on the nodes that this stack creates: they tell a kubelet how many accelerators or EFA interfaces its node has.

Each runs only on nodes of its kind (`Pool.device_plugins`). It installs no driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.apps import v1 as apps
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta

from components.fields import present
from components.naming import labels, selector
from components.pod_parts import tolerations_of
from images.catalogue import default_image
from kube.names import POOL_LABEL

if TYPE_CHECKING:
    from components.handles import NodeTarget
    from components.nodes.accelerators import Taint

COMPONENT = "device-plugin"
_SOCKETS = "/var/lib/kubelet/device-plugins"


@dataclass(frozen=True, kw_only=True)
class _Plugin:
    """How one kind of plugin runs, by its vendor's manifest. `devices` is the directory of the node's devices, if it mounts one."""

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
        enforce = {"pod-security.kubernetes.io/enforce": "privileged"}
        namespace = core.Namespace(
            f"{name}-namespace",
            metadata=meta.ObjectMetaArgsDict(name=plugin.namespace, labels={**labels(COMPONENT, kind), **enforce}),
            opts=child,
        )
        apps.DaemonSet(
            name,
            metadata=meta.ObjectMetaArgsDict(name=name, namespace=namespace.metadata.name, labels=labels(COMPONENT, kind)),
            spec=_daemon_set(plugin, kind, pools, _taints(targets)),
            # The number of nodes changes with the load: an update does not wait for nodes that do not exist yet.
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"pools": pools})


def _taints(targets: Sequence[NodeTarget]) -> list[Taint]:
    return list(dict.fromkeys(taint for target in targets for taint in target.taints))


def _daemon_set(plugin: _Plugin, kind: str, pools: list[str], taints: list[Taint]) -> apps.DaemonSetSpecArgsDict:
    nodes = core.NodeSelectorRequirementArgsDict(key=POOL_LABEL, operator="In", values=pools)
    terms = core.NodeSelectorArgsDict(node_selector_terms=[core.NodeSelectorTermArgsDict(match_expressions=[nodes])])
    affinity = core.NodeAffinityArgsDict(required_during_scheduling_ignored_during_execution=terms)
    return apps.DaemonSetSpecArgsDict(
        selector=meta.LabelSelectorArgsDict(match_labels=selector(COMPONENT, kind)),
        update_strategy=apps.DaemonSetUpdateStrategyArgsDict(type="RollingUpdate"),
        template=core.PodTemplateSpecArgsDict(
            metadata=meta.ObjectMetaArgsDict(labels=selector(COMPONENT, kind)),
            spec=present(
                core.PodSpecArgsDict(
                    priority_class_name="system-node-critical",
                    automount_service_account_token=False,
                    enable_service_links=False,
                    host_network=plugin.host_network or None,
                    affinity=core.AffinityArgsDict(node_affinity=affinity),
                    # Without effect on privileged containers, which the runtime runs without a profile.
                    security_context=core.PodSecurityContextArgsDict(seccomp_profile=core.SeccompProfileArgsDict(type="RuntimeDefault")),
                    tolerations=tolerations_of(taints),
                    containers=[_container(plugin)],
                    volumes=[
                        core.VolumeArgsDict(name=name, host_path=core.HostPathVolumeSourceArgsDict(path=path, type="Directory"))
                        for name, path in _folders(plugin).items()
                    ],
                )
            ),
        ),
    )


def _folders(plugin: _Plugin) -> dict[str, str]:
    """Return the directories of the node that the plugin mounts, by volume name."""
    return {"sockets": _SOCKETS} | ({} if plugin.devices is None else {"devices": plugin.devices})


def _container(plugin: _Plugin) -> core.ContainerArgsDict:
    # No read-only root: NVIDIA's container hook writes into it when it adds the driver's libraries (kserve config-llm-template).
    closed = core.SecurityContextArgsDict(allow_privilege_escalation=False, capabilities=core.CapabilitiesArgsDict(drop=["ALL"]))
    return present(
        core.ContainerArgsDict(
            name="plugin",
            image=plugin.image,
            command=list(plugin.command) or None,
            args=list(plugin.args) or None,
            working_dir="/",
            env=[core.EnvVarArgsDict(name=key, value=value) for key, value in plugin.env.items()] or None,
            resources=core.ResourceRequirementsArgsDict(requests={"cpu": "50m", "memory": "64Mi"}, limits={"memory": "256Mi"}),
            security_context=core.SecurityContextArgsDict(privileged=True) if plugin.privileged else closed,
            volume_mounts=[core.VolumeMountArgsDict(name=name, mount_path=path) for name, path in _folders(plugin).items()],
        )
    )
