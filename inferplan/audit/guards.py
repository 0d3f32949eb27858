"""Problems that a simulated cluster does not show by itself: missing Secrets, drains that are blocked, fields with two owners, webhooks without a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from inferplan.audit.deployed import Deployed
from inferplan.audit.manifest import Doubt, Manifest
from inferplan.audit.placement import blamed_field
from inferplan.audit.session import Session
from inferplan.audit.templates import TABLE, links, references, select, templates
from inferplan.kube.paths import text_of, value_at
from inferplan.rehearsal.cluster.api import ApiError
from inferplan.rehearsal.engine.wait.object_events import Key

Object = dict[str, Any]
_WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet")
_SCALERS = ("HorizontalPodAutoscaler", "ScaledObject")


def lost_references(session: Session, old: Deployed | None, new: Deployed) -> Iterator[Doubt]:
    """Secrets and ConfigMaps that pods need and that the cluster does not have, or that lack a key."""
    known = {(key.namespace, ref.kind, ref.name) for key, each in (old.manifests if old else {}).items() for ref in references(each.body)}
    was = {(key.namespace, key.kind, key.name) for key in (old.manifests if old else {})}
    made = {(key.namespace, name) for key, each in new.manifests.items() if (name := _made_secret(each))}
    for key, manifest in new.manifests.items():
        for each in references(manifest.body):
            identity = key.namespace, each.kind, each.name
            live = session.get(Key(each.kind, key.namespace, each.name), session.api.resource("v1", each.kind))
            if live is not None:
                missing = [name for name in each.keys if name not in {**(live.get("data") or {}), **(live.get("binaryData") or {})}]
                if missing:
                    names = ", ".join(sorted({**(live.get("data") or {}), **(live.get("binaryData") or {})})) or "none"
                    reason = f"{each.kind} {each.name} has no key {missing[0]!r}; its keys: {names}"
                    yield Doubt(code="lost", key=key, manifest=manifest, field=each.field, reason=reason)
            elif identity in was or (old is not None and identity not in known and (key.namespace, each.name) not in made):
                reason = f"{each.kind} {each.name} {'is deleted' if identity in was else 'does not exist'}, so its pods do not start"
                yield Doubt(code="lost", key=key, manifest=manifest, field=each.field, reason=reason)
            elif (key.namespace, each.name) not in made:
                yield Doubt(
                    code="assumed", key=key, manifest=manifest, field=each.field, reason=f"{each.kind} {each.name} is not in the manifests"
                )


def dangling_links(session: Session, old: Deployed | None, new: Deployed) -> Iterator[Doubt]:
    """Services, workloads and Roles that an object names and that the cluster does not have; operators that do not run here may make them."""
    was = old.manifests if old else {}
    operators = any("." in each.group and not each.group.endswith(".k8s.io") for each in new.manifests.values())
    for key, manifest in new.manifests.items():
        before = {(each.kind, each.name) for each in links(was[key].body)} if key in was else set()
        for each in links(manifest.body):
            target = Key(each.kind, each.namespace or key.namespace, each.name)
            if session.get(target, session.api.resource(each.api_version, each.kind)) is not None:
                continue
            lost = target in was or (old is not None and (each.kind, each.name) not in before and not operators)
            words = "is deleted" if target in was else "does not exist"
            yield Doubt(code="dangling" if lost else "assumed", key=key, manifest=manifest, field=each.field, reason=f"{target} {words}")


def rejected_again(session: Session, old: Deployed | None, new: Deployed) -> Iterator[Doubt]:
    """Workloads whose pods run, and that the API server would reject if a drain or a crash made them again."""
    for key, manifest in new.manifests.items():
        if key.kind not in _WORKLOADS or key in new.unready:
            continue
        for _, template in templates(manifest.body):
            metadata = {"name": "again", **{name: value for name, value in (template.get("metadata") or {}).items() if name != "namespace"}}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec")}
            try:
                path = session.api.resource("v1", "Pod").path(key.namespace)
                session.api.request("POST", path, body, query={"dryRun": "All"})
            except ApiError as error:
                # A claim template's volumes are missing here, and a quota counts the pods that run.
                if error.status == HTTPStatus.FORBIDDEN and "exceeded quota" not in error.message:
                    before = old.manifests.get(key) if old else None
                    words = f"its pods run, and cannot be created again: {error.message}"
                    yield Doubt(
                        code="unready", key=key, manifest=manifest, field=blamed_field(error.message, manifest, before), reason=words
                    )


def _made_secret(manifest: Manifest) -> str:
    """The name of the Secret that an operator makes from an object, "" for other objects."""
    for path in TABLE["makers"].get(manifest.kind, ()):
        value = value_at(manifest.body, tuple(path.split(".")))
        if isinstance(value, str):
            return value
    return ""


def blocked_drains(session: Session, old: Deployed | None, new: Deployed) -> Iterator[Doubt]:
    """Disruption budgets that allow no eviction although all of their pods are healthy."""
    for key, manifest in new.manifests.items():
        live = session.watching.get(key) if key.kind == "PodDisruptionBudget" else None
        status = (live or {}).get("status") or {}
        expected, healthy = status.get("expectedPods", 0), status.get("currentHealthy", 0)
        if not expected or healthy < expected or status.get("disruptionsAllowed", 0):
            continue
        spec = manifest.body.get("spec") or {}
        field = next((name for name in ("minAvailable", "maxUnavailable") if name in spec), "minAvailable")
        before = old.manifests.get(key) if old else None
        same = old is None or (before is not None and before.body.get("spec") == spec and not _shrunk(old, new, key.namespace))
        reason = f"it allows no eviction although all {expected} of its pods are healthy ({field}: {spec.get(field)}), so a drain of their nodes never ends"
        yield Doubt(code="old-budget" if same else "budget", key=key, manifest=manifest, field=f"spec.{field}", reason=reason)


def _shrunk(old: Deployed, new: Deployed, namespace: str) -> bool:
    def replicas(deployed: Deployed) -> dict[Key, int]:
        specs = {key: each.body.get("spec") or {} for key, each in deployed.manifests.items() if key.namespace == namespace}
        return {key: spec["replicas"] for key, spec in specs.items() if isinstance(spec.get("replicas"), int)}

    before, after = replicas(old), replicas(new)
    return any(after[key] < count for key, count in before.items() if key in after)


def double_owners(old: Deployed | None, new: Deployed) -> Iterator[Doubt]:
    """Autoscalers of a workload whose replicas are declared too, and two autoscalers of one workload."""
    before = set(_owned_twice(old)) if old else set()
    for (scaler, workload), reason in _owned_twice(new).items():
        code = "old-owners" if old is None or (scaler, workload) in before else "owners"
        yield Doubt(code=code, key=workload, manifest=new.manifests[workload], field="spec.replicas", reason=reason)


def other_managers(old: Deployed | None, new: Deployed) -> Iterator[Doubt]:
    """Fields that the deployer takes over from another manager, such as another release."""
    for code, side in (("old-owners", old), ("owners", new)):
        for key, several in side.contested.items() if side else ():
            for path, reason in several if key in new.declared else ():
                words = f"{reason}, and this deployer sets it too"
                yield Doubt(code=code, key=key, manifest=new.declared[key], field=path, reason=words)


def dropped_fields(session: Session, old: Deployed | None, new: Deployed) -> Iterator[Doubt]:
    """Fields that the API server took without a word, and did not keep."""
    for key, fields in new.dropped.items():
        for each in fields:
            known = old is not None and each in old.dropped.get(key, ())
            reason = f"Kubernetes {session.version} drops it: a feature that is off by default has this field"
            yield Doubt(code="old" if known else "dropped", key=key, manifest=new.manifests[key], field=each, reason=reason)


def double_variables(new: Deployed) -> Iterator[Doubt]:
    """Variables that a container has twice: a merge of the client accepts them, and server-side apply does not."""
    for key, manifest in new.manifests.items():
        for path, template in templates(manifest.body):
            for inner, variables in select(template.get("spec") or {}, ("containers", "*", "env")):
                names = [each.get("name") for each in variables or () if isinstance(each, Mapping)]
                if twice := next((name for name in names if names.count(name) > 1), None):
                    reason = f"{twice} is written twice: the last value counts, and server-side apply (Helm 4, Flux) rejects the object"
                    yield Doubt(code="doubled", key=key, manifest=manifest, field=text_of((*path, "spec", *inner)), reason=reason)


def _owned_twice(deployed: Deployed) -> dict[tuple[Key, Key], str]:
    pairs: dict[tuple[Key, Key], str] = {}
    scalers: dict[Key, Key] = {}
    for key, each in deployed.manifests.items():
        target = (each.body.get("spec") or {}).get("scaleTargetRef") if key.kind in _SCALERS else None
        if not isinstance(target, Mapping):
            continue
        workload = Key(str(target.get("kind") or "Deployment"), key.namespace, str(target.get("name")))
        manifest = deployed.manifests.get(workload)
        if workload in scalers and manifest is not None:
            pairs[key, workload] = f"{scalers[workload]} and {key} both set spec.replicas"
        elif manifest is not None and "replicas" in (manifest.body.get("spec") or {}):
            replicas = manifest.body["spec"]["replicas"]
            pairs[key, workload] = f"{key} sets spec.replicas, and every deployment sets it back to {replicas}"
        scalers.setdefault(workload, key)
    return pairs


def unserved_webhooks(session: Session, old: Deployed | None, new: Deployed) -> Iterator[Doubt]:
    """Webhooks with failurePolicy Fail whose Service has no ready endpoint: the API server then rejects what they watch."""
    for key, manifest in new.manifests.items():
        if not key.kind.endswith("WebhookConfiguration"):
            continue
        for index, each in enumerate(manifest.body.get("webhooks") or ()):
            service = (each.get("clientConfig") or {}).get("service") or {}
            target = Key("Service", str(service.get("namespace") or "default"), str(service.get("name")))
            if not service or each.get("failurePolicy", "Fail") != "Fail" or session.history.endpoints(target):
                continue
            known = old is not None and key in old.manifests and target not in old.manifests
            declared = "has no ready endpoint" if target in new.manifests else "is not in the manifests"
            reason = f"{target} {declared}, and failurePolicy is Fail: the API server rejects every object that the webhook watches"
            field = f"webhooks[{index}].clientConfig.service"
            yield Doubt(code="assumed" if known or old is None else "webhook", key=key, manifest=manifest, field=field, reason=reason)
