"""The pod of a preheat: rclone from its own image, Python from its own, the program from a ConfigMap, and no privilege.

It fits the restricted Pod Security profile and holds no token of the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pulumi_kubernetes.core import v1 as core

from components.handles import ObjectStore, VolumeClaim
from components.naming import POOL_LABEL
from components.preheat.request import SOURCE
from components.preheat.spec import PreheatSpec

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
    preheat: PreheatSpec, request: Mapping[str, Any], *, source: ObjectStore | VolumeClaim, target: VolumeClaim, code: str
) -> core.PodSpecArgs:
    """The pod that serves `request`. `code` names the ConfigMap with the program."""
    return core.PodSpecArgs(
        # Each try is a pod of its own, so that the logs of a failed one stay readable.
        restart_policy="Never",
        automount_service_account_token=False,
        enable_service_links=False,
        # A stopped transfer only has to close its files and give the lock back.
        termination_grace_period_seconds=30,
        affinity=_away_from_pools(),
        security_context=core.PodSecurityContextArgs(
            run_as_non_root=True,
            run_as_user=preheat.run_as_user,
            run_as_group=preheat.run_as_user,
            fs_group=preheat.run_as_user,
            fs_group_change_policy="OnRootMismatch",
            seccomp_profile=core.SeccompProfileArgs(type="RuntimeDefault"),
        ),
        init_containers=[_rclone(preheat)],
        containers=[_container(preheat, request, source)],
        volumes=_volumes(source, target, code),
    )


def _rclone(preheat: PreheatSpec) -> core.ContainerArgs:
    amounts = {"cpu": "100m", "memory": "128Mi"}
    return core.ContainerArgs(
        name="rclone",
        image=preheat.rclone_image,
        # The binary of rclone's image is linked statically, so it runs in any other.
        command=["cp", "/usr/local/bin/rclone", f"{_TOOLS}/rclone"],
        resources=core.ResourceRequirementsArgs(requests=amounts, limits=amounts),
        security_context=_SECURITY,
        volume_mounts=[core.VolumeMountArgs(name="tools", mount_path=_TOOLS)],
    )


def _container(preheat: PreheatSpec, request: Mapping[str, Any], source: ObjectStore | VolumeClaim) -> core.ContainerArgs:
    amounts = {"cpu": preheat.cpu, "memory": preheat.memory}
    mounts = [
        core.VolumeMountArgs(name="tools", mount_path=_TOOLS, read_only=True),
        core.VolumeMountArgs(name="program", mount_path=f"{_HOME}/payload", read_only=True),
        core.VolumeMountArgs(name="scratch", mount_path=_SCRATCH),
        core.VolumeMountArgs(name="target", mount_path=TARGET),
    ]
    if isinstance(source, VolumeClaim):
        mounts.append(core.VolumeMountArgs(name="source", mount_path=SOURCE, read_only=True))
    return core.ContainerArgs(
        name="preheat",
        image=preheat.image,
        command=["python3", "-m", "payload"],
        working_dir=_HOME,
        env=[*_environment(request), *(_s3_environment(source) if isinstance(source, ObjectStore) else [])],
        resources=core.ResourceRequirementsArgs(requests=amounts, limits=amounts),
        security_context=_SECURITY,
        # The last line of the log says why it failed, and `kubectl describe pod` then shows it.
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=mounts,
    )


def _environment(request: Mapping[str, Any]) -> list[core.EnvVarArgs]:
    clear = {
        "PREHEAT_REQUEST": json.dumps(request, sort_keys=True),
        "PATH": f"{_TOOLS}:/usr/local/bin:/usr/bin:/bin",
        "HOME": _SCRATCH,
        "PYTHONDONTWRITEBYTECODE": "1",
        # Where NVIDIA's runtime is the node's default, a container sees every card unless it says this.
        "NVIDIA_VISIBLE_DEVICES": "void",
    }
    own = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    env = [core.EnvVarArgs(name=key, value=value) for key, value in clear.items()]
    for key, path in own.items():
        field = core.EnvVarSourceArgs(field_ref=core.ObjectFieldSelectorArgs(field_path=path))
        env.append(core.EnvVarArgs(name=key, value_from=field))
    return env


def _s3_environment(source: ObjectStore) -> list[core.EnvVarArgs]:
    clear = {
        "RCLONE_CONFIG_SOURCE_TYPE": "s3",
        "RCLONE_CONFIG_SOURCE_PROVIDER": "AWS" if source.endpoint is None else "Other",
        "RCLONE_CONFIG_SOURCE_ENV_AUTH": "true",
        "RCLONE_CONFIG_SOURCE_FORCE_PATH_STYLE": "true" if source.path_style else "false",
    }
    optional = {"RCLONE_CONFIG_SOURCE_ENDPOINT": source.endpoint, "RCLONE_CONFIG_SOURCE_REGION": source.region, "AWS_REGION": source.region}
    clear |= {key: value for key, value in optional.items() if value is not None}
    env = [core.EnvVarArgs(name=key, value=value) for key, value in clear.items()]
    if source.credentials is not None:
        env += [_from_secret(key, source.credentials) for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]
    return env


def _from_secret(key: str, secret: str) -> core.EnvVarArgs:
    return core.EnvVarArgs(name=key, value_from=core.EnvVarSourceArgs(secret_key_ref=core.SecretKeySelectorArgs(name=secret, key=key)))


def _volumes(source: ObjectStore | VolumeClaim, target: VolumeClaim, code: str) -> Sequence[core.VolumeArgs]:
    def claim(name: str, used: VolumeClaim, *, read_only: bool = False) -> core.VolumeArgs:
        chosen = core.PersistentVolumeClaimVolumeSourceArgs(claim_name=used.name, read_only=read_only or None)
        return core.VolumeArgs(name=name, persistent_volume_claim=chosen)

    volumes = [
        core.VolumeArgs(name="tools", empty_dir=core.EmptyDirVolumeSourceArgs(size_limit="256Mi")),
        core.VolumeArgs(name="program", config_map=core.ConfigMapVolumeSourceArgs(name=code)),
        core.VolumeArgs(name="scratch", empty_dir=core.EmptyDirVolumeSourceArgs(size_limit="256Mi")),
        claim("target", target),
    ]
    return [*volumes, claim("source", source, read_only=True)] if isinstance(source, VolumeClaim) else volumes


def _away_from_pools() -> core.AffinityArgs:
    # Preferred only: a cluster may consist of accelerator nodes alone, and their taints keep this pod off where they must.
    plain = core.NodeSelectorRequirementArgs(key=POOL_LABEL, operator="DoesNotExist")
    term = core.PreferredSchedulingTermArgs(weight=100, preference=core.NodeSelectorTermArgs(match_expressions=[plain]))
    return core.AffinityArgs(node_affinity=core.NodeAffinityArgs(preferred_during_scheduling_ignored_during_execution=[term]))
