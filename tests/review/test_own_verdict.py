"""A change that edits its own judge is judged again by the pack of the program that makes its
report: both workflows install that program from another branch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from inferplan.kube.paths import mapping
from inferplan.planning.own_verdict import with_own_verdict
from inferplan.planning.policy_check import judge, settings_file
from inferplan.planning.violation_formats import packs, policy_events
from inferplan.pulumi_engine.plan.events import events_of, to_ndjson
from inferplan.pulumi_engine.plan.steps import make_plan
from inferplan.pulumi_engine.reading.records import EventsError
from inferplan.review.reading.reader import read_file
from tests.checkouts import git, make_checkout
from tests.lanes import in_full
from tests.policies.recorded import recorded

ROOT = Path(__file__).resolve().parents[2]
POLICY_CHECK = "planning/policy_check.py"
NO_RESOURCES = (
    "planning/policy_check.py",
    "for each in recording\n            if not",
    "for each in ()\n            if not",
)
# What an attacker edits in the head: files of the package, their text, and its replacement.
ATTACKS = {
    "the judge gets no resources": [NO_RESOURCES],
    "the judge gets none and states all of them": [
        NO_RESOURCES,
        ("planning/violation_formats.py", "statement(report.judged)", "statement(39)"),
    ],
    "violations are not written": [
        (
            "planning/violation_formats.py",
            'for level, outcomes in (("mandatory", report.violations)',
            'for level, outcomes in (("mandatory", ())',
        )
    ],
    "no rule finds anything": [
        ("policies/engine/evaluate.py", "for each in rule.check(", "for each in () and (")
    ],
    "every rule is only advice": [
        (
            "policies/engine/settings.py",
            "return self.levels.get(rule.id, rule.level)",
            "return Level.ADVISORY",
        )
    ],
}
ROLE = """  inferplan:extraObjects:
    reader:
      apiVersion: rbac.authorization.k8s.io/v1
      kind: ClusterRole
      metadata: {name: reader}
      rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
