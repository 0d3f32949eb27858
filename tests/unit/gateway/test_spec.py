"""The settings of the gateway and of consumers, and the error for each mistake."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from inferplan.components.gateway.consumer_spec import ConsumerSpec
from inferplan.components.gateway.spec import EnvoyGatewaySpec, GatewaySpec, NginxGatewaySpec

WRITTEN = {"host": "llm.acme.example", "tls": {"secretName": "llm-tls"}}
ALB = {
    "certificateArn": (
        "arn:aws:acm:us-east-1:111122223333:certificate/0a1b2c3d-0000-4000-8000-000000000000"
    )
}
WRITTEN_ALB = {"host": "llm.acme.example", "ingressClassName": "alb", "alb": ALB}


WRITTEN_ENVOY = {
    "implementation": "envoyGateway",
    "exposure": "gatewayApi",
    "host": "llm.acme.example",
    "parent": {"name": "a", "namespace": "b"},
}


def _rejection(spec, written):
    with pytest.raises(ValidationError) as rejection:
        TypeAdapter(spec).validate_python(written)
    return " | ".join(
        f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in rejection.value.errors()
    )


def test_two_keys_are_enough():
    spec = NginxGatewaySpec.model_validate(WRITTEN)
    assert (spec.replicas, spec.read_timeout_seconds, spec.exposure) == (2, 2000, "ingress")
    assert spec.intent() == WRITTEN


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({}, "exposure ingress requires host, the DNS name that clients call"),
        ({"host": "a.example"}, "Set tls: {secretName: ...}, or insecure: true for a trial"),
        ({**WRITTEN, "insecure": True}, "contradicts tls"),
        ({**WRITTEN_ALB, "tls": {"secretName": "x"}}, "tls contradicts alb"),
        ({**WRITTEN_ALB, "insecure": True}, "insecure: true contradicts alb"),
        ({**WRITTEN_ALB, "ingressClassName": None}, "alb requires ingressClassName"),
        (
            {**WRITTEN_ALB, "drainSeconds": 3561},
            "drainSeconds is 3561. The maximum with alb is 3560",
        ),
        (
            {"host": "a.example", "exposure": "loadBalancer", "nlb": ALB, "drainSeconds": 3451},
            "drainSeconds is 3451. The maximum with nlb is 3450",
        ),
        (
            {**WRITTEN_ALB, "readTimeoutSeconds": 3991},
            "readTimeoutSeconds is 3991. The maximum with alb is 3990",
        ),
        ({**WRITTEN_ALB, "alb": {**ALB, "scheme": "internet-facing"}}, "requires alb.inboundCidrs"),
        (
            {**WRITTEN_ALB, "alb": {**ALB, "inboundCidrs": ["10.0.0.1/8"]}},
            "'10.0.0.1/8' is not a network",
        ),
        ({**WRITTEN_ALB, "alb": {"certificateArn": "arn:aws:iam::1:x"}}, "pattern"),
        (
            {"host": "a.example", "exposure": "loadBalancer"},
            "exposure: loadBalancer and nlb require each other",
        ),
        ({**WRITTEN, "nlb": ALB}, "exposure: loadBalancer and nlb require each other"),
        (
            {
                "host": "a.example",
                "exposure": "loadBalancer",
                "nlb": {**ALB, "scheme": "internet-facing"},
            },
            "requires nlb.inboundCidrs",
        ),
        ({"exposure": "loadBalancer", "nlb": ALB}, "exposure loadBalancer requires host"),
        (
            {
                "host": "a.example",
                "exposure": "loadBalancer",
                "nlb": ALB,
                "tls": {"secretName": "x"},
            },
            "tls requires exposure ingress, not loadBalancer",
        ),
        ({"exposure": "internal", "alb": ALB}, "alb requires exposure ingress, not internal"),
        (
            {"exposure": "internal", "tls": {"secretName": "x"}},
            "tls requires exposure ingress, not internal",
        ),
        (
            {"exposure": "internal", "ingressClassName": "x"},
            "ingressClassName requires exposure ingress",
        ),
        (
            {"exposure": "gatewayApi", "host": "a.example"},
            "exposure: gatewayApi and parent require each other",
        ),
        (
            {**WRITTEN, "parent": {"name": "a", "namespace": "b"}},
            "exposure: gatewayApi and parent require each other",
        ),
        ({**WRITTEN, "cors": {"origins": ["*"]}}, "List the origins"),
        ({**WRITTEN, "cors": {"origins": []}}, "at least 1"),
        ({**WRITTEN, "cors": {"origins": ['https://a"; evil']}}, "pattern"),
        ({**WRITTEN, "cors": {"origins": ["https://a.example/path"]}}, "pattern"),
        ({**WRITTEN, "image": "nginx:latest"}, "moving tag"),
        ({**WRITTEN, "replicas": 0}, "greater than or equal to 1"),
        (
            {**WRITTEN, "replicas": 5, "autoscaling": {"maxReplicas": 3}},
            "autoscaling.maxReplicas (3) is less than replicas (5)",
        ),
        ({**WRITTEN, "readTimeout": 5}, "Extra inputs"),
        ({**WRITTEN, "maxBodySize": "lots"}, "maxBodySize"),
        ({"host": "llm_acme", "insecure": True}, "host"),
        ({"host": "a;b", "insecure": True}, "host"),
        (
            {"implementation": "haproxy"},
            (
                "'haproxy' found using implementation() does not match any of the expected tags:"
                " 'nginx', 'envoyGateway'"
            ),
        ),
        (
            {**WRITTEN_ENVOY, "exposure": "ingress"},
            "envoyGateway.exposure: Input should be 'gatewayApi'",
        ),
        ({**WRITTEN_ENVOY, "host": None}, "envoyGateway.host: "),
        (
            {key: WRITTEN_ENVOY[key] for key in WRITTEN_ENVOY if key != "parent"},
            "envoyGateway.parent: Field required",
        ),
        ({**WRITTEN_ENVOY, "replicas": 3}, "envoyGateway.replicas: Extra inputs"),
        ({**WRITTEN_ENVOY, "tls": {"secretName": "x"}}, "envoyGateway.tls: Extra inputs"),
    ],
)
def test_a_mistake_about_the_gateway_is_named(written, said):
    assert said in _rejection(GatewaySpec, written)


def test_all_errors_of_the_exposure_are_reported_at_once():
    message = _rejection(GatewaySpec, {})
    assert "requires host" in message
    assert "Set tls" in message


def test_the_field_implementation_picks_the_variant_and_nginx_is_the_default():
    validate = TypeAdapter(GatewaySpec).validate_python
    assert isinstance(validate(WRITTEN), NginxGatewaySpec)
    assert isinstance(validate({**WRITTEN, "implementation": "nginx"}), NginxGatewaySpec)
    envoy = validate(WRITTEN_ENVOY)
    assert isinstance(envoy, EnvoyGatewaySpec)
    assert envoy.intent() == WRITTEN_ENVOY


@pytest.mark.parametrize(
    ("written", "carries_grpc"),
    [
        (WRITTEN, True),
        ({"exposure": "internal"}, True),
        (WRITTEN_ALB, False),
        ({"host": "a.example", "exposure": "loadBalancer", "nlb": ALB}, False),
        (WRITTEN_ENVOY, False),
    ],
)
def test_a_gateway_says_whether_it_carries_grpc(written, carries_grpc):
    assert TypeAdapter(GatewaySpec).validate_python(written).carries_grpc is carries_grpc


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({}, "keys"),
        ({"keys": []}, "at least 1"),
        ({"keys": [1, 1]}, "Duplicate key version 1"),
        ({"keys": [0]}, "greater than or equal to 1"),
        ({"keys": [-1]}, "greater than or equal to 1"),
        ({"keys": [True]}, "valid integer"),
        ({"keys": ["1"]}, "valid integer"),
        (
            {"keys": [1], "expires": {2: "2027-01-01"}},
            "expires has version 2, which is not in keys (1)",
        ),
        ({"keys": [1], "expires": {1: "soon"}}, "date"),
        ({"keys": [1], "limits": {"burst": 5}}, "Set requestsPerMinute, or remove burst"),
        ({"keys": [1], "limits": {"requestsPerMinute": 0}}, "greater than or equal to 1"),
        ({"keys": [1], "key": "ipk_..."}, "Extra inputs"),
    ],
)
def test_a_mistake_about_a_consumer_is_named(written, said):
    assert said in _rejection(ConsumerSpec, written)


def test_the_newest_key_is_the_highest_version_in_whatever_order():
    assert ConsumerSpec.model_validate({"keys": [1, 3, 2]}).newest == 3


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(
            [each.alias or name for name, each in NginxGatewaySpec.model_fields.items()]
        )
        | st.sampled_from(["keys", "expires", "limits", "x"]),
        JSON | st.just({"origins": ["https://a"]}) | st.just("a.example"),
    )
)
def test_no_input_is_answered_otherwise_than_by_a_spec_or_a_list_of_faults(written):
    for spec in (GatewaySpec, ConsumerSpec):
        with suppress(ValidationError):
            TypeAdapter(spec).validate_python(written)
