"""The pod of a preheat: rclone from its image, Python from another, the program from a ConfigMap,
and the access to the source.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from inferplan.components.fields import present
from inferplan.components.kubernetes import core, meta
from inferplan.components.metrics_ports import METRICS_PORT
from inferplan.components.pod_parts import (
    CA_FILE,
    ca_mount,
    ca_volume,
    container_security,
    environment,
    no_device_variables,
    no_devices,
    pod_security,
    tolerations_of,
)
from inferplan.components.preheat.request import image_of
from inferplan.components.preheat.spec import PreheatSpec
from inferplan.components.sources import (
    SOURCE_MOUNT,
    ModelSource,
    VolumeClaim,
)
from inferplan.kube.names import HOSTNAME_LABEL, POOL_LABEL

TARGET = "/target"
_REPORTER = "serve_metrics.py"
_HOME = "/opt/inferplan"
_TOOLS = "/tools"
_SCRATCH = "/tmp"  # noqa: S108 - a volume of the pod, not the node's directory
_PATH = "/usr/local/bin:/usr/bin:/bin"
# KServe's storage-initializer has its Python here; other images ignore it.
_HUB_PATH = f"/prod_venv/bin:{_PATH}"


@functools.cache
def program() -> Mapping[str, str]:
    """The payload's source files by name, for the ConfigMap."""
    folder = Path(__file__).parent / "payload"
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))}


def reporter_program() -> Mapping[str, str]:
    return {_REPORTER: (Path(__file__).parent / "sidecar" / _REPORTER).read_text(encoding="utf-8")}


def pod_spec(
    preheat: PreheatSpec,
    request: Mapping[str, Any],
    *,
    source: ModelSource,
    target: VolumeClaim,
    code: str,
    labels: Mapping[str, str],
    folder: str | None = None,
    reported: bool = False,
) -> core.PodSpecArgsDict:
    """The pod for `request`: `code` is the ConfigMap with the program, `folder` a directory of the
    target to make for servers.

    With `reported`, a sidecar serves the metrics of the run.
    """
    nodes = target.nodes
    return present(
        core.PodSpecArgsDict(
            # Each try is a new pod, so that the logs of a failed one stay readable.
            restart_policy="Never",
            service_account_name=source.identity.service_account if source.identity else None,
            automount_service_account_token=False,
            enable_service_links=False,
            # A stopped transfer only has to close its files and release the lock.
            termination_grace_period_seconds=30,
            node_selector=None if nodes is None else dict(nodes.node_selector),
            tolerations=None if nodes is None else tolerations_of(nodes.taints),
            affinity=_away_from_pools() if nodes is None else _one_per_node(labels),
            security_context=pod_security(user=preheat.run_as_user),
            init_containers=[
                *_init_containers(preheat, source, folder),
                *([_reporter(image_of(preheat, source), request["job"])] if reported else []),
            ],
            containers=[_container(preheat, request, source, target)],
            volumes=_volumes(source, target, code),
        )
    )


def _init_containers(
    preheat: PreheatSpec, source: ModelSource, folder: str | None
) -> list[core.ContainerArgsDict]:
    def container(
        name: str, image: str, command: list[str], amounts: dict[str, str], mount: tuple[str, str]
    ) -> core.ContainerArgsDict:
        return core.ContainerArgsDict(
            name=name,
            image=image,
            command=command,
            working_dir="/",
            env=no_devices(),
            resources=core.ResourceRequirementsArgsDict(requests=amounts, limits=amounts),
            security_context=container_security(non_root=True),
            termination_message_policy="FallbackToLogsOnError",
            volume_mounts=[core.VolumeMountArgsDict(name=mount[0], mount_path=mount[1])],
        )

    # rclone's image links its binary statically, so it runs in any other.
    copy = ["cp", "/usr/local/bin/rclone", f"{_TOOLS}/rclone"]
    containers = [
        container(
            "rclone",
            preheat.rclone_image,
            copy,
            {"cpu": "100m", "memory": "128Mi"},
            ("tools", _TOOLS),
        )
    ]
    if folder is not None:
        make = ["mkdir", "-p", f"{TARGET}/{folder}"]
        containers.append(
            container(
                "folder",
                image_of(preheat, source),
                make,
                {"cpu": "10m", "memory": "32Mi"},
                ("target", TARGET),
            )
        )
    return containers


def _reporter(image: str, job: str) -> core.ContainerArgsDict:
    """A sidecar that serves the metrics file of the run; Kubernetes ends it with the run."""
    amounts = {"cpu": "10m", "memory": "64Mi"}
    return core.ContainerArgsDict(
        name="metrics",
        image=image,
        restart_policy="Always",
        command=[
            "python3",
            f"{_HOME}/payload/{_REPORTER}",
            f"{TARGET}/.inferplan/metrics/{job}.prom",
            str(METRICS_PORT),
        ],
        working_dir="/",
        env=environment(
            {
                "PATH": _HUB_PATH,
                "HOME": _SCRATCH,
                "PYTHONDONTWRITEBYTECODE": "1",
                **no_device_variables(),
            }
        ),
        ports=[core.ContainerPortArgsDict(name="metrics", container_port=METRICS_PORT)],
        resources=core.ResourceRequirementsArgsDict(requests=amounts, limits=amounts),
        security_context=container_security(non_root=True),
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=[
            core.VolumeMountArgsDict(name="program", mount_path=f"{_HOME}/payload", read_only=True),
            core.VolumeMountArgsDict(name="scratch", mount_path=_SCRATCH),
            core.VolumeMountArgsDict(name="target", mount_path=TARGET, read_only=True),
        ],
    )


