"""Start, health and shutdown of servers."""

import re

from inferplan.kube.names import INSTANCE_LABEL, MODEL_SIZE
from inferplan.kube.paths import mapping
from inferplan.kube.quantity import amount
from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import Stack
from inferplan.policies.engine.rule import (
    Parameters,
    Violations,
    resource_rule,
    stack_rule,
    violation,
    violations,
)
from inferplan.policies.subjects.pods import PODS, Container, PodTemplate
from inferplan.policies.subjects.workloads import engines_of

_SLEEP = re.compile(r"\bsleep\s+([0-9]+(?:\.[0-9]+)?)([smh]?)\b")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
# The defaults of Kubernetes.
_GRACE = 30
_DEADLINE = 600
_PERIOD = 10
_FAILURES = 3
_PATIENT = 5
"""Seconds after which an answer is late; many charts set them."""
# Words of a command that can only succeed, and paths that generate text.
_UNCONDITIONAL = re.compile(r"(/bin/|/usr/bin/)?(true|sh|bash|echo)|-c|:|exit 0|echo .*|ok")
# Programs and paths that end a server, unless they send the signal 0, which only asks for the
# process; and commands that can only fail.
_ENDS = re.compile(
    r"(?<![\w./-])((/usr)?/s?bin/)?(p?kill(?!\s+(-s"
    r" )?-?0\b)|killall5?|shutdown|reboot|poweroff|halt)(?![\w.=-])"
    r"|^/(\S*/)?(quit\w*|shutdown|exit|kill|stop|terminate|restart)$"
    r"|^((/bin/)?(ba)?sh -c )?((/usr)?(/bin/)?false|exit [1-9][0-9]*)$"
)
_GENERATES = re.compile(
    r"/v1/(chat/)?(completions|responses|messages)|/(generate|infer|health_generate)\b"
)
# Options that give requests time to finish.
_DRAIN_OPTIONS = ("--shutdown-timeout", "--exit-timeout-secs")


@resource_rule(PODS)
def pod_require_drain_time(pod: PodTemplate, parameters: Parameters) -> Violations:
    for container in pod.servers:
        needed, grace = drain_of(container), pod.at("terminationGracePeriodSeconds")
        if (
            needed
            and not pod.partial
            and grace.number_or(_GRACE) < needed + parameters["marginSeconds"]
        ):
            yield violation(grace, "is shorter than the containers' preStop and drain time")


@resource_rule(PODS)
def pod_require_liveness_probe(pod: PodTemplate, _: Parameters) -> Violations:
    yield from _missing_probes(pod, "livenessProbe")


@resource_rule(PODS)
def pod_require_readiness_probe(pod: PodTemplate, _: Parameters) -> Violations:
    yield from _missing_probes(pod, "readinessProbe")


@resource_rule(PODS)
def pod_require_startup_budget(pod: PodTemplate, parameters: Parameters) -> Violations:
    for container in pod.servers:
        probe = container.at("startupProbe")
        least = parameters["minimumSeconds"]
        if container.accelerated and not probe.absent and budget_of(probe) < least:
            yield violation(probe, f"gives less than {least:g} seconds")
        deadline = pod.resource.at("spec", "progressDeadlineSeconds")
        if container.accelerated and deadline.number_or(least) < least:
            yield violation(deadline, f"gives less than {least:g} seconds")


@resource_rule(PODS)
def pod_require_startup_probe(pod: PodTemplate, _: Parameters) -> Violations:
    yield from _missing_probes(pod, "startupProbe")


def _missing_probes(pod: PodTemplate, probe: str) -> Violations:
    return violations(
        (each.at(probe) for each in pod.probed), lambda field: not field.value, "is not set"
    )


@stack_rule
def stack_require_startup_budget_for_model(stack: Stack, parameters: Parameters) -> Violations:
    for pod in engines_of(stack):
        with stack.unreadable:
            size = _model_size(stack, pod)
            for container in pod.servers:
                probe = container.at("startupProbe")
                if (
                    size
                    and not probe.absent
                    and budget_of(probe) < size / parameters["bytesPerSecond"]
                ):
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
    """The seconds that a container needs to stop: its preStop sleep and the server's drain option,
    0 without both.
    """
    hook = container.at("lifecycle", "preStop")
    sleep = hook.at("sleep", "seconds").number() or 0
    command = " ".join(each.text() for each in hook.at("exec", "command").each())
    sleep += sum(float(number) * _SECONDS[unit] for number, unit in _SLEEP.findall(command))
    drain = next(
        (value for value in map(container.option, _DRAIN_OPTIONS) if value and value.isdigit()), "0"
    )
    return sleep + float(drain)


@resource_rule(PODS)
def pod_restrict_probe_timing(pod: PodTemplate, parameters: Parameters) -> Violations:
    ports = {
        port.at(key).text()
        for container in pod.containers
        for port in container.at("ports").each()
        for key in ("name", "containerPort")
    }
    for container in pod.containers:
        for name in ("livenessProbe", "readinessProbe", "startupProbe"):
            probe = container.at(name)
            if probe.absent:
                continue
            if container in pod.probed and container.at("ports").has_items:
                used = (probe.at(kind, "port") for kind in ("httpGet", "tcpSocket", "grpc"))
                yield from violations(
                    used,
                    lambda port: port.text() and port.text() not in ports,
                    "is a port that the pod does not open",
                )
            words = [*probe.at("exec", "command").texts(), probe.at("httpGet", "path").text()]
            if not any(_UNCONDITIONAL.fullmatch(each) is None for each in words if each):
                yield from violations(
                    probe.at("exec", "command"),
                    lambda field: field.has_items,
                    "succeeds always, so it checks nothing",
                )
            # A restart costs more than a removal from a Service.
            most = _PATIENT if name == "livenessProbe" else 1
            once = (
                probe.at("failureThreshold").number_or(_FAILURES) <= 1
                and probe.at("timeoutSeconds").number_or(1) <= most
            )
            if any(map(_ENDS.search, (*words, " ".join(words)))):
                yield violation(probe, "ends the server, or can only fail")
            if name != "startupProbe" and once:
                yield violation(probe.at("failureThreshold"), "lets one late answer decide")
            if name == "livenessProbe":
                yield from _hasty(probe, parameters["minimumSeconds"])
                if any(map(_GENERATES.search, words)):
                    yield violation(
                        probe, "waits for the queue of the model, so load alone restarts the server"
                    )
    delays = (
        pod.resource.at("spec", "minReadySeconds"),
        *(each.at("readinessProbe", "initialDelaySeconds") for each in pod.containers),
    )
    deadline = pod.resource.at("spec", "progressDeadlineSeconds").number_or(_DEADLINE)
    yield from violations(
        delays,
        lambda field: field.number_or(0) >= deadline,
        "is as long as a rollout may take, so none ever succeeds",
    )


def _hasty(probe: Field, seconds: float) -> Violations:
    """Settings of a liveness probe that kill a server too fast."""
    if (probe.at("periodSeconds").number() or _PERIOD) * (
        probe.at("failureThreshold").number() or _FAILURES
    ) < seconds:
        yield violation(
            probe.at("periodSeconds"), f"restarts the container after less than {seconds:g} seconds"
        )
    grace = probe.at("terminationGracePeriodSeconds")
    yield from violations(
        grace, lambda field: field.number() == 0, "kills the container without time to finish"
    )
