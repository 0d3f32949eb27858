"""What an operator left in a cluster beyond what its object says: additions to its pods, and the
objects around them, as flat paths.

So the traces of an operator that ran once can be kept in `tests/fixtures/operators`, and those of
the rehearsal's stub held against them. Names of the object and what is drawn anew each time are
written as `<name>`, `<cluster>`, `<random>` and `<hash>`; what the API server itself adds to
everything is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

Object = dict[str, Any]
Trace = dict[str, Any]
Traces = dict[str, Trace]

KEPT = Path(__file__).resolve().parents[1] / "fixtures" / "operators"
LWS, RAY = "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet", "ray.io/v1/RayService"
_SERVER_S = (
    "dnsPolicy schedulerName preemptionPolicy priority serviceAccount nodeName"
    " terminationMessagePath terminationMessagePolicy imagePullPolicy successThreshold"
    " sessionAffinity internalTrafficPolicy ipFamilies ipFamilyPolicy clusterIPs"
    " podManagementPolicy revisionHistoryLimit whenDeleted whenScaled defaultMode protocol scheme"
    " type uid apiVersion"
)
_DEFAULTED = frozenset(_SERVER_S.split())
_HASHES = ("controller-revision-hash", "template-revision-hash", "group-key", "recreate-hash")
_SET_LABEL, _CLUSTER_LABEL = "leaderworkerset.sigs.k8s.io/name", "ray.io/cluster"
_WORKER_LABEL = "ray.io/worker-group-replica-index"


def kept(kind: str) -> Object:
    """The traces that the operator of `kind` (`LWS` or `RAY`) left when it ran, by object, and
    under `operator` which it was.
    """
    return json.loads((KEPT / f"{kind.rpartition('/')[2]}.json").read_text(encoding="utf-8"))


def traces(get: Callable[[str], Any], kind: str, live: Object) -> Traces:
    """The traces of the operator of `live`, or of who stands in for it: one a role of its pods, one
    an object around them.
    """
    base = f"namespaces/{live['metadata']['namespace']}"
    pods = [each for each in get(f"/api/v1/{base}/pods")["items"] if _is_of(kind, live, each)]
    # Ray's workers are one role, for which the first one speaks.
    pods.sort(key=lambda each: each["metadata"]["labels"].get(_WORKER_LABEL, ""), reverse=True)
    cluster = pods[0]["metadata"]["labels"].get(_CLUSTER_LABEL, "")
    names = {
        cluster: "<cluster>",
        live["metadata"]["name"]: "<name>",
        live["metadata"]["namespace"]: "<namespace>",
    }
    found = {_role(kind, live, each): _of_pod(each, _template(kind, live, each)) for each in pods}
    for where, what in (("/api/v1", "Service"), ("/apis/apps/v1", "StatefulSet")):
        for each in get(f"{where}/{base}/{what.lower()}s")["items"]:
            if _belongs(kind, live, each, cluster):
                found[f"{what} {each['metadata']['name']}"] = _of_object(each)
    return {
        _plain(part, names): {
            path: _plain(value, names) for path, value in sorted(found[part].items())
        }
        for part in sorted(found)
    }


def differences(ours: Traces, theirs: Traces) -> dict[str, tuple[Any, Any]]:
    """What stands at each path, the part in front of it, where the two differ, ours first; None is
    nothing.
    """
    flat = [
        {f"{part}: {path}": value for part, trace in each.items() for path, value in trace.items()}
        for each in (ours, theirs)
    ]
    paths = sorted({*flat[0], *flat[1]})
    return {
        path: (flat[0].get(path), flat[1].get(path))
        for path in paths
        if flat[0].get(path) != flat[1].get(path)
    }


def _is_of(kind: str, live: Object, pod: Object) -> bool:
    labels, name = pod["metadata"].get("labels") or {}, live["metadata"]["name"]
    return (
        labels.get(_SET_LABEL) == name
        if kind == LWS
        else labels.get(_CLUSTER_LABEL, "").rpartition("-")[0] == name
    )


def _belongs(kind: str, live: Object, each: Object, cluster: str) -> bool:
    owners = [owner["name"] for owner in each["metadata"].get("ownerReferences", [])]
    if kind == LWS:
        return (each["metadata"].get("labels") or {}).get(_SET_LABEL) == live["metadata"]["name"]
    return bool({live["metadata"]["name"], cluster} & set(owners))


def _role(kind: str, live: Object, pod: Object) -> str:
    if kind == RAY:
        return f"{pod['metadata']['labels']['ray.io/node-type']} pod"
    number = pod["metadata"]["name"].removeprefix(f"{live['metadata']['name']}-")
    return f"worker pod {number}" if "-" in number else f"leader pod {number}"


def _template(kind: str, live: Object, pod: Object) -> Object:
    leads, spec = _role(kind, live, pod).startswith(("leader", "head")), live["spec"]
    if kind == LWS:
        return spec["leaderWorkerTemplate"]["leaderTemplate" if leads else "workerTemplate"]
    config = spec["rayClusterConfig"]
    return (config["headGroupSpec"] if leads else config["workerGroupSpecs"][0])["template"]


def _of_pod(pod: Object, template: Object) -> Trace:
    """What `pod` has and its `template` has not, or otherwise; of a further container, how it
    differs from the template's first.
    """
    spec, like = template["spec"], template["spec"]["containers"][0]
    lists = {
        key: [
            next(
                (each for each in spec.get(key, []) if each["name"] == one["name"]),
                {**like, "name": one["name"]},
            )
            for one in ones
        ]
        for key in ("initContainers", "containers")
        if (ones := pod["spec"].get(key))
    }
    before = _flat(_marks_and_spec({**template, "spec": {**spec, **lists}})) | _containers(spec)
    after = _flat(_marks_and_spec(pod)) | _containers(pod["spec"])
    return {
        path: value
        for path, value in after.items()
        if before.get(path) != value and not _common(path)
    }


def _containers(spec: Object) -> Trace:
    return {
        f"spec/{key}": [each["name"] for each in spec.get(key, [])]
        for key in ("initContainers", "containers")
    }


def _of_object(live: Object) -> Trace:
    """Owner, labels, annotations and `spec` of what stands around the pods; a template in it is
    left to them.
    """
    spec = {key: value for key, value in live["spec"].items() if key != "template"}
    if spec.get("clusterIP", "None") != "None":
        spec["clusterIP"] = "<random>"
    owners = {
        "owners": [
            f"{each['kind']} {each['name']}" for each in live["metadata"].get("ownerReferences", [])
        ]
    }
    found = _flat({**_marks_and_spec({**live, "spec": spec}), **owners})
    return {path: value for path, value in found.items() if value != {} and not _common(path)}


def _marks_and_spec(live: Object) -> Object:
    metadata = live.get("metadata") or {}
    return {
        "labels": metadata.get("labels") or {},
        "annotations": metadata.get("annotations") or {},
        "spec": live["spec"],
    }


def _common(path: str) -> bool:
    return (
        path.rpartition("/")[2] in _DEFAULTED
        or "/tolerations/node.kubernetes.io" in path
        or "kube-api-access" in path
    )


def _plain(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [_plain(each, names) for each in value]
    if not isinstance(value, str):
        return value
    for name, placeholder in names.items():
        value = (
            re.sub(rf"(?<![a-z0-9-]){re.escape(name)}(?![a-z0-9])", placeholder, value)
            if name
            else value
        )
    return value


def _flat(value: Any, path: str = "") -> Trace:
    if isinstance(value, dict) and value:
        return {
            deep: each
            for key, part in value.items()
            for deep, each in _flat(_hidden(key, part), f"{path}/{key}".lstrip("/")).items()
        }
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        return {
            deep: each
            for index, part in enumerate(value)
            for deep, each in _part(part, index, path).items()
        }
    return {path: value}


def _part(part: Object, index: int, path: str) -> Trace:
    rest = dict(part)
    name = rest.pop("name", None) or rest.pop("key", None) or str(index)
    return _flat(rest or True, f"{path}/{name}")


def _hidden(key: str, value: Any) -> Any:
    if key.endswith(_HASHES):
        return "<hash>"
    # The API server spells quantities its own way, and an operator sends on what it was sent.
    return re.sub(r"^(\d+)000m$", r"\1", value) if isinstance(value, str) else value
