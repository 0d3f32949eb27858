"""Volumes for claims that a provisioner would serve: the simulated cluster runs none, and has none
of the user's storage classes.
"""

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from inferplan.kube.api import Api, ApiError
from inferplan.kube.names import REHEARSED_VOLUMES
from inferplan.rehearsal.cluster.volumes import make_directory

Object = dict[str, Any]
MANAGER: Final = "inferplan-stub"
_VOLUMES: Final = "/api/v1/persistentvolumes"


def provision(api: Api, claim: Object, folder: Path) -> str:
    """Create the stub volume of `claim` unless it has a volume or waits for a static one. Returns a
    note about it, "" if there is none.
    """
    if claim["kind"] != "PersistentVolumeClaim" or claim["spec"].get("volumeName"):
        return ""
    spec = claim["spec"]
    if spec.get("storageClassName") == "":
        return ""  # a claim without a class never gets a new volume
    volume = stub_volume(claim)
    make_directory(volume, folder)
    api.apply(f"{_VOLUMES}/{volume['metadata']['name']}", volume, manager=MANAGER, force=True)
    kind = spec.get("storageClassName") or "the default class"
    return f"its volume is a stub, no provisioner of {kind} runs here"


def release(api: Api, claim: Object) -> None:
    """Delete the stub volume of the deleted `claim`, if it had one."""
    with contextlib.suppress(ApiError):
        api.request("DELETE", f"{_VOLUMES}/{_name(claim)}")


def _name(claim: Object) -> str:
    return f"stub-{claim['metadata']['uid']}"


def stub_volume(claim: Object, topologies: Iterable[Object] = ()) -> Object:
    """The volume that a provisioner would make for `claim`, on the nodes of `topologies`, those that
    a storage class allows; nothing is stored in it.
    """
    metadata, spec = claim["metadata"], claim["spec"]
    name = _name(claim)
    reference = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        **{key: metadata[key] for key in ("name", "namespace", "uid")},
    }
    kept = {
        "storageClassName": spec.get("storageClassName", ""),
        "volumeMode": spec.get("volumeMode", "Filesystem"),
        "claimRef": reference,
    }
    sizes = {
        "capacity": spec["resources"]["requests"],
        "accessModes": spec["accessModes"],
        "hostPath": {"path": f"{REHEARSED_VOLUMES}/{name}"},
    }
    terms = [
        {"matchExpressions": [{**rule, "operator": "In"} for rule in rules]}
        for each in topologies
        if (rules := each.get("matchLabelExpressions"))
    ]
    nodes = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if terms else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {**kept, **sizes, **nodes},
    }
