"""Admission webhooks run in the cluster and see no Secrets."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects

_API = "kubernetes:admissionregistration.k8s.io"
SECRETS = ("secrets", "secrets/*", "serviceaccounts/token")


def _check(configuration: Resource, _: Parameters) -> Findings:
    for webhook in configuration.at("webhooks").each():
        if webhook.at("clientConfig", "service").absent or not webhook.at("clientConfig", "url").absent:
            yield found(webhook.at("clientConfig", "url"), "calls a server outside the cluster")
        for rule in webhook.at("rules").each():
            for place in rule.at("resources").each():
                if place.text() in ("*", "*/*"):
                    yield found(place, "reads every object, including Secrets")
                elif place.text() in SECRETS:
                    yield found(place, "reads Secrets")


RULE = Rule(
    id="webhook-restrict-scope",
    title="Admission webhooks run in the cluster and see no Secrets",
    severity=Severity.CRITICAL,
    refs=("Kubernetes: Admission webhook good practices", "NSA-CISA: admission control"),
    why="A webhook reads every object that it reviews, and a mutating webhook can change it. If Secrets are included, it reads every key",
    remedy="list the resources under rules[].resources without Secrets, and name an in-cluster Service under clientConfig.service",
    subject=objects(f"{_API}:MutatingWebhookConfiguration", f"{_API}:ValidatingWebhookConfiguration"),
    check=_check,
)
