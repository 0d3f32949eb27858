"""Mounts the certificates of a private CA into a pod as one read-only file. It never disables verification."""

from __future__ import annotations

from pulumi_kubernetes.core import v1 as core

from components.handles import CaBundle, ModelSource, VolumeClaim

_VOLUME = "ca"
_FOLDER, _NAME = "/ca", "ca.crt"
CA_FILE = f"{_FOLDER}/{_NAME}"
"""Path of the certificates inside containers."""


def ca_of(source: ModelSource) -> CaBundle | None:
    """Return the private CA of `source`; None for a public CA or a volume."""
    return None if isinstance(source, VolumeClaim) else source.ca


def ca_volume(bundle: CaBundle) -> core.VolumeArgs:
    """Return a volume with only this key of the object: a Secret may also contain a private key."""
    items = [core.KeyToPathArgs(key=bundle.key, path=_NAME)]
    if bundle.kind == "Secret":
        return core.VolumeArgs(name=_VOLUME, secret=core.SecretVolumeSourceArgs(secret_name=bundle.name, items=items))
    return core.VolumeArgs(name=_VOLUME, config_map=core.ConfigMapVolumeSourceArgs(name=bundle.name, items=items))


def ca_mount() -> core.VolumeMountArgs:
    """Return a mount of the whole volume: a single file (subPath) would not be updated when the Secret changes."""
    return core.VolumeMountArgs(name=_VOLUME, mount_path=_FOLDER, read_only=True)
