"""Requests for accelerators, and what they need from a pod."""

import re
from collections.abc import Sequence
from math import prod

from inferplan.hardware.accelerators import vendors
from inferplan.hardware.machines import ec2_devices
from inferplan.kube.names import HUGEPAGES, MIG_PREFIX, RESOURCE_VENDORS, vendor_of
from inferplan.kube.pod_templates import RAY_CLUSTERS
from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import Resource, Stack
from inferplan.policies.engine.rule import (
    Parameters,
    Violations,
    resource_rule,
    stack_rule,
    violation,
    violations,
)
from inferplan.policies.subjects.placement import UNLIMITED, demand_of, eks_accelerators
from inferplan.policies.subjects.pods import CONTAINERS, PODS, Container, PodTemplate, judged_pods
from inferplan.policies.subjects.serving import row_of, started_engine
from inferplan.policies.subjects.workloads import copies_of, group_size_of, pods_of

# Programs that compile engines, which needs an accelerator: TensorRT-LLM's, and ours for the
# `build` section.
BUILDERS = frozenset(["trtllm-build", "components.serving.tensorrt_llm.payload.engines"])
DEVICE_VARIABLES = "(HABANA|HL|NVIDIA|CUDA)_VISIBLE_DEVICES|HABANA_VISIBLE_MODULES"
HIDE_ALL = ("void", "none")
# Alternative options of each parallel size: the first one on the command line counts.
SIZES = (
    (("--tensor-parallel-size", "-tp"),),
    (("--pipeline-parallel-size", "-pp"),),
    (("--data-parallel-size-local", "-dpl"), ("--data-parallel-size", "-dp")),
)
SHARED_MEMORY = ("/dev/shm", "/dev")  # noqa: S108 - where engines map it, not a place for files
FOR_GAUDI = re.compile(r"habana|gaudi|(^|[-_/.:])hpu([-_/.:]|$)", re.IGNORECASE)


@resource_rule(PODS)
def accelerator_disallow_in_preheat(pod: PodTemplate, parameters: Parameters) -> Violations:
    if (
        pod.runs_to_end or pod.resource.short_kind == "DaemonSet"
    ) and pod.resource.name not in parameters["jobs"]:
        for container in pod.containers:
            if pod.runs_to_end and not BUILDERS.isdisjoint(container.words):
                continue
            fields = (field for _vendor, _side, field in container.accelerators)
            yield from violations(
                fields, Field.quantity, f"requests an accelerator in a {pod.resource.short_kind}"
            )
        yield from (
            violation(each, f"claims a device in a {pod.resource.short_kind}")
            for each in pod.at("resourceClaims").each()
        )


@stack_rule
def accelerator_require_pool_taint(stack: Stack, _: Parameters) -> Violations:
    problem = "keeps no pod without accelerators away"
    open_to_all = False
    for pool in stack.of("kubernetes:karpenter.sh:NodePool"):
        with stack.unreadable:
            template = pool.at("spec", "template", "spec")
            if _is_tainted(template.at("taints")):
                continue
            if _grows_accelerators(pool, template):
                yield violation(template.at("taints"), problem)
            else:
                keys = [each.at("key").text() for each in template.at("requirements").each()]
                open_to_all |= any(
                    key.endswith(("instance-type", "instance-family", "instance-category"))
                    for key in keys
                )
    bare: list[Field] = []
    for group in stack.of("aws:eks:NodeGroup"):
        with stack.unreadable:
            if not _is_tainted(group.at("taints")):
                accelerators = eks_accelerators(stack, group)
                if accelerators and accelerators != UNLIMITED:
                    bare.append(group.at("taints"))
                else:
                    open_to_all = True
    # The only group of a small cluster runs the system's pods too.
    if open_to_all:
        yield from (violation(each, problem) for each in bare)


def _is_tainted(taints: Field) -> bool:
    effects = {each.at("effect").text().replace("_", "").lower() for each in taints.each()}
    return not effects.isdisjoint(("noschedule", "noexecute"))


