"""The vendor's device plugin on the pools that this stack creates: it tells a kubelet how many cards its node has.

It runs only on nodes of its vendor, and only where the image does not bring a plugin of its own (Bottlerocket does). It
installs no driver, and nodes that were adopted keep whatever they have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.apps import v1 as apps
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta

from components.naming import POOL_LABEL, labels, selector
from components.nodes.eks_spec import EksPool

if TYPE_CHECKING:
    from components.handles import NodeTarget
    from components.nodes.accelerators import Taint
    from components.nodes.spec import NodePoolSpec

COMPONENT = "device-plugin"
_SOCKETS = "/var/lib/kubelet/device-plugins"


@dataclass(frozen=True, kw_only=True)
class _Plugin:
    """How one vendor's plugin is run. `privileged` where it opens the devices themselves."""

    namespace: str
    image: str
    env: Mapping[str, str]
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    privileged: bool = False


_PLUGINS = {
    # NVIDIA/k8s-device-plugin v0.20.0, static manifest: unprivileged, since the node's default runtime hands it the driver.
    "nvidia": _Plugin(
        namespace="nvidia-device-plugin",
        image="nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
        env={"FAIL_ON_INIT_ERROR": "false", "NVIDIA_MIG_MONITOR_DEVICES": "all"},
    ),
    # HabanaAI/habanalabs-k8s-device-plugin, habana-k8s-device-plugin.yaml and README (which names this tag), read 2026-11.
    "habana": _Plugin(
        namespace="habana-system",
        image="vault.habana.ai/docker-k8s-device-plugin/docker-k8s-device-plugin:1.14.0",
        env={"LD_LIBRARY_PATH": "/usr/lib/habanalabs"},
        command=("habanalabs-device-plugin",),
        args=("--dev_type", "gaudi"),
        privileged=True,
    ),
}


def plugin_targets(pools: Mapping[str, NodePoolSpec], targets: Mapping[str, NodeTarget]) -> dict[str, list[NodeTarget]]:
    """The pools that need a device plugin from us, by vendor."""
    wanted: dict[str, list[NodeTarget]] = {}
    for name, pool in pools.items():
        accelerator = targets[name].accelerator
        if isinstance(pool, EksPool) and accelerator is not None and not pool.ami.startswith("BOTTLEROCKET"):
            wanted.setdefault(accelerator.vendor, []).append(targets[name])
    return wanted


class DevicePlugin(pulumi.ComponentResource):
    """The DaemonSet of `vendor` on the nodes of `targets`, in a namespace of its own that may hold privileged pods."""

    def __init__(self, name: str, vendor: str, targets: Sequence[NodeTarget], *, opts: pulumi.ResourceOptions | None = None) -> None:
        pools = sorted(target.pool for target in targets)
        super().__init__("inferplan:nodes:DevicePlugin", name, {"spec": {"vendor": vendor, "pools": pools}}, opts)
        child = pulumi.ResourceOptions(parent=self)
        plugin = _PLUGINS[vendor]
        enforce = {"pod-security.kubernetes.io/enforce": "privileged"}
        namespace = core.Namespace(
            f"{name}-namespace",
            metadata=meta.ObjectMetaArgs(name=plugin.namespace, labels={**labels(COMPONENT, vendor), **enforce}),
            opts=child,
        )
        apps.DaemonSet(
            name,
            metadata=meta.ObjectMetaArgs(name=name, namespace=namespace.metadata.name, labels=labels(COMPONENT, vendor)),
            spec=_daemon_set(plugin, vendor, pools, _taints(targets)),
            # Nodes come and go with the load: a rollout is not waited for on nodes that are not there yet.
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"pools": pools})


def _taints(targets: Sequence[NodeTarget]) -> list[Taint]:
    return list(dict.fromkeys(taint for target in targets for taint in target.taints))


def _daemon_set(plugin: _Plugin, vendor: str, pools: list[str], taints: list[Taint]) -> apps.DaemonSetSpecArgs:
    nodes = core.NodeSelectorRequirementArgs(key=POOL_LABEL, operator="In", values=pools)
    terms = core.NodeSelectorArgs(node_selector_terms=[core.NodeSelectorTermArgs(match_expressions=[nodes])])
    affinity = core.NodeAffinityArgs(required_during_scheduling_ignored_during_execution=terms)
    return apps.DaemonSetSpecArgs(
        selector=meta.LabelSelectorArgs(match_labels=selector(COMPONENT, vendor)),
        update_strategy=apps.DaemonSetUpdateStrategyArgs(type="RollingUpdate"),
        template=core.PodTemplateSpecArgs(
            metadata=meta.ObjectMetaArgs(labels=selector(COMPONENT, vendor)),
            spec=core.PodSpecArgs(
                priority_class_name="system-node-critical",
                automount_service_account_token=False,
                enable_service_links=False,
                affinity=core.AffinityArgs(node_affinity=affinity),
                tolerations=[
                    core.TolerationArgs(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect) for taint in taints
                ],
                containers=[_container(plugin)],
                volumes=[core.VolumeArgs(name="sockets", host_path=core.HostPathVolumeSourceArgs(path=_SOCKETS, type="Directory"))],
            ),
        ),
    )


def _container(plugin: _Plugin) -> core.ContainerArgs:
    closed = core.SecurityContextArgs(
        allow_privilege_escalation=False, capabilities=core.CapabilitiesArgs(drop=["ALL"]), read_only_root_filesystem=True
    )
    return core.ContainerArgs(
        name="plugin",
        image=plugin.image,
        command=list(plugin.command) or None,
        args=list(plugin.args) or None,
        env=[core.EnvVarArgs(name=key, value=value) for key, value in plugin.env.items()],
        resources=core.ResourceRequirementsArgs(requests={"cpu": "50m", "memory": "64Mi"}, limits={"memory": "256Mi"}),
        security_context=core.SecurityContextArgs(privileged=True) if plugin.privileged else closed,
        volume_mounts=[core.VolumeMountArgs(name="sockets", mount_path=_SOCKETS)],
    )
