"""Proposes versions of EKS add-ons and node images to pin in a stack file. It asks AWS with the
user's credentials and changes nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from inferplan.components.platforms.aws.cluster_spec import EksCluster
from inferplan.components.platforms.aws.credentials import Credentials
from inferplan.components.platforms.aws.pool_spec import EksPool
from inferplan.components.platforms.aws.prerequisites.account import Ask
from inferplan.errors import RequestError
from inferplan.workspace.workspace import Workspace

_ADDON = "aws:eks/addon:Addon"
# Public parameters of AWS with the release of the recommended image ("Retrieve recommended Amazon
# Linux AMI IDs" and "Retrieve recommended Bottlerocket AMI IDs", EKS user guide, read 2026-11), by
# the AMI type of a pool.
_AL2023 = "/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/{variant}/recommended/release_version"
_BOTTLEROCKET = (
    "/aws/service/bottlerocket/aws-k8s-{version}{variant}/{architecture}/latest/image_version"
)
_IMAGES = {
    "AL2023_x86_64_STANDARD": (_AL2023, "standard"),
    "AL2023_ARM_64_STANDARD": (_AL2023, "standard"),
    "AL2023_x86_64_NVIDIA": (_AL2023, "nvidia"),
    "BOTTLEROCKET_x86_64": (_BOTTLEROCKET, ""),
    "BOTTLEROCKET_ARM_64": (_BOTTLEROCKET, ""),
    "BOTTLEROCKET_x86_64_NVIDIA": (_BOTTLEROCKET, "-nvidia"),
    "BOTTLEROCKET_x86_64_FIPS": (_BOTTLEROCKET, "-fips"),
    "BOTTLEROCKET_ARM_64_FIPS": (_BOTTLEROCKET, "-fips"),
    "BOTTLEROCKET_x86_64_NVIDIA_FIPS": (_BOTTLEROCKET, "-nvidia-fips"),
}


@dataclass(frozen=True, kw_only=True)
class Version:
    """A field of the stack file that pins a version, its value (None: not pinned), and the newest
    version that AWS has.
    """

    field: str
    pinned: str | None
    newest: str

    @property
    def is_current(self) -> bool:
        return self.pinned == self.newest


def versions(workspace: Workspace) -> Iterator[Version]:
    """Yield a version for each add-on and each node group pool of the stack. Raises RequestError
    for a cluster outside EKS.
    """
    cluster = workspace.settings.cluster
    if not isinstance(cluster, EksCluster):
        raise RequestError(
            f"{workspace.typed} has a cluster of provider {cluster.provider}, and only EKS has"
            " versions to pin"
        )
    ask = Credentials(cluster.region, workspace.typed)
    kubernetes = kubernetes_version(cluster, ask)
    for each in workspace.record().of_type(_ADDON):
        name = each.inputs["addonName"]
        answer = ask("eks", "describe_addon_versions", addonName=name, kubernetesVersion=kubernetes)
        released = [
            version["addonVersion"]
            for addon in answer["addons"]
            for version in addon["addonVersions"]
        ]
        if released:
            field = f"cluster.create.addons.{name}.version"
            yield Version(
                field=field,
                pinned=each.inputs.get("addonVersion"),
                newest=max(released, key=_numbers),
            )
    for name, pool in workspace.settings.node_pools.items():
        if isinstance(pool, EksPool) and not pool.is_auto_mode and pool.ami in _IMAGES:
            parameter = image_parameter(pool, kubernetes)
            newest = ask("ssm", "get_parameter", Name=parameter)["Parameter"]["Value"]
            yield Version(
                field=f"nodePools.{name}.releaseVersion", pinned=pool.release_version, newest=newest
            )


def kubernetes_version(cluster: EksCluster, ask: Ask) -> str:
    if cluster.create is not None:
        return cluster.create.kubernetes_version
    return ask("eks", "describe_cluster", name=cluster.name)["cluster"]["version"]


def image_parameter(pool: EksPool, kubernetes: str) -> str:
    template, variant = _IMAGES[pool.ami]
    return template.format(version=kubernetes, architecture=pool.architecture, variant=variant)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"[0-9]+", version)]
