"""The entrance made of an Envoy Gateway: the same rights as our own proxy's, call by call, and what
it cannot do said beforehand.
"""

from __future__ import annotations

import base64

import pytest

from inferplan.commands import main
from inferplan.components.gateway import keys
from inferplan.components.gateway.exposure_spec import route_notes
from inferplan.components.gateway.gateway import GATEWAY_PODS
from inferplan.components.gateway.spec import NginxGatewaySpec
from inferplan.pulumi_engine.values import reveal
from tests.dataplane.gateway.engine_routes import ALLOWED, METHODS, OTHERS, SERVED, TRITON_AND_RAY
from tests.unit.gateway.envoy_semantics import EnvoyGateway
from tests.unit.gateway.network_policies import NetworkEndpoint, reaches
from tests.unit.gateway.whole_stack import ROOT, SEED, recorded, refusals

ENVOY = {
    "implementation": "envoyGateway",
    "exposure": "gatewayApi",
    "host": "llm.acme.example",
    "parent": {"name": "public", "namespace": "gateways"},
    "readTimeoutSeconds": 900,
    "cors": {"origins": ["https://chat.acme.example"]},
}
# As in the stack `local`: llama-3-8b may be called by both, llama-3-70b by chat alone.
KEYS = {
    "none": None,
    "wrong": keys.consumer_key(SEED, "chat", 2)[:-8] + "x" * 8,
    "chat 2": keys.consumer_key(SEED, "chat", 2),
    "chat 1": keys.consumer_key(SEED, "chat", 1),
    "retired": keys.consumer_key(SEED, "chat", 3),
    "batch": keys.consumer_key(SEED, "batch", 1),
}
RIGHTS = {"llama-3-8b": {"chat 2", "chat 1", "batch"}, "llama-3-70b": {"chat 2", "chat 1"}}
ROUTES = sorted({*SERVED.split(), *OTHERS.split(), *TRITON_AND_RAY.split()})
# Envoy matches exact paths only, so of `/v1/models/<id>` those of the served names.
# Fields of this implementation, in the order in which an error lists them.
FIELDS = "cors, exposure, host, implementation, parent, readTimeoutSeconds"
PASSING = ALLOWED - {("GET", "/v1/models/llama")}


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def recording():
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return recorded(gateway=ENVOY)


@pytest.fixture(scope="module")
def envoy(recording):
    objects = [
        each.inputs
        for each in recording
        if "gateway.envoyproxy.io" in each.type or "gateway.networking.k8s.io" in each.type
    ]
    secrets = {}
    for each in recording.of_type("kubernetes:core/v1:Secret"):
        fields = reveal(each.inputs["data"])
        secrets[each.inputs["metadata"]["name"]] = {
            name: base64.b64decode(value).decode() for name, value in fields.items()
        }
    return EnvoyGateway(objects, secrets)


def _expected(model, who, method, route):
    """Our proxy's answer (tests/dataplane/gateway/test_matrix.py), but that what is no route meets
    no check of keys.
    """
    if (method, route) not in PASSING | {("GET", f"/v1/models/{model}")}:
        return 404
    if who in ("none", "wrong", "retired"):
        return 401
    return 200 if who in RIGHTS[model] else 403


@pytest.mark.parametrize("who", KEYS)
@pytest.mark.parametrize("model", RIGHTS)
def test_each_route_method_and_key_gets_what_our_own_proxy_gives(envoy, model, who):
    key, wrong = KEYS[who], []
    for header in ("Authorization", "X-API-Key"):
        headers = (
            {} if key is None else {header: f"Bearer {key}" if header == "Authorization" else key}
        )
        for route in ROUTES:
            for method in METHODS:
                verdict = envoy.answer(method, f"/{model}{route}", headers)
                target = (verdict.backend, verdict.path) if verdict.status == 200 else None
                expected = _expected(model, who, method, route)
                if verdict.status != expected or target != (
                    ((model, 8000), route) if expected == 200 else None
                ):
                    wrong.append((method, route, header, verdict, expected))
    assert not wrong
    assert envoy.answer("POST", f"/ghost{ROUTES[0]}", {}).status == 404


