"""Semantic mutants of the manifests that our stacks emit: one careless or hostile edit each, found by what a resource is.

A mutation is written once and tried wherever it applies in a stack; each mutant names the rules that must catch it.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rehearsal.engine.recording import Recording, Registration

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Mutant:
    """One changed stack: at least one of `rules` must refuse it. `urn` is the resource that was changed, or taken away."""

    name: str
    urn: str
    recording: Recording
    rules: tuple[str, ...]


@dataclass(frozen=True)
class Mutation:
    """One kind of edit. `edit` changes a container, pod or resource in place and returns False where it does not apply."""

    name: str
    rules: tuple[str, ...]
    edit: Callable[[Any], bool | None]


def _drop(*keys: str) -> Callable[[Inputs], bool]:
    def edit(here: Inputs) -> bool:
        for key in keys[:-1]:
            here = here.get(key) or {}
        return here.pop(keys[-1], None) is not None

    return edit


def _put(value: Any, *keys: str) -> Callable[[Inputs], None]:
    def edit(here: Inputs) -> None:
        for key in keys[:-1]:
            here = here.setdefault(key, {})
        here[keys[-1]] = copy.deepcopy(value)

    return edit


def _add(value: Any, *keys: str) -> Callable[[Inputs], None]:
    def edit(here: Inputs) -> None:
        for key in keys[:-1]:
            here = here.setdefault(key, {})
        here.setdefault(keys[-1], []).append(copy.deepcopy(value))

    return edit


def _server(edit: Callable[[Inputs], bool | None]) -> Callable[[Inputs], bool | None]:
    return lambda container: edit(container) if container.get("ports") else False


def _accelerated(edit: Callable[[Inputs, str], bool | None]) -> Callable[[Inputs], bool | None]:
    def wrapped(container: Inputs) -> bool | None:
        limits = container.get("resources", {}).get("limits", {})
        name = next((each for each in limits if each in ("nvidia.com/gpu", "habana.ai/gaudi")), None)
        return False if name is None else edit(container, name)

    return wrapped


def _argument(value: str) -> Callable[[Inputs], bool | None]:
    return _accelerated(lambda container, _name: container.setdefault("args", []).append(value))


def _limit(value: str) -> Callable[[Inputs], bool | None]:
    return _accelerated(lambda container, name: container["resources"]["limits"].update({name: value}))


def _tag(change: Callable[[str], str]) -> Callable[[Inputs], bool | None]:
    def edit(container: Inputs) -> bool:
        before = container["image"]
        container["image"] = change(before)
        return container["image"] != before

    return edit


def _clear_disks(template: Inputs) -> None:
    for each in template["blockDeviceMappings"]:
        each.get("ebs", {})["encrypted"] = "false"


CONTAINERS = (
    Mutation("privileged", ("pod-disallow-privileged",), _put(True, "securityContext", "privileged")),
    Mutation("escalation", ("pod-disallow-privilege-escalation",), _put(True, "securityContext", "allowPrivilegeEscalation")),
    Mutation("escalation unsaid", ("pod-disallow-privilege-escalation",), _drop("securityContext", "allowPrivilegeEscalation")),
    Mutation("capabilities kept", ("pod-require-drop-all-capabilities",), _drop("securityContext", "capabilities")),
    Mutation("SYS_NICE", ("pod-disallow-added-capabilities",), _put(["SYS_NICE"], "securityContext", "capabilities", "add")),
    Mutation("root user", ("pod-require-non-root",), _put(0, "securityContext", "runAsUser")),
    Mutation("root allowed", ("pod-require-non-root",), _put(False, "securityContext", "runAsNonRoot")),
    Mutation("seccomp off", ("pod-require-seccomp",), _put("Unconfined", "securityContext", "seccompProfile", "type")),
    Mutation("unmasked proc", ("pod-disallow-unmasked-proc",), _put("Unmasked", "securityContext", "procMount")),
    Mutation("AppArmor off", ("pod-restrict-security-profiles",), _put("Unconfined", "securityContext", "appArmorProfile", "type")),
    Mutation("writable root", ("pod-require-read-only-root",), _drop("securityContext", "readOnlyRootFilesystem")),
    Mutation("no security context", ("pod-disallow-privilege-escalation",), _drop("securityContext")),
    Mutation("no memory limit", ("pod-require-memory-limit",), _drop("resources", "limits", "memory")),
    Mutation("no memory request", ("pod-require-memory-limit",), _drop("resources", "requests", "memory")),
    Mutation("no CPU request", ("pod-require-cpu-request",), _drop("resources", "requests", "cpu")),
    Mutation("no resources", ("pod-require-memory-limit",), _drop("resources")),
    Mutation("literal key", ("pod-disallow-literal-secrets",), _add({"name": "OPENAI_API_KEY", "value": "0123456789"}, "env")),
    Mutation("literal token", ("pod-disallow-literal-secrets",), _add({"name": "HF_TOKEN", "value": "0123456789"}, "env")),
    Mutation("visible devices", ("accelerator-disallow-visible-devices",), _add({"name": "HABANA_VISIBLE_DEVICES", "value": "all"}, "env")),
    Mutation("tag latest", ("image-disallow-latest",), _tag(lambda image: image.partition("@")[0].rpartition(":")[0] + ":latest")),
    Mutation("no tag", ("image-disallow-latest",), _tag(lambda image: image.partition("@")[0].rpartition(":")[0])),
    Mutation("strange registry", ("image-restrict-registries",), _tag(lambda image: f"registry.evil.example/{image.partition('/')[2]}")),
    Mutation("host port", ("pod-disallow-host-ports",), _server(lambda container: container["ports"][0].update(hostPort=8000))),
    Mutation("no readiness", ("pod-require-readiness-probe",), _server(_drop("readinessProbe"))),
    Mutation("no liveness", ("pod-require-liveness-probe",), _server(_drop("livenessProbe"))),
    Mutation("no startup", ("pod-require-startup-probe",), _server(_drop("startupProbe"))),
    Mutation(
        "hasty startup",
        ("pod-require-startup-budget",),
        _accelerated(lambda container, _: container["startupProbe"].update(failureThreshold=3)),
    ),
    Mutation("long preStop", ("pod-require-drain-time",), _server(_put({"preStop": {"sleep": {"seconds": 3600}}}, "lifecycle"))),
    Mutation("remote code", ("model-disallow-trust-remote-code",), _argument("--trust-remote-code")),
    Mutation("pickles", ("model-disallow-pickle",), _argument("--load-format=pt")),
    Mutation("key argument", ("pod-disallow-literal-secrets",), _argument("--api-key=0123456789")),
    Mutation("too parallel", ("accelerator-require-tensor-parallel-fit",), _argument("--tensor-parallel-size=16")),
    Mutation("half a card", ("accelerator-require-integer",), _limit("500m")),
    Mutation("limit unlike request", ("accelerator-require-request-equals-limit",), _limit("7")),
    Mutation(
        "other vendor",
        ("accelerator-require-vendor-image",),
        _accelerated(
            lambda container, name: container.update(
                image="docker.io/vllm/vllm-openai:v0.33.0" if "habana" in name else "vault.habana.ai/vllm:v0.26.0"
            )
        ),
    ),
    Mutation(
        "old vLLM",
        ("model-require-vllm-floor",),
        _accelerated(lambda container, _: container.update(image="docker.io/vllm/vllm-openai:v0.19.1")),
    ),
    Mutation(
        "hub model",
        ("model-require-revision",),
        _accelerated(lambda container, _: container["args"].__setitem__(0, "meta-llama/Llama-3.1-8B")),
    ),
    Mutation("no huge pages", ("gaudi-require-huge-pages",), _drop("resources", "limits", "hugepages-2Mi")),
)

PODS = (
    Mutation("host network", ("pod-disallow-host-namespaces",), _put(True, "hostNetwork")),
    Mutation("host IPC", ("pod-disallow-host-namespaces",), _put(True, "hostIPC")),
    Mutation("host PID", ("pod-disallow-host-namespaces",), _put(True, "hostPID")),
    Mutation("host path", ("pod-disallow-host-path",), _add({"name": "node", "hostPath": {"path": "/"}}, "volumes")),
    Mutation("inline NFS", ("pod-restrict-volume-types",), _add({"name": "share", "nfs": {"server": "s", "path": "/"}}, "volumes")),
    Mutation("endless emptyDir", ("pod-require-empty-dir-limit",), _add({"name": "scratch2", "emptyDir": {}}, "volumes")),
    Mutation("service links", ("pod-disallow-service-links",), _drop("enableServiceLinks")),
    Mutation("token", ("pod-disallow-token-mount",), _put(True, "automountServiceAccountToken")),
    Mutation("sysctl", ("pod-disallow-unsafe-sysctls",), _put([{"name": "kernel.msgmax", "value": "1"}], "securityContext", "sysctls")),
    Mutation("root pod", ("pod-require-non-root",), _put(0, "securityContext", "runAsUser")),
    Mutation("no seccomp", ("pod-require-seccomp",), _drop("securityContext", "seccompProfile")),
    Mutation("no pool", ("accelerator-require-pool",), _drop("nodeSelector")),
    Mutation("no toleration", ("accelerator-require-toleration",), lambda pod: _accelerates(pod) and _drop("tolerations")(pod)),
    Mutation("no runtime class", ("gaudi-require-runtime-class",), _drop("runtimeClassName")),
)

RESOURCES: dict[str, tuple[Mutation, ...]] = {
    "Deployment": (
        Mutation(
            "no spread",
            ("pod-require-spread",),
            lambda r: r["spec"].get("replicas", 1) > 1 and _drop("spec", "template", "spec", "topologySpreadConstraints")(r),
        ),
        Mutation("many replicas", ("stack-require-pool-capacity",), lambda r: _is_engine(r) and _put(999, "spec", "replicas")(r) is None),
        Mutation(
            "other pool",
            ("stack-require-matching-pool",),
            lambda r: _is_engine(r) and _put({"inferplan.dev/pool": "misspelt"}, "spec", "template", "spec", "nodeSelector")(r) is None,
        ),
        Mutation(
            "surge",
            ("stack-require-room-for-rollout",),
            lambda r: _is_engine(r) and _put({"maxSurge": 99, "maxUnavailable": 0}, "spec", "strategy", "rollingUpdate")(r) is None,
        ),
    ),
    "Job": (
        Mutation("no deadline", ("job-require-end",), _drop("spec", "activeDeadlineSeconds")),
        Mutation(
            "GPU in Job", ("accelerator-disallow-in-preheat",), lambda r: _first(r)["resources"]["limits"].update({"nvidia.com/gpu": "1"})
        ),
    ),
    "Service": (
        Mutation("node port", ("network-disallow-node-port",), _put("NodePort", "spec", "type")),
        Mutation("load balancer", ("network-disallow-node-port",), _put("LoadBalancer", "spec", "type")),
        Mutation("external address", ("network-disallow-node-port",), _put(["192.0.2.1"], "spec", "externalIPs")),
        Mutation("called vllm", ("service-disallow-name-vllm",), _put("vllm", "metadata", "name")),
    ),
    "Ingress": (
        Mutation("any host", ("network-require-ingress-host",), lambda r: r["spec"]["rules"][0].pop("host") and None),
        Mutation("wildcard host", ("network-require-ingress-host",), lambda r: r["spec"]["rules"][0].update(host="*.example")),
        Mutation("no TLS", ("network-require-tls",), _drop("spec", "tls")),
        Mutation(
            "snippet",
            ("network-disallow-snippets",),
            _put("x", "metadata", "annotations", "nginx.ingress.kubernetes.io/configuration-snippet"),
        ),
    ),
    "NetworkPolicy": (
        Mutation("every port in", ("network-require-policy-ports", "stack-require-policy-before-models"), _add({}, "spec", "ingress")),
        Mutation("every port out", ("network-require-policy-ports",), _add({}, "spec", "egress")),
        Mutation(
            "metadata",
            ("network-disallow-metadata-egress",),
            _add({"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [{"port": 80}]}, "spec", "egress"),
        ),
    ),
    "PodDisruptionBudget": (
        Mutation("no disruption", ("rollout-disallow-blocking-budget",), _put({"maxUnavailable": 0}, "spec")),
        Mutation(
            "all available",
            ("rollout-disallow-blocking-budget",),
            lambda r: r["spec"].pop("maxUnavailable") and r["spec"].update(minAvailable="100%"),
        ),
        Mutation("nobody selected", ("stack-require-disruption-budget",), _put({"matchLabels": {"app": "nobody"}}, "spec", "selector")),
        Mutation(
            "as many as replicas",
            ("stack-disallow-budget-of-all-replicas",),
            lambda r: r["spec"].pop("maxUnavailable") and r["spec"].update(minAvailable=99),
        ),
    ),
    "Namespace": (
        Mutation(
            "privileged namespace",
            ("namespace-require-pod-security",),
            _put("privileged", "metadata", "labels", "pod-security.kubernetes.io/enforce"),
        ),
        Mutation(
            "unpinned profile",
            ("namespace-require-pod-security",),
            _drop("metadata", "labels", "pod-security.kubernetes.io/enforce-version"),
        ),
    ),
    "ConfigMap": (
        Mutation("key in clear", ("secret-disallow-in-config-map",), _put("0123456789", "data", "api-key")),
        Mutation("private key", ("secret-disallow-in-config-map",), _put("-----BEGIN PRIVATE KEY-----", "data", "note")),
    ),
    "PersistentVolume": (
        Mutation("deleted volume", ("volume-require-retain",), _put("Delete", "spec", "persistentVolumeReclaimPolicy")),
        Mutation("no mount options", ("volume-require-nfs-options",), lambda r: "nfs" in r["spec"] and _drop("spec", "mountOptions")(r)),
    ),
    "BucketPublicAccessBlock": tuple(
        Mutation(name, ("s3-disallow-public-access",), _put(False, name))
        for name in ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
    ),
    "BucketVersioning": (Mutation("no versions", ("s3-require-versioning",), _put("Suspended", "versioningConfiguration", "status")),),
    "BucketPolicy": (
        Mutation(
            "public bucket",
            ("s3-disallow-public-policy",),
            _put('{"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "*"}]}', "policy"),
        ),
        Mutation("clear text", ("s3-require-tls",), _put('{"Statement": []}', "policy")),
    ),
    "Bucket": (Mutation("public ACL", ("s3-disallow-public-acl",), _put("public-read", "acl")),),
    "FileSystem": (Mutation("clear file system", ("efs-require-encryption",), _put(False, "encrypted")),),
    "Cluster": (
        Mutation(
            "public endpoint",
            ("eks-disallow-public-endpoint",),
            lambda r: r["vpcConfig"].update(endpointPublicAccess=True, publicAccessCidrs=["0.0.0.0/0"]),
        ),
        Mutation("no audit", ("eks-require-logs",), _put(["api"], "enabledClusterLogTypes")),
        Mutation("no encryption", ("eks-require-secret-encryption",), _drop("encryptionConfig")),
        Mutation("old Kubernetes", ("eks-require-supported-version",), _put("1.27", "version")),
    ),
    "NodeGroup": (Mutation("Amazon Linux 2", ("eks-disallow-amazon-linux-2",), _put("AL2_x86_64_GPU", "amiType")),),
    "LaunchTemplate": (
        Mutation("IMDSv1", ("ec2-require-imdsv2",), _put("optional", "metadataOptions", "httpTokens")),
        Mutation("two hops", ("ec2-require-imdsv2",), _put(2, "metadataOptions", "httpPutResponseHopLimit")),
        Mutation(
            "clear disks",
            ("ec2-require-encrypted-volumes",),
            _clear_disks,
        ),
    ),
    "SecurityGroup": (
        Mutation(
            "open group",
            ("ec2-disallow-open-ingress",),
            _add({"protocol": "tcp", "fromPort": 8000, "toPort": 8000, "cidrBlocks": ["0.0.0.0/0"]}, "ingress"),
        ),
    ),
    "RolePolicy": (
        Mutation(
            "every action",
            ("iam-disallow-wildcard-actions",),
            _put('{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "arn:x"}]}', "policy"),
        ),
        Mutation(
            "every resource",
            ("iam-disallow-wildcard-resources",),
            _put('{"Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}', "policy"),
        ),
    ),
    "Role": (
        Mutation(
            "anybody",
            ("iam-disallow-wildcard-principal",),
            _put('{"Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}]}', "assumeRolePolicy"),
        ),
    ),
    "RolePolicyAttachment": (
        Mutation(
            "administrator", ("iam-disallow-broad-managed-policies",), _put("arn:aws:iam::aws:policy/AdministratorAccess", "policyArn")
        ),
    ),
}


def mutants_of(recording: Recording) -> Iterator[Mutant]:
    """Every mutant of `recording`, one changed resource each."""
    for position, each in enumerate(recording.registrations):
        kind = each.type.rpartition(":")[2]
        for mutation in RESOURCES.get(kind, ()):
            yield from _mutant(recording, position, mutation, mutation.edit, "")
        spec = _pod(each.inputs)
        if spec is None:
            continue
        for mutation in PODS:
            yield from _mutant(recording, position, mutation, lambda inputs, edit=mutation.edit: edit(_pod(inputs)), "")
        for group in ("containers", "initContainers"):
            for index in range(len(spec.get(group, []))):
                for mutation in CONTAINERS:
                    yield from _mutant(
                        recording,
                        position,
                        mutation,
                        lambda inputs, edit=mutation.edit, group=group, index=index: edit((_pod(inputs) or {})[group][index]),
                        f" {group}[{index}]",
                    )


def without(recording: Recording) -> Iterator[Mutant]:
    """The mutants that lack a resource, an edge or an option."""
    for position, each in enumerate(recording.registrations):
        kind = each.type.rpartition(":")[2]
        rules = {
            "PodDisruptionBudget": "stack-require-disruption-budget",
            "BucketPublicAccessBlock": "s3-require-block",
            "BucketServerSideEncryptionConfiguration": "s3-require-encryption",
            "BucketVersioning": "s3-require-versioning",
            "BucketPolicy": "s3-require-tls",
        }
        rule = rules.get(kind) or ("stack-require-default-deny" if each.name.endswith("default-deny") else "")
        if rule:
            yield Mutant(f"no {kind} {each.name}", each.urn, _replaced(recording, position, None), (rule,))
        if kind == "Deployment" and any("Job::" in urn for urn in each.dependencies):
            kept = tuple(urn for urn in each.dependencies if "Job::" not in urn)
            yield Mutant(
                f"no wait {each.name}",
                each.urn,
                _replaced(recording, position, dataclasses.replace(each, dependencies=kept)),
                ("stack-require-preheat-before-serving",),
            )
        if each.type.startswith("kubernetes:") and kind in ("Deployment", "Service", "Secret"):
            yield Mutant(
                f"default provider {kind} {each.name}",
                each.urn,
                _replaced(recording, position, dataclasses.replace(each, provider="")),
                ("stack-disallow-several-providers",),
            )


def _mutant(recording: Recording, position: int, mutation: Mutation, edit: Callable[[Any], bool | None], where: str) -> Iterator[Mutant]:
    before = recording.registrations[position]
    changed = dataclasses.replace(before, inputs=copy.deepcopy(before.inputs))
    if edit(changed.inputs) is False or changed.inputs == before.inputs:
        return
    name = f"{before.type.rpartition(':')[2]} {before.name}{where}: {mutation.name}"
    yield Mutant(name, before.urn, _replaced(recording, position, changed), mutation.rules)


def _replaced(recording: Recording, position: int, changed: Registration | None) -> Recording:
    listed = list(recording.registrations)
    listed[position : position + 1] = [] if changed is None else [changed]
    return dataclasses.replace(recording, registrations=tuple(listed))


def _pod(inputs: Inputs) -> Inputs | None:
    template = (inputs.get("spec") or {}).get("template") if isinstance(inputs.get("spec"), dict) else None
    return template.get("spec") if isinstance(template, dict) and "containers" in template.get("spec", {}) else None


def _first(inputs: Inputs) -> Inputs:
    return inputs["spec"]["template"]["spec"]["containers"][0]


def _is_engine(inputs: Inputs) -> bool:
    return _accelerates(inputs["spec"]["template"]["spec"])


def _accelerates(pod: Inputs) -> bool:
    limits = pod["containers"][0].get("resources", {}).get("limits", {})
    return "nvidia.com/gpu" in limits or "habana.ai/gaudi" in limits
