"""Problems that a simulated cluster does not show by itself: missing Secrets, fields with two
owners, webhooks without a server.
"""

from collections.abc import Iterator
from http import HTTPStatus

from inferplan.audit.blame import blamed_field
from inferplan.audit.deployed import Change, Deployed
from inferplan.audit.findings import finding
from inferplan.audit.manifest import Manifest, Object
from inferplan.audit.merge import unkept
from inferplan.audit.placement import restrictions
from inferplan.audit.templates import TABLE, containers, references, select, templates
from inferplan.kube.api import ApiError
from inferplan.kube.field_owners import writers
from inferplan.kube.paths import MISSING, mapping, parse, text_of, value_at
from inferplan.rehearsal.wait.object_events import Key
from inferplan.review.findings import Finding

_ADMISSION = (
    "Namespace",
    "LimitRange",
    "ServiceAccount",
    "PriorityClass",
    "RuntimeClass",
    "ValidatingAdmissionPolicyBinding",
)
"""Kinds that decide whether a pod may be created."""


def missing_targets(change: Change) -> Iterator[Finding]:
    """Objects that pods, routes, autoscalers and bindings name and that the cluster does not have,
    or that lack a key or a port.

    What OLD names too, and what an operator that does not run here may make, is assumed to exist.
    """
    old, passive = change.old.manifests, (".k8s.io", *TABLE["passive"])
    known = {
        each.target(key) for key, manifest in old.items() for each in references(manifest.body)
    }
    made = {
        Key("Secret", key.namespace, name)
        for key, manifest, _ in change.each()
        if (name := _made_secret(manifest))
    }
    operated = any(
        "." in each.group and not each.group.endswith(passive)
        for each in change.new.manifests.values()
    )
    served = {(version.rpartition("/")[0], kind) for version, kind in change.session.api.kinds()}
    for key, origin, each in (
        (key, manifest, each)
        for key, manifest, _ in change.each()
        for each in references(manifest.body)
    ):
        # Controllers look for a kind in its group, in whatever version.
        if each.version and (each.version.rpartition("/")[0], each.kind) not in served:
            reason = (
                f"Kubernetes {change.session.version} serves no {each.kind} of"
                f" {each.version.rpartition('/')[0] or 'the core group'}"
            )
            code = "assumed" if change.first or change.same(key) else "dangling"
            yield finding(code, key, f"{each.field.rpartition('.')[0]}.apiVersion", reason, origin)
            continue
        target, of_pods = each.target(key), each.is_of_pods
        code, effect = "lost" if of_pods else "dangling", f", so {each.effect}" * bool(each.effect)
        part = {"Service": "port", "Gateway": "listener"}.get(each.kind, "key")
        if (live := change.session.get(target, each.api_version)) is not None:
            parts = _parts(live)
            unsure = not of_pods and (change.first or (change.same(target) and change.same(key)))
            for name, field in [
                (name, field) for name, field in each.keys.items() if name not in parts
            ][:1]:
                reason = (
                    f"{target} has no {part} {name!r}; its {part}s: {', '.join(parts) or 'none'}"
                )
                yield finding("assumed" if unsure else code, key, field, reason, origin)
        elif target in old:
            yield finding(code, key, each.field, f"{target} is deleted{effect}", origin)
        elif target not in made and target not in change.new.manifests:
            unsure = change.first or target in known or (not of_pods and operated)
            unsure = unsure or each.is_shared
            yield finding(
                "assumed" if unsure else code,
                key,
                each.field,
                f"{target} does not exist{effect}",
                origin,
            )


def _parts(live: Object) -> list[str]:
    """The keys of a Secret or ConfigMap, and the numbers and names of the ports of a Service or of
    the listeners of a Gateway.
    """
    spec = mapping(live, "spec")
    ports = [
        str(each[name])
        for each in spec.get("ports") or spec.get("listeners") or ()
        for name in ("port", "name")
        if each.get(name)
    ]
    return ports or sorted({**(live.get("data") or {}), **(live.get("binaryData") or {})})


def rejected_again(change: Change) -> Iterator[Finding]:
    """Workloads whose pods run, and that the API server would reject if a drain or a crash made
    them again.
    """
    changed = [
        key
        for key in (*change.new.manifests, *change.new.deleted)
        if key.kind in _ADMISSION and not change.same(key)
    ]
    spaces = {key.name if key.kind == "Namespace" else key.namespace for key in changed}
    for key, manifest, before in change.each("Deployment", "StatefulSet", "DaemonSet"):
        for _, template in (
            templates(manifest.body)
            if key not in change.new.unready and spaces & {"", key.namespace}
            else ()
        ):
            metadata = mapping(template, "metadata") | {"name": "again", "namespace": key.namespace}
            body = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": metadata,
                "spec": template.get("spec"),
            }
            try:
                api = change.session.api
                api.request(
                    "POST",
                    api.resource("v1", "Pod").path(key.namespace),
                    body,
                    query={"dryRun": "All"},
                )
            except ApiError as error:
                # A quota counts the pods that run, and here the volumes of a claim template are
                # missing.
                rejections = (
                    HTTPStatus.FORBIDDEN,
                    *((HTTPStatus.UNPROCESSABLE_ENTITY,) if key.kind != "StatefulSet" else ()),
                )
                if error.status in rejections and "exceeded quota" not in error.message:
                    words = f"its pods run, and cannot be created again: {error.message}"
                    yield finding(
                        "unready",
                        key,
                        blamed_field(error.message, manifest, before),
                        words,
                        manifest,
                    )
                    yield from restrictions(change, key, manifest, error.message)


