"""The pod of a preheat: rclone from its own image, Python from its own, the program from a ConfigMap, and no privilege.

It fits the restricted Pod Security profile and holds no token of the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta

from components.ca_bundle import ca_mount, ca_of, ca_volume
from components.devices import NO_DEVICES, no_devices
from components.handles import ModelSource, NodeTarget, VolumeClaim
from components.preheat.reach import environment_of, image_of, path_of
from components.preheat.request import SOURCE
from components.preheat.spec import PreheatSpec
from kube.names import HOSTNAME_LABEL, POOL_LABEL

TARGET = "/target"
_HOME = "/opt/inferplan"
_TOOLS = "/tools"
_SCRATCH = "/tmp"  # noqa: S108 - a volume of the pod's own, not the node's directory
_SECURITY = core.SecurityContextArgs(
    allow_privilege_escalation=False,
    capabilities=core.CapabilitiesArgs(drop=["ALL"]),
    read_only_root_filesystem=True,
    run_as_non_root=True,
)


def program() -> dict[str, str]:
    """The payload's source files by name, as the ConfigMap carries them."""
    folder = Path(__file__).parent / "payload"
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))}


def pod_spec(
    preheat: PreheatSpec,
    request: Mapping[str, Any],
    *,
    source: ModelSource,
    target: VolumeClaim,
    code: str,
    labels: Mapping[str, str],
    folder: str | None = None,
) -> core.PodSpecArgs:
    """The pod that serves `request`. `code` names the ConfigMap with the program, `labels` are the pod's own.

    `folder` is a directory of the target to make for the servers that may write there, which cannot make it themselves.
    """
    nodes = target.nodes
    return core.PodSpecArgs(
        # Each try is a pod of its own, so that the logs of a failed one stay readable.
        restart_policy="Never",
        automount_service_account_token=False,
        enable_service_links=False,
        # A stopped transfer only has to close its files and give the lock back.
        termination_grace_period_seconds=30,
        node_selector=None if nodes is None else dict(nodes.node_selector),
        tolerations=None if nodes is None else _tolerations(nodes),
        affinity=_away_from_pools() if nodes is None else _one_a_node(labels),
        security_context=core.PodSecurityContextArgs(
            run_as_non_root=True,
            run_as_user=preheat.run_as_user,
            run_as_group=preheat.run_as_user,
            fs_group=preheat.run_as_user,
            fs_group_change_policy="OnRootMismatch",
            seccomp_profile=core.SeccompProfileArgs(type="RuntimeDefault"),
        ),
        init_containers=[_rclone(preheat), *([] if folder is None else [_folder(preheat, source, folder)])],
        containers=[_container(preheat, request, source, target)],
        volumes=_volumes(source, target, code),
    )


def _rclone(preheat: PreheatSpec) -> core.ContainerArgs:
    amounts = {"cpu": "100m", "memory": "128Mi"}
    return core.ContainerArgs(
        name="rclone",
        image=preheat.rclone_image,
        # The binary of rclone's image is linked statically, so it runs in any other.
        command=["cp", "/usr/local/bin/rclone", f"{_TOOLS}/rclone"],
        working_dir="/",
        env=no_devices(),
        resources=core.ResourceRequirementsArgs(requests=amounts, limits=amounts),
        security_context=_SECURITY,
        volume_mounts=[core.VolumeMountArgs(name="tools", mount_path=_TOOLS)],
    )


def _folder(preheat: PreheatSpec, source: ModelSource, folder: str) -> core.ContainerArgs:
    amounts = {"cpu": "10m", "memory": "32Mi"}
    return core.ContainerArgs(
        name="folder",
        image=image_of(preheat, source),
        command=["mkdir", "-p", f"{TARGET}/{folder}"],
        working_dir="/",
        env=no_devices(),
        resources=core.ResourceRequirementsArgs(requests=amounts, limits=amounts),
        security_context=_SECURITY,
        volume_mounts=[core.VolumeMountArgs(name="target", mount_path=TARGET)],
    )


