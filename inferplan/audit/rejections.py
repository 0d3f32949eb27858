"""Why the API server rejects a manifest, and which of its fields is to blame."""

import re
from collections.abc import Mapping

from inferplan.audit.manifest import Manifest, Object, finding
from inferplan.audit.merge import differences, indexed, patch
from inferplan.audit.placement import changed_field
from inferplan.audit.session import Session
from inferplan.audit.templates import select
from inferplan.kube.paths import text_of
from inferplan.rehearsal.cluster.api import ApiError
from inferplan.rehearsal.engine.wait.object_events import Key
from inferplan.rehearsal.engine.wait.reasons import is_immutable
from inferplan.rehearsal.errors import ClusterError, ObjectFailed
from inferplan.review.findings import Finding

_FIELD = re.compile(r"\.?((?:spec|metadata|data|rules|webhooks|status)[\w.\[\]\"=/-]*)")
_UNKNOWN = re.compile(r'strict decoding error: unknown field "([^"]+)".*')
_TYPE = re.compile(r"Go struct field \w+\.([\w.]+) of type (?:\w+\.)?(\w+)")
_MUTABLE = re.compile(r"spec\.(replicas|ordinals|template|updateStrategy|revisionHistoryLimit|persistentVolumeClaimRetention|minReady)")


def rejection(
    session: Session, manifest: Manifest, error: ApiError | ObjectFailed | ClusterError, declared: Mapping[Key, Manifest]
) -> Finding:
    """The finding on the rejection of `manifest`, with the field that is to blame; `declared` are the declarations before."""
    key = session.key(manifest)
    if not isinstance(error, ApiError):
        code, text = _missing(session, manifest, error.message)
        return finding(code, key, "apiVersion" if code == "unserved" else "kind", text, manifest)
    code, words, before = "rejected", error.message, declared.get(key)
    # The words before an unknown field or a wrong type repeat the whole object.
    if unknown := _UNKNOWN.search(words):
        place, words = unknown[1], unknown[0]
    elif wrong := _TYPE.search(words):
        values = select(manifest.body, f"{wrong[1]}.*")
        place = next((text_of(path) for path, value in values if isinstance(value, str) != (wrong[2] == "string")), wrong[1])
        words = f"{place}: cannot be read as {wrong[2]}"
    else:
        match = _FIELD.search(words)
        causes = (str(each["field"]) for each in error.details.get("causes") or () if each.get("field"))
        place = indexed(next(causes, match[1].rstrip(".") if match else ""), manifest.body)
        if place.startswith("spec.clusterIPs") and "clusterIPs" not in manifest.spec:
            place = "spec.clusterIP"
        if is_immutable(error):
            code, place = "immutable", _changed(manifest, place, before, session.get(key, manifest.api_version))
        elif "admission webhook" in words:
            place = place or changed_field(manifest, before, words)
    return finding(code, key, place, " ".join(words.split())[:600], manifest)


def _missing(session: Session, manifest: Manifest, message: str) -> tuple[str, str]:
    kinds = session.api.kinds()
    groups = {version: version.rpartition("/")[0] for version, _ in kinds}
    served = sorted(version for version, kind in kinds if kind == manifest.kind)
    same = [each for each in served if groups[each] == manifest.group or "." not in groups[each]]
    builtin = "." not in manifest.group or manifest.group.endswith(".k8s.io")
    if not served and not (builtin and manifest.group in groups.values()):
        return "undefined", message
    instead = f"it serves {', '.join(same or served)}" if served else "the kind was removed"
    return "unserved", f"Kubernetes {session.version} does not serve {manifest.api_version} {manifest.kind}; {instead}"


def _changed(manifest: Manifest, place: str, before: Manifest | None, live: Object | None) -> str:
    """The field that changed at or below `place`, for messages that name a whole spec."""
    if place not in ("", "spec"):
        return place
    below = [each for each in (differences(before.body, manifest.body) if before else ()) if each.startswith(place)]
    if manifest.kind == "StatefulSet":
        below = [each for each in below if not _MUTABLE.match(each)]
    # What was sent without a change of the declaration, such as null for a default of the API server.
    sent = patch(live or {}, before.body if before else {}, manifest.body).get("spec") or {}
    return (below or [f"spec.{name}" for name in sent] or [place])[0]