def test_the_server_gets_its_own_key_and_the_client_s_id_and_no_claim_of_the_client(envoy):
    key = KEYS["batch"]
    claims = {
        "X-Consumer": "chat_2",
        "X-Consumer-Id": "chat",
        "X-User": "root",
        "Cookie": "a=b",
        "X-Forwarded-User": "root",
    }
    verdict = envoy.answer(
        "POST",
        "/llama-3-8b/v1/completions",
        {**claims, "Authorization": f"Bearer {key}", "X-API-Key": key},
    )
    assert verdict.headers == {
        "x-consumer": "batch_1",
        "authorization": f"Bearer {keys.server_key(SEED, 'llama-3-8b')}",
    }
    # A claim does not help a consumer who has no right either.
    assert (
        envoy.answer("POST", "/llama-3-70b/v1/completions", {**claims, "X-API-Key": key}).status
        == 403
    )


def test_a_browser_is_answered_without_a_key_and_only_a_listed_origin_gets_permission(envoy):
    def asked(origin, path="/llama-3-8b/v1/chat/completions"):
        return envoy.answer(
            "OPTIONS", path, {"Origin": origin, "Access-Control-Request-Method": "POST"}
        )

    assert asked("https://chat.acme.example").headers == {
        "access-control-allow-origin": "https://chat.acme.example"
    }
    assert asked("https://evil.example").headers == {}
    assert asked("https://chat.acme.example").backend is None
    assert asked("https://chat.acme.example", "/llama-3-8b/metrics").status == 404


def test_every_route_has_a_policy_and_time_limits_that_no_answer_runs_into(recording):
    routes = [
        each.inputs["metadata"]["name"] for each in recording if each.type.endswith(":HTTPRoute")
    ]
    assert sorted(routes) == ["gateway-llama-3-70b", "gateway-llama-3-8b"]
    for kind in ("SecurityPolicy", "BackendTrafficPolicy"):
        targets = [
            target["name"]
            for each in recording
            if each.type.endswith(f":{kind}")
            for target in each.inputs["spec"]["targetRefs"]
        ]
        assert sorted(targets) == sorted(routes)
    for each in recording:
        if each.type.endswith(":BackendTrafficPolicy"):
            http = each.inputs["spec"]["timeout"]["http"]
            assert (
                http["requestTimeout"],
                http["maxStreamDuration"],
                http["streamIdleTimeout"],
            ) == ("0s", "0s", "900s")
        if each.type.endswith(":HTTPRoute"):
            assert [rule["timeouts"]["request"] for rule in each.inputs["spec"]["rules"]] == ["0s"]
            assert all(len(rule["matches"]) <= 64 for rule in each.inputs["spec"]["rules"])


def test_a_route_comes_after_the_policy_that_asks_for_keys_and_the_policy_after_the_keys(recording):
    made = {(each.type.rpartition(":")[2], each.name): each for each in recording}
    keys_at = {
        each.urn
        for each in recording.of_type("kubernetes:core/v1:Secret")
        if each.inputs["metadata"]["name"] == "gateway-clients"
    }
    for model in RIGHTS:
        policy = made["SecurityPolicy", f"gateway-{model}-keys"]
        others = [
            made["HTTPRouteFilter", f"gateway-{model}-filter"],
            made["BackendTrafficPolicy", f"gateway-{model}-times"],
        ]
        assert {policy.urn, *(each.urn for each in others)} <= set(
            made["HTTPRoute", f"gateway-{model}"].dependencies
        )
        assert keys_at <= set(policy.dependencies)
        assert keys_at


def test_the_gateway_s_own_proxies_reach_the_models_port_and_nobody_else_does(recording):
    policies = [
        each.inputs for each in recording.of_type("kubernetes:networking.k8s.io/v1:NetworkPolicy")
    ]
    owner = "gateway.envoyproxy.io/owning-gateway"
    proxy = {f"{owner}-name": "public", f"{owner}-namespace": "gateways"}
    inside = NetworkEndpoint("its proxy", "envoy-gateway-system", proxy)
    others = [
        NetworkEndpoint(
            "another Gateway's proxy", "envoy-gateway-system", {**proxy, f"{owner}-name": "private"}
        ),
        NetworkEndpoint("a client", "web", {"app": "chat"}),
        NetworkEndpoint(
            "a pod labelled like the proxy of ours that is not there", "web", dict(GATEWAY_PODS)
        ),
        NetworkEndpoint("the internet", address="203.0.113.7"),
    ]
    for each in recording.of_type("kubernetes:apps/v1:Deployment"):
        if each.name in RIGHTS:
            model = NetworkEndpoint(
                each.name, "inference", each.inputs["spec"]["template"]["metadata"]["labels"]
            )
            assert [
                port for port in (22, 80, 443, 8000, 8080) if reaches(inside, model, port, policies)
            ] == [8000]
            assert not [
                other.name
                for other in others
                for port in (80, 8000, 8080)
                if reaches(other, model, port, policies)
            ]


