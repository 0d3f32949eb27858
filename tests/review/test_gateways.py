"""The changes of a gateway that the report must not take for each other: lost access, another entry
point, another implementation.
"""

from __future__ import annotations

from inferplan.review.report import make_report
from tests.review.verdicts.change import Change, preview_of

NGINX = "inferplan:gateway: {host: llm.local.test, insecure: true, ingressClassName: nginx}"
ROUTED = "inferplan:gateway: {exposure: gatewayApi, host: llm.local.test, parent: {name: edge, namespace: gateways}}"
ENVOY = ROUTED.replace("{exposure", "{implementation: envoyGateway, exposure")


def risks(old, new, given):
    """The critical risks and all risks of `old` becoming `new`, after the gateway became `given`."""
    change = Change("local", "", old, new, "", given=None if given == NGINX else (NGINX, given))
    stack = make_report([preview_of(change)]).stacks[0]
    said = [
        (each.weight, f"{each.what} | {each.kind} {each.name} | {each.cause}")
        for each in stack.risks
    ]
    return [text for weight, text in said if weight == 0], [text for _, text in said]


def test_with_envoy_a_consumer_that_loses_a_model_is_critical():
    critical, _ = risks("consumers: [chat, batch]", "consumers: [chat]", ENVOY)
    assert critical == ["batch can no longer call | model llama-3-8b | removed from its consumers"]


def test_with_envoy_another_parent_is_critical():
    critical, _ = risks("name: edge", "name: public", ENVOY)
    assert critical == [
        "changes its entry point | gateway gateway | entryPoint: Gateway gateways/edge → Gateway gateways/public"
    ]


def test_nginx_becomes_envoy_on_another_address():
    critical, every = risks(NGINX, ENVOY, NGINX)
    assert critical == [
        "changes its entry point | gateway gateway | entryPoint: Ingress of class nginx → Gateway gateways/edge"
    ]
    assert "stores keys in plain text | gateway gateway | hashesKeys: true → false" in every
    assert not any("no longer call" in text or "loses key" in text for text in every)


def test_nginx_becomes_envoy_behind_the_same_gateway_and_nobody_loses_access():
    critical, every = risks(ROUTED, ENVOY, ROUTED)
    assert critical == []
    assert (
        "becomes another gateway | gateway gateway | implementation: nginx → envoyGateway" in every
    )
