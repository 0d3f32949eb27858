"""Careless or hostile edits that need a look at the whole stack: a resource that is missing or one
too many, an edge, an option.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

from inferplan.pulumi_engine.recording import Recording, Registration
from tests.policies.edits import accelerates, pods_in

# Resources that nobody may leave out, by kind.
NEEDED = {
    "PodDisruptionBudget": "stack-require-disruption-budget",
    "BucketPublicAccessBlock": "s3-require-block",
    "BucketServerSideEncryptionConfiguration": "s3-require-encryption",
    "BucketVersioning": "s3-require-versioning",
    "BucketPolicy": "s3-require-tls",
    "BucketLogging": "s3-require-logging",
}
_PROTECTED = ("Bucket", "FileSystem", "Cluster", "Key")
_LABELS = {"app.kubernetes.io/managed-by": "somebody"}
_ROLE = "kubernetes:rbac.authorization.k8s.io/v1:Role"
_CLUSTER_ROLE = "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole"
_ROLES = (
    (
        "a role that binds",
        _ROLE,
        {"resources": ["roles"], "verbs": ["bind"]},
        "rbac-disallow-escalation",
    ),
    (
        "a role that impersonates",
        _CLUSTER_ROLE,
        {"resources": ["users"], "verbs": ["impersonate"]},
        "rbac-disallow-escalation",
    ),
    (
        "a role that makes tokens",
        _ROLE,
        {"resources": ["serviceaccounts/token"], "verbs": ["create"]},
        "rbac-disallow-token-creation",
    ),
    (
        "a role that gets a shell",
        _ROLE,
        {"resources": ["pods/exec"], "verbs": ["create"]},
        "rbac-disallow-exec",
    ),
    (
        "a role that reads all Secrets",
        _CLUSTER_ROLE,
        {"resources": ["secrets"], "verbs": ["get", "list"]},
        "rbac-disallow-secret-reading",
    ),
)
_HUB = {"modelFormat": {"name": "huggingface"}, "storageUri": "hf://org/model"}
_PREDICTORS = (
    (
        "a privileged model of KServe",
        {"model": {"securityContext": {"privileged": True}}},
        "pod-disallow-privileged",
    ),
    (
        "a model of KServe on the node's network",
        {"hostNetwork": True, "model": {}},
        "pod-disallow-host-namespaces",
    ),
    ("a model of KServe from a hub", {"model": _HUB}, "model-require-revision"),
    (
        "a pickle of KServe",
        {"sklearn": {"storageUri": "s3://models/iris"}},
        "model-disallow-pickle",
    ),
    ("a model of KServe for everybody", {"model": {}}, "stack-require-gateway-before-models"),
)
Changed = tuple[str, str, Recording, tuple[str, ...]]


def across(recording: Recording) -> Iterator[Changed]:
    """Each mutant as name, URN, changed recording and the rules of which one must refuse it."""
    for position, each in enumerate(recording.registrations):
        kind = each.type.rpartition(":")[2]
        if rule := NEEDED.get(kind) or (
            "stack-require-default-deny" if each.name.endswith("default-deny") else ""
        ):
            yield f"no {kind} {each.name}", each.urn, _replaced(recording, position, None), (rule,)
        yield from _loosened(recording, position, each)
        if kind in ("Ingress", "HTTPRoute"):
            yield from _entrances(recording, position, each)
    yield from _strangers(recording)
    yield from _sharing(recording)


def _sharing(recording: Recording) -> Iterator[Changed]:
    """Two engines that name one claim, of devices that no pool is counted by."""
    engines = [
        each
        for each in recording
        if each.type.endswith(":Deployment") and any(map(accelerates, pods_in(each.inputs)))
    ][:2]
    if len(engines) < 2:
        return
    devices = {
        "requests": [
            {
                "name": "x",
                "exactly": {"deviceClassName": "compute-domain-default-channel.nvidia.com"},
            }
        ]
    }
    changed = _added(
        recording,
        _object(
            recording,
            "kubernetes:resource.k8s.io/v1:ResourceClaim",
            "one",
            spec={"devices": devices},
        ),
    )
    for each in engines:
        inputs = copy.deepcopy(each.inputs)
        inputs["spec"]["template"]["spec"]["resourceClaims"] = [
            {"name": "x", "resourceClaimName": "one"}
        ]
        position = next(
            place for place, other in enumerate(changed.registrations) if other.urn == each.urn
        )
        changed = _replaced(changed, position, dataclasses.replace(each, inputs=inputs))
    budgets = [each for each in recording if each.type.endswith(":PodDisruptionBudget")][:1]
    for each in budgets:
        twin = dataclasses.replace(each, name=f"{each.name}-twin", urn=f"{each.urn}-twin")
        yield (
            "a second budget",
            twin.urn,
            _added(recording, twin),
            ("stack-disallow-overlapping-budgets",),
        )
    yield "one claim for two engines", engines[1].urn, changed, ("stack-require-own-claims",)


_DECIDING = {
    "Deployment": "spec.template.spec.containers[0].image",
    "NetworkPolicy": "spec.ingress",
    "RayService": "spec.rayClusterConfig",
    "Role": "rules",
}


def _loosened(recording: Recording, position: int, each: Registration) -> Iterator[Changed]:
    """One resource without an edge, an option, its provider."""
    kind = each.type.rpartition(":")[2]
    if kind in ("Deployment", "RayService") and any("Job::" in urn for urn in each.dependencies):
        kept = tuple(urn for urn in each.dependencies if "Job::" not in urn)
        changed = _replaced(recording, position, dataclasses.replace(each, dependencies=kept))
        yield f"no wait {each.name}", each.urn, changed, ("stack-require-preheat-before-serving",)
    if each.type.startswith("kubernetes:") and kind in ("Deployment", "Service", "Secret"):
        changed = _replaced(recording, position, dataclasses.replace(each, provider=""))
        yield (
            f"default provider {kind} {each.name}",
            each.urn,
            changed,
            ("stack-disallow-several-providers",),
        )
    if each.type.startswith("aws:") and kind in _PROTECTED:
        options = dataclasses.replace(each.options, protect=False, retain_on_delete=False)
        changed = _replaced(recording, position, dataclasses.replace(each, options=options))
        yield f"unprotected {kind} {each.name}", each.urn, changed, ("stack-require-protection",)
    if each.type.startswith("kubernetes:") and (field := _DECIDING.get(kind)):
        ignored = (*each.options.ignore_changes, field)
        options = dataclasses.replace(each.options, ignore_changes=ignored)
        changed = _replaced(recording, position, dataclasses.replace(each, options=options))
        yield f"{field} ignored", each.urn, changed, ("stack-disallow-ignored-changes",)


def _entrances(recording: Recording, position: int, way: Registration) -> Iterator[Changed]:
    """A way in that leads past the gateway, and a second one to the same place."""
    model = _service_of_model(recording)
    # Where each route asks for keys itself, it leads to a model rightly.
    if model and not any(each.type.endswith(":SecurityPolicy") for each in recording):
        inputs = copy.deepcopy(way.inputs)
        rule = inputs["spec"]["rules"][0]
        (
            rule["http"]["paths"][0]["backend"]["service"]
            if "http" in rule
            else rule["backendRefs"][0]
        )["name"] = model
        changed = _replaced(recording, position, dataclasses.replace(way, inputs=inputs))
        yield (
            f"past the gateway {way.name}",
            way.urn,
            changed,
            ("stack-require-gateway-before-models",),
        )
    twin = dataclasses.replace(
        way, urn=f"{way.urn}-twin", name=f"{way.name}-twin", inputs=copy.deepcopy(way.inputs)
    )
    twin.inputs["metadata"]["name"] += "-twin"
    yield f"twin of {way.name}", twin.urn, _added(recording, twin), ("stack-require-unique-routes",)


def _strangers(recording: Recording) -> Iterator[Changed]:
    """Objects that somebody adds beside ours."""
    wild = _object(
        recording,
        _ROLE,
        "helper",
        rules=[{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}],
    )
    yield "a role for everything", wild.urn, _added(recording, wild), ("rbac-disallow-wildcards",)
    for name, type_, rule, caught_by in _ROLES:
        role = _object(recording, type_, "helper", rules=[{"apiGroups": [""], **rule}])
        yield name, role.urn, _added(recording, role), (caught_by,)
    for name, predictor, caught_by in _PREDICTORS:
        service = _object(
            recording,
            "kubernetes:serving.kserve.io/v1beta1:InferenceService",
            "wild",
            spec={"predictor": predictor},
        )
        yield name, service.urn, _added(recording, service), (caught_by,)
    for name, parameters in (
        ("a disk in clear", {}),
        ("a disk in clear on purpose", {"encrypted": "false"}),
    ):
        disks = _object(
            recording,
            "kubernetes:storage.k8s.io/v1:StorageClass",
            "fast",
            provisioner="ebs.csi.aws.com",
            parameters=parameters,
        )
        yield name, disks.urn, _added(recording, disks), ("volume-require-encryption",)
    subjects = [{"kind": "Group", "name": "developers"}]
    admin = _object(
        recording,
        f"{_ROLE}Binding",
        "helper",
        roleRef={"kind": "ClusterRole", "name": "cluster-admin"},
        subjects=subjects,
    )
    yield "an administrator", admin.urn, _added(recording, admin), ("rbac-disallow-admin-bindings",)
    for name, type_ in (
        ("release", "kubernetes:helm.sh/v3:Release"),
        ("patch", "kubernetes:apps/v1:DeploymentPatch"),
    ):
        unseen = _object(recording, type_, name, spec={})
        yield f"a {name}", unseen.urn, _added(recording, unseen), ("stack-disallow-unseen-objects",)
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["secrets"],
    }
    hook = {
        "name": "h.acme.example",
        "clientConfig": {"service": {"name": "h", "namespace": "inference"}},
        "rules": [rule],
    }
    webhook = _object(
        recording,
        "kubernetes:admissionregistration.k8s.io/v1:ValidatingWebhookConfiguration",
        "h",
        webhooks=[hook],
    )
    yield (
        "a webhook for Secrets",
        webhook.urn,
        _added(recording, webhook),
        ("webhook-restrict-scope",),
    )
    bare = _object(
        recording,
        "kubernetes:gateway.envoyproxy.io/v1alpha1:SecurityPolicy",
        "edge",
        spec={"targetRefs": [], "cors": {}},
    )
    yield (
        "a policy without keys",
        bare.urn,
        _added(recording, bare),
        ("network-require-key-policy",),
    )
    rays = [each for each in recording if each.type.endswith(":RayService")]
    if rays:
        spec = {
            "scaleTargetRef": {"kind": "RayService", "name": rays[0].inputs["metadata"]["name"]},
            "maxReplicas": 9,
        }
        scaler = _object(
            recording, "kubernetes:autoscaling/v2:HorizontalPodAutoscaler", "rays", spec=spec
        )
        yield (
            "a scaler of Ray",
            scaler.urn,
            _added(recording, scaler),
            ("stack-disallow-scaler-of-ray",),
        )


def _service_of_model(recording: Recording) -> str:
    """The name of a Service that leads to pods with accelerators, "" where there is none."""
    labels = [
        each.inputs["spec"]["template"]["metadata"]["labels"]
        for each in recording
        if each.type.endswith(":Deployment")
        and any(accelerates(pod) for pod in pods_in(each.inputs))
    ]
    for each in recording:
        if each.type.endswith(":Service") and any(
            each.inputs["spec"]["selector"].items() <= pod.items() for pod in labels
        ):
            return each.inputs["metadata"]["name"]
    return ""


def _object(recording: Recording, type_: str, name: str, **parts: Any) -> Registration:
    near = next(each for each in recording if each.type.endswith("v1:Secret"))
    metadata = {
        "name": name,
        "namespace": near.inputs["metadata"]["namespace"],
        "labels": dict(_LABELS),
    }
    urn = f"urn:pulumi:{recording.stack}::inferplan::{type_}::{name}"
    return dataclasses.replace(
        near, urn=urn, type=type_, name=name, inputs={"metadata": metadata, **parts}
    )


def _added(recording: Recording, *more: Registration) -> Recording:
    return dataclasses.replace(recording, registrations=(*recording.registrations, *more))


def _replaced(recording: Recording, position: int, changed: Registration | None) -> Recording:
    listed = list(recording.registrations)
    listed[position : position + 1] = [] if changed is None else [changed]
    return dataclasses.replace(recording, registrations=tuple(listed))