def test_no_proxy_of_ours_runs_and_keys_stand_in_secrets_alone(recording):
    names = {
        each.inputs["metadata"]["name"]
        for each in recording.of_type("kubernetes:apps/v1:Deployment")
    }
    assert "gateway" not in names
    secrets = {
        each.inputs["metadata"]["name"] for each in recording.of_type("kubernetes:core/v1:Secret")
    }
    assert "gateway-clients" in secrets
    assert "gateway-keys" not in secrets
    shown = repr(recording)
    assert not [who for who, key in KEYS.items() if key is not None and key[8:40] in shown]


def test_the_policy_pack_lets_it_pass(recording):
    assert refusals(recording) == []


@pytest.mark.parametrize(
    ("gateway", "consumers", "said"),
    [
        ({"replicas": 3}, {}, f"gateway.replicas: .*{FIELDS}"),
        ({"maxBodySize": "1Mi"}, {}, f"gateway.maxBodySize: .*{FIELDS}"),
        (
            {"exposure": "internal", "parent": None},
            {},
            "(?s)gateway.exposure: .*gatewayApi.*gateway.parent: ",
        ),
        (
            {},
            {"expires": {"1": "2030-01-01"}},
            "consumers.batch.expires: implementation envoyGateway cannot enforce expires",
        ),
        (
            {},
            {"limits": {"concurrentRequests": 3}},
            "consumers.batch.limits: implementation envoyGateway cannot enforce limits",
        ),
    ],
)
def test_what_it_cannot_do_is_refused_where_the_stack_is_read(gateway, consumers, said):
    everyone = {"chat": {"keys": [2, 1]}, "batch": {"keys": [1], **consumers}}
    written = {key: value for key, value in {**ENVOY, **gateway}.items() if value is not None}
    with pytest.raises(Exception, match=said):
        recorded(gateway=written, consumers=everyone)


def test_what_it_does_otherwise_is_noted_in_the_plan(tmp_path, monkeypatch, capsys):
    (tmp_path / "stacks").mkdir()
    for name in ("Pulumi.yaml", "inferplan/infra"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(ROOT / name)
    text = (ROOT / "stacks" / "Pulumi.local.yaml").read_text()
    ours = next(line for line in text.splitlines() if "inferplan:gateway:" in line)
    theirs = (
        "  inferplan:gateway: {implementation: envoyGateway, exposure: gatewayApi, host: a.example,"
        " parent: {name: a, namespace: b}}"
    )
    (tmp_path / "stacks" / "Pulumi.local.yaml").write_text(text.replace(ours, theirs))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    with pytest.raises(SystemExit) as ended:
        main.run(("plan", "local"))
    assert not ended.value.code
    said = " ".join(capsys.readouterr().err.split())
    assert (
        "note: the Envoy Gateway reads every valid key in plain text from the Secret"
        " gateway-clients" in said
    )
    assert "if a call has two different keys, the one in Authorization is used" in said
    assert (
        "keys cross the network in plain text on every listener of the Gateway b/a without TLS"
        in said
    )


def test_what_routes_cannot_say_is_noted_where_it_matters():
    written = {
        "host": "a.example",
        "exposure": "gatewayApi",
        "parent": {"name": "a", "namespace": "b", "sectionName": "https"},
    }
    spec = NginxGatewaySpec.model_validate(written)
    assert spec.parent is not None
    assert list(route_notes(spec.access, grpc=False, differences=spec.differences)) == []
    [note] = route_notes(spec.access, grpc=True, differences=spec.differences)
    assert "a GRPCRoute cannot set a timeout, and an Envoy Gateway ends calls after 15 s" in note