def _made_secret(manifest: Manifest) -> str:
    """The name of the Secret that an operator makes from an object, "" for other objects."""
    values = (
        value_at(manifest.body, parse(path)) for path in TABLE["makers"].get(manifest.kind, ())
    )
    return next((value for value in values if isinstance(value, str)), "")


def double_owners(change: Change) -> Iterator[Finding]:
    """Autoscalers of a workload whose replicas are declared too, and two autoscalers of one
    workload.
    """
    before = _owned_twice(change.old)
    for pair, reason in _owned_twice(change.new).items():
        code = "old-owners" if change.first or pair in before else "owners"
        yield finding(code, pair[1], "spec.replicas", reason, change.new.manifests[pair[1]])


def _owned_twice(deployed: Deployed) -> dict[tuple[Key, Key], str]:
    pairs: dict[tuple[Key, Key], str] = {}
    scalers: dict[Key, Key] = {}
    for key, each in deployed.manifests.items():
        if target := (
            mapping(each.spec, "scaleTargetRef")
            if key.kind in ("HorizontalPodAutoscaler", "ScaledObject")
            else {}
        ):
            workload = Key(
                str(target.get("kind") or "Deployment"), key.namespace, str(target.get("name"))
            )
            manifest = deployed.manifests.get(workload)
            if workload in scalers and manifest is not None:
                pairs[key, workload] = f"{scalers[workload]} and {key} both set spec.replicas"
            elif manifest is not None and "replicas" in manifest.spec:
                pairs[key, workload] = (
                    f"{key} sets spec.replicas, and every deployment sets it back to"
                    f" {manifest.spec['replicas']}"
                )
            scalers.setdefault(workload, key)
    return pairs


def other_managers(change: Change) -> Iterator[Finding]:
    """Fields that the deployer takes over from another manager, such as another release."""
    declared = change.new.declared
    for code, side in (("old-owners", change.old), ("owners", change.new)):
        for key, several in side.contested.items():
            for path, reason in several if key in declared else ():
                yield finding(
                    code, key, path, f"{reason}, and this deployer sets it too", declared[key]
                )


def later_owners(change: Change) -> Iterator[Finding]:
    """Fields that another controller, such as an autoscaler, has set otherwise since this deployer
    applied them.
    """
    for key, manifest in change.new.declared.items():
        live = (
            change.session.get(key, manifest.api_version) if key in change.new.manifests else None
        )
        code = "old-owners" if change.first or change.same(key) else "owners"
        for path, value in unkept(manifest.body, live) if live else ():
            names = (
                [each.manager for each in writers(live or {}, path)][:1]
                if value is not MISSING and path != ("metadata",)
                else ()
            )
            if names and names[0] not in (change.new.manager, "inferplan-audit"):
                reason = (
                    f"{names[0]} sets it to {value}, and every deployment sets it back to"
                    f" {value_at(manifest.body, path)}"
                )
                yield finding(code, key, text_of(path), reason, manifest)


def dropped_fields(change: Change) -> Iterator[Finding]:
    """Fields that the API server took without a word, and did not keep."""
    reason = (
        f"Kubernetes {change.session.version} drops it: a feature that is off by default has this"
        " field, or it does not go with the others"
    )
    for key, fields in change.new.dropped.items():
        for each in fields:
            yield finding(
                "old" if each in change.old.dropped.get(key, ()) else "dropped",
                key,
                each,
                reason,
                change.new.manifests[key],
            )


def repeated_variables(change: Change) -> Iterator[Finding]:
    """Variables that a container has twice, which server-side apply rejects."""
    for key, manifest, _ in change.each():
        for path, container in containers(manifest.body):
            names = [name for _, name in select(container, "env.*.name")]
            if twice := next((name for name in names if names.count(name) > 1), None):
                reason = (
                    f"{twice} is written twice: the last value counts, and server-side apply (Helm"
                    " 4, Flux) rejects the object"
                )
                yield finding("doubled", key, text_of((*path, "env")), reason, manifest)


def unserved_webhooks(change: Change) -> Iterator[Finding]:
    """Webhooks with failurePolicy Fail whose Service has no ready endpoint: the API server then
    rejects what they watch.
    """
    for key, manifest, before in change.each(
        "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
    ):
        for index, each in enumerate(manifest.body.get("webhooks") or ()):
            service = mapping(each, "clientConfig", "service")
            target = Key(
                "Service", str(service.get("namespace") or "default"), str(service.get("name"))
            )
            if not service or each.get("failurePolicy", "Fail") != "Fail":
                continue
            place, port = f"webhooks[{index}].clientConfig.service", service.get("port", 443)
            ports = _parts(change.session.get(target, "v1") or {})
            if not change.session.history.endpoints(target):
                problem = (
                    "has no ready endpoint"
                    if target in change.new.manifests
                    else "is not in the manifests"
                )
            elif str(port) not in ports:
                place, problem = (
                    f"{place}.port",
                    f"has no port {port}; its ports: {', '.join(ports)}",
                )
            else:
                continue
            same = before is not None and value_at(
                before.body, ("webhooks", index, "clientConfig")
            ) == each.get("clientConfig")
            known = change.first or (
                same and (change.same(target) or target not in change.old.manifests)
            )
            reason = (
                f"{target} {problem}, and failurePolicy is Fail: the API server rejects every"
                " object that the webhook watches"
            )
            yield finding("assumed" if known else "webhook", key, place, reason, manifest)
