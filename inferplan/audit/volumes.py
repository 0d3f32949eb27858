"""Claims whose volume one node at a time can attach, and that pods on two nodes use."""

from collections.abc import Iterator
from typing import Final

from inferplan.audit.deployed import Change
from inferplan.audit.findings import finding
from inferplan.audit.manifest import Manifest, Object
from inferplan.audit.templates import TABLE, select, templates
from inferplan.kube.objects import label
from inferplan.kube.paths import mapping, text_of
from inferplan.rehearsal.wait.object_events import Key
from inferplan.review.findings import Finding

_CLAIMS: Final = "spec.volumes.*.persistentVolumeClaim.claimName"
_COUNTS: Final = ("replicas", "parallelism", "completions")
_ONE_NODE: Final = {"ReadWriteOnce", "ReadWriteOncePod"}
_REMEDIES: Final = {
    "several": "use ReadWriteMany, one replica, or a volume for each pod (volumeClaimTemplates)",
    "successor": "stop the old pod first (strategy: Recreate), or use ReadWriteMany",
    "shared": "use ReadWriteMany, a claim for each workload, or keep them on one node with a podAffinity",
}


def attached_volumes(change: Change) -> Iterator[Finding]:
    """Workloads whose pods hold a claim of one node on two nodes at once: the second pod waits for
    the volume, forever unless the first one ends.
    """
    session = change.session
    present = {each["metadata"]["uid"] for each in session.watching.known("Pod")}
    for claim, pairs in session.history.attached.items():
        # Two pods of one revision stay on two nodes, whatever the old pods do.
        lasting = (
            (one, other)
            for one, other in pairs
            if _revision(one) == _revision(other)
            and {one["metadata"]["uid"], other["metadata"]["uid"]} <= present
        )
        later, earlier = next(lasting, pairs[0])
        live = session.watching.get(claim)
        modes, classes = mapping(live, "spec").get("accessModes") or (), TABLE["of_one_node"]
        if not {*modes} <= _ONE_NODE or mapping(live, "spec").get("storageClassName") in classes:
            continue
        users = {
            key: (manifest, text_of((*path, *inner)))
            for key, manifest, _ in change.each()
            if key.namespace == claim.namespace
            for path, template in templates(manifest.body)
            for inner, name in select(template, _CLAIMS)
            if name == claim.name
        }
        owners = [_owner(users, pod) for pod in (later, earlier)]
        key = owners[0] or owners[1]
        if key is None:
            continue
        manifest, field = users[key]
        kind = "shared"
        if owners[0] == owners[1]:
            revisions = {_revision(later), _revision(earlier)}
            kind = "several" if len(revisions) == 1 else "successor"
            counts = (f"spec.{each}" for each in _COUNTS if each in manifest.spec)
            if kind == "successor" and key.kind == "Deployment":
                field = "spec.strategy"
            elif kind == "several":
                field = next(counts, field)
        elif owners[1] is not None and change.same(key) and not change.same(owners[1]):
            key = owners[1]
            manifest, field = users[key]
        if (
            kind != "successor"
            and not {later["metadata"]["uid"], earlier["metadata"]["uid"]} <= present
        ):
            continue  # a Deployment scales its old pods before it replaces them
        known = kind != "successor" and claim in change.old.attached and change.same(key, "spec")
        of = (
            "another of its pods"
            if owners[0] == owners[1]
            else f"{owners[1] or 'another workload'}"
        )
        reason = (
            f"a pod starts on another node than {of}, which holds {claim}, and one node at a time"
            f" can attach it ({', '.join(modes)})"
        )
        code = "old" if known else "no-room" if kind == "successor" else "attached"
        yield finding(code, key, field, reason, manifest, remedy=_REMEDIES[kind])


def _owner(users: dict[Key, tuple[Manifest, str]], pod: Object) -> Key | None:
    """The workload of `users` to which `pod` belongs."""
    name = pod["metadata"]["name"]
    several = [key for key in users if name == key.name or name.startswith(f"{key.name}-")]
    return max(several, key=lambda each: len(each.name), default=None)


def _revision(pod: Object) -> str:
    return label(pod, "pod-template-hash") or label(pod, "controller-revision-hash")
