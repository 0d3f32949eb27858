"""Rules of the Kubernetes provider for when an object is ready, as functions of the live object.

Source: pulumi-kubernetes, provider/pkg/await, commit 94977969 (2026-07-01). The addresses of
Ingresses and of Services of type LoadBalancer are not awaited, because a simulated cluster cannot
provide them; a note says so.
"""

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from inferplan.kube.names import FAKE_NODE
from inferplan.kube.objects import annotation, condition
from inferplan.kube.paths import mapping

Object = dict[str, Any]

SKIP_AWAIT: Final = "pulumi.com/skipAwait"
WAIT_FOR: Final = "pulumi.com/waitFor"
TIMEOUT_SECONDS: Final = "pulumi.com/timeoutSeconds"
REPLACE_UNREADY: Final = "pulumi.com/replaceUnready"


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """`ready`, or `failed` permanently, or still waiting; `why` is the reason."""

    ready: bool = False
    failed: bool = False
    why: str = ""


READY: Final = Readiness(ready=True)


def unready(declared: Object, live: Object) -> str:
    """The reason to replace the Job `live` without a change: it did not succeed, and an annotation
    demands it. Else "".
    """
    replace = live["kind"] == "Job" and annotation(declared, REPLACE_UNREADY) == "true"
    return (
        f"it did not succeed, and {REPLACE_UNREADY} is set"
        if replace and not _job(live).ready
        else ""
    )


def ready_addresses(slices: list[Object]) -> int:
    return sum(
        (each.get("conditions") or {}).get("ready") is True
        for part in slices
        for each in part.get("endpoints") or ()
    )


_BY_HAND: Final = "OnDelete"
"""The strategy whose pods keep their revision until they are deleted."""


def _current(live: Object) -> bool:
    return (live.get("status") or {}).get("observedGeneration", 0) >= live["metadata"].get(
        "generation", 0
    )


def _deployment(live: Object) -> Readiness:
    if not _current(live):
        return Readiness(why="the Deployment controller has not seen it yet")
    status, wanted = live.get("status") or {}, live["spec"].get("replicas", 1)
    if live["spec"].get("paused") and status.get("availableReplicas", 0) >= wanted:
        return READY
    progressing = condition(live, "Progressing")
    rolled_out = (
        progressing.get("reason") == "NewReplicaSetAvailable"
        and progressing.get("status") == "True"
    )
    updated, available = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    all_there = updated >= wanted and available >= wanted and not status.get("unavailableReplicas")
    surplus = max(0, status.get("replicas", 0) - wanted)
    if (
        rolled_out
        and all_there
        and not surplus
        and condition(live, "Available").get("status") == "True"
    ):
        return READY
    if status.get("replicas", 0) > updated:
        old = status["replicas"] - updated
        remain = "1 old one remains" if old == 1 else f"{old} old ones remain"
        return Readiness(why=f"rolling out: {updated} of {wanted} new pods are created, {remain}")
    if surplus:
        return Readiness(why=f"{surplus} surplus pods remain, {wanted} are wanted")
    return Readiness(why=f"{available} of {wanted} pods are available")


def _stateful_set(live: Object) -> Readiness:
    status, wanted = live.get("status") or {}, live["spec"].get("replicas", 1)
    if not _current(live):
        return Readiness(why="the StatefulSet controller has not seen it yet")
    strategy = mapping(live, "spec", "updateStrategy")
    # Pods below the partition keep the old revision.
    partition = mapping(strategy, "rollingUpdate").get("partition", 0)
    updated = (
        status.get("currentRevision") == status.get("updateRevision")
        or strategy.get("type") == _BY_HAND
    )
    updated = updated or (partition > 0 and status.get("updatedReplicas", 0) >= wanted - partition)
    if status.get("readyReplicas", 0) >= wanted and updated:
        return READY
    return Readiness(why=f"{status.get('readyReplicas', 0)} of {wanted} pods are ready")


def _daemon_set(live: Object) -> Readiness:
    status = live.get("status") or {}
    wanted = status.get("desiredNumberScheduled", 0)
    if not _current(live):
        return Readiness(why="the DaemonSet controller has not seen it yet")
    updated = (
        status.get("updatedNumberScheduled", 0) >= wanted
        or mapping(live, "spec", "updateStrategy").get("type") == _BY_HAND
    )
    if status.get("numberReady", 0) >= wanted and updated:
        return READY
    return Readiness(why=f"{status.get('numberReady', 0)} of {wanted} pods are ready")


def _job(live: Object) -> Readiness:
    if condition(live, "Complete").get("status") == "True":
        return READY
    failed = condition(live, "Failed")
    if failed.get("status") == "True":
        return Readiness(
            failed=True,
            why=f"the Job failed: {failed.get('reason', '')}: {failed.get('message', '')}",
        )
    status = live.get("status") or {}
    if live["spec"].get("suspend"):
        return Readiness(why="the Job is suspended")
    return Readiness(
        why=(
            f"{status.get('succeeded', 0)} of {live['spec'].get('completions', 1)} pods have"
            " succeeded"
        )
    )


def _pod(live: Object) -> Readiness:
    phase = (live.get("status") or {}).get("phase")
    if phase == "Succeeded" or condition(live, "Ready").get("status") == "True":
        return READY
    if phase == "Failed":
        return Readiness(
            failed=True,
            why=(
                f"the pod failed: {live['status'].get('message', live['status'].get('reason', ''))}"
            ),
        )
    return Readiness(why=f"the pod is {phase or 'not scheduled yet'}")


