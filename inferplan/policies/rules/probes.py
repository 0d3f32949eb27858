"""Start, health and shutdown of servers."""

from __future__ import annotations

import re

from inferplan.kube.names import INSTANCE_LABEL, MODEL_SIZE
from inferplan.kube.paths import mapping
from inferplan.kube.quantity import amount
from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import Stack
from inferplan.policies.engine.rule import Parameters, Severity, Violations, parameter, resource_rule, stack_rule, violation, violations
from inferplan.policies.subjects.pods import CONTAINERS, PODS, Container, PodTemplate
from inferplan.policies.subjects.workloads import engines_of

_SLEEP = re.compile(r"\bsleep\s+([0-9]+(?:\.[0-9]+)?)([smh]?)\b")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
# The defaults of Kubernetes.
_GRACE = 30
_PERIOD = 10
_FAILURES = 3
# Options that give requests time to finish.
_DRAIN_OPTIONS = ("--shutdown-timeout", "--exit-timeout-secs")
HANDLERS = (("livenessProbe",), ("readinessProbe",), ("startupProbe",), ("lifecycle", "preStop"), ("lifecycle", "postStart"))


@parameter("marginSeconds", 5, "Seconds between the end of draining and the end of the grace period")
@resource_rule(PODS, Severity.HIGH)
def pod_require_drain_time(pod: PodTemplate, parameters: Parameters) -> Violations:
    """Pods have enough time to shut down.
    Why: Kubernetes kills a pod when its grace period ends, which includes preStop. Answers that are still streaming are cut off.
    Remedy: set terminationGracePeriodSeconds to the preStop sleep plus the server's drain time plus 5 seconds.
    """
    for container in pod.servers:
        needed, grace = drain_of(container), pod.at("terminationGracePeriodSeconds")
        if needed and not pod.partial and grace.number_or(_GRACE) < needed + parameters["marginSeconds"]:
            yield violation(grace, "is shorter than the containers' preStop and drain time")


@resource_rule(PODS, Severity.MEDIUM, "inference; CKV_K8S_8")
def pod_require_liveness_probe(pod: PodTemplate, _: Parameters) -> Violations:
    """Servers have a liveness probe.
    Why: An engine that lost its accelerator hangs without exiting. Only a liveness probe restarts it.
    Remedy: give every container with ports a livenessProbe.
    """
    yield from _missing_probes(pod, "livenessProbe")


@resource_rule(PODS, Severity.HIGH, "inference; CKV_K8S_9")
def pod_require_readiness_probe(pod: PodTemplate, _: Parameters) -> Violations:
    """Servers have a readiness probe.
    Why: Without a readiness probe, traffic arrives while the model is still loading.
    Remedy: give every container with ports a readinessProbe.
    """
    yield from _missing_probes(pod, "readinessProbe")


@parameter("minimumSeconds", 600, "Minimum time in seconds that a server with accelerators has to start", minimum=1)
@resource_rule(PODS, Severity.HIGH)
def pod_require_startup_budget(pod: PodTemplate, parameters: Parameters) -> Violations:
    """Model servers have enough time to start.
    Why: If the startup probe ends before the model is loaded, Kubernetes restarts the server in a loop.
    Remedy: raise startupProbe.failureThreshold x periodSeconds.
    """
    for container in pod.servers:
        probe = container.at("startupProbe")
        if container.accelerated and not probe.absent and budget_of(probe) < parameters["minimumSeconds"]:
            yield violation(probe, f"gives less than {parameters['minimumSeconds']:g} seconds")


@resource_rule(PODS, Severity.HIGH)
def pod_require_startup_probe(pod: PodTemplate, _: Parameters) -> Violations:
    """Servers have a startup probe.
    Why: Loading a model takes minutes. Without a startup probe the liveness probe restarts the server before it is ready, indefinitely.
    Remedy: give every container with ports a startupProbe with enough time to load the model.
    """
    yield from _missing_probes(pod, "startupProbe")


def _missing_probes(pod: PodTemplate, probe: str) -> Violations:
    return violations((each.at(probe) for each in pod.probed), lambda field: not field.value, "is not set")


