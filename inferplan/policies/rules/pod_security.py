"""Pod Security Standards: what a restricted pod and its namespace must set."""

from __future__ import annotations

import re

from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import Resource, Stack
from inferplan.policies.engine.rule import (
    Parameters,
    Severity,
    Violations,
    must_be,
    parameter,
    resource_rule,
    stack_rule,
    violation,
    violations,
)
from inferplan.policies.subjects.device_plugins import inapplicable_rules
from inferplan.policies.subjects.pods import CONTAINERS, PODS, Container, PodTemplate

LABEL = "pod-security.kubernetes.io/"
SAFE_SYSCTLS = re.compile(
    r"kernel\.shm_rmid_forced|net\.ipv4\.(ip_local_port_range|ip_local_reserved_ports|ip_unprivileged_port_start|ping_group_range"
    r"|tcp_fin_timeout|tcp_keepalive_(intvl|probes|time)|tcp_rmem|tcp_syncookies|tcp_wmem)"
)
PROFILES = ("RuntimeDefault", "Localhost")
SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


@parameter("privileged", [], "Namespaces of drivers and device plugins, which need more privileges")
@stack_rule(Severity.HIGH, "PSS restricted; CIS EKS 4.2; NSA-CISA: pod security enforcement")
def namespace_require_pod_security(stack: Stack, parameters: Parameters) -> Violations:
    """Namespaces enforce the restricted Pod Security Standard.
    Why: The API server then rejects pods that a review missed. A namespace with only device plugins is exempt, because they mount the
    kubelet's directory.
    Remedy: label the namespace pod-security.kubernetes.io/enforce: restricted and pod-security.kubernetes.io/enforce-version: v1.34.
    """
    for namespace in stack.of("kubernetes:core:Namespace"):
        with stack.unreadable:
            if namespace.object_name not in parameters["privileged"] and not _has_only_device_plugins(stack, namespace):
                level, version = (namespace.at("metadata", "labels", f"{LABEL}{name}") for name in ("enforce", "enforce-version"))
                yield from violations(level, lambda field: field.text() != "restricted", "is not restricted")
                yield from violations(version, lambda field: not field.text().startswith("v"), "is not a fixed version")


def _has_only_device_plugins(stack: Stack, namespace: Resource) -> bool:
    """True if a namespace is labelled privileged and all its pods in the stack are device plugins of vendors. Raises FieldError."""
    if namespace.at("metadata", "labels", f"{LABEL}enforce").text() != "privileged":
        return False
    workloads = [each for each in stack.of(*sorted(PODS.kinds)) if each.namespace == namespace.object_name]
    return bool(workloads) and all(map(inapplicable_rules, workloads))


@resource_rule(CONTAINERS, Severity.HIGH, "PSS restricted: Capabilities; CIS EKS 4.2.8")
def pod_disallow_added_capabilities(container: Container, _: Parameters) -> Violations:
    """Containers add no capability.
    Why: Capabilities such as SYS_NICE, often copied from samples, give a pod power over its node.
    Remedy: remove securityContext.capabilities.add; only NET_BIND_SERVICE is allowed.
    """
    problem = "adds a capability that the restricted Pod Security Standard forbids"
    yield from violations(
        container.select("securityContext", "capabilities", "add", "*"), lambda each: each.text() != "NET_BIND_SERVICE", problem
    )


@resource_rule(PODS, Severity.CRITICAL, "PSS baseline: Host Namespaces; CIS EKS 4.2.2-4.2.4")
def pod_disallow_host_namespaces(pod: PodTemplate, _: Parameters) -> Violations:
    """Pods share no namespace with their node.
    Why: With the node's network, process or IPC namespace a pod can see other pods. A memory-backed /dev/shm replaces hostIPC.
    Remedy: remove hostNetwork, hostPID and hostIPC; mount a memory-backed emptyDir at /dev/shm for engines.
    """
    yield from violations(map(pod.at, ("hostNetwork", "hostPID", "hostIPC")), Field.flag, "shares a namespace with the node")
    processes = (each.at("securityContext", "windowsOptions", "hostProcess") for each in (pod, *pod.containers))
    yield from violations(processes, Field.flag, "runs as a process on the node")


@resource_rule(CONTAINERS, Severity.HIGH, "PSS baseline: Host Ports; NSA-CISA: network separation")
def pod_disallow_host_ports(container: Container, _: Parameters) -> Violations:
    """Containers open no port on their node.
    Why: A host port bypasses Services and network policies, and two replicas cannot run on one node.
    Remedy: remove hostPort, and use a Service to reach the pod.
    """
    yield from violations(container.select("ports", "*", "hostPort"), Field.number, "opens a port on the node")


@resource_rule(CONTAINERS, Severity.HIGH, "PSS restricted: Privilege Escalation; CIS EKS 4.2.5")
def pod_disallow_privilege_escalation(container: Container, _: Parameters) -> Violations:
    """No process gains more privileges than its parent.
    Why: A setuid program in the image would undo every other restriction.
    Remedy: set securityContext.allowPrivilegeEscalation: false on every container.
    """
    yield from must_be(container.at("securityContext", "allowPrivilegeEscalation"), value=False)