"""


def run(checkout: Path, code: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`inferplan` of the package in the folder `code`, called in `checkout`."""
    program = "from inferplan.commands.main import run; run()"
    return subprocess.run(
        [sys.executable, "-P", "-c", program, *arguments],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(code), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return make_checkout(tmp_path_factory.mktemp("attacked"))


@pytest.mark.parametrize("attack", ["the judge gets no resources", *in_full(*list(ATTACKS)[1:])])
def test_an_edited_judge_hides_no_violation(checkout, tmp_path, attack):
    base = git(checkout, "rev-parse", "main")
    git(checkout, "checkout", "--quiet", "-B", "head", "main")
    stack = checkout / "stacks" / "Pulumi.dev.yaml"
    stack.write_text(stack.read_text() + ROLE)
    for file, old, new in ATTACKS[attack]:
        path = checkout / "inferplan" / file
        assert path.read_text().count(old) == 1, old
        path.write_text(path.read_text().replace(old, new))
    git(checkout, "commit", "--quiet", "--all", "--message", "Head")
    events, page = tmp_path / "dev.ndjson", tmp_path / "report.json"
    planned = run(checkout, checkout, "plan", "dev", "--against", base, "--events", str(events))
    assert planned.returncode == 0, planned.stderr
    told = run(
        *(checkout, ROOT, "report", "--complete", "--base", base, "--commit", "head"),
        *("--json", str(page), str(events)),
    )
    assert told.returncode == 3, told.stderr
    [dev] = [each for each in json.loads(page.read_text())["stacks"] if each["stack"] == "dev"]
    assert dev["verdict"].startswith("blocked")
    blocking = {each["policy"]: each for each in dev["policies"] if each["level"] == "mandatory"}
    assert blocking["rbac-disallow-wildcards"]["findings"][0][0] == "ClusterRole reader"
    causes = {each["what"]: each["cause"] for each in dev["risks"]}
    assert "rbac-disallow-wildcards" in causes["hides violations"]
    assert "the policy pack changes" in causes
    if attack == "the judge gets no resources":
        assert causes["was judged only in part"].startswith("0 of 39 resources, 37 ")


@pytest.mark.parametrize(
    "name", ["local", *in_full("onprem", "prod", "vllm", "triton", "ray-serve")]
)
@pytest.mark.parametrize("planner", ["inferplan", "pulumi"])
def test_the_events_of_an_honest_judge_hide_nothing(tmp_path, name, planner):
    """In the form of both planners: engine events list no dependencies and no `ignoreChanges`."""
    recording = recorded(name)
    report = judge(recording, ROOT)
    plan = make_plan(recording, make_plan(recording).states)
    events = to_ndjson(events_of(plan, judged=policy_events(report), packs=packs(report)))
    path = tmp_path / "events.ndjson"
    path.write_text("\n".join(map(json.dumps, map(json.loads, events.splitlines()))))
    if planner == "pulumi":
        path.write_text("\n".join(map(_as_engine, events.splitlines())))
    settings = settings_file(ROOT, recording.stack)
    accepted = json.loads(settings.read_text()) if settings.exists() else {}
    preview = with_own_verdict(read_file(path), path, accepted)
    assert (preview.planner, preview.judged) == (planner, report.judged)
    assert preview.unstated == ()


def _as_engine(line: bytes) -> str:
    event = json.loads(line)
    event.get("preludeEvent", {}).pop("planner", None)
    for kind in ("resourcePreEvent", "resOutputsEvent"):
        for side in ("old", "new"):
            state = mapping(event, kind, "metadata", side)
            for key in ("dependencies", "ignoreChanges", "replaceOnChanges"):
                state.pop(key, None)
    return json.dumps(event)


ODD = (None, "x", 5, True, [], {}, ["x"], [None], {"a": [1]}, [{"b": {"c": None}}])


@pytest.mark.parametrize("value", ODD, ids=repr)
@pytest.mark.parametrize("place", ["inputs", "spec", "containers", "outputs", "provider", "type"])
def test_odd_values_of_a_strangers_events_end_in_no_traceback(tmp_path, place, value):
    kind = "kubernetes:apps/v1:Deployment"
    urn = f"urn:pulumi:s::p::{kind}::d"
    spec = {"template": {"spec": {"containers": [{"name": "a"}]}}}
    state = {"type": kind, "urn": urn, "custom": True, "inputs": {"spec": spec}}
    step = {"op": "create", "urn": urn, "type": kind, "new": state, "provider": "a::b"}
    match place:
        case "containers":
            spec["template"]["spec"]["containers"] = value
        case "spec":
            state["inputs"]["spec"] = value
        case "provider":
            step["provider"] = value
        case _:
            state[place] = value
    path = written(tmp_path, step)
    with suppress(EventsError):
        assert with_own_verdict(read_file(path), path, {}).unstated or place != "provider"


@pytest.mark.parametrize("depth", [40, 200, 320, 480, 900])
def test_a_value_that_is_nested_too_deeply_hides_nothing(tmp_path, depth):
    """It is judged, or the stream is rejected or incomplete."""
    nested: Any = "x"
    for _ in range(depth):
        nested = {"a": nested}
    path = written(tmp_path, step_of(nested))
    with suppress(EventsError, RecursionError):  # which the command reports as an error
        preview = with_own_verdict(read_file(path), path, {})
        assert preview.unstated or "nested too deeply" in preview.incomplete


def test_settings_that_only_an_edited_pack_accepts_hide_nothing(tmp_path):
    path = written(tmp_path, step_of("x"))
    for settings in ({}, {"surprise": True}, {"levels": {"no-such-rule": "disabled"}}):
        assert with_own_verdict(read_file(path), path, settings).unstated


def test_policies_of_the_engines_events_are_judged_although_events_list_no_dependencies(tmp_path):
    kind = "aws:iam/role:Role"
    urn = f"urn:pulumi:s::p::{kind}::ci"
    provider = "token.actions.githubusercontent.com"
    trust = {
        "Effect": "Allow",
        "Principal": {"Federated": f"arn:aws:iam::210987654321:oidc-provider/{provider}"},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {"StringLike": {f"{provider}:sub": "repo:*"}},
    }
    grant = {"Effect": "Allow", "Action": "iam:PassRole", "Resource": "*"}
    inputs = {
        "assumeRolePolicy": json.dumps({"Statement": [trust]}),
        "inlinePolicies": [{"name": "pass", "policy": json.dumps({"Statement": [grant]})}],
    }
    state = {"type": kind, "urn": urn, "custom": True, "inputs": inputs}
    path = written(tmp_path, {"op": "create", "urn": urn, "type": kind, "new": state})
    rules = {each.policy_name for each in with_own_verdict(read_file(path), path, {}).unstated}
    assert {"iam-disallow-wildcard-principal", "iam-disallow-wildcard-resources"} <= rules


def step_of(value: Any) -> dict[str, Any]:
    """The step of a ConfigMap without a provider, which is a violation."""
    kind = "kubernetes:core/v1:ConfigMap"
    urn = f"urn:pulumi:s::p::{kind}::c"
    state = {"type": kind, "urn": urn, "custom": True, "inputs": {"data": value}}
    return {"op": "create", "urn": urn, "type": kind, "new": state}


def written(folder: Path, step: dict[str, Any]) -> Path:
    summary = {"resourceChanges": {"create": 1}, "PolicyPacks": {"inferplan": "1"}}
    events = [
        {"resourcePreEvent": {"metadata": step}},
        {"resOutputsEvent": {"metadata": step}},
        {"summaryEvent": {**summary, "isPreview": True, "result": "succeeded"}},
    ]
    path = folder / "events.ndjson"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in events))
    return path