def _phase(*wanted: str) -> Callable[[Object], Readiness]:
    def check(live: Object) -> Readiness:
        phase = (live.get("status") or {}).get("phase")
        return (
            READY
            if phase in wanted
            else Readiness(why=f"phase {phase or 'not set yet'}, wanted {' or '.join(wanted)}")
        )

    return check


def _node(live: Object) -> Readiness:
    # The provider does not wait for nodes. A fake node takes a moment, and until then counts of
    # nodes and of DaemonSet pods are too low.
    if annotation(live, FAKE_NODE) != "fake":
        return READY
    if condition(live, "Ready").get("status") != "True":
        return Readiness(why="the node is not ready yet")
    taints = [
        str(each["key"])
        for each in live["spec"].get("taints") or ()
        if str(each["key"]).startswith("node.kubernetes.io/")
    ]
    if live["spec"].get("unschedulable"):
        # Someone cordoned it on purpose; a pod that needs it says so.
        taints = [each for each in taints if each != "node.kubernetes.io/unschedulable"]
    return Readiness(why=f"the node is still tainted {', '.join(taints)}") if taints else READY


def _quota(live: Object) -> Readiness:
    same = (live.get("status") or {}).get("hard") == live["spec"].get("hard")
    return READY if same else Readiness(why="the quota is not effective yet")


def _established(live: Object) -> Readiness:
    names = condition(live, "NamesAccepted")
    if names.get("status") == "False":
        return Readiness(failed=True, why=f"the names are taken: {names.get('message', '')}")
    return (
        READY
        if condition(live, "Established").get("status") == "True"
        else Readiness(why="the kind is not served yet")
    )


_RULES: Final[dict[str, Callable[[Object], Readiness]]] = {
    "apps/v1/Deployment": _deployment,
    "apps/v1/StatefulSet": _stateful_set,
    "apps/v1/DaemonSet": _daemon_set,
    "batch/v1/Job": _job,
    "v1/Pod": _pod,
    "v1/PersistentVolume": _phase("Available", "Bound"),
    "v1/PersistentVolumeClaim": _phase("Bound"),
    "v1/Namespace": _phase("Active"),
    "v1/Node": _node,
    "v1/ResourceQuota": _quota,
    "apiextensions.k8s.io/v1/CustomResourceDefinition": _established,
}
_JSONPATH = re.compile(r"^jsonpath=\{?\.?(?P<path>[^}=]+)\}?(?:=(?P<value>.*))?$")


def rule_for(live: Object) -> Callable[[Object], Readiness] | None:
    """The rule for `live`, None if it is ready when it exists. Raises ValueError for a malformed
    `pulumi.com/waitFor`.
    """
    if annotation(live, SKIP_AWAIT) == "true":
        return None
    wait_for = annotation(live, WAIT_FOR)
    if not wait_for:
        return _RULES.get(f"{live['apiVersion']}/{live['kind']}")
    expressions = json.loads(wait_for) if wait_for.startswith("[") else [wait_for]
    checks = [_custom(str(each)) for each in expressions]

    def check(current: Object) -> Readiness:
        return next(
            (state for state in (each(current) for each in checks) if not state.ready), READY
        )

    return check


def _by_condition(live: Object, name: str, wanted: str) -> Readiness:
    current = condition(live, name)
    # The condition may be older than the last change; its generation is in the condition or in the
    # status.
    observed = current.get(
        "observedGeneration", (live.get("status") or {}).get("observedGeneration")
    )
    if current and observed is not None and observed < live["metadata"].get("generation", 0):
        return Readiness(why=f"condition {name} is older than the last change")
    same = str(current.get("status", "")).lower() == wanted.lower()
    return READY if same else Readiness(why=f"condition={name}={wanted} is not met")


def _custom(expression: str) -> Callable[[Object], Readiness]:
    if expression.startswith("condition="):
        name, _, wanted = expression.removeprefix("condition=").partition("=")
        wanted = wanted or "True"
        return lambda live: _by_condition(live, name, wanted)
    match = _JSONPATH.match(expression)
    if match is None or "[" in match["path"]:
        raise ValueError(
            f"{WAIT_FOR}: {expression!r} is not supported. Use condition=Name or"
            " jsonpath={.plain.path}=value."
        )

    def check(live: Object) -> Readiness:
        value: Any = live
        for part in match["path"].split("."):
            value = value.get(part) if isinstance(value, dict) else None
        met = value is not None and (match["value"] is None or str(value) == match["value"])
        return READY if met else Readiness(why=f"{expression} is not met")

    return check


def operator_readiness(types: Collection[str], live: Object) -> Readiness:
    """The readiness that an operator writes into the conditions `types` of the object, or of each
    parent, ancestor and listener of it.
    """
    status, generation = mapping(live, "status"), live["metadata"].get("generation", 0)
    parts = [
        status,
        *(
            part
            for name in ("parents", "ancestors", "listeners")
            for part in status.get(name) or ()
        ),
    ]
    conditions = [
        each
        | ({"message": f"listener {part['name']}: {each.get('message')}"} if "name" in part else {})
        for part in parts
        for each in part.get("conditions") or ()
        if each["type"] in types
    ]
    # A parent that the change no longer names may keep its conditions.
    current = [
        each for each in conditions if each.get("observedGeneration", generation) >= generation
    ]
    if conditions and not current:
        return Readiness(why="its operator has not judged the change yet")
    if failed := next((each for each in current if each["status"] != "True"), None):
        return Readiness(why=str(failed.get("message")))
    # A route of another controller's Gateway never gets a condition.
    return Readiness(
        ready=bool(conditions) or "Ready" not in types,
        why="its operator has not written a status yet",
    )
