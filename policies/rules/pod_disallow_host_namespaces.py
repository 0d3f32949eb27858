"""Pods share no namespace with their node."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.at(name).flag():
            yield found(pod.at(name), "shares a namespace with the node")
    for context in (pod.at("securityContext"), *(each.at("securityContext") for each in pod.containers)):
        process = context.at("windowsOptions", "hostProcess")
        if process.flag():
            yield found(process, "runs as a process on the node")


RULE = Rule(
    id="pod-disallow-host-namespaces",
    title="Pods share no namespace with their node",
    severity=Severity.CRITICAL,
    refs=(
        "PSS baseline: Host Namespaces",
        "CIS EKS 4.2.2-4.2.4",
    ),
    why="With the node's network, process or IPC namespace a pod can see other pods. A memory-backed /dev/shm replaces hostIPC",
    remedy="remove hostNetwork, hostPID and hostIPC; mount a memory-backed emptyDir at /dev/shm for engines",
    subject=PODS,
    check=_check,
)
