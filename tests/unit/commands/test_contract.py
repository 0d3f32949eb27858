from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inferplan.client.target import target
from inferplan.components.handles import Endpoint, EndpointProtocol
from inferplan.status.status import read_state
from inferplan.workspace.contract import Contract, contract_of
from inferplan.workspace.workspace import open_workspace

ROOT = Path(__file__).resolve().parents[3]
FIRST = {
    "vllm": "/v1",
    "triton": "/v2",
    "pytriton": "/v2",
    "tensorrt-llm": "/v1",
    "ray-serve": "/v1",
}
# An application of the user on Ray Serve, engines in Triton, and Triton behind its OpenAI frontend.
OWN = {"tuned": "/serve", "qwen-3-14b": "/v2", "chatter": "/v1"}


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")


@pytest.mark.parametrize("engine", sorted(FIRST))
def test_status_shows_the_endpoint_of_each_engine_as_the_stack_exports_it(engine):
    workspace = open_workspace(str(ROOT / "docs" / "engines" / f"Pulumi.{engine}.yaml"))
    rows = read_state(workspace.settings, contract_of(workspace.settings), lambda _path: {}).models
    assert rows
    for row in rows:
        assert (
            row.endpoint
            == f"http://llm.local.test/{row.name}{OWN.get(row.name, FIRST[row.engine])}"
        )


def made(**fields):
    return Endpoint(
        model="m", engine="e", host="m", protocols=(EndpointProtocol(kind="openai", port=9000, path="/v7"),), health_path="/h", metrics_path="/m",
        metrics_port=1, served_names=("m",), consumers=(), server_key=None, **fields,
    )  # fmt: skip


def test_without_a_gateway_the_address_is_the_service_s_own_with_the_record_s_port_and_path():
    found = Contract(namespace="models", gateway=None, grpc=None, endpoints={"m": made()})
    assert found.address("m") == "http://m.models.svc:9000/v7"


def test_every_endpoint_has_the_key_of_its_server_and_the_tensors_of_its_text():
    workspace = open_workspace(str(ROOT / "docs" / "engines" / "Pulumi.triton.yaml"))
    for endpoint in contract_of(workspace.settings).endpoints.values():
        assert endpoint.server_key is not None
        assert endpoint.texts or endpoint.protocols[0].kind == "openai"


@pytest.mark.parametrize("engine", ["vllm", "triton"])
def test_the_outputs_of_a_stack_are_the_addresses_that_people_need_and_its_facts(engine):
    workspace = open_workspace(str(ROOT / "docs" / "engines" / f"Pulumi.{engine}.yaml"))
    outputs, declared = workspace.record().outputs, contract_of(workspace.settings)
    assert set(outputs) == {"facts", "gateway", "models"}
    assert outputs["gateway"] == declared.gateway == "http://llm.local.test"
    assert set(outputs["models"]) == set(workspace.settings.models)
    for name, model in outputs["models"].items():
        kinds = [protocol.kind for protocol in declared.endpoints[name].protocols]
        assert model == {
            "url": declared.address(name),
            "protocols": kinds,
            "consumers": workspace.settings.models[name].consumers,
        }


def test_the_record_says_where_grpc_goes_and_that_a_load_balancer_of_aws_carries_none():
    from inferplan.components.gateway.spec import NginxGatewaySpec

    def at(**written):
        return NginxGatewaySpec.model_validate(written).access.grpc("gateway")

    assert at(exposure="internal") == "gateway:8082"
    assert at(host="llm.example", tls={"secretName": "t"}) == "llm.example:443"
    alb = {
        "certificateArn": (
            "arn:aws:acm:eu-central-1:123456789012:certificate/0a1b2c3d-0000-4000-8000-000000000000"
        )
    }
    assert at(host="llm.example", ingressClassName="alb", alb=alb) is None
    assert at(host="llm.example", exposure="loadBalancer", nlb=alb) is None


def test_a_model_of_the_openai_protocol_is_called_at_the_one_address_if_its_name_is_clear():
    contract = contract_of(
        open_workspace(str(ROOT / "docs" / "engines" / "Pulumi.vllm.yaml")).settings
    )
    model = next(iter(contract.endpoints))
    options: dict[str, Any] = {
        "protocol": None,
        "gateway": "http://127.0.0.1:1",
        "path": None,
        "stack": "prod",
    }
    assert target(contract, model, **options).url == "http://127.0.0.1:1/v1"
    assert (
        target(contract, model, protocol=None, gateway=None, path=None, stack="prod").url
        == "http://llm.local.test/v1"
    )
    assert (
        target(replace(contract, names={}), model, **options).url
        == f"http://127.0.0.1:1/{model}/v1"
    )
