"""Why the API server rejects a manifest, and which of its fields is to blame."""

import re
from collections.abc import Iterator, Mapping

from inferplan.audit.blame import blamed_field
from inferplan.audit.findings import finding
from inferplan.audit.manifest import Manifest, Object
from inferplan.audit.merge import differences, indexed, patch
from inferplan.audit.session import Session
from inferplan.audit.templates import body_of, select
from inferplan.errors import ClusterError, ObjectFailed
from inferplan.kube.api import ApiError
from inferplan.kube.paths import MISSING, parse, text_of, value_at
from inferplan.rehearsal.wait.object_events import Key
from inferplan.rehearsal.wait.reasons import is_immutable
from inferplan.review.findings import Finding

_FIELD = re.compile(
    r"\b((?:spec|metadata|data|rules|webhooks|status)(?:[.\[][\w.\[\]\"=/-]*)?)(?![\w-])"
)
_UNKNOWN = re.compile(r'unknown field "([^"]+)"')
_TYPE = re.compile(r"Go struct field \w+\.([\w.]+) of type (?:\w+\.)?(\w+)")
# The API server quotes a whole pod template, in two notations.
_VALUE = re.compile(r" Invalid value: \{.*\}:|, got &value\.\w+\{.*\}")
_MUTABLE = {
    "StatefulSet": re.compile(
        r"spec\.(replicas|ordinals|template|updateStrategy|revisionHistoryLimit|persistentVolumeClaimRetention|minReady)"
    ),
    "PersistentVolumeClaim": re.compile(r"spec\.(resources|volumeAttributesClassName)"),
    "Pod": re.compile(
        r"spec\.(activeDeadlineSeconds|terminationGracePeriodSeconds|tolerations|(initC|c)ontainers\[[0-9]+\]\.image)"
    ),
}
"""Fields below `spec` that can change, of kinds whose rejection names the whole of it."""


def rejections(
    session: Session,
    manifest: Manifest,
    error: ApiError | ObjectFailed | ClusterError,
    declared: Mapping[Key, Manifest],
) -> list[Finding]:
    """The findings on the rejection of `manifest`, one for each field that is to blame; `declared`
    are the declarations before.
    """
    key = session.key(manifest)
    if isinstance(error, ApiError):
        causes = sorted(set(_causes(session, manifest, error, declared.get(key))))
    else:
        code, text = _missing(session, manifest, error.message)
        causes = [(code, "apiVersion" if code == "unserved" else "kind", text)]
    return [
        finding(code, key, place, _VALUE.sub("", " ".join(words.split()))[:600], manifest)
        for code, place, words in causes
    ]


def _causes(
    session: Session, manifest: Manifest, error: ApiError, before: Manifest | None
) -> Iterator[tuple[str, str, str]]:
    """Code, field and words of each reason of `error`."""
    # Server-side apply stops at any one of several unknown fields.
    words = (
        _unknown_fields(session, manifest)
        if "field not declared in schema" in error.message
        else ""
    ) or error.message
    causes = [
        (str(each["field"]), str(each.get("message", "")))
        for each in error.details.get("causes") or ()
        if each.get("field") not in (None, "", "<nil>")  # no field, but a remark
    ]
    # The words before an unknown field or a wrong type repeat the whole object.
    if unknown := _UNKNOWN.findall(words):
        yield from (
            ("rejected", field, f'strict decoding error: unknown field "{field}"')
            for field in unknown
        )
    elif wrong := _TYPE.search(words):
        values = select(manifest.body, f"{wrong[1]}.*")
        place = next(
            (
                text_of(path)
                for path, value in values
                if isinstance(value, str) != (wrong[2] == "string")
            ),
            wrong[1],
        )
        yield "rejected", place, f"{place}: cannot be read as {wrong[2]}"
    elif is_immutable(error):
        live = session.get(session.key(manifest), manifest.api_version)
        for field, said in causes or [(_named(words), words)]:
            places = _changed(manifest, indexed(field, manifest.body), before, live)
            yield from (
                ("immutable", place, words if len(causes) < 2 else said) for place in places
            )
    elif len(causes) > 1:
        yield from (
            ("rejected", indexed(field, manifest.body), f"{field}: {said}")
            for field, said in causes
        )
    else:
        field = indexed(causes[0][0] if causes else _named(words), manifest.body)
        yield "rejected", field or blamed_field(words, manifest, before), words


def _unknown_fields(session: Session, manifest: Manifest) -> str:
    """The API server's words on all unknown fields of `manifest`, "" if it knows them."""
    key, query = session.key(manifest), {"dryRun": "All", "fieldValidation": "Strict"}
    try:
        session.api.request(
            "POST",
            session.resource(manifest).path(key.namespace),
            body_of(manifest, key),
            query=query,
        )
    except ApiError as error:
        return error.message if "strict decoding error" in error.message else ""
    return ""


def _named(words: str) -> str:
    match = _FIELD.search(words)
    return match[1].rstrip(".") if match else ""


def _missing(session: Session, manifest: Manifest, message: str) -> tuple[str, str]:
    kinds = session.api.kinds()
    groups = {version: version.rpartition("/")[0] for version, _ in kinds}
    served = sorted(version for version, kind in kinds if kind == manifest.kind)
    same = [each for each in served if groups[each] == manifest.group or "." not in groups[each]]
    builtin = "." not in manifest.group or manifest.group.endswith(".k8s.io")
    if not served and not (builtin and manifest.group in groups.values()):
        return "undefined", message
    instead = f"it serves {', '.join(same or served)}" if served else "the kind was removed"
    return (
        "unserved",
        (
            f"Kubernetes {session.version} does not serve {manifest.api_version} {manifest.kind};"
            f" {instead}"
        ),
    )


def _changed(
    manifest: Manifest, place: str, before: Manifest | None, live: Object | None
) -> list[str]:
    """The immutable fields that changed at or below `place`, for messages that name a whole spec."""
    if place.startswith("spec.clusterIPs") and "clusterIPs" not in manifest.spec:
        return ["spec.clusterIP"]
    sides = (manifest.body, before.body if before else {})
    if all(value_at(each, parse(place)) is MISSING for each in sides):
        place = ""  # the API server does not always spell a field as the object does
    if place not in ("", "spec"):
        return [place]
    below = [
        each
        for each in (differences(before.body, manifest.body) if before else ())
        if each.startswith(place) and not each.startswith("metadata")
    ]
    if mutable := _MUTABLE.get(manifest.kind):
        below = [each for each in below if not mutable.match(each)]
    # Values that were sent although the declaration did not change, such as null for a default of
    # the API server.
    sent = patch(live or {}, before.body if before else {}, manifest.body).get("spec") or {}
    return below or [f"spec.{name}" for name in sent][:1] or [place]
