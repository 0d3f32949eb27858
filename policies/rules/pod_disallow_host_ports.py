"""Containers open no port on their node."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container


def _check(container: Container, _: Parameters) -> Findings:
    for port in container.at("ports").each():
        if port.at("hostPort").number():
            yield found(port.at("hostPort"), "opens a port on the node")


RULE = Rule(
    id="pod-disallow-host-ports",
    title="Containers open no port on their node",
    severity=Severity.HIGH,
    refs=(
        "PSS baseline: Host Ports",
        "NSA-CISA: network separation",
    ),
    why="A host port bypasses Services and network policies, and two replicas cannot run on one node",
    remedy="remove hostPort, and use a Service to reach the pod",
    subject=CONTAINERS,
    check=_check,
)
