from __future__ import annotations

import dataclasses
import json
from typing import Any
from xml.etree import ElementTree as Xml

import jsonschema
import pytest

from inferplan.commands.check.command import render
from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.settings import Exemption, Settings
from tests.policies.cases import changed

LINKS = "pod-disallow-service-links"
FIELD = "spec.template.spec.enableServiceLinks"


def exemption(expires):
    return Exemption(
        rule=LINKS,
        resource="Deployment/chat",
        path=FIELD,
        state="violation",
        reason="old client",
        owner="platform",
        expires=expires,
    )


@pytest.fixture
def broken():
    recording = changed(
        "Deployment/chat", {"spec.template.spec.enableServiceLinks": True, "metadata.labels": {}}
    )
    return stack_of(recording)


def report(stack, *exemptions):
    return check_stack(stack, Settings(today="2026-11-21", exemptions=exemptions))


def test_sarif_holds_every_rule_and_each_finding_with_its_level(broken):
    run = json.loads(render([report(broken)], "sarif"))["runs"][0]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == set(all_rules())
    assert {(each["ruleId"], each["level"]) for each in run["results"]} == {
        (LINKS, "error"),
        ("object-require-managed-by", "warning"),
    }
    location = run["results"][0]["locations"][0]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "stacks/Pulumi.test.yaml"
    assert "Deployment/chat" in location["logicalLocations"][0]["fullyQualifiedName"]


def test_sarif_shows_an_exemption_as_a_suppression(broken):
    run = json.loads(render([report(broken, exemption("2027-01-01"))], "sarif"))["runs"][0]
    (suppressed,) = [each for each in run["results"] if "suppressions" in each]
    assert (
        "old client (owner: platform, until 2027-01-01)"
        in suppressed["suppressions"][0]["justification"]
    )


def strict(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **optional},
        "additionalProperties": False,
    }


TEXT = {"type": "string", "minLength": 1}
MESSAGE = strict({"text": TEXT})
LOCATION = strict(
    {
        "physicalLocation": strict(
            {
                # SARIF 2.1.0, 3.4.3: a URI reference, here below the repository's root.
                "artifactLocation": strict(
                    {"uri": {"type": "string", "pattern": r"^[\w-]+(/[\w.-]+)+$"}}
                ),
                "region": strict({"startLine": {"type": "integer", "minimum": 1}}),
            }
        ),
        "logicalLocations": {
            "type": "array",
            "items": strict({"fullyQualifiedName": TEXT}),
            "minItems": 1,
        },
    }
)
# What SARIF 2.1.0 asks of the properties that are written here, and no property besides.
SARIF = strict(
    {
        "$schema": {"const": "https://json.schemastore.org/sarif-2.1.0.json"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": strict(
                {
                    "tool": strict(
                        {
                            "driver": strict(
                                {
                                    "name": TEXT,
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": strict(
                                            {
                                                "id": TEXT,
                                                "shortDescription": MESSAGE,
                                                "fullDescription": MESSAGE,
                                                "help": MESSAGE,
                                                "properties": strict(
                                                    {
                                                        "security-severity": {
                                                            "type": "string",
                                                            "pattern": r"^\d\.\d$",
                                                        },
                                                        "tags": {
                                                            "type": "array",
                                                            "items": TEXT,
                                                            "uniqueItems": True,
                                                        },
                                                    }
                                                ),
                                            }
                                        ),
                                    },
                                }
                            )
                        }
                    ),
                    "results": {
                        "type": "array",
                        "items": strict(
                            {
                                "ruleId": {"enum": list(all_rules())},
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": MESSAGE,
                                "locations": {"type": "array", "items": LOCATION},
                            },
                            partialFingerprints={"type": "object", "additionalProperties": TEXT},
                            suppressions={
                                "type": "array",
                                "items": strict(
                                    {
                                        "kind": {"enum": ["inSource", "external"]},
                                        "status": {"enum": ["accepted", "underReview", "rejected"]},
                                        "justification": TEXT,
                                    }
                                ),
                            },
                        ),
                    },
                }
            ),
        },
    }
)


def test_sarif_is_as_its_specification_has_it(broken):
    over = dataclasses.replace(
        exemption("2026-01-01"), rule="image-disallow-latest", resource="Pod/x"
    )
    for exemptions in ((), (exemption("2027-01-01"), over)):
        log = json.loads(render([report(broken, *exemptions)], "sarif"))
        jsonschema.validate(log, SARIF)
        assert len(log["runs"][0]["results"]) == (2 if not exemptions else 3)


def test_junit_counts_failures_and_puts_the_remedy_in_them(broken):
    suite = Xml.fromstring(render([report(broken)], "junit")).find("testsuite")  # noqa: S314 - our own output
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures")) == (str(len(all_rules())), "1")
    (failure,) = suite.iter("failure")
    assert "Set enableServiceLinks: false" in (failure.text or "")


def test_an_exemption_is_listed_and_keeps_the_stack_from_being_refused(broken):
    passed = report(broken, exemption("2026-11-21"))
    assert not passed.blocked
    assert "old client" in render([passed], "table")


def test_an_expired_exemption_refuses_the_stack_and_says_who_owns_it(broken):
    over = report(broken, exemption("2026-11-20"))
    assert over.blocked
    assert [each.rule.id for each in over.violations] == [LINKS]
    assert "expired on 2026-11-20 (owner: platform)" in " ".join(render([over], "table").split())


def test_an_expired_exemption_refuses_even_a_stack_that_obeys():
    assert report(stack_of(changed("", {})), exemption("2026-11-20")).blocked


def test_an_exemption_that_covers_nothing_is_told():
    fine = report(stack_of(changed("", {})), exemption("2027-01-01"))
    assert not fine.blocked
    assert fine.unused == (exemption("2027-01-01"),)
