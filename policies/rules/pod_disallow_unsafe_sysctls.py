"""Pods set only safe sysctls."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate

SAFE = frozenset(
    [
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    ]
)


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    for each in pod.at("securityContext", "sysctls").each():
        if each.at("name").text() not in SAFE:
            yield found(each.at("name"), "changes the whole node")


RULE = Rule(
    id="pod-disallow-unsafe-sysctls",
    title="Pods set only safe sysctls",
    severity=Severity.HIGH,
    refs=("PSS baseline: Sysctls",),
    why="Other kernel parameters change the node for all its pods",
    remedy="remove the entry; only net.ipv4.* and kernel.shm_rmid_forced as listed in the baseline Pod Security Standard are allowed",
    subject=PODS,
    check=_check,
)
