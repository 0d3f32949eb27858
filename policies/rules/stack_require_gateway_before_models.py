"""Models are reached through the gateway alone."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.engines import engines_of
from policies.subjects.placement import labels_at, same_namespace
from policies.subjects.routes import asks_for_keys, backends_of, ways_in
from policies.subjects.workloads import RAY_SERVICE, labels_of

TARGETS = ("kubernetes:core:Service", "kubernetes:inference.networking.k8s.io:InferencePool")


def _check(stack: Stack, _: Parameters) -> Findings:
    engines = [pod for _workload, pod in engines_of(stack)]
    # Services that KubeRay makes for a RayService stand in no stack.
    rays = {f"{each.at('metadata', 'name').text()}-{which}-svc" for each in stack.of(RAY_SERVICE) for which in ("serve", "head")}
    for way in ways_in(stack):
        if asks_for_keys(stack, way):
            continue
        for name in backends_of(way):
            if name.text() in rays:
                yield found(name, "leads past the gateway to a model", urn=way.urn)
            for target in stack.of(*TARGETS):
                if target.at("metadata", "name").text() != name.text() or not same_namespace(target, way):
                    continue
                selector = target.at("spec", "selector")
                wanted = labels_at(selector if target.short_kind == "Service" else selector.at("matchLabels"))
                if any(wanted and wanted.items() <= labels_of(pod).items() for pod in engines):
                    yield found(name, "leads past the gateway to a model", urn=way.urn)


RULE = StackRule(
    id="stack-require-gateway-before-models",
    title="Models are reached through the gateway alone",
    severity=Severity.CRITICAL,
    refs=("inference",),
    why="vLLM's own key guards four prefixes; every other route of it is open to whoever reaches the port",
    remedy="let Ingresses and routes name the gateway's Service, or guard the route by a SecurityPolicy with apiKeyAuth, jwt, oidc or extAuth",
    check=_check,
)
