"""Containers that a kubelet does not start, whatever the node has: the fake nodes of a simulated
cluster start them all.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from inferplan.audit.deployed import Change
from inferplan.audit.findings import finding
from inferplan.audit.manifest import Manifest, Object
from inferplan.audit.templates import is_unnamed, select, templates
from inferplan.kube.paths import Path, mapping, text_of
from inferplan.kube.quantity import amount
from inferplan.rehearsal.wait.object_events import Key
from inferplan.review.findings import Finding
from inferplan.tables import table

_TABLE: Final = table("audit/kubelet.toml")
_IMAGE: Final = re.compile(_TABLE["image"], re.ASCII | re.VERBOSE)
_VARIABLE: Final = re.compile(r"(?<!\$)\$\(([^)]+)\)")
_KINDS: Final = ("initContainers", "containers")
_Problem = tuple[Path, str]


def unstartable(change: Change) -> Iterator[Finding]:
    """Pod template fields that stop a container from starting or becoming ready; those already in
    OLD are notes.
    """
    for key, manifest, before in change.each():
        had = {reason for _, reason in _problems(change, key, before)} if before else ()
        for path, reason in _problems(change, key, manifest):
            code = "old" if reason in had else "unready"
            yield finding(code, key, text_of(path), reason, manifest)


def _problems(change: Change, key: Key, manifest: Manifest) -> Iterator[_Problem]:
    for path, template in templates(manifest.body):
        pod = mapping(template, "spec")
        for inner, reason in _pod_problems(pod):
            yield (*path, "spec", *inner), reason
        modes = dict(_modes(change, key, manifest, pod))
        for kind in _KINDS:
            for index, each in select(pod, f"{kind}.*"):
                if isinstance(each, dict):
                    for inner, reason in _container_problems(pod, each, modes):
                        words = f"container {each.get('name')}: {reason}"
                        yield (*path, "spec", *index, *inner), words


def _pod_problems(pod: Object) -> Iterator[_Problem]:
    for path, name in select(pod, "securityContext.sysctls.*.name"):
        if str(name).replace("/", ".") not in _TABLE["safe_sysctls"]:
            yield (
                path,
                (
                    f"sysctl {name} is unsafe: kubelets reject it unless --allowed-unsafe-sysctls"
                    " lists it"
                ),
            )
    names = {str(name) for kind in _KINDS for _, name in select(pod, f"{kind}.*.name")}
    for pattern in _TABLE["resource_fields"]:
        for path, name in select(pod, f"{pattern}.resourceFieldRef.containerName"):
            if name not in names:
                yield path, f"the pod has no container {name!r}; it has {', '.join(sorted(names))}"


def _container_problems(
    pod: Object, container: Object, modes: Mapping[str, str]
) -> Iterator[_Problem]:
    image = container.get("image")
    if isinstance(image, str) and image and not _IMAGE.fullmatch(image):
        rule = "a repository name has only lower-case letters, digits and . _ -"
        yield ("image",), f"InvalidImageName: {image!r} is not a valid image name; {rule}"
    yield from _user_problems(pod, container)
    limit = mapping(container, "resources", "limits").get("memory")
    if (size := amount(limit)) and size < _TABLE["least_memory"]:
        words = (
            f"memory: {limit} is {size:f} bytes; a container runtime needs 6 MiB to start a"
            " container"
        )
        yield ("resources", "limits", "memory"), words
    for pattern, effect in _TABLE["ports"].items():
        for path, port in select(container, pattern):
            if is_unnamed(port, [container]):
                yield path, f"it has no port named {port!r}, so {effect}"
    yield from _volume_problems(container, modes)


def _volume_problems(container: Object, modes: Mapping[str, str]) -> Iterator[_Problem]:
    known = {name for _, name in select(container, "env.*.name")}
    for path, text in select(container, "volumeMounts.*.subPathExpr"):
        missing = [each for each in _VARIABLE.findall(str(text)) if each not in known]
        if missing and not container.get("envFrom"):
            yield path, f"it has no variable {missing[0]}"
    for field, mode in (("volumeMounts", "Block"), ("volumeDevices", "Filesystem")):
        for path, name in select(container, f"{field}.*.name"):
            if modes.get(str(name)) == mode:
                other = "volumeDevices" if mode == "Block" else "volumeMounts"
                yield path, f"volume {name} has volumeMode {mode}, so it must be listed in {other}"


def _user_problems(pod: Object, container: Object) -> Iterator[_Problem]:
    own, shared = mapping(container, "securityContext"), mapping(pod, "securityContext")
    if {**shared, **own}.get("runAsNonRoot") is True and {**shared, **own}.get("runAsUser") == 0:
        reason = "runAsNonRoot is true, but runAsUser is 0"
        yield ("securityContext", "runAsUser" if "runAsUser" in own else "runAsNonRoot"), reason


def _modes(change: Change, key: Key, manifest: Manifest, pod: Object) -> Iterator[tuple[str, Any]]:
    """The volumeMode of each volume of `pod` that is a claim, by the volume's name."""
    for each in manifest.spec.get("volumeClaimTemplates") or ():
        yield each["metadata"]["name"], mapping(each, "spec").get("volumeMode", "Filesystem")
    for _, each in select(pod, "volumes.*"):
        name = mapping(each, "persistentVolumeClaim").get("claimName")
        claim = Key("PersistentVolumeClaim", key.namespace, str(name))
        if name and (live := change.session.get(claim, "v1")):
            yield str(each.get("name")), mapping(live, "spec").get("volumeMode", "Filesystem")
