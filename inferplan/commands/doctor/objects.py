"""Checks of what a stack expects in an existing cluster: operators, classes, claims, Secrets,
quotas and the user's rights.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from inferplan.commands.doctor.cluster import ExaminedCluster
from inferplan.commands.doctor.findings import Finding, error, ok, unknown, warning
from inferplan.kube.objects import annotation
from inferplan.kube.quantity import amount, canonical
from inferplan.planning.required_secrets import required_secrets
from inferplan.updating.preflight import lacking_rights, missing_operators
from inferplan.workspace.live import ObjectKey

_NETWORKING, _STORAGE = "networking.k8s.io/v1", "storage.k8s.io/v1"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def check_operators(cluster: ExaminedCluster) -> Iterator[Finding]:
    missing = missing_operators(cluster.declared, cluster.live)
    for each in missing:
        yield error(
            str(each), each.install or f"install the operator that serves {each.api_version}"
        )
    if not missing:
        yield ok(
            f"the cluster serves all {len({key.kind for key in cluster.declared})} kinds of the"
            " stack"
        )


def check_runtime_classes(cluster: ExaminedCluster) -> Iterator[Finding]:
    own = {key.name for key, _ in cluster.of_kind("RuntimeClass")}
    needed = {
        name: each.owner
        for each in cluster.pods
        if (name := each.spec.get("runtimeClassName")) and name not in own
    }
    live = _names(cluster, "node.k8s.io/v1", "RuntimeClass") if needed else set()
    for name, owner in sorted(needed.items()):
        if name in live:
            yield ok(f"RuntimeClass {name} exists")
        else:
            manifest = f'{{"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass","metadata":{{"name":"{name}"}},"handler":"{name}"}}'
            yield error(
                f"{owner} names RuntimeClass {name}, which does not exist. The container runtime of"
                " the nodes needs a handler of that name",
                f"echo '{manifest}' | {cluster.kubectl} apply -f -",
            )
    if not needed:
        yield ok("no pod needs a RuntimeClass that the stack does not create")


def check_ingress(cluster: ExaminedCluster) -> Iterator[Finding]:
    ingresses = [
        (key.name, inputs["spec"].get("ingressClassName"))
        for key, inputs in cluster.of_kind("Ingress")
    ]
    classes = cluster.live.objects(_NETWORKING, "IngressClass") if ingresses else {}
    names = sorted(name for _, name in classes)
    for ingress, wanted in ingresses:
        default = [
            name
            for name in names
            if annotation(classes["", name], "ingressclass.kubernetes.io/is-default-class")
            == "true"
        ]
        chosen = wanted or next(iter(default), None)
        if chosen in names:
            yield ok(f"Ingress {ingress} has the IngressClass {chosen}")
        elif wanted:
            listed = f"the cluster has {', '.join(names)}" if names else "the cluster has none"
            yield error(
                f"Ingress {ingress} names IngressClass {wanted}, which does not exist; {listed}",
                cluster.remedy("ingressControllers", wanted)
                or f"install the ingress controller of class {wanted}, or write gateway.ingressClassName",
            )
        else:
            yield error(
                f"Ingress {ingress} names no IngressClass, and the cluster has no default",
                "write gateway.ingressClassName",
            )
    for api, name, namespace in sorted(_parents(cluster)):
        if cluster.live.find(ObjectKey(api, "Gateway", namespace, name)) is None:
            yield error(
                f"Gateway {namespace}/{name} does not exist, and routes name it",
                f"{cluster.kubectl} get gateways -A",
            )
        else:
            yield ok(f"Gateway {namespace}/{name} exists")


def _parents(cluster: ExaminedCluster) -> set[tuple[str, str, str]]:
    return {
        (key.api_version, parent["name"], parent.get("namespace") or key.namespace)
        for key, inputs in cluster.declared.items()
        if key.kind in ("HTTPRoute", "GRPCRoute")
        for parent in inputs["spec"].get("parentRefs", ())
    }


def check_storage(cluster: ExaminedCluster) -> Iterator[Finding]:
    yield from _claims_of_classes(cluster)
    own = {key.name for key, _ in cluster.of_kind("CSIDriver")}
    for key, inputs in cluster.of_kind("PersistentVolume"):
        spec = inputs["spec"]
        driver = (spec.get("csi") or {}).get("driver")
        if driver and driver not in own | _names(cluster, _STORAGE, "CSIDriver"):
            yield error(
                f"PersistentVolume {key.name} needs the CSI driver {driver}, which is not"
                " installed",
                f"install the CSI driver {driver}",
            )
        elif driver:
            yield ok(f"the CSI driver {driver} is installed")
        if nfs := spec.get("nfs"):
            export = f"{nfs['server']}:{nfs['path']}"
            mount = (
                f"chroot /host sh -c 'mkdir -p /tmp/nfs && mount -t nfs4 {export} /tmp/nfs && ls"
                " /tmp/nfs && umount /tmp/nfs'"
            )
            yield unknown(
                f"not provable from here: that every node has an NFS client and reaches {export}",
                f"{cluster.kubectl} debug node/NODE -it --profile=sysadmin"
                f" --image=docker.io/library/busybox -- {mount}",
            )
    for name, spec in cluster.settings.storage.items():
        if spec.existing_claim is not None:
            claim = cluster.live.find(
                ObjectKey(
                    "v1", "PersistentVolumeClaim", cluster.settings.namespace, spec.existing_claim
                )
            )
            phase = "missing" if claim is None else claim.get("status", {}).get("phase", "Pending")
            place = f"-n {cluster.settings.namespace}"
            if phase == "Bound":
                yield ok(f"storage {name}: claim {spec.existing_claim} is Bound")
            else:
                yield error(
                    f"storage {name}: claim {spec.existing_claim} is {phase}, and the stack does not"
                    " create it",
                    (
                        f"{cluster.kubectl} {place} describe pvc {spec.existing_claim}"
                        if claim
                        else f"{cluster.kubectl} {place} apply -f CLAIM.yaml"
                    ),
                )


def _claims_of_classes(cluster: ExaminedCluster) -> Iterator[Finding]:
    own = {key.name for key, _ in cluster.of_kind("StorageClass")}
    specs = [(key.name, inputs["spec"]) for key, inputs in cluster.of_kind("PersistentVolumeClaim")]
    needed = {
        (spec.get("storageClassName"), claim) for claim, spec in specs if not spec.get("volumeName")
    }
    needed = {
        (name, claim)
        for name, claim in needed
        if name is None or (isinstance(name, str) and name and name not in own)
    }
    classes = cluster.live.objects(_STORAGE, "StorageClass") if needed else {}
    has_default = any(annotation(each, _DEFAULT_CLASS) == "true" for each in classes.values())
    for name, claim in sorted(needed, key=str):
        if ("", name) in classes or (name is None and has_default):
            yield ok(f"claim {claim} has the StorageClass {name or 'that is the default'}")
        else:
            problem = (
                f"needs StorageClass {name}, which does not exist"
                if name
                else "needs a default StorageClass, and the cluster has none"
            )
            yield error(f"claim {claim} {problem}", f"{cluster.kubectl} get storageclass")


def check_secrets(cluster: ExaminedCluster) -> Iterator[Finding]:
    required = required_secrets(cluster.recording, cluster.settings.namespace)
    exists = cluster.namespace_exists if required else True
    for each in required:
        secret = (
            cluster.live.find(ObjectKey("v1", "Secret", each.namespace, each.name))
            if exists
            else None
        )
        lacking = [
            key for key in each.keys if secret is not None and key not in (secret.get("data") or {})
        ]
        if secret is None:
            report = error if exists else warning
            later = "" if exists else "; the namespace does not exist yet, and the stack creates it"
            yield report(
                f"{each.readers[0]} reads Secret {each.name}, which does not exist{later}",
                each.command.replace("kubectl", cluster.kubectl, 1),
            )
        elif lacking:
            # A patch keeps the other keys, and changes nothing if a file is missing.
            sources = "".join(f" --from-file={key}=FILE" for key in lacking)
            yield error(
                f"Secret {each.name} has no key {', '.join(lacking)}, which {each.readers[0]}"
                " reads",
                f"{cluster.kubectl} -n {each.namespace} create secret generic {each.name}{sources}"
                f" --dry-run=client -o json | {cluster.kubectl} -n {each.namespace} patch secret"
                f" {each.name} --patch-file=/dev/stdin",
            )
        else:
            yield ok(
                f"Secret {each.name} exists"
                + (f" with {', '.join(each.keys)}" if each.keys else "")
            )
    if not required:
        yield ok("the stack reads no Secret that you have to create")


def check_rights(cluster: ExaminedCluster) -> Iterator[Finding]:
    served = [key for key in cluster.declared if cluster.live.serves(key.api_version, key.kind)]
    lacking = lacking_rights(served, cluster.live, cluster.context)
    for each in lacking:
        verbs = ",".join(each.verbs)
        name = f"inferplan-{each.resource.replace('.', '-')}"
        where = f"-n {each.namespace} " if each.namespace else ""
        kinds = ("role", "rolebinding") if each.namespace else ("clusterrole", "clusterrolebinding")
        yield error(
            f"you lack the right to {each}",
            f"{cluster.kubectl} {where}create {kinds[0]} {name} --verb={verbs}"
            f" --resource={each.resource} && {cluster.kubectl} {where}create {kinds[1]} {name}"
            f" --{kinds[0]}={name} --user=USER",
        )
    if not lacking:
        yield ok("you may get, create, patch and delete every kind of the stack")


def check_quotas(cluster: ExaminedCluster) -> Iterator[Finding]:
    namespace = cluster.settings.namespace
    own = {key.name for key, _ in cluster.of_kind("ResourceQuota")}
    quotas = [
        each
        for (_, name), each in cluster.live.objects("v1", "ResourceQuota", namespace).items()
        if name not in own
    ]
    totals, findings = _totals(cluster), 0
    for quota in quotas:
        name, used = quota["metadata"]["name"], quota.get("status", {}).get("used", {})
        for resource, hard in quota["spec"].get("hard", {}).items():
            need, limit = totals.get(resource, Decimal(0)), _number(hard)
            taken = _number(used.get(resource, 0))
            free = limit - taken
            if need > min(limit, free):
                findings += 1
                message = (
                    f"ResourceQuota {name} allows {hard} {resource}, {canonical(str(free))} are"
                    f" free, and the stack needs {canonical(str(need))}"
                )
                # Never less than others have: what is used may be theirs.
                enough = canonical(str(taken + need))
                patch = f'{{"spec":{{"hard":{{"{resource}":"{enough}"}}}}}}'
                raise_limit = (
                    f"{cluster.kubectl} -n {namespace} patch resourcequota {name} --type=merge -p"
                    f" '{patch}'"
                )
                # The used part may belong to the stack's own pods from an earlier update.
                yield error(message, raise_limit) if need > limit else warning(message, raise_limit)
    for (_, name), each in cluster.live.objects("v1", "LimitRange", namespace).items():
        for message, patch in _over_limit(cluster, each):
            findings += 1
            yield error(
                f"LimitRange {name}: {message}",
                f"{cluster.kubectl} -n {namespace} patch limitrange {name} --type=json -p"
                f" '{patch}'",
            )
    if not findings:
        yield ok(f"no quota or LimitRange of namespace {namespace} is too small")


def _totals(cluster: ExaminedCluster) -> Mapping[str, Decimal]:
    """The requirements of all pods of the stack, by the names that a ResourceQuota uses."""
    totals: dict[str, Decimal] = defaultdict(Decimal)
    for pods in cluster.pods:
        totals["pods"] += pods.replicas
        for container in pods.containers:
            for kind, values in (container.get("resources") or {}).items():
                for resource, value in (values or {}).items():
                    totals[f"{kind}.{resource}"] += _number(value) * pods.replicas
                    if kind == "requests":
                        totals[resource] += _number(value) * pods.replicas
    for key in cluster.declared:
        if key.namespace:
            totals[cluster.live.plural(key.api_version, key.kind)] += 1
            group = f".{key.group}" if key.group else ""
            totals[f"count/{cluster.live.plural(key.api_version, key.kind)}{group}"] += 1
    return totals


def _over_limit(
    cluster: ExaminedCluster, limit_range: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield what is too large for the namespace, and the JSON patch of that limit alone."""
    for index, rule in enumerate(limit_range["spec"].get("limits", ())):
        for resource, most in rule.get("max", {}).items() if rule["type"] == "Container" else ():
            # The largest of all pods: one patch for each pod would end with the amount of the last.
            largest, owner = max(
                (
                    (value, pods.owner)
                    for pods in cluster.pods
                    for value in pods.requested(resource, "limits") + pods.requested(resource)
                ),
                key=lambda each: _number(each[0]),
                default=(0, ""),
            )
            if _number(largest) > _number(most):
                key = resource.replace("~", "~0").replace("/", "~1")
                place = f"/spec/limits/{index}/max/{key}"
                patch = [{"op": "replace", "path": place, "value": str(largest)}]
                message = (
                    f"a container may have {most} {resource}, and one of {owner} has {largest}"
                )
                yield message, json.dumps(patch)


def _number(quantity: Any) -> Decimal:
    return amount(quantity) or Decimal(0)


def _names(cluster: ExaminedCluster, api_version: str, kind: str) -> set[str]:
    return {name for _, name in cluster.live.objects(api_version, kind)}
