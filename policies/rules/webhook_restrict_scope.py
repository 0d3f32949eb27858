"""Admission webhooks stay inside the cluster and see only what they judge."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects

_API = "kubernetes:admissionregistration.k8s.io"
SECRETS = ("secrets", "secrets/*", "serviceaccounts/token")


def _check(configuration: Resource, _: Parameters) -> Findings:
    for webhook in configuration.at("webhooks").each():
        if webhook.at("clientConfig", "service").absent or not webhook.at("clientConfig", "url").absent:
            yield found(webhook.at("clientConfig", "url"), "leads out of the cluster")
        for rule in webhook.at("rules").each():
            for place in rule.at("resources").each():
                if place.text() in ("*", "*/*"):
                    yield found(place, "sees every object, Secrets among them")
                elif place.text() in SECRETS:
                    yield found(place, "sees the keys in Secrets")


RULE = Rule(
    id="webhook-restrict-scope",
    title="Admission webhooks stay in the cluster and see no Secrets",
    severity=Severity.CRITICAL,
    refs=("Kubernetes: Admission webhook good practices", "NSA-CISA: admission control"),
    why="A webhook reads every object that it is asked about, and a mutating one changes them: with Secrets among them it has every key",
    remedy="name under rules[].resources what the webhook judges, and under clientConfig.service where it runs",
    subject=objects(f"{_API}:MutatingWebhookConfiguration", f"{_API}:ValidatingWebhookConfiguration"),
    check=_check,
)
