"""Decisions of the Kubernetes provider: names of objects, and which changes replace an object instead of updating it.

Sources: pulumi-kubernetes, provider/pkg/metadata/naming.go (2026-11) and provider/pkg/provider/diff.go (commit 94977969,
2026-07-01). The table is not the API server's list of immutable fields: the provider replaces some objects that the server
would update. Where the server rejects an update, `apply` replaces the object too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from kube.paths import Path, covers, parse, values_at
from rehearsal.engine.wire.masking import mask, to_json

AUTONAMED = "pulumi.com/autonamed"


def is_object(type_: str, inputs: Mapping[str, Any]) -> bool:
    """True if a registration of `type_` is one object of the Kubernetes API."""
    return type_.startswith("kubernetes:") and isinstance(inputs.get("kind"), str) and isinstance(inputs.get("apiVersion"), str)


def is_patch(type_: str) -> bool:
    """True if `type_` is a Patch resource, which owns some fields of an object that others created."""
    return type_.startswith("kubernetes:") and type_.endswith("Patch")


def is_autonamed(inputs: Mapping[str, Any]) -> bool:
    """True if the name was generated because the program set none."""
    metadata = inputs.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(annotations, dict) and annotations.get(AUTONAMED) == "true"


def renamed(inputs: Mapping[str, Any], name: str) -> dict[str, Any]:
    """`inputs` with `name` as the name of the object."""
    return {**inputs, "metadata": {**inputs["metadata"], "name": name}}


def with_name(type_: str, name: str, urn: str, inputs: dict[str, Any], *, provider: Mapping[str, Any]) -> dict[str, Any]:
    """`inputs` with `metadata.name` filled in where the program gave none, marked as the provider marks it.

    `provider` is the inputs of the explicit provider resource, {} for the default one.
    """
    if not is_object(type_, inputs) or is_patch(type_):
        return inputs
    metadata = inputs.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict) or metadata.get("name") or metadata.get("generateName"):
        return inputs
    patterns = replacing_patterns(inputs, provider=provider, patch=False)
    # Secrets leave no trace: without digests all of them look alike.
    content = to_json(mask([values_at(inputs, pattern) for pattern in patterns], urn=urn), digests=False)
    digits = hashlib.sha256(f"{urn}\0{json.dumps(content, sort_keys=True)}".encode()).hexdigest()[:8]
    annotations = {**(metadata.get("annotations") or {}), AUTONAMED: "true"}
    return {**inputs, "metadata": {**metadata, "annotations": annotations, "name": f"{name}-{digits}"}}


_IDENTITY: Final = ("metadata.name", "metadata.namespace")
_POD_SPEC: Final = (
    "affinity automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks hostAliases hostIPC hostNetwork hostPID hostname "
    "imagePullSecrets nodeName nodeSelector overhead preemptionPolicy priority priorityClassName readinessGates restartPolicy "
    "runtimeClassName schedulerName securityContext serviceAccount serviceAccountName shareProcessNamespace subdomain "
    "terminationGracePeriodSeconds volumes"
)
_CONTAINER: Final = (
    "args command env image imagePullPolicy lifecycle livenessProbe ports readinessProbe resources securityContext stdin stdinOnce "
    "terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts workingDir"
)
_VOLUME_SOURCES: Final = (
    "awsElasticBlockStore azureDisk azureFile cephfs cinder csi fc flexVolume flocker gcePersistentDisk glusterfs hostPath iscsi local "
    "nfs photonPersistentDisk portworxVolume quobyte rbd scaleIO storageos vsphereVolume"
)


def _spec(names: str) -> tuple[str, ...]:
    return tuple(f"spec.{name}" for name in names.split())


_TABLE: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("apps/v1", "DaemonSet"): _spec("selector"),
    ("apps/v1", "Deployment"): _spec("selector"),
    ("apps/v1", "StatefulSet"): _spec("podManagementPolicy revisionHistoryLimit selector serviceName volumeClaimTemplates"),
    ("batch/v1", "Job"): _spec("completions parallelism selector template"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): ("roleRef",),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): ("roleRef",),
    ("storage.k8s.io/v1", "StorageClass"): ("parameters", "provisioner"),
    ("v1", "PersistentVolume"): _spec(_VOLUME_SOURCES),
    ("v1", "PersistentVolumeClaim"): _spec("accessModes selector storageClassName volumeName"),
    ("v1", "Pod"): _spec(_POD_SPEC)
    + tuple(f"spec.{group}[*].{name}" for group in ("containers", "initContainers") for name in _CONTAINER.split()),
    ("v1", "ResourceQuota"): _spec("scopes"),
    ("v1", "Secret"): ("type",),
    ("v1", "Service"): _spec("clusterIP"),
}


def replacing_patterns(inputs: Mapping[str, Any], *, provider: Mapping[str, Any], patch: bool) -> tuple[Path, ...]:
    """Patterns of the paths whose change replaces the object with `inputs`.

    `provider` is the inputs of its provider resource ({} for the default provider); `patch` is true for Patch resources.
    """
    if patch:
        return tuple(parse(text) for text in _IDENTITY)
    kind = (str(inputs.get("apiVersion", "")), str(inputs.get("kind", "")))
    table = _TABLE.get(kind, ())
    immutable = inputs.get("immutable") is True
    if kind == ("v1", "Secret") and (immutable or not _is_on(provider.get("enableSecretMutable"))):
        table = ("type", "stringData", "data")
    elif kind == ("v1", "ConfigMap") and (immutable or not _is_on(provider.get("enableConfigMapMutable"))):
        table = ("binaryData", "data")
    return tuple(parse(text) for text in _IDENTITY + table)


def _is_on(flag: Any) -> bool:
    return flag is True or flag == "true"


def replaces(patterns: tuple[Path, ...], path: Path, value: Any) -> bool:
    """True if a change at `path` affects one of `patterns`; `value` is the new value, or the removed one."""
    return any(covers(pattern, path) or (covers(path, pattern) and _holds(value, pattern[len(path) :])) for pattern in patterns)


def _holds(value: Any, rest: Path) -> bool:
    if not rest:
        return True
    if rest[0] == "*":
        return isinstance(value, list) and any(_holds(item, rest[1:]) for item in value)
    return isinstance(value, dict) and rest[0] in value and _holds(value[rest[0]], rest[1:])