def _grows_accelerators(pool: Resource, template: Field) -> bool:
    """True if each node of a pool of Karpenter has accelerators: by its limits, its instance types
    or families, or a requirement on the number or name of them.
    """
    if any(vendor_of(name) for name, _ in pool.at("spec", "limits").entries()):
        return True
    for each in template.at("requirements").each():
        key = each.at("key").text().rpartition("/")[2]
        if each.at("operator").text() not in ("In", "Exists", "Gt"):
            continue
        if key.startswith(("instance-gpu-", "instance-accelerator-")) or (
            key in ("instance-type", "instance-family")
            and _have_accelerators(each.at("values").texts())
        ):
            return True
    return False


def _have_accelerators(names: Sequence[str]) -> bool:
    """True if all `names` of EC2 types or families have accelerators."""
    families = {name.partition(".")[0] for name, (resource, _) in ec2_devices().items() if resource}
    return bool(names) and all(each.partition(".")[0] in families for each in names)


@resource_rule(CONTAINERS)
def accelerator_disallow_visible_devices(container: Container, _: Parameters) -> Violations:
    entries = container.variables(DEVICE_VARIABLES)
    yield from violations(
        entries,
        lambda entry: entry.at("value").text() not in HIDE_ALL,
        "overrides the allocation of the device plugin",
    )


@resource_rule(CONTAINERS)
def accelerator_require_integer(container: Container, _: Parameters) -> Violations:
    fields = (field for _vendor, _side, field in container.accelerators)
    yield from violations(
        fields, lambda field: (field.quantity() or 0) % 1, "is not a whole number"
    )


