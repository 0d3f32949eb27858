"""Where a model's pods may go, in the input types of Kubernetes: the pool's taints, the user's terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pulumi_kubernetes.core import v1 as core

from components.fields import present
from components.handles import NodeTarget
from components.pod_parts import tolerations_of
from components.serving.pod_settings import Toleration
from components.serving.served_model import ServedModel


def tolerations(target: NodeTarget, further: Sequence[Toleration] = ()) -> list[core.TolerationArgsDict]:
    """One toleration for each taint of the pool, by exact value, and the `further` ones of the model."""
    return [
        *tolerations_of(target.taints),
        *(
            present(
                core.TolerationArgsDict(
                    key=each.key,
                    operator=each.operator,
                    value=each.value or None,
                    effect=each.effect,
                    toleration_seconds=each.toleration_seconds,
                )
            )
            for each in further
        ),
    ]


def pull_secrets(spec: ServedModel) -> list[core.LocalObjectReferenceArgsDict] | None:
    """The Secrets that open the registry of the model's image."""
    return [core.LocalObjectReferenceArgsDict(name=each.name) for each in spec.image_pull_secrets] or None


def volumes(spec: ServedModel) -> list[core.VolumeArgsDict]:
    """The volumes that the user adds. The prefix keeps their names apart from ours."""
    return [
        present(
            core.VolumeArgsDict(
                name=f"extra-{name}",
                persistent_volume_claim=None
                if each.persistent_volume_claim is None
                else present(
                    core.PersistentVolumeClaimVolumeSourceArgsDict(
                        claim_name=each.persistent_volume_claim.claim_name, read_only=each.read_only or None
                    )
                ),
                config_map=None if each.config_map is None else core.ConfigMapVolumeSourceArgsDict(name=each.config_map.name),
            )
        )
        for name, each in sorted(spec.volumes.items())
    ]


def mounts(spec: ServedModel) -> list[core.VolumeMountArgsDict]:
    """The mounts of the volumes that the user adds."""
    return [
        present(
            core.VolumeMountArgsDict(
                name=f"extra-{name}", mount_path=each.mount_path, sub_path=each.sub_path, read_only=each.read_only or None
            )
        )
        for name, each in sorted(spec.volumes.items())
    ]


def affinity(spec: ServedModel) -> core.AffinityArgsDict | None:
    """The user's own terms; the pool is selected by labels, taints and runtime class already."""
    # Generated input types read plain structures in the API's spelling as well, but say so in no annotation.
    return cast("core.AffinityArgsDict", dict(rendered)) if (rendered := spec.affinity.rendered()) else None
