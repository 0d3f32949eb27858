"""Models are reached through the gateway alone."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.engines import engines_of
from policies.subjects.placement import labels_at, same_namespace
from policies.subjects.routes import backends_of, ways_in


def _check(stack: Stack, _: Parameters) -> Findings:
    engines = [(workload, pod) for workload, pod in engines_of(stack)]
    for way in ways_in(stack):
        for name in backends_of(way):
            for service in stack.of("kubernetes:core:Service"):
                if service.at("metadata", "name").text() != name.text() or not same_namespace(service, way):
                    continue
                wanted = labels_at(service.at("spec", "selector"))
                if any(wanted and wanted.items() <= labels_at(pod.metadata.at("labels")).items() for _workload, pod in engines):
                    yield found(name, "leads past the gateway to a model", urn=way.urn)


RULE = StackRule(
    id="stack-require-gateway-before-models",
    title="Models are reached through the gateway alone",
    severity=Severity.CRITICAL,
    refs=("inference",),
    why="vLLM's own key guards four prefixes; every other route of it is open to whoever reaches the port",
    remedy="let Ingresses and routes name the gateway's Service, and let it ask for keys",
    check=_check,
)
