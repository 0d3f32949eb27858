"""A policy that asks for keys asks everybody, and keeps keys out of addresses."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects
from policies.subjects.routes import SECURITY_POLICY


def _check(policy: Resource, _: Parameters) -> Findings:
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
