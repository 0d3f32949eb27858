"""What the end of a kind of resource means, in words: general knowledge about kinds; nothing here knows a stack or a change."""

from __future__ import annotations

import re

ROUTINE = 2
"""The weight of what ends without data, access or answers being lost: a Job that runs again, a ConfigMap under a new name."""

# (type, consequence of deleting, consequence of replacing, weight)
_KINDS: tuple[tuple[re.Pattern[str], str, str, int], ...] = tuple(
    (re.compile(pattern), gone, replaced, weight)
    for pattern, gone, replaced, weight in (
        (
            r"aws:s3.*:Bucket(V2)?$",
            "every object in the bucket is lost, or the deletion fails while it is not empty",
            "the new bucket is empty: copy the objects first",
            0,
        ),
        (r"aws:(efs|fsx).*:\w*FileSystem$", "every file on it is lost", "the new file system is empty: copy the files first", 0),
        (
            r"aws:kms.*:Key$",
            "what is encrypted with it cannot be read any more, once AWS has deleted it",
            "what the old key encrypted still needs the old key",
            0,
        ),
        (r"aws:ebs.*:Volume$", "the data on the volume is lost", "the new volume is empty", 0),
        (
            r"kubernetes:core/v1:PersistentVolumeClaim(Patch)?$",
            "the claim's data goes with it where the reclaim policy is Delete; weights have to be fetched again",
            "the new claim may bind another, empty volume; pods wait until it is bound",
            0,
        ),
        (
            r"kubernetes:core/v1:PersistentVolume$",
            "claims that are bound to it are lost",
            "claims that are bound to it are lost until they bind again",
            0,
        ),
        (
            r"kubernetes:core/v1:Namespace$",
            "everything in the namespace is deleted with it",
            "everything in the namespace is deleted and made anew",
            0,
        ),
        (r"aws:eks.*:Cluster$", "the cluster and everything on it is gone", "a new, empty cluster takes its place", 0),
        (
            r"aws:eks.*:NodeGroup$",
            "its machines go, and every pod on them with them",
            "all its machines are exchanged: every replica on them restarts, and accelerators may not be had again",
            1,
        ),
        (
            r"kubernetes:core/v1:Node$",
            "a machine goes, and every pod on it with it",
            "the machine leaves and comes back: its pods are evicted",
            1,
        ),
        (r"inferplan:nodes:NodePool$", "models that are placed on this pool find no node", "models on this pool restart", 1),
        (
            r"random:.*:Random(Password|Bytes|String)$",
            "what was derived from it stops working",
            "a new value is drawn: what was derived from it stops working",
            0,
        ),
        (
            r"kubernetes:core/v1:Secret$",
            "who uses a key or password in it is refused; pods that mount it do not start",
            "who uses a value that changes in it is refused; pods that mount it wait while it is exchanged",
            0,
        ),
        (
            r"kubernetes:(networking\.k8s\.io/v1:Ingress|gateway\.networking\.k8s\.io/v\w+:(HTTPRoute|Gateway))$",
            "its host stops answering",
            "its host does not answer while it is exchanged, and may get another address",
            0,
        ),
        (
            r"kubernetes:core/v1:Service$",
            "clients lose the address that they call",
            "it gets another cluster IP; a load balancer gets another address",
            1,
        ),
        (
            r"kubernetes:apps/v1:(Deployment|StatefulSet|DaemonSet)$",
            "its replicas stop",
            "all replicas stop before new ones start: no answers for as long as a start takes",
            1,
        ),
        (r"kubernetes:batch/v1:Job$", "the Job's pods stop", "the Job runs again", 2),
        (
            r"kubernetes:apiextensions\.k8s\.io/v1:CustomResourceDefinition$",
            "every object of this kind is deleted with it",
            "every object of this kind is deleted with it",
            0,
        ),
    )
)


def words_of(type_: str) -> tuple[str, str, int] | None:
    """Consequence of deleting and of replacing a resource of `type_`, and their weight; None for a kind without words."""
    return next(((gone, anew, weight) for pattern, gone, anew, weight in _KINDS if pattern.match(type_)), None)