@resource_rule(CONTAINERS, Severity.CRITICAL, "PSS baseline: Privileged Containers; CIS EKS 4.2.1; NSA-CISA: non-root containers")
def pod_disallow_privileged(container: Container, _: Parameters) -> Violations:
    """No container is privileged.
    Why: A privileged container controls its node, with every model and key on it.
    Remedy: remove securityContext.privileged.
    """
    yield from violations(container.at("securityContext", "privileged"), Field.flag, "gives the container full control of its node")


@resource_rule(CONTAINERS, Severity.HIGH, "PSS baseline: /proc Mount Type")
def pod_disallow_unmasked_proc(container: Container, _: Parameters) -> Violations:
    """/proc stays masked.
    Why: An unmasked /proc lets a container read and change settings of the node.
    Remedy: remove securityContext.procMount.
    """
    yield from violations(container.at("securityContext", "procMount"), lambda mount: mount.text() not in ("", "Default"), "is not Default")


@resource_rule(PODS, Severity.HIGH, "PSS baseline: Sysctls")
def pod_disallow_unsafe_sysctls(pod: PodTemplate, _: Parameters) -> Violations:
    """Pods set only safe sysctls.
    Why: Other kernel parameters change the node for all its pods.
    Remedy: remove the entry; only net.ipv4.* and kernel.shm_rmid_forced as listed in the baseline Pod Security Standard are allowed.
    """
    names = pod.select("securityContext", "sysctls", "*", "name")
    yield from violations(names, lambda name: not SAFE_SYSCTLS.fullmatch(name.text()), "changes the whole node")


@resource_rule(CONTAINERS, Severity.HIGH, "PSS restricted: Capabilities; CIS EKS 4.2.7")
def pod_require_drop_all_capabilities(container: Container, _: Parameters) -> Violations:
    """Containers drop all capabilities.
    Why: The default set includes capabilities that no inference server needs, for example raw sockets.
    Remedy: set securityContext.capabilities.drop: [ALL] on every container.
    """
    dropped = container.at("securityContext", "capabilities", "drop")
    yield from violations(dropped, lambda field: "ALL" not in field.texts(), "does not contain ALL")


@resource_rule(PODS, Severity.HIGH, "PSS restricted: Running as Non-root; CIS EKS 4.2.6; NSA-CISA: non-root containers")
def pod_require_non_root(pod: PodTemplate, _: Parameters) -> Violations:
    """Containers run as a user and groups other than root.
    Why: A process that escapes a container as root is root on the node, and the group of root may read and write many of its files.
    Remedy: set securityContext.runAsNonRoot: true, and runAsUser, runAsGroup, fsGroup and supplementalGroups above 0 on the pod.
    """
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


@resource_rule(CONTAINERS, Severity.MEDIUM, "CIS EKS 4.2; NSA-CISA: immutable container file systems")
def pod_require_read_only_root(container: Container, _: Parameters) -> Violations:
    """Containers have a read-only root file system.
    Why: An attacker cannot replace files that cannot be written, and nothing fills the node's disk unnoticed. Containers with NVIDIA
    accelerators are exempt, because NVIDIA's hook writes to their root file system.
    Remedy: set securityContext.readOnlyRootFilesystem: true, and mount an emptyDir with a sizeLimit where the program writes.
    """
    # NVIDIA's container hook writes ld.so.cache into the root when it adds the driver's libraries (kserve config-llm-template, read 2026-11).
    field = container.at("securityContext", "readOnlyRootFilesystem")
    if field.flag() is not True and not any(vendor == "nvidia" for vendor, _, _ in container.accelerators()):
        yield violation(field, "is not true")


@resource_rule(PODS, Severity.HIGH, "PSS restricted: Seccomp; CIS EKS 4.2.10")
def pod_require_seccomp(pod: PodTemplate, _: Parameters) -> Violations:
    """Containers have a seccomp profile.
    Why: Without a profile, the container can use every system call of the kernel.
    Remedy: set securityContext.seccompProfile.type: RuntimeDefault on the pod.
    """
    default = pod.at("securityContext", "seccompProfile", "type")
    for container in pod.containers:
        own = container.at("securityContext", "seccompProfile", "type")
        profile = default if own.absent and pod.inherits else own
        if profile.text() not in PROFILES:
            yield violation(profile, "is neither RuntimeDefault nor Localhost")


@resource_rule(PODS, Severity.HIGH, "PSS baseline: AppArmor; PSS baseline: SELinux")
def pod_restrict_security_profiles(pod: PodTemplate, _: Parameters) -> Violations:
    """AppArmor and SELinux stay enforced.
    Why: An unconfined container, or one with its own SELinux user or role, escapes the profile that limits it.
    Remedy: use RuntimeDefault or Localhost for AppArmor, and set no SELinux user, role or unusual type.
    """
    for context in (each.at("securityContext") for each in (pod, *pod.containers)):
        profile, selinux = context.at("appArmorProfile", "type"), context.at("seLinuxOptions")
        yield from violations(profile, lambda field: field.text() not in ("", *PROFILES), "disables AppArmor")
        problem = "is a type that the baseline Pod Security Standard forbids"
        yield from violations(selinux.at("type"), lambda field: field.text() not in SELINUX_TYPES, problem)
        yield from violations(map(selinux.at, ("user", "role")), Field.text, "sets an SELinux identity")
    for key, profile in pod.metadata.at("annotations").entries():
        if key.startswith(APPARMOR) and profile.text() not in ("", "runtime/default") and not profile.text().startswith("localhost/"):
            yield violation(profile, "disables AppArmor")
