"""A policy that asks for keys asks everybody, and keeps keys out of addresses."""

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
            yield found(asked, "is not set, nor another proof of who asks")
        return
    if not any(True for _ in asked.at("credentialRefs").each()):
        yield found(asked.at("credentialRefs"), "names no Secret with keys")
    places = list(asked.at("extractFrom").each())
    if not places:
        yield found(asked.at("extractFrom"), "names no header")
    for place in places:
        if not place.at("params").absent or not place.at("cookies").absent:
            yield found(place, "takes keys from an address or a cookie")
    if not asked.at("sanitize").flag():
        yield found(asked.at("sanitize"), "is not true, so the key goes on to whoever answers")


def _admitted(spec: Field) -> Findings:
    """Whom a policy lets in without a proof."""
    if spec.at("authorization", "defaultAction").text() == "Allow":
        yield found(spec.at("authorization", "defaultAction"), "lets in whoever no rule names")
    for rule in spec.at("authorization", "rules").each():
        blocks = rule.at("principal", "clientCIDRs")
        if rule.at("action").text() == "Allow" and is_everybody(map(block_of, blocks.each())):
            yield found(blocks, "lets everybody in")
    for path in (("extAuth",), ("jwt",)):
        if spec.at(*path, "failOpen").flag() or spec.at(*path, "optional").flag():
            yield found(spec.at(*path), "lets requests through when nobody can be asked")
    if spec.at("cors", "allowCredentials").flag() and any("*" in each for each in spec.at("cors", "allowOrigins").texts()):
        yield found(spec.at("cors", "allowOrigins"), "lets every web site ask with the browser's credentials")


RULE = Rule(
    id="network-require-key-policy",
    title="A policy that asks for keys asks everybody, and keeps keys out of addresses",
    severity=Severity.CRITICAL,
    refs=("inference", "Envoy Gateway: SecurityPolicy"),
    why="Without credentials the policy lets nobody in or proves nothing; a key in an address stands in every log on the way",
    remedy="set apiKeyAuth with credentialRefs, extractFrom with headers alone, and sanitize: true",
    subject=objects(SECURITY_POLICY),
    check=_check,
)
