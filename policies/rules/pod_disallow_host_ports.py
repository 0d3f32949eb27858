"""Containers open no port of their node."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container


def _check(container: Container, _: Parameters) -> Findings:
    for port in container.at("ports").each():
        if port.at("hostPort").number():
            yield found(port.at("hostPort"), "opens a port of the node")


RULE = Rule(
    id="pod-disallow-host-ports",
    title="Containers open no port of their node",
    severity=Severity.HIGH,
    refs=(
        "PSS baseline: Host Ports",
        "NSA-CISA: network separation",
    ),
    why="A host port goes around Services and network policies, and two replicas cannot share a node",
    remedy="remove hostPort and reach the pod through a Service",
    subject=CONTAINERS,
    check=_check,
)