def _container(
    preheat: PreheatSpec, request: Mapping[str, Any], source: ModelSource, target: VolumeClaim
) -> core.ContainerArgsDict:
    amounts = {"cpu": preheat.cpu, "memory": preheat.memory}
    mounts = [
        core.VolumeMountArgsDict(name="tools", mount_path=_TOOLS, read_only=True),
        core.VolumeMountArgsDict(name="program", mount_path=f"{_HOME}/payload", read_only=True),
        core.VolumeMountArgsDict(name="scratch", mount_path=_SCRATCH),
        core.VolumeMountArgsDict(name="target", mount_path=TARGET),
    ]
    if source.claim is not None:
        mounts.append(
            core.VolumeMountArgsDict(
                name=_source_volume(source.claim, target), mount_path=SOURCE_MOUNT, read_only=True
            )
        )
    if source.ca is not None:
        mounts.append(ca_mount())
    return core.ContainerArgsDict(
        name="preheat",
        image=image_of(preheat, source),
        command=["python3", "-m", "payload"],
        working_dir=_HOME,
        env=[*_environment(request, source, indexed=target.nodes is not None), *_access(source)],
        resources=core.ResourceRequirementsArgsDict(requests=amounts, limits=amounts),
        security_context=container_security(non_root=True),
        # `kubectl describe pod` shows the last line of the log, which says why it failed.
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=mounts,
    )


def _environment(
    request: Mapping[str, Any], source: ModelSource, *, indexed: bool
) -> list[core.EnvVarArgsDict]:
    values = {
        "PREHEAT_REQUEST": json.dumps(request, sort_keys=True),
        "PATH": f"{_TOOLS}:{_HUB_PATH if source.needs_hub_client else _PATH}",
        "HOME": _SCRATCH,
        "PYTHONDONTWRITEBYTECODE": "1",
        **no_device_variables(),
    }
    fields = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    if indexed:
        # Kubernetes adds JOB_COMPLETION_INDEX; with the Job's name it identifies the pod that
        # filled a node.
        fields |= {"JOB_NAME": "metadata.labels['batch.kubernetes.io/job-name']"}
        fields |= {"NODE_NAME": "spec.nodeName"}
    env = environment(values)
    for key, path in fields.items():
        field = core.EnvVarSourceArgsDict(
            field_ref=core.ObjectFieldSelectorArgsDict(field_path=path)
        )
        env.append(core.EnvVarArgsDict(name=key, value_from=field))
    return env


def _volumes(source: ModelSource, target: VolumeClaim, code: str) -> Sequence[core.VolumeArgsDict]:
    def claim(name: str, used: VolumeClaim, *, read_only: bool = False) -> core.VolumeArgsDict:
        volume = present(
            core.PersistentVolumeClaimVolumeSourceArgsDict(
                claim_name=used.name, read_only=read_only or None
            )
        )
        return core.VolumeArgsDict(name=name, persistent_volume_claim=volume)

    volumes = [
        core.VolumeArgsDict(
            name="tools", empty_dir=core.EmptyDirVolumeSourceArgsDict(size_limit="256Mi")
        ),
        core.VolumeArgsDict(
            name="program", config_map=core.ConfigMapVolumeSourceArgsDict(name=code)
        ),
        core.VolumeArgsDict(
            name="scratch", empty_dir=core.EmptyDirVolumeSourceArgsDict(size_limit="256Mi")
        ),
        claim("target", target),
    ]
    if source.claim is not None:
        return (
            volumes
            if _source_volume(source.claim, target) == "target"
            else [*volumes, claim("source", source.claim, read_only=True)]
        )
    return volumes if source.ca is None else [*volumes, ca_volume(source.ca)]


def _source_volume(source: VolumeClaim, target: VolumeClaim) -> str:
    """The volume of the source. With two volumes of one claim the kubelet waits forever
    (kubernetes/kubernetes issues 51853 and 82526).
    """
    return "target" if source.name == target.name else "source"


def _one_per_node(labels: Mapping[str, str]) -> core.AffinityArgsDict:
    """At most one of the Job's pods per node, so that as many pods as nodes fill all of them."""
    term = core.PodAffinityTermArgsDict(
        topology_key=HOSTNAME_LABEL,
        label_selector=meta.LabelSelectorArgsDict(match_labels=dict(labels)),
    )
    return core.AffinityArgsDict(
        pod_anti_affinity=core.PodAntiAffinityArgsDict(
            required_during_scheduling_ignored_during_execution=[term]
        )
    )


def _away_from_pools() -> core.AffinityArgsDict:
    # Preferred only: a cluster may consist of accelerator nodes alone, and their taints keep this
    # pod off where they must.
    plain = core.NodeSelectorRequirementArgsDict(key=POOL_LABEL, operator="DoesNotExist")
    term = core.PreferredSchedulingTermArgsDict(
        weight=100, preference=core.NodeSelectorTermArgsDict(match_expressions=[plain])
    )
    return core.AffinityArgsDict(
        node_affinity=core.NodeAffinityArgsDict(
            preferred_during_scheduling_ignored_during_execution=[term]
        )
    )


def _access(source: ModelSource) -> list[core.EnvVarArgsDict]:
    """The variables that the tools read to reach `source`."""
    env = environment(
        {name: value for name, value in source.variables.items() if value is not None}
    )
    for name, key in source.secret_variables.items():
        if source.credentials is not None:
            reference = core.SecretKeySelectorArgsDict(name=source.credentials, key=key)
            env.append(
                core.EnvVarArgsDict(
                    name=name, value_from=core.EnvVarSourceArgsDict(secret_key_ref=reference)
                )
            )
    # The program sets each tool's variable: most tools would trust this CA alone, and no public one
    # any more.
    return env if source.ca is None else [*env, *environment({"PREHEAT_CA_BUNDLE": CA_FILE})]
