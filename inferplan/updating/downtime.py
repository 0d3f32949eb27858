"""The downtimes that an update causes, scalers that it cannot replace in one step, and how to avoid
both. It changes nothing.

Pulumi updates in the order of dependencies, the gateway before the models, and deletes at the end
(docs/decisions/updates.md says why). Three changes cause a downtime if they are made in one step: a
new name, a server key that the running servers do not accept, and a new Service name. A fourth one
is the stack's choice: a single replica that stops before its successor starts.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from inferplan.errors import OperationError
from inferplan.kube.names import COMPONENT_LABEL, INSTANCE_LABEL, SERVER_KEY
from inferplan.kube.objects import annotation, label
from inferplan.pulumi_engine.recording import Recording
from inferplan.pulumi_engine.values import reveal, with_unknown_from
from inferplan.updating.drift.compare import declared_differences
from inferplan.workspace.live import LiveCluster

Manifest = Mapping[str, Any]
_LEAST: Final = "least replicas"
_WORKLOADS: Final = (
    ("apps/v1", "Deployment"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
    ("ray.io/v1", "RayService"),
)


def declared_servers(resources: Iterable[Any]) -> dict[str, Manifest]:
    """The workload of each model among registrations or states, by the model's name."""
    return _by_model(
        _without_scaled(each.inputs, getattr(each, "options", each).ignore_changes)
        for each in resources
    )


def _without_scaled(manifest: Manifest, ignored: Iterable[str]) -> Manifest:
    """`manifest` without the number of replicas if a scaler owns it; an update leaves it as it is,
    and `_LEAST` is what may run.
    """
    if "spec.replicas" not in ignored:
        return manifest
    spec = {key: value for key, value in manifest["spec"].items() if key != "replicas"}
    return {**manifest, "spec": spec, _LEAST: manifest["spec"]["replicas"]}


def live_servers(live: LiveCluster, namespace: str) -> dict[str, Manifest]:
    return _by_model(
        {"kind": kind, **manifest}
        for version, kind in _WORKLOADS
        for manifest in live.objects(version, kind, namespace).values()
    )


def cordoned(live: LiveCluster) -> Iterator[str]:
    """A sentence about the nodes on which no new pod starts."""
    try:
        nodes = live.objects("v1", "Node").values()
    except OperationError:
        return
    names = sorted(
        each["metadata"]["name"] for each in nodes if (each.get("spec") or {}).get("unschedulable")
    )
    if names:
        yield (
            f"no new pod starts on cordoned nodes: {', '.join(names)}. To allow it: kubectl"
            f" uncordon {' '.join(names)}"
        )


def with_live_secrets(
    before: Mapping[str, Manifest], after: Mapping[str, Manifest]
) -> dict[str, Manifest]:
    """The servers of `after` with the secrets of those of `before`, for a program whose secrets are
    placeholders.
    """
    return {
        name: with_unknown_from(before.get(name, {}), each, secrets=True)
        for name, each in after.items()
    }


def downtimes(before: Mapping[str, Manifest], after: Mapping[str, Manifest]) -> Iterator[str]:
    gone, new = sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
    for old, name in (
        (old, name) for old in gone for name in new if _files(before[old]) & _files(after[name])
    ):
        yield (
            f"{old} becomes {name}: the gateway drops /{old} at once, and /{name} answers when its"
            f" servers are ready. To avoid the gap, update twice: first with {old} and {name}, then"
            f" without {old}."
        )
    both = sorted(before.keys() & after.keys())
    # The gateway sends the first key of the new servers; old servers accept the keys in their
    # annotation.
    rekeyed = [
        each
        for each in both
        if (marks := (_marks(before[each]), _marks(after[each])))
        and all(marks)
        and marks[1][0] not in marks[0]
    ]
    if rekeyed:
        yield (
            f"{', '.join(rekeyed)} {'gets' if len(rekeyed) == 1 else 'get'} a new server key: from"
            " the change of the gateway until a new server is ready, servers that still expect the"
            " old key answer 401. vLLM servers have no such gap if previousApiKeySeed is set for"
            " one update (inferplan docs keys); other engines take one key, so update when no"
            " requests are expected."
        )
    if alone := without_ready_server(before, after):
        yield (
            f"{', '.join(alone)} {'has' if len(alone) == 1 else 'have'} no ready server during the"
            " rollout: the last replica stops before its successor starts (rollout: inPlace). To"
            " avoid the gap, set rollout: surge, which needs free accelerators, or add a replica."
        )
    for each in both:
        kinds = before[each]["kind"], after[each]["kind"]
        if kinds[0] != kinds[1] and "RayService" in kinds:
            yield (
                f"{each} moves {'to' if kinds[1] == 'RayService' else 'from'} Ray Serve, whose"
                f" Service has another name: /{each} answers again when the new servers are ready."
                " To avoid the gap, serve it under a second name first."
            )


