"""What a user may write about the entrance, and how each mistake is answered."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.gateway.spec import ConsumerSpec, GatewaySpec

WRITTEN = {"host": "llm.acme.example", "tls": {"secretName": "llm-tls"}}
ALB = {"certificateArn": "arn:aws:acm:us-east-1:111122223333:certificate/0a1b2c3d-0000-4000-8000-000000000000"}
WRITTEN_ALB = {"host": "llm.acme.example", "ingressClassName": "alb", "alb": ALB}


def _refused(spec, written):
    with pytest.raises(ValidationError) as refused:
        spec.model_validate(written)
    return " | ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in refused.value.errors())


def test_two_keys_are_enough():
    spec = GatewaySpec.model_validate(WRITTEN)
    assert (spec.replicas, spec.read_timeout_seconds, spec.exposure) == (2, 2000, "ingress")
    assert spec.intent() == WRITTEN


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({}, "needs host"),
        ({"host": "a.example"}, "write tls: {secretName: ...}, or insecure: true"),
        ({**WRITTEN, "insecure": True}, "contradicts tls"),
        ({**WRITTEN_ALB, "tls": {"secretName": "x"}}, "tls contradicts alb"),
        ({**WRITTEN_ALB, "insecure": True}, "insecure: true contradicts alb"),
        ({**WRITTEN_ALB, "ingressClassName": None}, "alb needs ingressClassName"),
        ({**WRITTEN_ALB, "drainSeconds": 3561}, "drainSeconds is 3561, at most 3560 with alb"),
        (
            {"host": "a.example", "exposure": "loadBalancer", "nlb": ALB, "drainSeconds": 3451},
            "drainSeconds is 3451, at most 3450 with nlb",
        ),
        ({**WRITTEN_ALB, "readTimeoutSeconds": 3991}, "readTimeoutSeconds is 3991, at most 3990 with alb"),
        ({**WRITTEN_ALB, "alb": {**ALB, "scheme": "internet-facing"}}, "needs alb.inboundCidrs"),
        ({**WRITTEN_ALB, "alb": {**ALB, "inboundCidrs": ["10.0.0.1/8"]}}, "'10.0.0.1/8' is no network"),
        ({**WRITTEN_ALB, "alb": {"certificateArn": "arn:aws:iam::1:x"}}, "pattern"),
        ({"host": "a.example", "exposure": "loadBalancer"}, "nlb (its certificateArn) and exposure: loadBalancer go together"),
        ({**WRITTEN, "nlb": ALB}, "go together"),
        (
            {"host": "a.example", "exposure": "loadBalancer", "nlb": {**ALB, "scheme": "internet-facing"}},
            "needs nlb.inboundCidrs",
        ),
        ({"exposure": "loadBalancer", "nlb": ALB}, "exposure loadBalancer needs host"),
        ({"host": "a.example", "exposure": "loadBalancer", "nlb": ALB, "tls": {"secretName": "x"}}, "tls belongs to exposure ingress"),
        ({"exposure": "internal", "alb": ALB}, "alb belongs to exposure ingress, not internal"),
        ({"exposure": "internal", "tls": {"secretName": "x"}}, "tls belongs to exposure ingress, not internal"),
        ({"exposure": "internal", "ingressClassName": "x"}, "ingressClassName belongs to exposure ingress"),
        ({"exposure": "gatewayApi", "host": "a.example"}, "parent (name and namespace of a Gateway)"),
        ({**WRITTEN, "parent": {"name": "a", "namespace": "b"}}, "go together"),
        ({**WRITTEN, "cors": {"origins": ["*"]}}, "list the origins"),
        ({**WRITTEN, "cors": {"origins": []}}, "at least 1"),
        ({**WRITTEN, "cors": {"origins": ['https://a"; evil']}}, "pattern"),
        ({**WRITTEN, "cors": {"origins": ["https://a.example/path"]}}, "pattern"),
        ({**WRITTEN, "image": "nginx:latest"}, "moving tag"),
        ({**WRITTEN, "replicas": 0}, "greater than or equal to 1"),
        ({**WRITTEN, "replicas": 5, "autoscaling": {"maxReplicas": 3}}, "below replicas 5"),
        ({**WRITTEN, "readTimeout": 5}, "Extra inputs"),
        ({**WRITTEN, "maxBodySize": "lots"}, "maxBodySize"),
        ({"host": "llm_acme", "insecure": True}, "host"),
        ({"host": "a;b", "insecure": True}, "host"),
    ],
)
def test_a_mistake_about_the_gateway_is_named(written, said):
    assert said in _refused(GatewaySpec, written)


def test_all_faults_of_the_way_in_are_told_at_once():
    said = _refused(GatewaySpec, {})
    assert "needs host" in said
    assert "tls" in said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({}, "keys"),
        ({"keys": []}, "at least 1"),
        ({"keys": [1, 1]}, "1 stands more than once"),
        ({"keys": [0]}, "greater than or equal to 1"),
        ({"keys": [-1]}, "greater than or equal to 1"),
        ({"keys": [True]}, "valid integer"),
        ({"keys": ["1"]}, "valid integer"),
        ({"keys": [1], "expires": {2: "2027-01-01"}}, "expires names version 2, but keys lists 1"),
        ({"keys": [1], "expires": {1: "soon"}}, "date"),
        ({"keys": [1], "limits": {"burst": 5}}, "write requestsPerMinute"),
        ({"keys": [1], "limits": {"requestsPerMinute": 0}}, "greater than or equal to 1"),
        ({"keys": [1], "key": "ipk_..."}, "Extra inputs"),
    ],
)
def test_a_mistake_about_a_consumer_is_named(written, said):
    assert said in _refused(ConsumerSpec, written)


def test_the_newest_key_is_the_highest_version_in_whatever_order():
    assert ConsumerSpec.model_validate({"keys": [1, 3, 2]}).newest == 3


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from([each.alias or name for name, each in GatewaySpec.model_fields.items()])
        | st.sampled_from(["keys", "expires", "limits", "x"]),
        JSON | st.just({"origins": ["https://a"]}) | st.just("a.example"),
    )
)
def test_no_input_is_answered_otherwise_than_by_a_spec_or_a_list_of_faults(written):
    for spec in (GatewaySpec, ConsumerSpec):
        with suppress(ValidationError):
            spec.model_validate(written)