@resource_rule(PODS)
def accelerator_require_pool(pod: PodTemplate, _: Parameters) -> Violations:
    affinity = pod.at("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    if pod.demand and not pod.at("nodeSelector").value and not affinity.value:
        yield violation(pod.at("nodeSelector"), "is not set, but the pod requests accelerators")


@resource_rule(CONTAINERS)
def accelerator_require_request_equals_limit(container: Container, _: Parameters) -> Violations:
    for _vendor, side, field in container.accelerators:
        name = str(field.keys[-1])
        limit = container.at("resources", "limits", name)
        if limit.absent or (side == "requests" and field.quantity() != limit.quantity()):
            yield violation(field, "differs from the limit")


@stack_rule
def accelerator_require_tensor_parallel_fit(stack: Stack, _: Parameters) -> Violations:
    for pod in judged_pods(stack, "accelerator-require-tensor-parallel-fit"):
        with stack.unreadable:
            yield from _sizes_without_fit(stack, pod)


def _sizes_without_fit(stack: Stack, pod: PodTemplate) -> Violations:
    for container in pod.containers:
        limits = [
            (vendor, field.quantity() or 0)
            for vendor, side, field in container.accelerators
            if side == "limits"
        ]
        if container.at("resources", "claims").has_items:
            claimed = demand_of(stack, pod)
            limits += [(each, claimed[each] - pod.demand.get(each, 0)) for each in claimed]
        # A device of the accelerator tables is one rank. A Neuron device has several cores.
        accelerators = sum(count for vendor, count in limits if vendor in vendors())
        if (
            not accelerators
            or started_engine(container) != "vllm"
            or _spans_cluster(pod, container)
        ):
            continue
        parts = any(
            name.startswith(MIG_PREFIX) for name, _ in container.at("resources", "limits").entries()
        )
        if parts and any(container.option(*names) not in (None, "1") for (names,) in SIZES[:2]):
            yield violation(
                container.at("args"),
                "splits a model between parts of accelerators, which NCCL cannot connect",
            )
        ranks = _ranks(container)
        nodes = container.option("--nnodes", "-n") or ""
        if ranks is None:
            yield violation(
                container.at("args"), "takes a parallel size from a source that no rule can read"
            )
        elif ranks != accelerators * (int(nodes) if nodes.isdigit() else group_size_of(pod)):
            yield violation(
                container.at("args"), "does not match the number of accelerators of its pods"
            )


def _ranks(container: Container) -> int | None:
    """The product of the parallel sizes of an engine; None if a rule cannot read one of them."""
    sizes = [
        next((value for names in each if (value := container.option(*names)) is not None), "1")
        for each in SIZES
    ]
    return prod(int(each) for each in sizes) if all(each.isdigit() for each in sizes) else None


@resource_rule(PODS)
def accelerator_require_shared_memory(pod: PodTemplate, _: Parameters) -> Violations:
    for container in pod.running:
        count = sum(
            field.quantity() or 0
            for _vendor, side, field in container.accelerators
            if side == "limits"
        )
        if pod.at("resourceClaims").has_items:
            count = max(count, _ranks(container) or 0)
        engine = started_engine(container)
        if count < 2 or not engine or "shares" not in row_of(engine) or pod.at("hostIPC").flag():
            continue
        mounts = container.at("volumeMounts").each()
        if not any(each.at("mountPath").text().rstrip("/") in SHARED_MEMORY for each in mounts):
            yield violation(
                container.at("volumeMounts"), "contains no volume at /dev/shm for several ranks"
            )


def _spans_cluster(pod: PodTemplate, container: Container) -> bool:
    """True if the engine uses the accelerators of a whole Ray cluster, not only those of its pod."""
    return (
        pod.resource.kind in RAY_CLUSTERS
        and container.option("--distributed-executor-backend") == "ray"
    )


@resource_rule(PODS)
def accelerator_require_toleration(pod: PodTemplate, parameters: Parameters) -> Violations:
    keys = {each.at("key").text() for each in pod.at("tolerations").each()}
    for vendor in pod.demand:
        taints = {name for name, owner in RESOURCE_VENDORS.items() if owner == vendor}
        if not keys & {*taints, *parameters["taints"], ""}:
            yield violation(pod.at("tolerations"), "has no toleration for the accelerator's taint")
    # The pod does not say which vendor's device a claim is for, so the taint of any vendor is
    # enough.
    if (
        pod.at("resourceClaims").has_items
        and not pod.demand
        and not keys & {*RESOURCE_VENDORS, *parameters["taints"], ""}
    ):
        yield violation(
            pod.at("tolerations"), "has no toleration for the taint of a claimed accelerator"
        )


@resource_rule(CONTAINERS)
def accelerator_require_vendor_image(container: Container, _: Parameters) -> Violations:
    vendors = {vendor for vendor, _side, _field in container.accelerators}
    for_gaudi = bool(FOR_GAUDI.search(container.at("image").text()))
    if vendors and for_gaudi != ("habana" in vendors):
        yield violation(container.at("image"), "is built for accelerators of another vendor")


@resource_rule(CONTAINERS)
def gaudi_require_huge_pages(container: Container, _: Parameters) -> Violations:
    if any(vendor == "habana" for vendor, _side, _field in container.accelerators):
        limit = container.at("resources", "limits", HUGEPAGES)
        request = container.at("resources", "requests", HUGEPAGES)
        if not limit.quantity():
            yield violation(limit, "is not set, but the container requests Gaudi")
        elif not request.absent and request.quantity() != limit.quantity():
            yield violation(request, "differs from the limit")


@resource_rule(PODS)
def gaudi_require_runtime_class(pod: PodTemplate, _: Parameters) -> Violations:
    if not pod.partial and "habana" in pod.demand and not pod.at("runtimeClassName").text():
        yield violation(pod.at("runtimeClassName"), "is not set, but the pod requests Gaudi")


@stack_rule
def stack_require_own_claims(stack: Stack, _: Parameters) -> Violations:
    claims: set[tuple[str, str]] = set()
    for pod in pods_of(stack):
        with stack.unreadable:
            for reference in pod.at("resourceClaims").each():
                claim = reference.at("resourceClaimName")
                if not claim.text():
                    continue
                key = (pod.resource.namespace, claim.text())
                if (key in claims or copies_of(pod) > 1) and not _is_shared(stack, pod, claim):
                    yield violation(claim, "is shared by several pods")
                claims.add(key)


def _is_shared(stack: Stack, pod: PodTemplate, claim: Field) -> bool:
    """True if the stack declares the claim with NVIDIA's parameters for sharing its device. Raises
    FieldError.
    """
    declared = stack.named(claim.text(), pod.resource, "kubernetes:resource.k8s.io:ResourceClaim")
    return any(
        config.at("opaque", "parameters", "sharing", "strategy").text()
        for each in declared
        for config in each.at("spec", "devices", "config").each()
    )
