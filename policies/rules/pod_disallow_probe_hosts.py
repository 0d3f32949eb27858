"""Probes and hooks call the container itself."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container

HANDLERS = (
    ("livenessProbe",),
    ("readinessProbe",),
    ("startupProbe",),
    ("lifecycle", "preStop"),
    ("lifecycle", "postStart"),
)


def _check(container: Container, _: Parameters) -> Findings:
    for keys in HANDLERS:
        for kind in ("httpGet", "tcpSocket"):
            host = container.at(*keys, kind, "host")
            if host.text():
                yield found(host, "makes the kubelet call another host")


RULE = Rule(
    id="pod-disallow-probe-hosts",
    title="Probes and hooks call the container itself",
    severity=Severity.MEDIUM,
    refs=("PSS baseline: Host Probes / Lifecycle Hooks",),
    why=(
        "The kubelet sends these requests from the node, past every network policy. Since Kubernetes 1.34 the baseline Pod "
        "Security Standard rejects such pods"
    ),
    remedy="remove host from the httpGet or tcpSocket of the probe or hook",
    subject=CONTAINERS,
    check=_check,
)