def without_ready_server(
    before: Mapping[str, Manifest], after: Mapping[str, Manifest]
) -> list[str]:
    """The models whose pods change and whose rollout may stop every running replica, sorted."""
    return [
        each for each in sorted(before.keys() & after.keys()) if _stops(before[each], after[each])
    ]


def _by_model(manifests: Iterable[Manifest]) -> dict[str, Manifest]:
    kinds = {kind for _, kind in _WORKLOADS}
    workloads = {}
    for each in manifests:
        if each.get("kind") in kinds and label(each, COMPONENT_LABEL) == "model":
            workloads[label(each, INSTANCE_LABEL)] = each
    return workloads


def _stops(before: Manifest, after: Manifest) -> bool:
    """True if the pods change and the rollout of `after` may stop all of them at once. A RayService
    starts a second cluster first.
    """
    spec = after["spec"]
    rolling = (spec.get("strategy") or {}).get("rollingUpdate") or (
        spec.get("rolloutStrategy") or {}
    ).get("rollingUpdateConfiguration")
    same_object = (
        all(before["metadata"][key] == after["metadata"][key] for key in ("namespace", "name"))
        and before["kind"] == after["kind"]
    )
    running = before["spec"].get("replicas", before.get(_LEAST, 1))
    if not rolling or not same_object or not running:
        return False
    return 0 < spec.get("replicas", running) <= rolling["maxUnavailable"] and pods_change(
        before, after
    )


def pods_change(before: Manifest, after: Manifest) -> bool:
    """True if a field of the pods changes. The API server adds fields to live objects."""
    old, new = (
        (each["spec"].get("template"), each["spec"].get("leaderWorkerTemplate"))
        for each in (before, after)
    )
    if "uid" in before["metadata"]:
        wanted = reveal(with_unknown_from(list(old), list(new)))
        return any(declared_differences(before["kind"], list(old), wanted))
    return new != old


def _templates(manifest: Manifest) -> Iterator[Mapping[str, Any]]:
    spec = manifest["spec"]
    groups = spec.get("leaderWorkerTemplate") or {}
    workers = (spec.get("rayClusterConfig") or {}).get("workerGroupSpecs") or ()
    yield from (
        each
        for each in (
            spec.get("template"),
            groups.get("leaderTemplate"),
            *(each.get("template") for each in workers),
        )
        if each
    )


def _files(manifest: Manifest) -> set[str]:
    files = set()
    for template in _templates(manifest):
        for container in template["spec"]["containers"]:
            files |= {
                str(each["subPath"])
                for each in container.get("volumeMounts") or ()
                if each["name"] == "model" and each.get("subPath")
            }
            files |= {each for each in container.get("args") or () if str(each).startswith("s3://")}
    return files


def _marks(manifest: Manifest) -> list[str]:
    """Hashes of the keys that the servers accept; the gateway sends the first one."""
    marks = (annotation(each, SERVER_KEY) for each in _templates(manifest))
    return next((mark.split(",") for mark in marks if mark), [])


_SCALERS: Final = {"HorizontalPodAutoscaler": "autoscaling/v2", "ScaledObject": "keda.sh/v1alpha1"}
"""The API versions of scalers by kind."""


def declared_scalers(resources: Iterable[Any]) -> dict[str, str]:
    """The kind of scaler of each workload among registrations or states, by the workload's kind and
    name.
    """
    return dict(
        _by_target(
            (each.inputs["kind"], each.inputs)
            for each in resources
            if each.inputs.get("kind") in _SCALERS
        )
    )


def live_scaler_changes(live: LiveCluster, namespace: str, recording: Recording) -> list[str]:
    """`scaler_changes` between a cluster, without KEDA's own HorizontalPodAutoscalers, and
    `recording`; none if scalers may not be read.
    """
    after = declared_scalers(recording)
    if not after:
        return []
    try:
        everything = [
            (kind, each)
            for kind, version in _SCALERS.items()
            for each in live.objects(version, kind, namespace).values()
        ]
    except OperationError:
        return []
    before = _by_target(
        (kind, each) for kind, each in everything if not each["metadata"].get("ownerReferences")
    )
    return list(scaler_changes(dict(before), after))


def scaler_changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for target in sorted(before.keys() & after.keys()):
        if before[target] != after[target]:
            yield (
                f"{target}: a {after[target]} replaces its {before[target]} in one update, and both"
                " exist until it ends. KEDA rejects a ScaledObject for a workload that a"
                " HorizontalPodAutoscaler scales. To avoid this, update twice: first with a number"
                " in replicas, then with the new signals."
            )


def _by_target(scalers: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[str, str]]:
    for kind, manifest in scalers:
        target = manifest["spec"]["scaleTargetRef"]
        yield f"{target.get('kind', 'Deployment')} {target['name']}", kind
