"""Device plugins of vendors, which need rights on the node that no other pod may have.

A plugin registers through a socket in the kubelet's folder, so it mounts that folder and writes to it as root. Some plugins also open
the devices. Rules are waived only for the vendor's image in the shape of the vendor's manifest: with another path or image, or a second
container, every rule applies.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from inferplan.policies.engine.fields import Field, FieldError
from inferplan.policies.engine.resource import Resource
from inferplan.policies.subjects.programs import image_of

_DAEMON_SET = "kubernetes:apps:DaemonSet"
_SOCKETS = frozenset(["/var/lib/kubelet/device-plugins"])
_SHARES = ("hostPID", "hostIPC", "hostUsers", "shareProcessNamespace")
# Every plugin mounts the kubelet's folder and runs as root, which owns that folder.
_ALL = frozenset(["pod-disallow-host-path", "pod-require-non-root", "pod-require-read-only-root", "pod-restrict-volume-types"])
# A privileged container has every capability, and the API server rejects it with allowPrivilegeEscalation: false.
_PRIVILEGED = frozenset(
    ["pod-disallow-privileged", "pod-disallow-privilege-escalation", "pod-require-drop-all-capabilities", "pod-require-seccomp"]
)
_HOST_NETWORK = frozenset(["pod-disallow-host-namespaces"])


class _Manifest(NamedTuple):
    """The privileges in the vendor's manifest; `command` is its program, "" for the image's entrypoint."""

    inapplicable: frozenset[str]
    paths: frozenset[str] = _SOCKETS
    privileged: bool = False
    host_network: bool = False
    command: str = ""


_MANIFESTS: Mapping[str, _Manifest] = {
    # NVIDIA/k8s-device-plugin v0.20.0, deployments/static/nvidia-device-plugin.yml, read 2026-11.
    "nvcr.io/nvidia/k8s-device-plugin": _Manifest(inapplicable=_ALL, command="nvidia-device-plugin"),
    # HabanaAI/habanalabs-k8s-device-plugin, habana-k8s-device-plugin.yaml, read 2026-11.
    "vault.habana.ai/docker-k8s-device-plugin/docker-k8s-device-plugin": _Manifest(
        inapplicable=_ALL | _PRIVILEGED, privileged=True, command="habanalabs-device-plugin"
    ),
    # aws/eks-charts stable/aws-efa-k8s-device-plugin v0.5.20, read 2026-11: AWS publishes it in the registry of EKS add-ons.
    "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin": _Manifest(
        inapplicable=_ALL | _PRIVILEGED | _HOST_NETWORK | {"image-restrict-registries"},
        paths=_SOCKETS | {"/dev/infiniband"},
        privileged=True,
        host_network=True,
    ),
}


def inapplicable_rules(resource: Resource) -> frozenset[str]:
    """The rules that a device plugin cannot obey; none for other resources, or if a field cannot be read."""
    if resource.kind == _DAEMON_SET:
        with suppress(FieldError):
            pod = resource.at("spec", "template", "spec")
            containers = list(pod.at("containers").each())
            if len(containers) == 1 and not pod.at("initContainers").has_items and not pod.at("ephemeralContainers").has_items:
                manifest = _MANIFESTS.get(image_of(containers[0].at("image")).name)
                if manifest is not None and _has_shape(pod, containers[0], manifest):
                    return manifest.inapplicable
    return frozenset()


def _has_shape(pod: Field, container: Field, manifest: _Manifest) -> bool:
    command = [each.text() for each in container.at("command").each()]
    return (
        {path.text() for path in pod.select("volumes", "*", "hostPath", "path")} <= manifest.paths
        and bool(pod.at("hostNetwork").flag()) <= manifest.host_network
        and not any(pod.at(key).flag() for key in _SHARES)
        and bool(container.at("securityContext", "privileged").flag()) <= manifest.privileged
        and not container.at("securityContext", "capabilities", "add").has_items
        and (not command or command == [manifest.command])
        and not any(True for _ in container.at("lifecycle").entries())
    )
