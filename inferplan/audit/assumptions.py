"""Objects that manifests name and do not declare: the cluster is assumed to have them, as a note of
the report says.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping

from inferplan.audit.findings import finding
from inferplan.audit.manifest import Manifest, Object
from inferplan.audit.session import Session
from inferplan.audit.templates import TABLE, body_of, places
from inferplan.kube.api import ApiError
from inferplan.rehearsal.wait.object_events import key_of
from inferplan.review.findings import Finding

_ALWAYS = ("Namespace", "StorageClass")
"""Kinds that are made for what a change adds too."""


def assume(
    session: Session,
    first: Iterable[Manifest],
    new: Iterable[Manifest],
    existing: Iterable[Manifest],
) -> list[Finding]:
    """Create what the manifests `first` name and do not declare, with the namespaces and storage
    classes that `new` names and no manifest declares. Returns notes.
    """
    present = {(each.kind, each.name) for each in (*existing, *first)}
    later = {(each.kind, each.name): each for each in new}
    needs = [
        (each, body)
        for each in new
        for body in _needs(session, each)
        if body["kind"] in _ALWAYS and (body["kind"], body["metadata"]["name"]) not in later
    ]
    needs += ((each, body) for each in first for body in _needs(session, each))
    made = {
        key_of(body): (each, _declared(session, later, body))
        for each, body in reversed(needs)
        if (body["kind"], body["metadata"]["name"]) not in present
    }
    for key in sorted(made, key=lambda each: each.kind != "Namespace"):
        # If the API server rejects the name, the object that needs it never becomes ready.
        with contextlib.suppress(ApiError):
            session.put(made[key][1])
    others = {
        f"{key.kind} {key.name}": each for key, (each, _) in made.items() if key.kind != "Namespace"
    }
    return [
        finding("assumed", name, "", "it is not in the manifests", each)
        for name, each in others.items()
    ]


def _declared(session: Session, later: Mapping[tuple[str, str], Manifest], body: Object) -> Object:
    """The object `body`, as the new state declares it if most of its fields are immutable."""
    manifest = later.get((body["kind"], body["metadata"]["name"]))
    if manifest is None or body["kind"] == "Namespace":
        return body
    return body_of(manifest, session.key(manifest))


def _needs(session: Session, manifest: Manifest) -> Iterator[Object]:
    # An extra namespace does no harm to an object of the whole cluster.
    namespace = manifest.namespace or session.namespace
    if namespace not in ("default", "kube-system", "kube-public", "kube-node-lease"):
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    for row in TABLE["needs"]:
        inside = {"namespace": namespace} if row.get("namespaced") else {}
        for _, name in places(manifest.body, row):
            if isinstance(name, str) and name and name not in row.get("builtin", ()):
                yield {"kind": row["target"], "metadata": {"name": name, **inside}, **row["object"]}
