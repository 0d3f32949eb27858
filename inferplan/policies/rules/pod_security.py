"""Pod Security Standards: what a restricted pod and its namespace must set."""

from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import Resource, Stack
from inferplan.policies.engine.rule import (
    Parameters,
    Violations,
    must_be,
    resource_rule,
    stack_rule,
    violation,
    violations,
)
from inferplan.policies.subjects.device_plugins import inapplicable_rules
from inferplan.policies.subjects.placement import demand_of
from inferplan.policies.subjects.pods import PODS, Container, PodTemplate, judged_pods

LABEL = "pod-security.kubernetes.io/"
PROFILES = ("RuntimeDefault", "Localhost")
SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


@stack_rule
def namespace_require_pod_security(stack: Stack, parameters: Parameters) -> Violations:
    for namespace in stack.of("kubernetes:core:Namespace"):
        with stack.unreadable:
            if namespace.object_name not in parameters[
                "privileged"
            ] and not _has_only_device_plugins(stack, namespace):
                level, version = (
                    namespace.at("metadata", "labels", f"{LABEL}{name}")
                    for name in ("enforce", "enforce-version")
                )
                yield from violations(
                    level, lambda field: field.text() != "restricted", "is not restricted"
                )
                yield from violations(
                    version,
                    lambda field: not field.text().startswith("v"),
                    "is not a fixed version",
                )


def _has_only_device_plugins(stack: Stack, namespace: Resource) -> bool:
    """True if a namespace is labelled privileged and all its pods in the stack are device plugins
    of vendors. Raises FieldError.
    """
    if namespace.at("metadata", "labels", f"{LABEL}enforce").text() != "privileged":
        return False
    workloads = [
        each for each in stack.of(*sorted(PODS.kinds)) if each.namespace == namespace.object_name
    ]
    return bool(workloads) and all(map(inapplicable_rules, workloads))


@resource_rule(PODS)
def pod_disallow_host_namespaces(pod: PodTemplate, _: Parameters) -> Violations:
    yield from violations(
        map(pod.at, ("hostNetwork", "hostPID", "hostIPC")),
        Field.flag,
        "shares a namespace with the node",
    )
    processes = (
        each.at("securityContext", "windowsOptions", "hostProcess")
        for each in (pod, *pod.containers)
    )
    yield from violations(processes, Field.flag, "runs as a process on the node")


@resource_rule(PODS)
def pod_require_non_root(pod: PodTemplate, _: Parameters) -> Violations:
    default = pod.at("securityContext")
    groups = (default.at("fsGroup"), *default.at("supplementalGroups").each())
    yield from violations(groups, _is_zero, "is the group of root")
    yield from _root_of(default)
    for container in pod.containers:
        own = container.at("securityContext")
        yield from _root_of(own)
        inherited = own.at("runAsNonRoot").absent and pod.inherits
        yield from must_be((default if inherited else own).at("runAsNonRoot"), value=True)


def _root_of(context: Field) -> Violations:
    yield from violations(context.at("runAsUser"), _is_zero, "is root")
    yield from violations(context.at("runAsGroup"), _is_zero, "is the group of root")


def _is_zero(field: Field) -> bool:
    return field.number() == 0


@stack_rule
def pod_require_read_only_root(stack: Stack, _: Parameters) -> Violations:
    for pod in judged_pods(stack, "pod-require-read-only-root"):
        for container in pod.containers:
            with stack.unreadable:
                field = container.at("securityContext", "readOnlyRootFilesystem")
                if field.flag() is not True and not _has_nvidia(stack, pod, container):
                    yield violation(field, "is not true")


def _has_nvidia(stack: Stack, pod: PodTemplate, container: Container) -> bool:
    """True if the container has NVIDIA's devices, whose hook writes ld.so.cache into the root when it
    adds the driver's libraries (kserve config-llm-template, read 2026-11). Raises FieldError.
    """
    if any(vendor == "nvidia" for vendor, _, _ in container.accelerators):
        return True
    return container.at("resources", "claims").has_items and "nvidia" in demand_of(stack, pod)


@resource_rule(PODS)
def pod_require_seccomp(pod: PodTemplate, _: Parameters) -> Violations:
    default = pod.at("securityContext", "seccompProfile", "type")
    for container in pod.containers:
        own = container.at("securityContext", "seccompProfile", "type")
        profile = default if own.absent and pod.inherits else own
        if profile.text() not in PROFILES:
            yield violation(profile, "is neither RuntimeDefault nor Localhost")


@resource_rule(PODS)
def pod_restrict_security_profiles(pod: PodTemplate, _: Parameters) -> Violations:
    for context in (each.at("securityContext") for each in (pod, *pod.containers)):
        profile, selinux = context.at("appArmorProfile", "type"), context.at("seLinuxOptions")
        yield from violations(
            profile, lambda field: field.text() not in ("", *PROFILES), "disables AppArmor"
        )
        problem = "is a type that the baseline Pod Security Standard forbids"
        yield from violations(
            selinux.at("type"), lambda field: field.text() not in SELINUX_TYPES, problem
        )
        yield from violations(
            map(selinux.at, ("user", "role")), Field.text, "sets an SELinux identity"
        )
    for key, profile in pod.metadata.at("annotations").entries():
        if (
            key.startswith(APPARMOR)
            and profile.text() not in ("", "runtime/default")
            and not profile.text().startswith("localhost/")
        ):
            yield violation(profile, "disables AppArmor")
