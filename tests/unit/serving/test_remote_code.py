"""A model with its own code: a review of one revision, a violation that an exemption can cover, a
risk in the report.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from inferplan.components.serving.facts import model_facts
from inferplan.kube.facts import document
from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.settings import today
from inferplan.policies.engine.settings_reader import parse_settings
from inferplan.review.report import make_report
from tests.review_streams import facts, preview
from tests.unit.serving.models import container_of, declared, vllm
from tests.unit.stackfile.test_checks import WEIGHTS, lines, only

__all__ = ["lines"]
REVIEW = {"reviewedBy": "platform-security", "revision": "v1"}
RULE = "model-disallow-trust-remote-code"
X = {"dataType": "TYPE_FP32", "dims": [3]}
REVIEWED = vllm(weights=WEIGHTS, preheat={"into": "shared"}, trustRemoteCode=REVIEW)


def test_it_is_off_by_default():
    assert "--trust-remote-code" not in container_of(vllm())["args"]
    assert "--trust-remote-code" not in container_of(vllm(trustRemoteCode=False))["args"]


@pytest.mark.parametrize("further", [{}, {"maxModelLen": 100, "extraArgs": ["--seed=1"]}])
def test_a_review_turns_it_on_at_a_place_that_other_arguments_do_not_move(further):
    spec = vllm(weights=WEIGHTS, preheat={"into": "shared"}, trustRemoteCode=REVIEW, **further)
    assert container_of(spec)["args"][4] == "--trust-remote-code"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"trustRemoteCode": True},
            (
                "true runs Python files of the model without a review. Set trustRemoteCode:"
                " {reviewedBy: <who read the files>, revision:"
            ),
        ),
        (
            {"trustRemoteCode": {**REVIEW, "revision": "v0"}},
            (
                "trustRemoteCode was reviewed at revision v0, but weights.revision is v1. Review"
                " the files of that revision, and set both to it"
            ),
        ),
        (
            {"trustRemoteCode": {**REVIEW, "revision": "main"}},
            "Revision 'main' can change while a server runs. Use a commit",
        ),
        ({"trustRemoteCode": {"revision": "v1"}}, "Missing required field"),
        ({"trustRemoteCode": {**REVIEW, "reviewedBy": " "}}, "trustRemoteCode.reviewedBy"),
        (
            {
                "trustRemoteCode": REVIEW,
                "weights": {key: value for key, value in WEIGHTS.items() if key != "revision"},
            },
            "weights.revision is missing",
        ),
        (
            {"trustRemoteCode": REVIEW, "preheat": None, "weights": {**WEIGHTS, "store": "shared"}},
            (
                "trustRemoteCode requires preheat, which verifies that the files are those of the"
                " revision. Add preheat: {into}"
            ),
        ),
    ],
)
def test_code_that_nobody_reviewed_is_rejected(lines, fields, message):
    assert message in only(lines(fields))


def violations(exemptions):
    settings = parse_settings({"exemptions": exemptions}, all_rules(), today(), where="local.json")
    report = check_stack(stack_of(declared(REVIEWED)), settings)
    return [each for each in report.violations if each.rule.id == RULE]


def test_the_policy_blocks_it_until_an_exemption_names_the_violation():
    [violation] = violations([])
    exemption = {
        "rule": RULE,
        "resource": violation.resource,
        "path": violation.path,
        "state": "violation",
        "reason": "chatglm2 has its own code, reviewed at v1",
        "owner": "platform-security",
        "expires": today(),
    }
    assert violation.path == "spec.template.spec.containers[0].args[4]"
    assert violations([exemption]) == []
    assert len(violations([{**exemption, "resource": "Deployment/other"}])) == 1


def risks_of_code(before: dict | None, after: dict) -> list[tuple[str, str, str, int]]:
    """The risks of a change of the model's facts, as its specification states them."""
    sides = [
        (
            {}
            if each is None
            else {
                "model": {
                    "chat": stated(
                        vllm(**{"weights": WEIGHTS, "preheat": {"into": "shared"}, **each})
                    )
                }
            }
        )
        for each in (before, after)
    ]
    risks = make_report([preview(facts(*sides))]).stacks[0].risks
    return [
        (each.what, each.name, each.consequence, each.weight)
        for each in risks
        if "code" in each.what
    ]


def stated(spec) -> dict:
    endpoint: Any = SimpleNamespace(served_names=("chat",), routes=(), protocols=())
    stores: Any = {WEIGHTS["store"]: SimpleNamespace(location="s3://acme-weights")}
    return document([("chat", model_facts(endpoint, spec, stores))])["model"]["chat"]


@pytest.mark.parametrize(
    "before",
    [
        None,
        {},
        {"weights": {**WEIGHTS, "revision": "v0"}, "trustRemoteCode": {**REVIEW, "revision": "v0"}},
    ],
)
def test_the_report_shows_a_new_model_with_code_and_each_new_revision(before):
    consequence = "the code runs with the server's key: platform-security reviewed it at v1"
    assert ("runs code from the model's files", "chat", consequence, 0) in risks_of_code(
        before, {"trustRemoteCode": REVIEW}
    )


def test_the_report_is_quiet_about_a_review_that_stays():
    assert (
        risks_of_code(
            {"trustRemoteCode": REVIEW, "maxModelLen": 100},
            {"trustRemoteCode": REVIEW, "maxModelLen": 200},
        )
        == []
    )


TENSORS = {"generate": {"kind": "textGeneration"}}


def triton(**fields):
    from inferplan.components.serving.triton.spec import TritonSpec

    stack = {
        "engine": "triton",
        "pool": "p",
        "weights": WEIGHTS,
        "preheat": {"into": "shared"},
        "repository": TENSORS,
        **fields,
    }
    return TritonSpec.model_validate(stack)


def test_a_triton_service_runs_reviewed_code_by_a_variable_that_the_pack_blocks():
    variable = {"name": "TRUST_REMOTE_CODE", "value": "1"}
    assert variable not in container_of(triton())["env"]
    assert variable in container_of(triton(trustRemoteCode=REVIEW))["env"]
    for review, blocked in ((REVIEW, True), (False, False)):
        report = check_stack(
            stack_of(declared(triton(trustRemoteCode=review))),
            parse_settings({}, all_rules(), today(), where="x"),
        )
        assert (RULE in {each.rule.id for each in report.violations}) is blocked


def test_the_vllm_backend_of_triton_gets_it_in_its_file():
    import json

    vllm_model = {"generate": {"kind": "vllm"}}
    for review, expected in ((REVIEW, True), (False, None)):
        spec = triton(repository=vllm_model, trustRemoteCode=review)
        files = next(
            each.inputs["data"] for each in declared(spec) if each.type.endswith("ConfigMap")
        )
        assert json.loads(files["generate..1..model.json"]).get("trust_remote_code") is expected


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"trustRemoteCode": {**REVIEW, "revision": "v0"}},
            "was reviewed at revision v0, but weights.revision is v1",
        ),
        ({"trustRemoteCode": REVIEW, "preheat": None}, "trustRemoteCode requires preheat"),
        (
            {
                "trustRemoteCode": REVIEW,
                "repository": {
                    "net": {"kind": "onnx", "file": "a.onnx", "input": {"x": X}, "output": {"y": X}}
                },
            },
            "trustRemoteCode is for models of kind textGeneration and vllm",
        ),
    ],
)
def test_a_review_of_a_triton_service_has_to_hold(fields, message):
    with pytest.raises(ValueError, match=message):
        triton(**fields)
