"""Device plugins of vendors, which need rights on the node that no other pod may have.

A plugin registers through a socket in the kubelet's folder, so it mounts that folder and writes to
it as root. Some plugins also open the devices. Rules are waived only for the vendor's image in the
shape of the vendor's manifest: with another path or image, or a second container, every rule
applies.
"""

from contextlib import suppress
from typing import NamedTuple

from inferplan.policies.engine.fields import Field, FieldError
from inferplan.policies.engine.resource import Resource
from inferplan.policies.subjects.programs import image_of
from inferplan.tables import table

_DAEMON_SET = "kubernetes:apps:DaemonSet"
_SHARES = ("hostPID", "hostIPC", "hostUsers", "shareProcessNamespace")


class _Manifest(NamedTuple):
    """The privileges in the vendor's manifest; `command` is its program, "" for the image's
    entrypoint.
    """

    inapplicable: list[str]
    paths: list[str]
    privileged: bool = False
    host_network: bool = False
    command: str = ""


def inapplicable_rules(resource: Resource) -> frozenset[str]:
    """The rules that a device plugin cannot obey; none for other resources, or if a field cannot be
    read.
    """
    if resource.kind == _DAEMON_SET:
        with suppress(FieldError):
            pod = resource.at("spec", "template", "spec")
            containers = list(pod.at("containers").each())
            if (
                len(containers) == 1
                and not pod.at("initContainers").has_items
                and not pod.at("ephemeralContainers").has_items
            ):
                row = table("policies/subjects/device_plugins.toml").get(
                    image_of(containers[0].at("image")).name
                )
                if row is not None and _has_shape(pod, containers[0], _Manifest(**row)):
                    return frozenset(row["inapplicable"])
    return frozenset()


def _has_shape(pod: Field, container: Field, manifest: _Manifest) -> bool:
    command = [each.text() for each in container.at("command").each()]
    return (
        {path.text() for path in pod.select("volumes", "*", "hostPath", "path")}
        <= {*manifest.paths}
        and bool(pod.at("hostNetwork").flag()) <= manifest.host_network
        and not any(pod.at(key).flag() for key in _SHARES)
        and bool(container.at("securityContext", "privileged").flag()) <= manifest.privileged
        and not container.at("securityContext", "capabilities", "add").has_items
        and (not command or command == [manifest.command])
        and not any(True for _ in container.at("lifecycle").entries())
    )
