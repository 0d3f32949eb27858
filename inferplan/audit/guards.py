"""Problems that a simulated cluster does not show by itself: missing Secrets, drains that are blocked, fields with two owners, webhooks without a server."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus

from inferplan.audit.deployed import Deployed
from inferplan.audit.manifest import Manifest, finding
from inferplan.audit.merge import unkept
from inferplan.audit.placement import blamed_field
from inferplan.audit.session import Session
from inferplan.audit.templates import TABLE, containers, links, references, templates
from inferplan.kube.field_owners import writers
from inferplan.kube.paths import MISSING, mapping, text_of, value_at
from inferplan.rehearsal.cluster.api import ApiError
from inferplan.rehearsal.engine.wait.object_events import Key
from inferplan.review.findings import Finding

_WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet")
_ADMISSION = ("Namespace", "LimitRange", "ServiceAccount", "PriorityClass", "RuntimeClass", "ValidatingAdmissionPolicyBinding")
"""Kinds that decide whether a pod may be created."""
_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
_SCALERS = ("HorizontalPodAutoscaler", "ScaledObject")


def lost_references(session: Session, old: Deployed | None, new: Deployed) -> Iterator[Finding]:
    """Secrets and ConfigMaps that pods need and that the cluster does not have, or that lack a key."""
    known = {(key.namespace, ref.kind, ref.name) for key, each in (old.manifests if old else {}).items() for ref in references(each.body)}
    was = {(key.namespace, key.kind, key.name) for key in (old.manifests if old else {})}
    made = {(key.namespace, name) for key, each in new.manifests.items() if (name := _made_secret(each))}
    for key, manifest in new.manifests.items():
        for each in references(manifest.body):
            identity = key.namespace, each.kind, each.name
            live = session.get(Key(each.kind, key.namespace, each.name), session.api.resource("v1", each.kind))
            if live is not None:
                keys = {**(live.get("data") or {}), **(live.get("binaryData") or {})}
                if missing := [name for name in each.keys if name not in keys]:
                    reason = f"{each.kind} {each.name} has no key {missing[0]!r}; its keys: {', '.join(sorted(keys)) or 'none'}"
                    yield finding("lost", key, each.field, reason, manifest)
            elif identity in was or (old is not None and identity not in known and (key.namespace, each.name) not in made):
                reason = f"{each.kind} {each.name} {'is deleted' if identity in was else 'does not exist'}, so its pods do not start"
                yield finding("lost", key, each.field, reason, manifest)
            elif (key.namespace, each.name) not in made:
                yield finding("assumed", key, each.field, f"{each.kind} {each.name} is not in the manifests", manifest)


def dangling_links(session: Session, old: Deployed | None, new: Deployed) -> Iterator[Finding]:
    """Services, workloads and Roles that an object names and that the cluster does not have; operators that do not run here may make them."""
    was = old.manifests if old else {}
    passive = (".k8s.io", *TABLE["passive"])
    operators = any("." in each.group and not each.group.endswith(passive) for each in new.manifests.values())
    for key, manifest in new.manifests.items():
        before = {(each.kind, each.name, each.keys) for each in links(was[key].body)} if key in was else set()
        for each in links(manifest.body):
            target = Key(each.kind, each.namespace or key.namespace, each.name)
            live = session.get(target, session.api.resource(each.api_version, each.kind))
            field, words = each.field, f"{target} {'is deleted' if target in was else 'does not exist'}"
            lost = target in was or (old is not None and (each.kind, each.name, each.keys) not in before and not operators)
            if live is not None:
                ports = [
                    str(port.get(name)) for port in mapping(live, "spec").get("ports") or () for name in ("port", "name") if port.get(name)
                ]
                if each.kind != "Service" or not each.keys or set(each.keys) <= set(ports):
                    continue
                field, words = each.port_field, f"{target} has no port {each.keys[0]}; its ports: {', '.join(ports)}"
                lost = old is not None and not (
                    target in was and was[target].body == new.manifests[target].body and was.get(key) == manifest
                )
            yield finding("dangling" if lost else "assumed", key, field, words, manifest)


def rejected_again(session: Session, old: Deployed | None, new: Deployed) -> Iterator[Finding]:
    """Workloads whose pods run, and that the API server would reject if a drain or a crash made them again."""
    was = old.manifests if old else {}
    changed = (key for key, each in new.manifests.items() if key.kind in _ADMISSION and (key not in was or was[key].body != each.body))
    spaces = {
        key.name if key.kind == "Namespace" else key.namespace
        for key in (*changed, *(key for key in new.deleted if key.kind in _ADMISSION))
    }
    for key, manifest in new.manifests.items():
        if key.kind not in _WORKLOADS or key in new.unready or not spaces & {"", key.namespace}:
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
                    yield finding("unready", key, blamed_field(error.message, manifest, before), words, manifest)


def _made_secret(manifest: Manifest) -> str:
    """The name of the Secret that an operator makes from an object, "" for other objects."""
    values = (value_at(manifest.body, tuple(path.split("."))) for path in TABLE["makers"].get(manifest.kind, ()))
    return next((value for value in values if isinstance(value, str)), "")


def double_owners(old: Deployed | None, new: Deployed) -> Iterator[Finding]:
    """Autoscalers of a workload whose replicas are declared too, and two autoscalers of one workload."""
    before = set(_owned_twice(old)) if old else set()
    for (scaler, workload), reason in _owned_twice(new).items():
        code = "old-owners" if old is None or (scaler, workload) in before else "owners"
        yield finding(code, workload, "spec.replicas", reason, new.manifests[workload])


def other_managers(old: Deployed | None, new: Deployed) -> Iterator[Finding]:
    """Fields that the deployer takes over from another manager, such as another release."""
    for code, side in (("old-owners", old), ("owners", new)):
        for key, several in side.contested.items() if side else ():
            for path, reason in several if key in new.declared else ():
                words = f"{reason}, and this deployer sets it too"
                yield finding(code, key, path, words, new.declared[key])


def later_owners(session: Session, old: Deployed | None, new: Deployed) -> Iterator[Finding]:
    """Fields that another controller, such as an autoscaler, has set otherwise since this deployer applied them."""
    for key, manifest in new.declared.items():
        live = session.get(key, new.resources[key]) or {} if key in new.manifests else {}
        for path, value in unkept(manifest.body, live) if live else ():
            writer = next(iter(writers(live, path)), None)
            if (
                value is not MISSING
                and writer is not None
                and path != ("metadata",)
                and writer.manager not in (new.manager, "inferplan-audit")
            ):
                before = old.declared.get(key) if old else None
                code = "old-owners" if old is None or (before is not None and before.body == manifest.body) else "owners"
                reason = f"{writer.manager} sets it to {value}, and every deployment sets it back to {value_at(manifest.body, path)}"
                yield finding(code, key, text_of(path), reason, manifest)


def dropped_fields(session: Session, old: Deployed | None, new: Deployed) -> Iterator[Finding]:
    """Fields that the API server took without a word, and did not keep."""
    for key, fields in new.dropped.items():
        for each in fields:
            known = old is not None and each in old.dropped.get(key, ())
            reason = f"Kubernetes {session.version} drops it: a feature that is off by default has this field"
            yield finding("old" if known else "dropped", key, each, reason, new.manifests[key])


def double_variables(new: Deployed) -> Iterator[Finding]:
    """Variables that a container has twice: a merge of the client accepts them, and server-side apply does not."""
    for key, manifest in new.manifests.items():
        for path, container in containers(manifest.body):
            names = [each.get("name") for each in container.get("env") or () if isinstance(each, Mapping)]
            if twice := next((name for name in names if names.count(name) > 1), None):
                reason = f"{twice} is written twice: the last value counts, and server-side apply (Helm 4, Flux) rejects the object"
                yield finding("doubled", key, text_of((*path, "env")), reason, manifest)


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


def unknown_ports(old: Deployed | None, new: Deployed) -> Iterator[Finding]:
    """Probes that name a port which their container does not have: fake nodes answer no probe, and a kubelet rejects this one."""
    for key, manifest in new.manifests.items():
        for path, container in containers(manifest.body):
            names = {port.get("name") for port in container.get("ports") or () if isinstance(port, Mapping)}
            for probe, action in ((probe, action) for probe in _PROBES for action in ("httpGet", "tcpSocket")):
                port = mapping(container, probe, action).get("port")
                if isinstance(port, str) and not port.isdigit() and port not in names:
                    field, before = (*path, probe, action, "port"), old.manifests.get(key) if old else None
                    same = before is not None and value_at(before.body, path) == container
                    reason = (
                        f"no port of container {container.get('name')} is named {port!r}, so the probe fails and its pods are never Ready"
                    )
                    yield finding("old" if same else "unready", key, text_of(field), reason, manifest)


def attached_volumes(session: Session, old: Deployed | None, new: Deployed) -> Iterator[Finding]:
    """Deployments whose new pod is on another node than the old one that holds their volume of one node: no attachment ends before the other begins."""
    for claim, held in session.history.attached.items():
        live = session.watching.get(claim)
        owner = next(
            (
                key
                for key in new.manifests
                if key.kind == "Deployment" and held[0].startswith(f"{key.name}-") and key.namespace == claim.namespace
            ),
            None,
        )
        if live is None or owner is None or set(live["spec"].get("accessModes") or ()) - {"ReadWriteOnce", "ReadWriteOncePod"}:
            continue
        reason = (
            f"pod {held[0]} starts on node {held[1]} while {held[2]} on node {held[3]} holds {claim}, which one node at a time can attach"
        )
        yield finding("no-room" if old else "old", owner, "spec.strategy", reason, new.manifests[owner])


def unserved_webhooks(session: Session, old: Deployed | None, new: Deployed) -> Iterator[Finding]:
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
            yield finding("assumed" if known or old is None else "webhook", key, field, reason, manifest)
