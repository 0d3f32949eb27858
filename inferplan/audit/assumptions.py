"""Objects that manifests name and do not declare: the cluster is assumed to have them, as a note of the report says."""

import contextlib
from collections.abc import Iterable, Iterator

from inferplan.audit.manifest import Manifest, Object
from inferplan.audit.session import STUB_CLASS, Session
from inferplan.audit.templates import TABLE, select, templates
from inferplan.kube.paths import mapping
from inferplan.rehearsal.cluster.api import ApiError, UnknownKindError


def assume(
    session: Session, manifests: Iterable[Manifest], declared: Iterable[Manifest], only: tuple[str, ...] = ()
) -> list[tuple[str, Manifest]]:
    """Create what `manifests` name and `declared` lacks, of the kinds `only` if any. Returns names with the manifests that need them."""
    have = {(each.kind, each.name) for each in declared}
    made: dict[tuple[str, str, str], tuple[str, Manifest]] = {}
    bodies = [(body, each) for each in manifests for body in _needs(session, each)]
    for body, each in sorted(bodies, key=lambda item: item[0]["kind"] != "Namespace"):
        metadata = body["metadata"]
        identity = body["kind"], metadata.get("namespace", ""), metadata["name"]
        if identity in made or (body["kind"], metadata["name"]) in have or (only and body["kind"] not in only):
            continue
        with contextlib.suppress(ApiError):  # a name that it rejects: the object that needs it is never ready
            session.put(body)
        made[identity] = f"{body['kind']} {metadata['name']}", each
    return list(made.values())


def _needs(session: Session, manifest: Manifest) -> Iterator[Object]:
    try:
        namespaced = session.api.resource(manifest.api_version, manifest.kind).namespaced
    except (UnknownKindError, ApiError):
        namespaced = bool(manifest.namespace)
    namespace = (manifest.namespace or session.namespace) if namespaced else ""
    if namespace and namespace not in ("default", "kube-system", "kube-public", "kube-node-lease"):
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    for _, template in templates(manifest.body):
        spec = template.get("spec") or {}
        for row in TABLE["needs"]:
            inside = {"namespace": namespace} if row.get("namespaced") else {}
            for _, name in select(spec, row["path"]):
                if isinstance(name, str) and name and name not in row.get("builtin", ()):
                    yield {"kind": row["kind"], "metadata": {"name": name, **inside}, **row["object"]}
    for each in [manifest.body] if manifest.kind == "PersistentVolumeClaim" else manifest.spec.get("volumeClaimTemplates") or []:
        name = mapping(each, "spec").get("storageClassName")
        if isinstance(name, str) and name:
            kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
            yield {**kind, "provisioner": STUB_CLASS, "allowVolumeExpansion": True}
