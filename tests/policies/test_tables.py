"""Every row of the tables of settings: a wrong value is a violation, a right one and an absent one
are not, an unknown one blocks.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

from inferplan.policies.engine.fields import UNKNOWN
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.resource import Resource, Stack
from inferplan.policies.engine.rule import Level
from inferplan.policies.engine.settings import Settings
from inferplan.tables import table
from tests.policies.analyzer import analyze, configure, pack
from tests.policies.cases import PASS, REFUSED, UNJUDGED, keys_of, label, put, recording_of

TABLES = {"aws_settings": "aws-restrict-settings", "object_settings": "object-restrict-settings"}
ROWS = [
    (name, {**{key: each for key, each in row.items() if key != "paths"}, "path": path})
    for name in TABLES
    for row in table(f"policies/rules/{name}.toml")["row"]
    for path in row.get("paths") or [row["path"]]
    for path in ([f"**.{each}" for each in path[3:].split("|")] if "|" in path else [path])
]
# A wrong and a right value for each pattern, by the beginning of the pattern.
SAMPLES = {
    "^(?!/var/run": (
        "/etc/prometheus/secrets/token",
        "/var/run/secrets/kubernetes.io/serviceaccount/token",
    ),
    "^Deny$": ("Audit", "Deny"),
    "^0[a-z]*$": ("0s", "1h"),
    "^(allow-delete|": ("allow-delete", "noatime"),
    "(deletion_protection|": (
        "access_logs.s3.enabled=true,deletion_protection.enabled=false",
        "deletion_protection.enabled=true,waf.fail_open.enabled=false",
    ),
    '"?(enableNetworkPolicy': (
        '{"enableNetworkPolicy": "false"}',
        '{"enableNetworkPolicy": "true"}',
    ),
    '"readonlyRootFilesystem"': (
        '[{"user": "0:0"}]',
        '[{"user": "1000", "readonlyRootFilesystem": true}]',
    ),
    '"AllowFromPublic"': ('[{"AllowFromPublic": true}]', '[{"AllowFromPublic": false}]'),
    "^([0-9]{5,}h": ("87600h", "2160h"),
    r"^\$(Latest": ("$Latest", "3"),
    "^(python": ("python3.8", "python3.13"),
    "^http://(?!": ("http://id.acme.example/jwks", "https://id.acme.example/jwks"),
    "^([0-9a-f]{40}": ("main", "0c5f2b1d9e8a7c6b5d4e3f2a1b0c9d8e7f6a5b4c"),
    r"^(.*\{\{": ("main", "{{ .revision }}"),
    r"^\^?\.[*+]'": (".*", "^team-.*$"),
    '"privileged"': ('{"privileged": true}', '{"privileged": false}'),
    '"image"': ('{"image": "acme/m:latest"}', '{"image": "registry.acme.example:5000/m:1.2"}'),
    "http://(?!": ("http://minio.acme.example:9000", "https://minio.acme.example:9000"),
    "^([0-9]{1,2}s|[12]": ("10s", "1h"),
    r"\*": ("*", "arn:aws:iam::210987654321:role/search"),
    "^system:": ("system:nodes", "acme-search"),
    "^kube-": ("kube-system", "team-search"),
    r"(:root$|\*|^[0-9]{12}$)": (
        "arn:aws:iam::999988887777:root",
        "arn:aws:iam::210987654321:role/indexer",
    ),
    "^(public|authenticated|aws-exec)": ("public-read", "private"),
    r"^(\*|https?://\*)|\*$": ("https://*.acme.example", "https://console.acme.example"),
    "ELBSecurityPolicy-": (
        "ELBSecurityPolicy-TLS13-1-1-2021-06",
        "ELBSecurityPolicy-TLS13-1-2-Res-2021-06",
    ),
    "^(SSLv3|": ("TLSv1.1_2016", "TLSv1.2_2021"),
    "[2367]$": ("0757", "0750"),
    "@latest$": ("bottlerocket@latest", "bottlerocket@v1.49.0"),
    "^[*.]+$": ("*", "*.acme.example"),
    "^[*?]+$": ("*", "genai-private-*"),
    "^100%$": ("100%", "10%"),
    "^([0-9]+s|": ("30s", "24h"),
    "^(1?[0-9]|": ("8h", "720h"),
    r"^\^?\.[*+]": (".*", "^team-.*$"),
    "(?i)host-?path": ("hostpath.csi.k8s.io", "efs.csi.aws.com"),
}
# A kind for the rows of all kinds of a package.
ANY = {"aws:*": "aws:any:*", "kubernetes:*": "kubernetes:acme.example:*"}
NO_TESTS = ("kinds", "except", "each", "path", "problem", "when", "unless")
SELECTORS = (
    {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["guest"]}]},
    {"matchLabels": {"team": "search"}},
)


def values_of(row: dict[str, Any]) -> tuple[Any, Any]:
    """A wrong and a right value of a row."""
    test = next(key for key in row if key not in NO_TESTS)
    if test.endswith("Match"):
        return next(each for pattern, each in SAMPLES.items() if row[test].startswith(pattern))
    given = row[test]
    some: dict[str, tuple[Any, Any]] = {
        "mustBeSet": ({}, {"name": "value"}),
        "mustNotBeSet": ("value", None),
        "mustNotCoverInternet": ("0.0.0.0/1,128.0.0.0/1", "198.51.100.0/24"),
        "mustSelect": SELECTORS,
    }
    numbers = {"least": -1, "most": 1}
    if test in numbers:
        return given + numbers[test], given
    return some.get(test) or (
        (given[0], "something else") if test == "mustNot" else ("none of these", given[0])
    )


def type_of(kind: str) -> str:
    package, module, name = ANY.get(kind, kind).split(":")
    return f"{package}:{module}/v1:{name.replace('*', 'Claim')}"


def inputs_with(row: dict[str, Any], value: Any) -> tuple[dict[str, Any], str]:
    """The inputs of a resource with `value` at the place of `row`, and the path of that place."""
    inputs: dict[str, Any] = {}
    path = row["path"].replace(".*", "[0]")
    for at, allowed in row.get("when", {}).items():
        if allowed:
            put(inputs, keys_of(at), allowed[0])
    if path.startswith("**."):
        path = f"spec.list[0].{path[3:]}"
    value = [value] if path.endswith("kubernetesGroups") and value is not UNKNOWN else value
    if value is not None:
        made(inputs, keys_of(path), value)
    if "each" in row:
        items = [{"note": "another item"}, inputs]
        inputs = {}
        put(inputs, keys_of(row["each"]), items)
    return inputs, path


def told(table: str, row: dict[str, Any], value: Any, kind: str) -> str:
    inputs, path = inputs_with(row, value)
    resource = Resource(
        type=type_of(kind),
        urn="urn:pulumi:s::p::t::n",
        name="n",
        inputs=inputs,
    )
    rule = TABLES[table]
    levels = {each: Level.MANDATORY if each == rule else Level.DISABLED for each in all_rules()}
    outcomes = check_stack(
        Stack("s", [resource]), Settings(today="2026-11-23", levels=levels)
    ).violations
    last = str(keys_of(path)[-1])
    states = {
        each.state.value
        for each in outcomes
        if (last in each.path and each.problem == row["problem"]) or each.state.value == UNJUDGED
    }
    return states.pop() if states else PASS


def made(inputs: Any, keys: list[str | int], value: Any) -> None:
    """Sets what `keys` lead to, through lists of one map."""
    for key, following in pairwise(keys):
        if isinstance(inputs, list):
            inputs.append({} if isinstance(following, str) else [])
            inputs = inputs[0]
        else:
            inputs = inputs.setdefault(key, [] if isinstance(following, int) else {})
    if isinstance(inputs, list):
        inputs.append(value)
    else:
        inputs[keys[-1]] = value


@pytest.mark.parametrize(
    ("table", "row"),
    ROWS,
    ids=lambda each: each if isinstance(each, str) else f"{each['kinds'][0]}-{each['path']}",
)
def test_a_row_tells_wrong_values_from_right_ones(table, row):
    wrong, right = values_of(row)
    for kind in row["kinds"]:
        assert told(table, row, wrong, kind) == REFUSED
        assert told(table, row, right, kind) == PASS
        assert told(table, row, UNKNOWN, kind) == UNJUDGED
        absent = (
            REFUSED
            if {"must", "mustMatch", "mustBeSet"} & row.keys() and "*" not in row["path"]
            else PASS
        )
        assert told(table, row, None, kind) == absent


def test_a_right_value_is_the_remedy_in_the_policy_pack_of_the_pulumi_cli_too():
    """Every row at once: the wrong values are reported under the pack's protocol, the right ones
    are not.
    """
    listed: list[dict[str, Any]] = []
    problems: dict[str, tuple[str, str]] = {}
    for number, (_, row) in enumerate(ROWS):
        for name, value in zip(("wrong", "right"), values_of(row), strict=True):
            each = {"name": f"{name}-{number}", "type": type_of(row["kinds"][0])}
            inputs, path = inputs_with(row, value)
            listed.append({**each, "inputs": inputs})
            problems[label(listed[-1])] = (str(keys_of(path)[-1]), row["problem"])
    recording = recording_of(listed)
    with pack() as stub:
        configure(stub, {})
        messages = [each.message for each in analyze(stub, recording)]
    said = {
        name
        for name, (last, problem) in problems.items()
        if any(f" {name} " in each and last in each and problem in each for each in messages)
    }
    assert said == {name for name in problems if "/wrong-" in name}


def test_no_problem_contains_a_value_that_its_row_forbids():
    """The message is printed, and the value may be a secret."""
    for _table, row in ROWS:
        assert not any(
            re.search(rf"(?<![\w-]){re.escape(each)}(?![\w-])", row["problem"])
            for each in row.get("mustNot", ())
            if len(each) > 5
        )


ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
INTERNET = ["0.0.0.0/0"]
OPEN, MESH = "admits every address", "takes the pods out of the mesh"
FILES = "of Prometheus"
OUT_OF_MESH = {"template": {"metadata": {"labels": {"sidecar.istio.io/inject": "false"}}}}


def from_(*blocks, **fields):
    return {"rules": [{"from": [{"source": {"ipBlocks": [*blocks]}}]}], **fields}


@pytest.mark.parametrize(
    ("type_", "inputs", "problem", "wrong"),
    [
        (
            "cilium.io/v2:CiliumNetworkPolicy",
            {"spec": {"egress": [{"toCIDRSet": [{"cidr": "0.0.0.0/0"}]}]}},
            OPEN,
            False,
        ),
        (
            "cilium.io/v2:CiliumNetworkPolicy",
            {"spec": {"ingress": [{"fromCIDRSet": [{"cidr": "0.0.0.0/0"}]}]}},
            OPEN,
            True,
        ),
        (
            "cilium.io/v2:CiliumClusterwideNetworkPolicy",
            {"spec": {"ingress": [{"fromCIDR": INTERNET}]}},
            OPEN,
            True,
        ),
        (
            "security.istio.io/v1:AuthorizationPolicy",
            {"spec": from_(*INTERNET, action="DENY")},
            OPEN,
            False,
        ),
        (
            "security.istio.io/v1:AuthorizationPolicy",
            {"spec": from_(*INTERNET, action="ALLOW")},
            OPEN,
            True,
        ),
        ("security.istio.io/v1:AuthorizationPolicy", {"spec": from_(*INTERNET)}, OPEN, True),
        (
            "monitoring.coreos.com/v1:ServiceMonitor",
            {
                "spec": {
                    "endpoints": [
                        {
                            "scheme": "https",
                            "bearerTokenFile": f"{ACCOUNT}/token",
                            "tlsConfig": {"caFile": f"{ACCOUNT}/ca.crt"},
                        }
                    ]
                }
            },
            FILES,
            False,
        ),
        (
            "monitoring.coreos.com/v1:ServiceMonitor",
            {"spec": {"endpoints": [{"scheme": "https", "bearerTokenFile": "/etc/prometheus/a"}]}},
            FILES,
            True,
        ),
        (
            "monitoring.coreos.com/v1:ServiceMonitor",
            {"spec": {"endpoints": [{"bearerTokenFile": f"{ACCOUNT}/token"}]}},
            FILES,
            True,
        ),
        (
            "core/v1:Namespace",
            {"metadata": {"name": "istio-system", "labels": {"istio-injection": "disabled"}}},
            MESH,
            False,
        ),
        (
            "core/v1:Namespace",
            {"metadata": {"name": "models", "labels": {"istio-injection": "disabled"}}},
            MESH,
            True,
        ),
        ("batch/v1:Job", {"spec": OUT_OF_MESH}, MESH, False),
        ("apps/v1:Deployment", {"spec": OUT_OF_MESH}, MESH, True),
    ],
)
def test_what_upstream_ships_is_told_from_what_opens_a_server(type_, inputs, problem, wrong):
    resource = Resource(
        type=f"kubernetes:{type_}", urn="urn:pulumi:s::p::t::n", name="n", inputs=inputs
    )
    outcomes = check_stack(Stack("s", [resource]), Settings(today="2026-11-23")).violations
    assert any(problem in each.problem for each in outcomes) is wrong


def test_a_condition_limits_a_row():
    open_ = {"cidrIpv4": "0.0.0.0/0"}
    for protocol, expected in (("-1", REFUSED), ("tcp", PASS)):
        resource = Resource(
            type="aws:vpc/x:SecurityGroupEgressRule",
            urn="u::p::t::n",
            name="n",
            inputs={**open_, "ipProtocol": protocol},
        )
        outcomes = check_stack(Stack("s", [resource]), Settings(today="2026-11-23")).violations
        assert (
            REFUSED if "aws-restrict-settings" in {each.rule.id for each in outcomes} else PASS
        ) == expected
