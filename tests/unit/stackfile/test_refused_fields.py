"""Settings of docker run that a stack does not take: the error says why, and which way works."""

from __future__ import annotations

import pytest

from inferplan.stackfile.support import about
from tests.unit.stackfile.test_checks import CONFIG, only
from tests.unit.stackfile.test_egress_checks import model


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("capAdd", ["SYS_NICE"], "topologyManagerPolicy: single-numa-node"),
        ("securityContext", {"capabilities": {"add": ["SYS_NICE"]}}, "restricted profile"),
        ("hostNetwork", True, "Clients reach a model through the gateway"),
        ("hostIPC", True, "write sharedMemory: 8Gi"),
        ("ulimits", {"memlock": -1, "stack": 67_108_864}, "LimitMEMLOCK and LimitSTACK"),
        ("nodePort", 30_080, "the Service of the ingress controller can be a NodePort"),
    ],
)
def test_a_refused_field_names_the_way(lines, field, value, words):
    line = only(lines(models=model(**{field: value})))
    assert f"models.find.{field}: Unknown field {field!r}." in line
    assert words in line


TOKENS, IDENTITY, REPLICA = (
    "counts tokens",
    "checks tokens of an identity provider",
    "chooses a replica by load",
)


@pytest.mark.parametrize(
    ("sections", "field", "words"),
    [
        ({"usage": {"since": "24h"}}, "usage", TOKENS),
        (
            {"consumers": {"chat": {"keys": [1], "limits": {"tokensPerMinute": 10}}}},
            "consumers.chat.limits.tokensPerMinute",
            "limits tokens by the day, not by the minute",
        ),
        ({"gateway": {**CONFIG["gateway"], "usage": True}}, "gateway.usage", TOKENS),
        (
            {"gateway": {**CONFIG["gateway"], "oidc": {"issuer": "https://id.example"}}},
            "gateway.oidc",
            IDENTITY,
        ),
        (
            {"gateway": {**CONFIG["gateway"], "issuer": "https://id.example"}},
            "gateway.issuer",
            IDENTITY,
        ),
        (
            {"consumers": {"chat": {"keys": [1], "jwt": {"groups": ["a"]}}}},
            "consumers.chat.jwt",
            IDENTITY,
        ),
        (
            {"gateway": {**CONFIG["gateway"], "loadBalancing": "leastRequest"}},
            "gateway.loadBalancing",
            REPLICA,
        ),
        ({"models": model(sessionAffinity=True)}, "models.find.sessionAffinity", REPLICA),
    ],
)
@pytest.mark.parametrize("implementation", ["nginx", "envoyGateway"])
def test_what_no_implementation_of_the_gateway_has_names_the_page_that_says_why(
    lines, implementation, sections, field, words
):
    envoy = {
        "implementation": implementation,
        "exposure": "gatewayApi",
        "host": "a.example",
        "parent": {"name": "g", "namespace": "g"},
    }
    if implementation == "envoyGateway":
        sections = {**sections, "gateway": {**sections.get("gateway", {}), **envoy}}
        sections["gateway"].pop("tls", None)
    line = only(lines(**{"models": model(), **sections}))
    name = field.rpartition(".")[2]
    if f"{field}: {name} is not supported." in line:  # by the table of `inferplan explain`
        assert f"{field}: {name} is not supported. {about(name)[0].reason[:40]}" in line
    else:
        assert f"{field}: Unknown field {name!r}. No implementation of the gateway {words}" in line
        assert "(inferplan docs decisions/gateway-scope)" in line


def test_the_issuer_of_a_certificate_is_not_one_of_tokens(lines):
    line = only(
        lines(gateway={**CONFIG["gateway"], "tls": {"secretName": "tls", "issuer": "letsencrypt"}})
    )
    assert "Did you mean 'clusterIssuer'?" in line


def test_a_volume_of_nfs_names_the_way(lines):
    volume = {"nfs": {"server": "nas.acme.example", "path": "/export/b"}, "mountPath": "/data"}
    [line] = [each for each in lines(models=model(volumes={"b": volume})) if "nfs" in each]
    assert (
        "Declare the export as a PersistentVolume and a PersistentVolumeClaim under extraObjects"
        in line
    )


def test_a_node_port_is_not_an_exposure_and_the_error_names_the_way(lines):
    [line] = [
        each
        for each in lines(gateway={**CONFIG["gateway"], "exposure": "NodePort"})
        if "exposure" in each
    ]
    assert "Write exposure: ingress" in line
    assert "can be a NodePort" in line


def test_a_prefix_by_another_name_is_corrected(lines):
    assert "Did you mean 'pathPrefix'?" in only(
        lines(gateway={**CONFIG["gateway"], "basePath": "/llm"})
    )
