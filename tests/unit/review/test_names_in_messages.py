"""Policy messages name the resource that they are about, also where a hidden value has the same text."""

from __future__ import annotations

import pytest

from tests.review_streams import preview, step

TYPE = "kubernetes:apps/v1:Deployment"


def policy(text):
    return {"policyEvent": {"message": text, "policyName": "p", "enforcementLevel": "advisory"}}


def told(name, value, text):
    environment = [{"name": "VAULT_ENTRY", "value": value}]
    spec = {"template": {"spec": {"containers": [{"name": "server", "image": "a/b:1", "env": environment}]}}}
    return preview(step("create", TYPE, name, None, {"spec": spec}), policy(text)).policies[0].message


@pytest.mark.parametrize("name", ["llama-3-70b", "qwen-3-8b", "mixtral-8x22b-v0-1"])
def test_a_name_is_shown_although_a_value_is_equal_to_it(name):
    text = f"Deployment/{name} spec.replicas: is 1"
    assert told(name, name, text) == text


def test_another_hidden_value_stays_hidden():
    secret = "k7Qp-99xZ-44mW"  # noqa: S105 - made for this test
    assert secret not in told("llama-3-70b", secret, f"Deployment/llama-3-70b env: {secret} is weak")
