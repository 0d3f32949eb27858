"""Which property changes make the Kubernetes provider replace an object instead of updating it.

The table is the provider's own (pulumi-kubernetes, provider/pkg/provider/diff.go, commit 94977969, 2026-07-01), as
facts, in this project's words. It is not the API server's list of immutable fields: the provider replaces in some
cases where the server would accept an update, and the other way round (the server's refusal is met when applying).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube.paths import Path, covers, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """The patterns of paths whose change replaces the object that `inputs` describe.

    `provider` is the inputs of its provider resource ({} for the default one); `patch` is true for Patch resources.
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
    """Whether a change at `path`, whose new (or removed) value is `value`, touches one of `patterns`."""
    return any(covers(pattern, path) or (covers(path, pattern) and _holds(value, pattern[len(path) :])) for pattern in patterns)


def _holds(value: Any, rest: Path) -> bool:
    if not rest:
        return True
    if rest[0] == "*":
        return isinstance(value, list) and any(_holds(item, rest[1:]) for item in value)
    return isinstance(value, dict) and rest[0] in value and _holds(value[rest[0]], rest[1:])
