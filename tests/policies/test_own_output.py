"""The pack has nothing to say about what our components generate, whatever the user calls it, with
no settings at all.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from functools import cache

import pytest
import yaml

from inferplan.components.preheat.pod import program
from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.evaluate import Outcome, evaluate_resource, evaluate_stack
from inferplan.policies.engine.fields import UNKNOWN
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.resource import Resource, Stack
from inferplan.policies.engine.rule import Level, State
from inferplan.policies.engine.settings import Settings
from inferplan.pulumi_engine.recording import Recording
from tests.lanes import in_full
from tests.policies.edits import pods_in
from tests.policies.recorded import recording_with
from tests.policies.renamed import NAMESPACE, examples, renamed
from tests.stacks.test_committed_stacks import ROOT

TODAY = "2026-11-21"
MAP = "kubernetes:core/v1:ConfigMap"
PROGRAMS = frozenset(program().values())
# Rules that an example breaks rightly, by the example's name.
OPEN: dict[str, set[str]] = {}
EXAMPLES = examples()
# Together they hold every kind of object that a component generates: AWS, Gaudi, Ray, a build Job,
# every kind of store.
SAMPLE = ("prod", "onprem", "ray-serve", "tensorrt-llm")


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


@cache
def under_other_names(name: str):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return renamed(EXAMPLES[name])


def outcomes(recording: Recording) -> list[Outcome]:
    report = check_stack(stack_of(recording), Settings(today=TODAY))
    return [*report.violations, *report.advice]


def facts(name: str, config: dict) -> set[str]:
    """The rules that may speak: where the stack file says that there is no certificate, that
    something may be deleted or that a model brings code, and where the settings of the example list
    the registries of its company.
    """
    gateway = config.get("inferplan:gateway") or {}
    kept = [
        config["inferplan:cluster"].get("create") or {},
        *(config.get("inferplan:storage") or {}).values(),
    ]
    in_clear = bool(gateway) and not {"tls", "alb", "nlb"} & set(gateway)
    unguarded = any(each.get("protect") is False or each.get("retain") is False for each in kept)
    own_code = any(each.get("trustRemoteCode") for each in config["inferplan:models"].values())
    own_registries = "image-restrict-registries" in settings_file(name).get("parameters", {})
    stated = {
        "network-require-tls": in_clear,
        "stack-require-protection": unguarded,
        "model-disallow-trust-remote-code": own_code,
        "image-restrict-registries": own_registries,
    }
    return {rule for rule, true in stated.items() if true}


def settings_file(name: str) -> dict:
    path = ROOT / "policies" / "stacks" / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


@pytest.mark.parametrize(
    "name",
    [
        name if name in SAMPLE else pytest.param(name, marks=pytest.mark.full)
        for name in sorted(EXAMPLES)
    ],
)
def test_an_example_under_other_names_is_refused_for_nothing_but_facts_of_its_stack_file(name):
    config, recording = under_other_names(name)
    assert [
        each.message
        for each in outcomes(recording)
        if each.rule.id not in facts(name, config) | OPEN.get(name, set())
    ] == []


@pytest.mark.parametrize("name", SAMPLE)
def test_the_verdict_leaves_out_own_programs_which_break_no_rule(name):
    _config, recording = under_other_names(name)
    sent = {text for each in recording.of_type(MAP) for text in each.inputs["data"].values()}
    assert sent >= PROGRAMS
    report = check_stack(stack_of(recording, judged=PROGRAMS), Settings(today=TODAY))
    assert [*report.violations, *report.advice] == outcomes(recording)


def test_an_own_program_that_somebody_changed_is_judged():
    _config, recording = under_other_names("prod")
    unpickles = "import pickle\npickle.load(open('/models/a'))\n"
    registrations = tuple(
        dataclasses.replace(each, inputs=with_end(each.inputs, unpickles))
        if each.type == MAP and set(each.inputs["data"].values()) >= PROGRAMS
        else each
        for each in recording
    )
    changed = dataclasses.replace(recording, registrations=registrations)
    report = check_stack(stack_of(changed, judged=PROGRAMS), Settings(today=TODAY))
    assert {each.rule.id for each in report.violations} >= {"pod-restrict-mounted-files"}


def with_end(inputs, text: str) -> dict:
    data = inputs["data"]
    return {**inputs, "data": {**data, "errors.py": data["errors.py"] + text}}


def test_the_names_are_really_others():
    _config, recording = under_other_names("prod")
    written = json.dumps([each.urn for each in recording])
    assert "other-0" in written
    assert "llama" not in written
    assert NAMESPACE in written


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_exemptions_of_our_own_stacks_state_facts_about_an_environment(name):
    settings = settings_file(name)
    # The registries of a company, and code that somebody read, are facts about an environment too.
    assert not settings.keys() - {"exemptions", "parameters"}
    assert settings.get("parameters", {}).keys() <= {"image-restrict-registries"}
    of_environment = {
        "network-require-tls",
        "stack-require-protection",
        "model-disallow-trust-remote-code",
    }
    assert {each["rule"] for each in settings.get("exemptions", [])} <= of_environment


def pools(vendor: dict) -> dict:
    system = {"provider": "eks", "instanceTypes": ["m7i.xlarge"], "size": {"min": 2, "max": 3}}
    return {"card": {"provider": "eks", **vendor}, "system": system}


GAUDI = {
    "accelerator": "gaudi-1",
    "instanceTypes": ["dl1.24xlarge"],
    "amiId": "ami-0123456789abcdef0",
    "size": {"max": 2},
}


CLUSTER = {
    "provider": "eks",
    "name": "other",
    "region": "us-east-1",
    "subnets": {"us-east-1a": "subnet-0123456789abcdef0"},
}
EFA = {
    "accelerator": "nvidia-h100",
    "instanceTypes": ["p5.48xlarge"],
    "efa": True,
    "zones": ["us-east-1a"],
    "size": {"max": 2},
}


def plugin(recording: Recording):
    (found,) = [each for each in recording if each.type.endswith(":DaemonSet")]
    return found


def rules_on(recording: Recording, changed) -> set[str]:
    listed = tuple(changed if each.urn == changed.urn else each for each in recording)
    return {each.rule.id for each in outcomes(dataclasses.replace(recording, registrations=listed))}


def edited(each, edit):
    inputs = copy.deepcopy(each.inputs)
    edit(pods_in(inputs)[0])
    return dataclasses.replace(each, inputs=inputs)


LOOSER = {
    "mounts the node's root": (
        lambda pod: pod["volumes"][0]["hostPath"].update(path="/"),
        "pod-disallow-host-path",
    ),
    "mounts one path more": (
        lambda pod: pod["volumes"].append({"name": "x", "hostPath": {"path": "/etc"}}),
        "pod-disallow-host-path",
    ),
    "runs another image": (
        lambda pod: pod["containers"][0].update(image="nvcr.io/nvidia/cuda:13.0.0"),
        "pod-disallow-host-path",
    ),
    "runs an image of the same name": (
        lambda pod: pod["containers"][0].update(image="docker.io/evil/k8s-device-plugin:v0.20.0"),
        "pod-disallow-host-path",
    ),
    "is privileged": (
        lambda pod: pod["containers"][0].update(securityContext={"privileged": True}),
        "pod-disallow-privileged",
    ),
    "is on the node's network": (
        lambda pod: pod.update(hostNetwork=True),
        "pod-disallow-host-namespaces",
    ),
    "sees the node's processes": (lambda pod: pod.update(hostPID=True), "pod-disallow-host-path"),
    "runs a shell": (
        lambda pod: pod["containers"][0].update(command=["sh", "-c", "true"]),
        "pod-disallow-host-path",
    ),
    "brings a second container": (
        lambda pod: pod["containers"].append({"name": "x", "image": "docker.io/library/busybox:1"}),
        "pod-disallow-host-path",
    ),
}
LOOSER_SAMPLE = ("is privileged", "runs a shell", "runs an image of the same name")


@pytest.mark.parametrize("what", [*LOOSER_SAMPLE, *in_full(*sorted({*LOOSER} - {*LOOSER_SAMPLE}))])
def test_a_device_plugin_that_asks_for_more_than_its_vendors_manifest_is_refused(what):
    _config, recording = under_other_names("prod")
    edit, rule = LOOSER[what]
    assert rule in rules_on(recording, edited(plugin(recording), edit))


def test_a_namespace_is_excused_for_device_plugins_alone():
    _config, recording = under_other_names("prod")
    server = next(each for each in recording if each.type.endswith(":Deployment"))
    moved = copy.deepcopy(server.inputs)
    moved["metadata"]["namespace"] = plugin(recording).inputs["metadata"]["namespace"]
    assert "namespace-require-pod-security" in rules_on(
        recording, dataclasses.replace(server, inputs=moved)
    )


PROVIDER = "urn:pulumi:s::p::inferplan:cluster:CreatedCluster$aws:iam/openIdConnectProvider:OpenIdConnectProvider::prod-oidc"


def irsa_role(*sources: str, **changes) -> Resource:
    principal = {"Federated": UNKNOWN}
    statement = {
        "Effect": "Allow",
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Principal": principal,
        "Condition": {"StringEquals": UNKNOWN},
    }
    return Resource(
        type="aws:iam/role:Role",
        urn="urn:pulumi:s::p::aws:iam/role:Role::x",
        name="x",
        inputs={"name": "x", "assumeRolePolicy": {"Statement": [{**statement, **changes}]}},
        property_dependencies={"assumeRolePolicy": sources or (PROVIDER,)},
    )


def test_the_unknown_id_of_the_stacks_own_oidc_provider_is_judged_by_the_update():
    assert said(irsa_role()) == set()


@pytest.mark.parametrize(
    ("role", "state"),
    [
        (
            irsa_role(PROVIDER, "urn:pulumi:s::p::aws:ssm/parameter:Parameter::subject"),
            State.NOT_EVALUATED,
        ),
        (irsa_role("urn:pulumi:s::p::aws:eks/cluster:Cluster::prod"), State.NOT_EVALUATED),
        (irsa_role(Principal={"Federated": UNKNOWN, "AWS": "*"}), State.NOT_EVALUATED),
        (irsa_role(Action="sts:AssumeRole"), State.NOT_EVALUATED),
        (
            irsa_role(
                Principal={"Federated": "arn:aws:iam::1:oidc-provider/x"},
                Condition={"StringLike": {"x:sub": "*"}},
            ),
            State.VIOLATION,
        ),
    ],
)
def test_a_trust_that_is_unknown_for_another_cause_is_not_excused(role, state):
    assert {each[1] for each in said(role)} == {state}


def test_a_cluster_with_irsa_passes_with_role_arns_that_the_plan_shows():
    """The account is that of all administrators, which the provider then enforces."""
    path = ROOT / "stacks" / "Pulumi.prod.yaml"
    cluster = yaml.safe_load(path.read_text())["config"]["inferplan:cluster"]
    recording = recording_with(path, "prod", cluster={**cluster, "identity": "irsa"})
    assert outcomes(recording) == []
    accounts = recording.of_type("kubernetes:core/v1:ServiceAccount")
    arns = [
        arn
        for each in accounts
        if (arn := each.inputs["metadata"].get("annotations", {}).get("eks.amazonaws.com/role-arn"))
    ]
    names = {each.inputs.get("name") for each in recording.of_type("aws:iam/role:Role")}
    assert len(arns) == 5
    assert all(arn.startswith("arn:aws:iam::111122223333:role/inference-prod-") for arn in arns)
    assert {arn.rpartition("/")[2] for arn in arns} <= names
    assert recording.one("pulumi:providers:aws").inputs["allowedAccountIds"] in (
        ["111122223333"],
        '["111122223333"]',
    )


def key_policy(resource, **statement) -> Resource:
    document = {
        "Statement": [
            {"Effect": "Allow", "Action": "kms:Decrypt", "Resource": resource, **statement}
        ]
    }
    return Resource(
        type="aws:iam/rolePolicy:RolePolicy",
        urn="urn:pulumi:s::p::aws:iam/rolePolicy:RolePolicy::x",
        name="x",
        inputs={"policy": document},
        property_dependencies={
            "policy": ("urn:pulumi:s::p::inferplan:storage:S3Bucket$aws:kms/key:Key::weights",)
        },
    )


def said(resource: Resource) -> set[tuple[str, str, str]]:
    told = evaluate_resource(resource, Settings(today=TODAY), [Level.MANDATORY])
    return {
        (each.rule.id, each.state, each.path)
        for each in told
        if each.rule.id.startswith("iam-disallow-wildcard-")
    }


ACTIONS, RESOURCES = "iam-disallow-wildcard-actions", "iam-disallow-wildcard-resources"


def test_the_unknown_arn_of_a_key_that_the_same_stack_makes_is_one_key():
    assert said(key_policy(UNKNOWN)) == set()


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            {"Action": "*"},
            {
                (ACTIONS, State.VIOLATION, "policy.Statement[0]"),
                (RESOURCES, State.NOT_EVALUATED, "policy.Statement[0].Resource"),
            },
        ),
        (
            {"Action": "s3:GetObject"},
            {(RESOURCES, State.NOT_EVALUATED, "policy.Statement[0].Resource")},
        ),
        ({"Action": UNKNOWN}, {(ACTIONS, State.NOT_EVALUATED, "policy.Statement[0].Action")}),
    ],
)
def test_the_known_parts_beside_an_unknown_one_are_judged(statement, expected):
    assert expected <= said(key_policy(UNKNOWN, **statement))


def test_a_wildcard_in_a_list_is_found_beside_an_unknown_entry():
    assert (RESOURCES, State.VIOLATION, "policy.Statement[0]") in said(
        key_policy([UNKNOWN, "*"], Action="s3:GetObject")
    )


def test_an_unknown_arn_of_anything_else_is_not_evaluated():
    other = dataclasses.replace(key_policy(UNKNOWN), property_dependencies={"policy": ()})
    assert said(other) == {(RESOURCES, State.NOT_EVALUATED, "policy.Statement[0].Resource")}


def test_a_statement_of_its_own_is_judged_beside_one_that_is_unknown():
    document = {
        "Statement": [
            {"Effect": "Allow", "Action": UNKNOWN, "Resource": UNKNOWN},
            {"Effect": "Allow", "Action": "*", "Resource": "*"},
        ]
    }
    resource = dataclasses.replace(key_policy(UNKNOWN), inputs={"policy": document})
    assert {
        (ACTIONS, State.VIOLATION, "policy.Statement[1]"),
        (RESOURCES, State.VIOLATION, "policy.Statement[1]"),
    } <= said(resource)


def edge(**over) -> Resource:
    own = {"matchLabels": {"app": "engine"}}
    rule = {
        "from": [{"podSelector": own}],
        "ports": [{"port": 1024, "endPort": 65535, "protocol": "TCP"}],
        **over,
    }
    spec = {"podSelector": own, "policyTypes": ["Ingress"], "ingress": [rule]}
    type_ = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
    return Resource(
        type=type_,
        urn=f"urn:pulumi:s::p::{type_}::x",
        name="x",
        inputs={"metadata": {"name": "x"}, "spec": spec},
    )


@pytest.mark.parametrize(
    ("over", "refused"),
    [
        ({}, False),
        ({"ports": [{"port": 1, "endPort": 65535}]}, True),
        ({"ports": [{"protocol": "TCP"}]}, True),
        ({"ports": []}, True),
        ({"from": [{"podSelector": {"matchLabels": {"app": "other"}}}]}, True),
        (
            {"from": [{"podSelector": {"matchLabels": {"app": "engine"}}}, {"podSelector": {}}]},
            True,
        ),
        (
            {
                "from": [
                    {"podSelector": {"matchLabels": {"app": "engine"}}, "namespaceSelector": {}}
                ]
            },
            True,
        ),
        ({"from": []}, True),
    ],
)
def test_a_range_of_ports_is_open_only_among_the_pods_of_one_engine(over, refused):
    told = evaluate_resource(edge(**over), Settings(today=TODAY), [Level.MANDATORY])
    assert ("network-require-policy-ports" in {each.rule.id for each in told}) is refused


OURS = Resource(
    type="aws:s3/bucket:Bucket",
    urn="urn:pulumi:s::p::aws:s3/bucket:Bucket::weights",
    name="weights",
    inputs={"bucket": "acme-weights", "forceDestroy": True},
)
STATED = {"facts": {"version": 1, "store": {"weights": {"protected": False}}}}


def emptied_bucket(outputs=STATED, **over) -> set[str]:
    """Rules on a bucket that a destroy empties, changed by `over`, in a stack with `outputs`."""
    stack = Stack("s", [dataclasses.replace(OURS, **over)], outputs=outputs)
    return {
        each.rule.id for each in evaluate_stack(stack, Settings(today=TODAY), [Level.MANDATORY])
    }


def test_a_destroy_may_empty_a_bucket_only_where_the_stack_states_it():
    assert "stack-require-stated-powers" not in emptied_bucket()
    assert "stack-require-stated-powers" in emptied_bucket(protect=True)
    assert "stack-require-stated-powers" in emptied_bucket(retain_on_delete=True)
    assert "stack-require-stated-powers" in emptied_bucket(name="other")
    assert "stack-require-stated-powers" in emptied_bucket(outputs={})
    assert "stack-require-stated-powers" in emptied_bucket(
        outputs={"facts": {**STATED["facts"], "version": 2}}
    )


def test_a_bucket_with_retain_false_breaks_only_the_rule_on_protection():
    store = {
        "kind": "s3",
        "bucket": "acme-weights",
        "prefix": "llm",
        "create": {"retain": False, "accessLogs": {"bucket": "acme-logs"}},
    }
    recording = recording_with(
        EXAMPLES["dev"],
        "other",
        cluster=CLUSTER,
        nodePools=pools(EFA),
        models={},
        storage={"weights": store},
    )
    (bucket,) = [each for each in recording if each.type == "aws:s3/bucket:Bucket"]
    assert bucket.inputs["forceDestroy"] is True
    assert {each.rule.id for each in outcomes(recording)} == {"stack-require-protection"}


@pytest.mark.parametrize("vendor", [GAUDI, EFA], ids=["gaudi", "efa"])
def test_other_vendors_device_plugins_pass_too(vendor):
    recording = recording_with(
        EXAMPLES["dev"], "other", cluster=CLUSTER, nodePools=pools(vendor), models={}, storage={}
    )
    assert any(each.type.endswith(":DaemonSet") for each in recording)
    assert [
        each.message for each in outcomes(recording) if each.rule.id != "stack-require-protection"
    ] == []
