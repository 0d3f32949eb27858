"""The certificates of a private CA in a pod: one file, mounted read-only. It reads none of them, and turns no verification off."""

from __future__ import annotations

from pulumi_kubernetes.core import v1 as core

from components.handles import CaBundle, ModelSource, VolumeClaim

_VOLUME = "ca"
_FOLDER, _NAME = "/ca", "ca.crt"
CA_FILE = f"{_FOLDER}/{_NAME}"
"""Where containers find the certificates."""


def ca_of(source: ModelSource) -> CaBundle | None:
    """Who signed the certificate of `source`, where that is no public CA; a volume shows none."""
    return None if isinstance(source, VolumeClaim) else source.ca


def ca_volume(bundle: CaBundle) -> core.VolumeArgs:
    """The volume that holds the one key, and no other of the same Secret: there a private key may lie beside it."""
    items = [core.KeyToPathArgs(key=bundle.key, path=_NAME)]
    if bundle.kind == "Secret":
        return core.VolumeArgs(name=_VOLUME, secret=core.SecretVolumeSourceArgs(secret_name=bundle.name, items=items))
    return core.VolumeArgs(name=_VOLUME, config_map=core.ConfigMapVolumeSourceArgs(name=bundle.name, items=items))


def ca_mount() -> core.VolumeMountArgs:
    """Mounts that volume whole: a single file would not follow a change of the Secret."""
    return core.VolumeMountArgs(name=_VOLUME, mount_path=_FOLDER, read_only=True)