def _container(preheat: PreheatSpec, request: Mapping[str, Any], source: ModelSource, target: VolumeClaim) -> core.ContainerArgs:
    amounts = {"cpu": preheat.cpu, "memory": preheat.memory}
    mounts = [
        core.VolumeMountArgs(name="tools", mount_path=_TOOLS, read_only=True),
        core.VolumeMountArgs(name="program", mount_path=f"{_HOME}/payload", read_only=True),
        core.VolumeMountArgs(name="scratch", mount_path=_SCRATCH),
        core.VolumeMountArgs(name="target", mount_path=TARGET),
    ]
    if isinstance(source, VolumeClaim):
        mounts.append(core.VolumeMountArgs(name=_source_volume(source, target), mount_path=SOURCE, read_only=True))
    if ca_of(source) is not None:
        mounts.append(ca_mount())
    return core.ContainerArgs(
        name="preheat",
        image=image_of(preheat, source),
        command=["python3", "-m", "payload"],
        working_dir=_HOME,
        env=[*_environment(request, path_of(source), indexed=target.nodes is not None), *environment_of(source, _SCRATCH)],
        resources=core.ResourceRequirementsArgs(requests=amounts, limits=amounts),
        security_context=_SECURITY,
        # The last line of the log says why it failed, and `kubectl describe pod` then shows it.
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=mounts,
    )


def _environment(request: Mapping[str, Any], path: str, *, indexed: bool) -> list[core.EnvVarArgs]:
    clear = {
        "PREHEAT_REQUEST": json.dumps(request, sort_keys=True),
        "PATH": f"{_TOOLS}:{path}",
        "HOME": _SCRATCH,
        "PYTHONDONTWRITEBYTECODE": "1",
        **NO_DEVICES,
    }
    own = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    if indexed:
        # Kubernetes adds JOB_COMPLETION_INDEX itself; with the Job's name it says whose turn a node was.
        own |= {"JOB_NAME": "metadata.labels['batch.kubernetes.io/job-name']"}
    env = [core.EnvVarArgs(name=key, value=value) for key, value in clear.items()]
    for key, place in own.items():
        field = core.EnvVarSourceArgs(field_ref=core.ObjectFieldSelectorArgs(field_path=place))
        env.append(core.EnvVarArgs(name=key, value_from=field))
    return env


def _volumes(source: ModelSource, target: VolumeClaim, code: str) -> Sequence[core.VolumeArgs]:
    def claim(name: str, used: VolumeClaim, *, read_only: bool = False) -> core.VolumeArgs:
        chosen = core.PersistentVolumeClaimVolumeSourceArgs(claim_name=used.name, read_only=read_only or None)
        return core.VolumeArgs(name=name, persistent_volume_claim=chosen)

    volumes = [
        core.VolumeArgs(name="tools", empty_dir=core.EmptyDirVolumeSourceArgs(size_limit="256Mi")),
        core.VolumeArgs(name="program", config_map=core.ConfigMapVolumeSourceArgs(name=code)),
        core.VolumeArgs(name="scratch", empty_dir=core.EmptyDirVolumeSourceArgs(size_limit="256Mi")),
        claim("target", target),
    ]
    if isinstance(source, VolumeClaim):
        return volumes if _source_volume(source, target) == "target" else [*volumes, claim("source", source, read_only=True)]
    return volumes if source.ca is None else [*volumes, ca_volume(source.ca)]


def _source_volume(source: VolumeClaim, target: VolumeClaim) -> str:
    """The volume of the source. With two volumes of one claim the kubelet waits forever (kubernetes/kubernetes issues 51853 and 82526)."""
    return "target" if source.name == target.name else "source"


def _tolerations(nodes: NodeTarget) -> list[core.TolerationArgs]:
    return [core.TolerationArgs(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect) for taint in nodes.taints]


def _one_a_node(labels: Mapping[str, str]) -> core.AffinityArgs:
    """Each node holds one of the Job's pods at a time, so that as many pods as nodes fill them all."""
    term = core.PodAffinityTermArgs(topology_key=HOSTNAME_LABEL, label_selector=meta.LabelSelectorArgs(match_labels=dict(labels)))
    return core.AffinityArgs(pod_anti_affinity=core.PodAntiAffinityArgs(required_during_scheduling_ignored_during_execution=[term]))


def _away_from_pools() -> core.AffinityArgs:
    # Preferred only: a cluster may consist of accelerator nodes alone, and their taints keep this pod off where they must.
    plain = core.NodeSelectorRequirementArgs(key=POOL_LABEL, operator="DoesNotExist")
    term = core.PreferredSchedulingTermArgs(weight=100, preference=core.NodeSelectorTermArgs(match_expressions=[plain]))
    return core.AffinityArgs(node_affinity=core.NodeAffinityArgs(preferred_during_scheduling_ignored_during_execution=[term]))
