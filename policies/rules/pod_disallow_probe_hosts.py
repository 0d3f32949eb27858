"""Probes and hooks ask the container itself."""

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
                yield found(host, "sends the kubelet to another host")


RULE = Rule(
    id="pod-disallow-probe-hosts",
    title="Probes and hooks ask the container itself",
    severity=Severity.MEDIUM,
    refs=("PSS baseline: Host Probes / Lifecycle Hooks",),
    why="The kubelet asks from the node, past every network policy; since 1.34 the baseline profile refuses such pods",
    remedy="remove host from the probe's or hook's httpGet or tcpSocket",
    subject=CONTAINERS,
    check=_check,
)
