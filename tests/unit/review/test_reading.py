"""A report that is read: alike things said once, nothing said that does not matter, no credential,
and JSON as what it says.
"""

from __future__ import annotations

import json

import pytest

from inferplan.kube.disclosure.disclosure import message
from inferplan.kube.disclosure.encodings import HIDDEN
from inferplan.review.rendering import html as page
from inferplan.review.rendering.markdown import render
from inferplan.review.report import as_json, make_report
from tests.review_streams import preview, stack_step, step

DEPLOYMENT = "kubernetes:apps/v1:Deployment"
ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"


def model(image, replicas=2):
    container = {"name": "server", "image": image, "resources": {"limits": {"nvidia.com/gpu": 1}}}
    rolling = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    template = {"spec": {"nodeSelector": {"inferplan.dev/pool": "l40s"}, "containers": [container]}}
    return {"spec": {"replicas": replicas, "strategy": rolling, "template": template}}


def report_on(*events, **options):
    return make_report([preview(*events, **options)])


def test_hundreds_of_alike_updates_are_one_entry_one_risk_and_one_rollout():
    text = render(
        report_on(
            *(
                step("update", DEPLOYMENT, f"m-{index}", model("a:1"), model("a:2"))
                for index in range(400)
            )
        )
    )
    assert "400 Deployments" in text
    assert "<code>a&#58;1</code> | <code>a&#58;2</code>" in text
    assert text.count("runs another image") == 1
    assert "Deployment m-0 and 399 more" in text
    assert "left out" not in text
    assert len(text) < 6_000


def test_different_updates_are_listed_one_by_one():
    text = render(
        report_on(
            *(
                step("update", DEPLOYMENT, f"m-{index}", model("a:1"), model(f"a:{index}"))
                for index in (2, 3)
            )
        )
    )
    assert "Deployments" not in text
    assert text.count("✏️ to update") == 2


def labelled(owner):
    return {"metadata": {"labels": {"owner": owner}}}


def test_a_small_change_fits_a_screen():
    stays = [
        step("same", DEPLOYMENT, f"m-{index}", model("a:1"), model("a:1")) for index in range(20)
    ]
    stays += [step("same", "aws:ec2/natGateway:NatGateway", "n", {}, {})]
    changed = [
        step(
            "update",
            "kubernetes:core/v1:ConfigMap",
            name,
            labelled("1"),
            labelled("2" if name == "a" else name),
        )
        for name in ("a", "b", "c")
    ]
    text = render(report_on(*stays, *changed, PolicyPacks={"inferplan": "1"}))
    assert "Unchanged: capacity, monthly cost" in text
    assert text.splitlines()[1].startswith("## 🟢")
    assert len(text.encode()) < 1_500


@pytest.mark.parametrize(
    ("read", "state"), [(True, "against the live state"), (False, "against the recorded state")]
)
def test_the_origin_says_whether_the_live_state_was_read(read, state):
    events = [step("refresh", DEPLOYMENT, "m", {}, {})] if read else []
    assert state in render(report_on(*events, stack_step(), counts={"same": 1}))


def test_capacity_and_cost_that_change_are_tables():
    text = render(
        report_on(step("update", DEPLOYMENT, "m", model("a:1"), model("a:1", replicas=3)))
    )
    assert "### Capacity" in text
    assert "Unchanged: capacity" not in text


def changes(old, new, type_=ROLE_POLICY, **more):
    (each,) = [
        each
        for each in preview(step("update", type_, "x", old, new, **more)).steps
        if each.op == "update"
    ]
    return [(each.path, each.old, each.new) for each in each.changes]


@pytest.mark.parametrize(
    "more", [{}, {"diff": {"policy": {"diffKind": "update", "inputDiff": True}}}]
)
def test_json_in_a_string_is_compared_as_json(more):
    old = {"policy": '{"Statement": [{"Action": "s3:GetObject", "Resource": "a"}]}'}
    new = {"policy": '{"Statement":[{"Resource":"b","Action":"s3:GetObject"}]}'}
    assert changes(old, new, **more) == [("policy.Statement[0].Resource", "a", "b")]


def test_json_that_is_only_written_differently_says_so():
    assert changes({"policy": '{"a": 1}'}, {"policy": '{ "a":1 }'}) == [
        ("policy", "JSON", "the same JSON, written differently")
    ]


def test_credentials_inside_of_json_are_hidden_and_other_strings_stay_as_they_are():
    assert changes({"policy": '{"password": "hunter22"}'}, {"policy": '{"password": "hunter23"}'})[
        0
    ][1:] == (
        "(hidden, 8 characters)",
        "(hidden, 8 characters, changed)",
    )
    assert changes({"policy": "{not json"}, {"policy": "[nor this"}) == [
        ("policy", '"{not json"', '"[nor this"')
    ]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("vllm serve m --api-key CANARY-1234 --port 8000", "--port 8000"),
        ("--hf-token=CANARY-1234 --x", "--x"),
        ("Authorization: Basic Q0FOQVJZMTIzNA== done", "done"),
        ("jdbc://h/db?user=a&password=CANARY-1234&ssl=1", "&ssl=1"),
        ('{"token": "CANARY-1234", "n": 1}', '"n": 1'),
        ("{'api_key': 'CANARY-1234'}", "'}"),
        ("passphrase=CANARY-1234", "passphrase="),
        ("access_key = CANARY-1234", "access_key"),
    ],
)
def test_credentials_that_pulumi_did_not_mark_are_hidden(text, kept):
    shown = message(text)
    assert "CANARY" not in shown
    assert "Q0FOQVJZ" not in shown
    assert HIDDEN in shown
    assert kept in shown


@pytest.mark.parametrize(
    "text",
    [
        "kubernetes:core/v1:Secret::api-keys",
        "the Secret api-keys-consumer-chat changes",
        "secretName: llm-tls",
        "max-tokens: 4096",
        "spec.consumers.chat.keys: [2, 1] → [2]",
        "a basic auth gateway",
        "apiKeySeed or an imported key changed",
        "token: [secret]",
    ],
)
def test_words_about_credentials_are_not_hidden(text):
    assert message(text) == text


def test_one_warning_is_one_warning_and_an_update_is_worded_as_one():
    warned = {"diagnosticEvent": {"message": "deprecated", "severity": "warning"}}
    text = render(
        report_on(step("update", DEPLOYMENT, "m", model("a"), model("b")), warned, isPreview=False)
    )
    assert "1 warning in the run" in text
    assert "✏️ updated:" in text
    assert "1 updated" in text
    assert "previewed" not in text
    both = render(
        report_on(warned, warned | {"diagnosticEvent": {"message": "x", "severity": "warning"}})
    )
    assert "2 warnings in the run" in both


def test_a_stream_with_policy_events_only_keeps_the_name_of_its_stack():
    name = "urn:pulumi:prod::acme::kubernetes:apps/v1:Deployment::m"
    event = {
        "policyEvent": {
            "resourceUrn": name,
            "message": "x",
            "policyName": "p",
            "enforcementLevel": "advisory",
        }
    }
    assert report_on(event).stacks[0].title == "acme/prod"


def test_the_three_forms_hold_the_same_resources():
    report = report_on(
        *(
            step("update", DEPLOYMENT, f"m-{index}", model("a:1"), model("a:2"))
            for index in range(30)
        )
    )
    assert len(json.loads(as_json(report))["stacks"][0]["resources"]) == 30
    assert page.render(report).count('class="resource"') == 30
