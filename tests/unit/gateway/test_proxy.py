"""The text of the proxy's configuration: deterministic, small, and closed to whatever a stack may
say.
"""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplan.components.gateway.consumer_spec import (
    ConsumerSpec,
    connection_limits,
    rate_limits,
    retry_delays,
)
from inferplan.components.gateway.proxy import proxy_config
from inferplan.components.gateway.spec import NginxGatewaySpec
from inferplan.components.handles import Endpoint, EndpointProtocol

SPEC = NginxGatewaySpec.model_validate({"host": "llm.test", "insecure": True})


def consumer(**written):
    return ConsumerSpec.model_validate({"keys": [1], **written})


def endpoint(model="llama", **changed):
    made = Endpoint(
        model=model,
        engine="vllm",
        host=model,
        protocols=(EndpointProtocol(kind="openai", port=8000, path="/v1"),),
        health_path="/health",
        metrics_path="/metrics",
        metrics_port=8000,
        served_names=(model,),
        consumers=("chat",),
        server_key=None,
    )
    return dataclasses.replace(made, **changed)


CHAT = {"chat": consumer()}


def test_the_order_of_endpoints_and_consumers_changes_no_byte():
    one, two = endpoint("a"), endpoint("b", consumers=("batch", "chat"))
    consumers = {"chat": consumer(), "batch": consumer()}
    assert proxy_config(SPEC, [one, two], consumers) == proxy_config(
        SPEC, [two, one], dict(reversed(consumers.items()))
    )


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("llama", "http://llama$own_domain:8000/v1"),
        ("llama.models.svc", "http://llama.models.svc.$cluster_domain:8000/v1"),
        ("llama.models.svc.cluster.local", "http://llama.models.svc.cluster.local:8000/v1"),
        ("127.0.0.1", "http://127.0.0.1:8000/v1"),
    ],
)
def test_a_host_is_completed_by_what_the_pod_s_resolver_searches(host, written):
    assert f'"{written}"' in proxy_config(SPEC, [endpoint(host=host)], CHAT)


@pytest.mark.parametrize(
    "changed",
    [
        {"model": 'a"; evil'},
        {"model": "A"},
        {"model": "a\n"},
        {"host": "a;b"},
        {"host": "$arg_host"},
        {"host": "a b"},
        {"protocols": (EndpointProtocol(kind="openai", port=8000, path="/v1; evil"),)},
        {"protocols": (EndpointProtocol(kind="openai", port=8000, path="/$uri"),)},
        {"protocols": (EndpointProtocol(kind="openai", port=8000, path="/v1\n"),)},
        {"protocols": (EndpointProtocol(kind="openai", port=70000, path="/v1"),)},
        {
            "protocols": (EndpointProtocol(kind="kserve-v2-http", port=8000, path="/v2"),),
            "served_names": ('x" 1; }',),
        },
    ],
)
def test_a_value_that_could_become_a_directive_is_refused(changed):
    with pytest.raises(ValueError, match=r"must match|is not a TCP port"):
        proxy_config(SPEC, [endpoint(**changed)], CHAT)


@given(st.text(), st.text(), st.text())
def test_no_text_in_an_endpoint_reaches_the_file_unchecked(host, path, served):
    protocols = (EndpointProtocol(kind="kserve-v2-http", port=8000, path=path),)
    try:
        text = proxy_config(
            SPEC, [endpoint(host=host, protocols=protocols, served_names=(served,))], CHAT
        )
    except ValueError:
        return
    plain = proxy_config(
        SPEC,
        [endpoint(protocols=(dataclasses.replace(protocols[0], path=""),), served_names=("x",))],
        CHAT,
    )
    assert text.count("\n") - plain.count("\n") in (0, -1)
    assert text.count(";") - plain.count(";") in (0, -1)
    assert text.count("{") == plain.count("{")


def test_only_consumers_that_exist_are_granted_a_model():
    text = proxy_config(SPEC, [endpoint(consumers=("chat", "ghost"))], CHAT)
    assert "/chat 1;" in text
    assert '"1 llama" 1;' in text
    assert "ghost" not in text


def test_rights_grow_with_consumers_and_models_not_with_their_pairs():
    names = tuple(f"consumer-{each:04}" for each in range(1000))
    consumers = dict.fromkeys(names, CHAT["chat"])

    def size(models: int) -> int:
        endpoints = [
            dataclasses.replace(endpoint(consumers=names), model=f"model-{each:03}")
            for each in range(models)
        ]
        return len(proxy_config(SPEC, endpoints, consumers))

    assert size(200) < 300_000
    assert size(200) < 4 * size(40)


def test_without_origins_there_is_no_word_of_cors_but_the_hiding_of_the_engine_s():
    text = proxy_config(SPEC, [endpoint()], CHAT)
    assert "add_header Access-Control" not in text
    assert "$preflight" not in text


def test_the_grpc_listener_exists_only_for_models_that_speak_it():
    assert "grpc_pass" not in proxy_config(SPEC, [endpoint()], CHAT)
    both = (
        EndpointProtocol(kind="kserve-v2-http", port=8000, path="/v2"),
        EndpointProtocol(kind="kserve-v2-grpc", port=8001, path="/"),
    )
    assert "grpc_pass" in proxy_config(SPEC, [endpoint(protocols=both)], CHAT)


def test_a_thousand_models_fit_a_config_map():
    consumers = {f"consumer-{number}": consumer() for number in range(100)}
    names = tuple(consumers)
    endpoints = [
        endpoint(f"model-{number}", consumers=names[number % 90 : number % 90 + 5])
        for number in range(1000)
    ]
    text = proxy_config(SPEC, endpoints, consumers)
    assert len(text.encode()) < 1024 * 1024 * 3 // 4


def test_limits_are_shared_among_replicas_and_never_round_to_nothing():
    consumers = {
        "a": consumer(limits={"requestsPerMinute": 60, "concurrentRequests": 5}),
        "b": consumer(limits={"requestsPerMinute": 60}),
        "c": consumer(limits={"requestsPerMinute": 1, "burst": 0, "concurrentRequests": 1}),
        "d": consumer(),
    }
    assert [(each.amount, each.burst, each.consumers) for each in rate_limits(consumers, 2)] == [
        (1, 0, ("c",)),
        (30, 3, ("a", "b")),
    ]
    assert [(each.amount, each.consumers) for each in connection_limits(consumers, 2)] == [
        (1, ("c",)),
        (3, ("a",)),
        (1024, ("b", "d")),
    ]
    alone = connection_limits({"a": consumer()}, 2)
    assert [(each.amount, each.consumers) for each in alone] == [(4096, ("a",))]
    assert retry_delays(consumers) == [("c", 60)]