@parameter("bytesPerSecond", 200000000.0, "Minimum speed at which a server reads its weights, in bytes per second", minimum=1)
@stack_rule(Severity.HIGH)
def stack_require_startup_budget_for_model(stack: Stack, parameters: Parameters) -> Violations:
    """Servers have enough time to load their declared model.
    Why: If the startup probe ends before the model is loaded, Kubernetes restarts the server in a loop.
    Remedy: raise startupProbe.failureThreshold x periodSeconds, or parameters.stack-require-startup-budget-for-model.bytesPerSecond if the
    store is faster.
    """
    for pod in engines_of(stack):
        with stack.unreadable:
            size = _model_size(stack, pod)
            for container in pod.servers:
                probe = container.at("startupProbe")
                if size and not probe.absent and budget_of(probe) < size / parameters["bytesPerSecond"]:
                    yield violation(probe, "is shorter than the time to load the declared model")


def _model_size(stack: Stack, pod: PodTemplate) -> float | None:
    size = pod.metadata.at("annotations", MODEL_SIZE).quantity()
    model = pod.resource.at("metadata", "labels", INSTANCE_LABEL).text() or pod.resource.object_name
    stated = amount(mapping(stack.facts.get(("model", model)), "weights").get("size"))
    return float(stated) if size is None and stated is not None else size


def budget_of(probe: Field) -> float:
    """The time until a probe fails, in seconds."""
    period = probe.at("periodSeconds").number() or _PERIOD
    failures = probe.at("failureThreshold").number() or _FAILURES
    return (probe.at("initialDelaySeconds").number() or 0) + period * failures


def drain_of(container: Container) -> float:
    """The seconds that a container needs to stop: its preStop sleep and the server's drain option, 0 without both."""
    hook = container.at("lifecycle", "preStop")
    sleep = hook.at("sleep", "seconds").number() or 0
    command = " ".join(each.text() for each in hook.at("exec", "command").each())
    sleep += sum(float(number) * _SECONDS[unit] for number, unit in _SLEEP.findall(command))
    drain = next((value for value in map(container.option, _DRAIN_OPTIONS) if value and value.isdigit()), "0")
    return sleep + float(drain)


@resource_rule(CONTAINERS, Severity.MEDIUM, "PSS baseline: Host Probes / Lifecycle Hooks")
def pod_disallow_probe_hosts(container: Container, _: Parameters) -> Violations:
    """Probes and hooks call the container itself.
    Why: The kubelet sends these requests from the node, past every network policy. Since Kubernetes 1.34 the baseline Pod Security Standard
    rejects such pods.
    Remedy: remove host from the httpGet or tcpSocket of the probe or hook.
    """
    hosts = (container.at(*keys, kind, "host") for keys in HANDLERS for kind in ("httpGet", "tcpSocket"))
    yield from violations(hosts, Field.text, "makes the kubelet call another host")


@parameter("minimumSeconds", 15, "Minimum time in seconds without an answer before a container is restarted", minimum=1)
@resource_rule(PODS, Severity.HIGH, "inference; kube-linter: liveness-port, readiness-port; Kubernetes: Probes")
def pod_restrict_probe_timing(pod: PodTemplate, parameters: Parameters) -> Violations:
    """Probes restart and remove servers only if they really hang.
    Why: A server that is busy with a long prompt answers late. If one late answer restarts it, load alone takes the model down.
    Remedy: set failureThreshold: 3 and timeoutSeconds: 5 or more, keep terminationGracePeriodSeconds above 0, and probe a port of the pod.
    """
    ports = {
        port.at(key).text() for container in pod.containers for port in container.at("ports").each() for key in ("name", "containerPort")
    }
    for container in pod.containers:
        for name in ("livenessProbe", "readinessProbe", "startupProbe"):
            probe = container.at(name)
            if probe.absent:
                continue
            if container in pod.probed and container.at("ports").has_items:
                used = (probe.at(kind, "port") for kind in ("httpGet", "tcpSocket", "grpc"))
                yield from violations(used, lambda port: port.text() and port.text() not in ports, "is a port that the pod does not open")
            once = probe.at("failureThreshold").number_or(_FAILURES) <= 1 and probe.at("timeoutSeconds").number_or(1) <= 1
            if name != "startupProbe" and once:
                yield violation(probe.at("failureThreshold"), "lets one late answer decide")
            if name == "livenessProbe":
                yield from _hasty(probe, parameters["minimumSeconds"])


def _hasty(probe: Field, seconds: float) -> Violations:
    """Settings of a liveness probe that kill a server too fast."""
    if (probe.at("periodSeconds").number() or _PERIOD) * (probe.at("failureThreshold").number() or _FAILURES) < seconds:
        yield violation(probe.at("periodSeconds"), f"restarts the container after less than {seconds:g} seconds")
    grace = probe.at("terminationGracePeriodSeconds")
    yield from violations(grace, lambda field: field.number() == 0, "kills the container without time to finish")
