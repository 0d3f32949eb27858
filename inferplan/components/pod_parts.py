"""Parts of pod templates that several components use: security contexts, tolerations, hidden
accelerators, spreading, private CAs.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from inferplan.components.fields import present
from inferplan.components.handles import CaBundle
from inferplan.components.kubernetes import core, meta
from inferplan.components.sources import VolumeClaim
from inferplan.hardware.accelerators import Taint, vendors
from inferplan.kube.names import HOSTNAME_LABEL, ZONE_LABEL

USER = 65532
"""The user and group of our containers."""
_VOLUME = "ca"
_FOLDER, _NAME = "/ca", "ca.crt"
CA_FILE = f"{_FOLDER}/{_NAME}"
"""Path of the certificates inside containers."""


def pod_security(*, user: int = USER, group: int | None = None) -> core.PodSecurityContextArgsDict:
    """Return the pod part of the restricted profile for `user` and the `group` of its volumes
    (default: the user's). Mounted shares keep their owner.
    """
    return core.PodSecurityContextArgsDict(
        run_as_non_root=True,
        run_as_user=user,
        run_as_group=user,
        fs_group=user if group is None else group,
        fs_group_change_policy="OnRootMismatch",
        seccomp_profile=core.SeccompProfileArgsDict(type="RuntimeDefault"),
    )


def container_security(
    *, read_only_root: bool = True, non_root: bool | None = None
) -> core.SecurityContextArgsDict:
    """Return the container part of the restricted profile. `non_root` repeats what the pod part
    says.
    """
    return present(
        core.SecurityContextArgsDict(
            allow_privilege_escalation=False,
            capabilities=core.CapabilitiesArgsDict(drop=["ALL"]),
            read_only_root_filesystem=read_only_root,
            run_as_non_root=non_root,
        )
    )


def tolerations_of(taints: Iterable[Taint]) -> list[core.TolerationArgsDict]:
    return [
        core.TolerationArgsDict(
            key=taint.key, operator="Equal", value=taint.value, effect=taint.effect
        )
        for taint in taints
    ]


def from_pod(name: str, path: str) -> core.EnvVarArgsDict:
    """Return the variable `name` with the value of the pod's field at `path`."""
    source = core.EnvVarSourceArgsDict(field_ref=core.ObjectFieldSelectorArgsDict(field_path=path))
    return core.EnvVarArgsDict(name=name, value_from=source)


def environment(values: Mapping[str, str]) -> list[core.EnvVarArgsDict]:
    return [core.EnvVarArgsDict(name=name, value=value) for name, value in values.items()]


@cache
def no_device_variables() -> Mapping[str, str]:
    # With `void` both runtimes add no device, regardless of the image's settings:
    # NVIDIA/k8s-device-plugin README v0.20.0, and container_config.go of
    # HabanaAI/habana-container-runtime (read 2026-11). Gaudi images set HABANA_VISIBLE_DEVICES=all,
    # which claims every device of the node.
    variables = (each.visible_devices for each in vendors().values())
    return dict.fromkeys(sorted(filter(None, variables)), "void")


def no_devices() -> list[core.EnvVarArgsDict]:
    return environment(no_device_variables())


def spread(
    labels: Mapping[str, str], *, match_label_keys: Sequence[str] | None = None
) -> list[core.TopologySpreadConstraintArgsDict]:
    """Return constraints that spread the pods with `labels`; with `match_label_keys`, only pods
    with the same values of these labels count.
    """
    return [
        present(
            core.TopologySpreadConstraintArgsDict(
                max_skew=1,
                topology_key=key,
                when_unsatisfiable="ScheduleAnyway",
                label_selector=meta.LabelSelectorArgsDict(match_labels=dict(labels)),
                match_label_keys=None if match_label_keys is None else list(match_label_keys),
            )
        )
        for key in (ZONE_LABEL, HOSTNAME_LABEL)
    ]


def claim_source(
    name: str, *, read_only: bool | None
) -> core.PersistentVolumeClaimVolumeSourceArgsDict:
    return present(
        core.PersistentVolumeClaimVolumeSourceArgsDict(claim_name=name, read_only=read_only or None)
    )


def claim_volume(name: str, claim: VolumeClaim, *, read_only: bool = True) -> core.VolumeArgsDict:
    """Return the volume `name` of a claim, or of the image that replaces it."""
    if claim.is_image:
        image = core.ImageVolumeSourceArgsDict(reference=claim.name, pull_policy="IfNotPresent")
        return core.VolumeArgsDict(name=name, image=image)
    source = claim_source(claim.name, read_only=read_only)
    return core.VolumeArgsDict(name=name, persistent_volume_claim=source)


def ca_volume(bundle: CaBundle) -> core.VolumeArgsDict:
    """Return a volume with only this key of the object: a Secret may also contain a private key."""
    items = [core.KeyToPathArgsDict(key=bundle.key, path=_NAME)]
    if bundle.kind == "Secret":
        return core.VolumeArgsDict(
            name=_VOLUME,
            secret=core.SecretVolumeSourceArgsDict(secret_name=bundle.name, items=items),
        )
    return core.VolumeArgsDict(
        name=_VOLUME, config_map=core.ConfigMapVolumeSourceArgsDict(name=bundle.name, items=items)
    )


def ca_mount() -> core.VolumeMountArgsDict:
    """Return a mount of the whole volume: a single file (subPath) would not be updated when the
    Secret changes.
    """
    return core.VolumeMountArgsDict(name=_VOLUME, mount_path=_FOLDER, read_only=True)


def api_token_volume() -> core.VolumeArgsDict:
    """Return the volume `token` with a token that expires, where clients of Kubernetes look for
    one.
    """
    sources: list[core.VolumeProjectionArgsDict] = [
        {"service_account_token": {"path": "token", "expiration_seconds": 3607}},
        {
            "config_map": {
                "name": "kube-root-ca.crt",
                "items": [{"key": "ca.crt", "path": "ca.crt"}],
            }
        },
        {
            "downward_api": {
                "items": [{"path": "namespace", "field_ref": {"field_path": "metadata.namespace"}}]
            }
        },
    ]
    return {"name": "token", "projected": {"sources": sources, "default_mode": 0o440}}


def api_token_mount() -> core.VolumeMountArgsDict:
    return {
        "name": "token",
        "mount_path": "/var/run/secrets/kubernetes.io/serviceaccount",
        "read_only": True,
    }
