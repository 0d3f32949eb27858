"""A gateway and its keys, declared in memory."""

from __future__ import annotations

import pulumi

from inferplan.components.gateway.api_keys import ApiKeys
from inferplan.components.gateway.consumer_spec import ConsumerSpec
from inferplan.components.gateway.gateway import Gateway
from inferplan.components.gateway.spec import NginxGatewaySpec
from inferplan.components.handles import Endpoint, EndpointProtocol, SecretRef
from inferplan.pulumi_engine.values import reveal
from tests import recorder

SEED = "canary-0f3b1c5a79d24e68b1f0canary-6c2e9d4a8b7f"
CONSUMERS = {
    name: ConsumerSpec.model_validate(written)
    for name, written in {"chat": {"keys": [2, 1]}, "batch": {"keys": [1]}}.items()
}
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
SECRET = "kubernetes:core/v1:Secret"  # noqa: S105 - a type token
OPENAI = EndpointProtocol(kind="openai", port=8000, path="/v1")


def endpoint(model, *protocols):
    return Endpoint(
        model=model,
        engine="vllm",
        host=model,
        protocols=protocols or (OPENAI,),
        health_path="/health",
        metrics_path="/metrics",
        metrics_port=8000,
        served_names=(model,),
        consumers=("chat",),
        server_key=SecretRef(name=f"{model}-server-key", key="api-key"),
    )


def declare(
    *endpoints,
    seed=SEED,
    previous_seed=None,
    consumers=CONSUMERS,
    preview=True,
    lent=None,
    **written,
):
    endpoints = endpoints or (endpoint("llama"),)
    spec = NginxGatewaySpec.model_validate(
        {"host": "llm.test", "tls": {"secretName": "llm-tls"}, **written}
    )

    def program():
        seeds = [pulumi.Output.secret(each) for each in (seed, previous_seed) if each]
        ring = ApiKeys(
            "api-keys",
            consumers,
            [each.model for each in endpoints],
            namespace="inference",
            seeds=seeds,
        )
        gateway = Gateway("gateway", spec, namespace="inference", endpoints=endpoints, keys=ring)
        if lent is not None:
            lent.update(ring=ring, gateway=gateway)

    return recorder.declare(program, preview=preview)


def proxy_secret_of(recording):
    volumes = {each["name"]: each for each in pod_of(recording)["spec"]["volumes"]}
    return reveal(volumes["keys"]["secret"]["secretName"])


def pod_of(recording):
    return recording.one(DEPLOYMENT).inputs["spec"]["template"]
