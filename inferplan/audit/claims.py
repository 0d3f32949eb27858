"""The field of a claim for devices that no node meets: the claim is tried without each of its
demands, on empty copies of the nodes.
"""

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Final

from inferplan.audit.aside import empty_copies, inside, remove
from inferplan.audit.manifest import Manifest, Object
from inferplan.audit.session import Session
from inferplan.audit.templates import select, templates
from inferplan.kube.names import HOSTNAME_LABEL
from inferplan.kube.paths import Path, mapping, text_of, value_at
from inferplan.rehearsal.wait.object_events import Key
from inferplan.tables import table

_TAINT: Final = table("audit/trials.toml")["taint"]
_NAME: Final = "inferplan-claim"
_VERSION: Final = "resource.k8s.io/v1"
_NAMES: Final = {
    "ResourceClaimTemplate": "resourceClaimTemplateName",
    "ResourceClaim": "resourceClaimName",
}
_BODIES: Final = ("requests.*.exactly", "requests.*.firstAvailable.*")


def claims_of(body: Object) -> set[tuple[str, str]]:
    """The kind and the name of each claim for devices, or template of one, that pods name."""
    return {
        (kind, str(name))
        for kind, field in _NAMES.items()
        for _, pod in templates(body)
        for _, name in select(pod, f"spec.resourceClaims.*.{field}")
    }


def unmet_field(
    session: Session,
    nodes: Sequence[Object],
    pod: Object,
    claim: Manifest,
    before: Manifest | None,
    limit: float,
) -> str:
    """The field of `claim` (or of a template of claims) without which a node that the spec `pod`
    selects has its devices, of several one that `before` does not have; "" if a node has them.
    """
    path, devices = _devices(claim)
    demands = list(_without_one(devices))
    tried = _met(session, nodes, pod, [devices, *(each for _, each in demands)], limit)
    if tried[0] or not devices:
        return ""
    _, older = _devices(before) if before else ((), {})
    known = [_demand(older, each) for each, _ in _without_one(older)]
    helping = [each for (each, _), met in zip(demands, tried[1:], strict=True) if met]
    new = [each for each in helping if _demand(devices, each) not in known] if older else []
    classes = [each for body in _BODIES for each, _ in select(devices, f"{body}.deviceClassName")]
    return text_of((*path, *[*new, *helping, *classes, ()][0]))


def _devices(claim: Manifest) -> tuple[Path, Object]:
    path = ("spec",) * (claim.kind.count("Template") + 1)
    return (*path, "devices"), mapping(claim.body, *path, "devices")


def _demand(devices: Object, path: Path) -> tuple[Path, str]:
    """A demand by the names of its path and its value, wherever it is in a list."""
    names = tuple(each for each in path if isinstance(each, str))
    return names, json.dumps(value_at(devices, path), sort_keys=True, default=str)


def _without_one(devices: Object) -> Iterator[tuple[Path, Object]]:
    """`devices` without one demand each, with its path; the last ones are without all selectors of
    a request, and without the request.
    """
    bodies = [match for body in _BODIES for match in select(devices, body)]
    requests, constraints = devices.get("requests") or [], devices.get("constraints") or []
    for path, body in bodies:
        for name, least in (("count", 1), ("allocationMode", "ExactCount")):
            if body.get(name, least) != least:
                yield (*path, name), _changed(devices, path, {name: least})
        selectors = body.get("selectors") or []
        for index in range(len(selectors)):
            rest = {"selectors": selectors[:index] + selectors[index + 1 :]}
            yield (*path, "selectors", index, "cel", "expression"), _changed(devices, path, rest)
    for index, each in enumerate(constraints):
        rest = {"constraints": constraints[:index] + constraints[index + 1 :]}
        name = next((name for name in each if name != "requests"), "requests")
        yield ("constraints", index, name), {**devices, **rest}
    for path, body in bodies:
        if body.get("selectors"):
            bare = _changed(devices, path, {"selectors": [], "count": 1})
            yield (*path, "selectors", 0, "cel", "expression"), {**bare, "constraints": []}
    for path, _ in bodies if len(requests) > 1 else ():
        rest = {"requests": [each for place, each in enumerate(requests) if place != path[1]]}
        yield (*path, "deviceClassName"), rest


def _changed(devices: Object, path: Path, values: Object) -> Object:
    new = copy.deepcopy(devices)
    value_at(new, path).update(values)
    return new


def _met(
    session: Session, nodes: Sequence[Object], pod: Object, several: list[Object], limit: float
) -> list[bool]:
    """For each claim of `several`, true if an empty node meets it. Each has its own copies of nodes."""
    session.put(inside("v1", "Namespace", _NAME, "", {}))
    pods, made = [], []
    for index, devices in enumerate(several):
        name = f"{_NAME}-{index}"
        kinds = empty_copies(_kinds(nodes), name, _TAINT)
        made += [session.put(each) for each in kinds]
        made.append(
            session.put(
                inside(_VERSION, "ResourceClaim", name, _NAME, {"spec": {"devices": devices}})
            )
        )
        made.append(session.put(inside("v1", "Pod", name, _NAME, {"spec": _pod(pod, name)})))
        pods.append(("v1", Key("Pod", _NAME, name)))
    waiting = session.settle(pods, limit)
    for each in reversed(made):
        metadata = each["metadata"]
        key = Key(each["kind"], metadata.get("namespace", ""), metadata["name"])
        remove(session, each["apiVersion"], key)
    return [key not in waiting for _, key in pods]


def _pod(pod: Object, name: str) -> Object:
    """The spec of a pod that needs nothing but the claim `name`, on the copies of that name which
    `pod` selects.
    """
    container = {"name": "c", "image": "c", "resources": {"claims": [{"name": "c"}]}}
    affinity = mapping(pod, "affinity", "nodeAffinity")
    return {
        "containers": [container],
        "resourceClaims": [{"name": "c", "resourceClaimName": name}],
        "nodeSelector": {**mapping(pod, "nodeSelector"), _TAINT["key"]: name},
        "tolerations": [*(pod.get("tolerations") or ()), {**_TAINT, "operator": "Exists"}],
        "affinity": {"nodeAffinity": affinity} if affinity else {},
    }


def _kinds(nodes: Sequence[Object]) -> list[Object]:
    """One node of each group that differs in names alone, with its devices: a claim is allocated on
    one node.
    """
    slices: dict[str, list[Object]] = {}
    for each in (each for each in nodes if each["kind"] == "ResourceSlice"):
        slices.setdefault(each["spec"]["nodeName"], []).append(each)
    kinds = {}
    for node in (each for each in nodes if each["kind"] == "Node"):
        several = slices.get(node["metadata"]["name"], [])
        labels = {**mapping(node, "metadata", "labels"), HOSTNAME_LABEL: ""}
        what = [node.get("spec"), labels, *(each["spec"]["devices"] for each in several)]
        kinds.setdefault(json.dumps(what, sort_keys=True), [node, *several])
    return [each for several in kinds.values() for each in several]
