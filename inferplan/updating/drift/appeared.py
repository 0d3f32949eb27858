"""Objects that people created where a stack's objects are, and that its program does not declare."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from inferplan.errors import OperationError
from inferplan.kube.field_owners import Owner, entries, manager_of
from inferplan.updating.drift.finding import Finding
from inferplan.workspace.live import LiveCluster, ObjectKey

_RIGHTS: Final = "rbac.authorization.k8s.io/v1"
_KINDS: Final = (
    *(("apps/v1", kind) for kind in ("Deployment", "StatefulSet", "DaemonSet")),
    *(("v1", kind) for kind in ("Pod", "Service")),
    *(("batch/v1", kind) for kind in ("Job", "CronJob")),
    *(("networking.k8s.io/v1", kind) for kind in ("Ingress", "NetworkPolicy")),
    *((_RIGHTS, kind) for kind in ("Role", "RoleBinding", "ClusterRoleBinding")),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
)
"""Kinds that run, open or grant something. Secrets, claims and ConfigMaps of people are what stacks
refer to.
"""


def appeared(
    live: LiveCluster, namespace: str, declared: Collection[ObjectKey]
) -> Iterator[Finding]:
    """A finding for each object of a person in `namespace`, and for each ClusterRoleBinding of its
    accounts.
    """
    identities = {key.identity for key in declared}
    for api_version, kind in _KINDS:
        # An account that may not list a kind has no part in what it grants.
        with suppress(OperationError):
            place = "" if kind == "ClusterRoleBinding" else namespace
            for (_, name), each in sorted(live.objects(api_version, kind, place).items()):
                key = ObjectKey(api_version, kind, place, name)
                writers = [writer for writer, _ in entries(each) if not writer.subresource]
                by_hand = [
                    writer for writer in writers if manager_of(writer.manager) is Owner.PEOPLE
                ]
                ours = (
                    key.identity in identities
                    or each["metadata"].get("ownerReferences")
                    or len(by_hand) < len(writers)
                )
                if by_hand and not ours and (place or _grants(each, namespace)):
                    yield Finding(key=key, action="appeared", writer=by_hand[0])


def _grants(binding: Mapping[str, Any], namespace: str) -> bool:
    return any(each.get("namespace") == namespace for each in binding.get("subjects") or ())
