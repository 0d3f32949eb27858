"""API key policies deny requests without a key and read keys from headers only."""

from __future__ import annotations

from policies.addresses import is_everybody
from policies.engine.fields import Field
from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.isolation import block_of
from policies.subjects.objects import objects
from policies.subjects.routes import SECURITY_POLICY


def _check(policy: Resource, _: Parameters) -> Findings:
    yield from _admitted(policy.at("spec"))
    asked = policy.at("spec", "apiKeyAuth")
    others = ("basicAuth", "jwt", "oidc", "extAuth")
    if asked.absent:
        if all(policy.at("spec", each).absent for each in others):
            yield found(asked, "is not set, and neither is another kind of authentication")
        return
    if not any(True for _ in asked.at("credentialRefs").each()):
        yield found(asked.at("credentialRefs"), "names no Secret with keys")
    places = list(asked.at("extractFrom").each())
    if not places:
        yield found(asked.at("extractFrom"), "names no header")
    for place in places:
        if not place.at("params").absent or not place.at("cookies").absent:
            yield found(place, "reads keys from a URL or a cookie")
    if not asked.at("sanitize").flag():
        yield found(asked.at("sanitize"), "is not true, so the key is forwarded to the model")


def _admitted(spec: Field) -> Findings:
    """Whom a policy lets in without a proof."""
    if spec.at("authorization", "defaultAction").text() == "Allow":
        yield found(spec.at("authorization", "defaultAction"), "allows requests that match no rule")
    for rule in spec.at("authorization", "rules").each():
        blocks = rule.at("principal", "clientCIDRs")
        if rule.at("action").text() == "Allow" and is_everybody(map(block_of, blocks.each())):
            yield found(blocks, "allows any source")
    for path in (("extAuth",), ("jwt",)):
        if spec.at(*path, "failOpen").flag() or spec.at(*path, "optional").flag():
            yield found(spec.at(*path), "allows requests when authentication is unavailable")
    if spec.at("cors", "allowCredentials").flag() and any("*" in each for each in spec.at("cors", "allowOrigins").texts()):
        yield found(spec.at("cors", "allowOrigins"), "lets every website send requests with the browser's credentials")


RULE = Rule(
    id="network-require-key-policy",
    title="API key policies deny requests without a key and read keys from headers only",
    severity=Severity.CRITICAL,
    refs=("inference", "Envoy Gateway: SecurityPolicy"),
    why="Without credentials the policy protects nothing. A key in a URL ends up in every log on its way",
    remedy="set apiKeyAuth with credentialRefs, set extractFrom to headers only, and set sanitize: true",
    subject=objects(SECURITY_POLICY),
    check=_check,
)
