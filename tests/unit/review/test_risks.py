"""What a tired reviewer must not miss, and must not read twice."""

from __future__ import annotations

import json
import re
from itertools import permutations

import pytest

from inferplan.documents.text import differing_parts
from inferplan.planning.violation_formats import read_rule
from inferplan.review.findings import findings_of
from inferplan.review.rendering.markdown import render
from inferplan.review.report import make_report
from inferplan.review.rollout import rollouts
from inferplan.review.steps.risk import PROTECTED
from tests.review_streams import facts, preview, step, stream, urn

BUCKET = "aws:s3/bucket:Bucket"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
NODE = "kubernetes:core/v1:Node"


def report_on(*events, **options):
    return make_report([preview(*events, **options)])


def risks(*events):
    return [(each.what, each.name, each.consequence) for each in report_on(*events).stacks[0].risks]


def model(image="a", *, replicas=1, cards=1, pool="l40s", strategy=None, **spec):
    container = {
        "name": "s",
        "image": image,
        "resources": {"limits": {"nvidia.com/gpu": cards, "memory": "8Gi"}},
    }
    probe = {"startupProbe": {"failureThreshold": 30, "periodSeconds": 10}}
    template = {
        "spec": {"nodeSelector": {"inferplan.dev/pool": pool}, "containers": [container | probe]}
    }
    rolling = strategy or {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    return {"spec": {"replicas": replicas, "strategy": rolling, "template": template, **spec}}


def node(cards=4, pool="l40s"):
    return {
        "metadata": {"labels": {"inferplan.dev/pool": pool}},
        "status": {"allocatable": {"nvidia.com/gpu": cards, "memory": "64Gi"}},
    }


def test_a_changed_host_is_reported_once_for_its_object():
    old, new = ({"gateway": {"gateway": {"host": host}}} for host in "ab")
    rules_old, rules_new = ({"spec": {"rules": [{"host": host}]}} for host in "ab")
    found = risks(
        facts(old, new),
        step("update", "kubernetes:networking.k8s.io/v1:Ingress", "way", rules_old, rules_new),
    )
    assert [(what, name) for what, name, _ in found] == [("changes its host", "gateway")]


def test_the_order_of_events_changes_nothing():
    batch = "kubernetes:batch/v1:Job"
    job = {
        "spec": {
            "template": {
                "spec": {
                    "containers": [{"name": "copy", "envFrom": [{"secretRef": {"name": "old"}}]}]
                }
            }
        }
    }
    other = json.loads(json.dumps(job).replace('"old"', '"other"'))
    events = [
        step("replace", batch, name, job, other, keys=["spec"])
        for name in ("qwen", "falcon", "mistral")
    ]
    assert len({str(render(report_on(*order))) for order in permutations(events)}) == 1


def test_a_removed_component_is_reported_by_its_resources():
    component = step(
        "delete", "inferplan:storage:ModelBucket", "weights", {}, old_state={"custom": False}
    )
    assert [name for _, name, _ in risks(component, step("delete", BUCKET, "inner", {}))] == [
        "inner"
    ]


def test_a_protected_resource_is_reported_as_rejected_with_its_loss():
    kept = {"old_state": {"protect": True}, "new_state": {"protect": True}}
    events = [
        step(
            "replace", BUCKET, "weights", {"bucket": "a"}, {"bucket": "b"}, keys=["bucket"], **kept
        )
    ]
    events += [
        step(
            "replace",
            f"aws:s3/{kind}:{kind}",
            "weights",
            {"bucket": "a"},
            {"bucket": "b"},
            keys=["bucket"],
            **kept,
        )
        for kind in ("Logging", "Policy", "Versioning")
    ]
    found = risks(*events)
    assert (
        "replaced",
        "weights",
        f"{PROTECTED}; then the new bucket is empty: copy the objects first",
    ) in found
    assert ("replaced", "weights and 2 more", PROTECTED) in found
    assert report_on(*events).verdict == "the update will be rejected, 2 critical risks"
    assert len(found) == 2


def test_removed_protection_is_reported_for_each_important_kind_and_once_for_the_others():
    kept, free = {"protect": True, "retainOnDelete": True}, {}
    types = (BUCKET, "aws:eks/cluster:Cluster", "aws:s3/a:A", "aws:s3/b:B", "aws:s3/c:C")
    found = risks(
        *(step("same", type_, "weights", {}, {}, old_state=kept, new_state=free) for type_ in types)
    )
    words = "the next change may delete it from the cloud without being rejected"
    assert sorted(found) == [
        ("loses its protection", name, words)
        for name in ("weights", "weights", "weights and 2 more")
    ]


def test_a_workload_without_another_replica_stops_answering_while_it_rolls():
    silent = ("has downtime during the rollout", "m", "no replica is ready for up to 5 minutes")
    assert silent in risks(step("update", DEPLOYMENT, "m", model("a"), model("b")))
    assert silent not in risks(
        step("update", DEPLOYMENT, "m", model("a", replicas=2), model("b", replicas=2))
    )
    recreated = {"type": "Recreate"}
    assert risks(
        step(
            "update",
            DEPLOYMENT,
            "m",
            model("a", replicas=2, strategy=recreated),
            model("b", replicas=2, strategy=recreated),
        )
    )


def test_a_replaced_workload_tells_of_its_silence_once():
    found = risks(step("replace", DEPLOYMENT, "m", model("a"), model("b"), keys=["spec.selector"]))
    assert [what for what, _, _ in found] == ["runs another image", "replaced"]


def test_a_pool_that_loses_the_nodes_of_models_that_stay_is_a_risk():
    nodes = [step("same", NODE, "a", node(), node()), step("delete", NODE, "b", node())]
    stays = step("same", DEPLOYMENT, "m", model(replicas=8), model(replicas=8))
    assert (
        "is overcommitted",
        "l40s",
        "pods stay Pending until it has more nodes or smaller requests",
    ) in risks(*nodes, stays)


@pytest.mark.parametrize(
    ("memory", "replicas", "cause"),
    [
        ("80Gi", 1, "80 GiB of memory requested by one pod, 64 on the largest node"),
        ("40Gi", 4, "160 GiB of memory requested, 128 offered"),
        ("60Gi", 2, ""),
    ],
)
def test_memory_that_is_raised_above_what_the_nodes_have_is_a_risk(memory, replicas, cause):
    nodes = [step("same", NODE, name, node(), node()) for name in "ab"]
    old, new = (model(replicas=replicas) for _ in range(2))
    new["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] = memory
    serious = report_on(*nodes, step("update", DEPLOYMENT, "m", old, new)).stacks[0].serious
    assert [each.cause for each in serious if each.what == "is overcommitted"] == (
        [cause] if cause else []
    )


def test_a_shortage_that_existed_before_is_not_reported():
    events = [
        step("same", NODE, "a", node(), node()),
        step("same", DEPLOYMENT, "m", model(replicas=8), model(replicas=8)),
        step("create", BUCKET, "b", None, {}),
    ]
    assert risks(*events) == []


def test_pools_of_which_nothing_is_known_are_not_called_short():
    assert risks(step("create", DEPLOYMENT, "m", None, model(replicas=8))) == []


def forecast(type_, old, new, cards=8):
    shown = preview(
        step("same", NODE, "a", node(cards), node(cards)), step("update", type_, "m", old, new)
    )
    from inferplan.capacity.capacity import pools
    from inferplan.review.reading.declared import declared

    return rollouts(shown, pools(declared(shown, "after")))


@pytest.mark.parametrize(
    ("before", "after", "missing"), [(2, 2, 1), (2, 3, 0), (3, 2, 2), (1, 1, 1), (1, 2, 0)]
)
def test_replicas_that_are_added_make_up_for_those_that_roll(before, after, missing):
    (each,) = forecast(DEPLOYMENT, model("a", replicas=before), model("b", replicas=after))
    assert (each.unavailable, each.replicas) == (missing, before)


def test_daemons_have_no_forecast():
    assert forecast("kubernetes:apps/v1:DaemonSet", model("a"), model("b")) == ()


def group(image, *, surge):
    template = model(image, cards=2)["spec"]["template"]
    rolling = {
        "type": "RollingUpdate",
        "rollingUpdateConfiguration": {"maxSurge": surge, "maxUnavailable": 1 - surge},
    }
    inner = {"size": 2, "leaderTemplate": template, "workerTemplate": template}
    return {"spec": {"replicas": 2, "rolloutStrategy": rolling, "leaderWorkerTemplate": inner}}


def test_groups_of_pods_roll_group_by_group():
    kind = "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"
    (in_place,) = forecast(kind, group("a", surge=0), group("b", surge=0))
    assert (in_place.manner, in_place.unavailable, in_place.replicas, in_place.extra) == (
        "in place",
        1,
        2,
        0,
    )
    (surge,) = forecast(kind, group("a", surge=1), group("b", surge=1))
    assert (surge.manner, surge.unavailable, surge.extra) == ("surge", 0, 4)
    assert surge.stuck.startswith("a new replica needs 4 free nvidia.com/gpu on l40s, 0 are")


def ray(image, strategy):
    head = {"rayStartParams": {}, "template": {"spec": {"containers": [{"name": "h"}]}}}
    workers = {"replicas": 2, "template": model(image, cards=2)["spec"]["template"]}
    return {
        "spec": {
            "upgradeStrategy": {"type": strategy},
            "rayClusterConfig": {"headGroupSpec": head, "workerGroupSpecs": [workers]},
        }
    }


def test_ray_brings_a_second_cluster_up_or_none():
    kind = "kubernetes:ray.io/v1:RayService"
    (second,) = forecast(kind, ray("a", "NewCluster"), ray("b", "NewCluster"))
    assert (second.manner, second.unavailable, second.extra, second.stuck) == (
        "second cluster",
        0,
        4,
        "",
    )
    (tight,) = forecast(kind, ray("a", "NewCluster"), ray("b", "NewCluster"), cards=6)
    assert tight.stuck.startswith("its second cluster needs 4 free nvidia.com/gpu on l40s, 2 are")
    (kept,) = forecast(kind, ray("a", "None"), ray("b", "None"))
    assert (kept.manner, kept.minutes) == ("only by deleting it", None)
    assert "until the object is deleted" in kept.stuck


def test_long_values_are_shown_where_they_differ():
    old = "\n".join(f"line {index} of a long file" for index in range(100))
    new = old.replace("line 70 of", "line seventy of")
    assert differing_parts(old, new, 80)[0].startswith("…line 70 of a long file")
    assert differing_parts(old, new, 80)[1].startswith("…line seventy of a")
    rows = render(
        report_on(
            step(
                "update",
                "kubernetes:core/v1:ConfigMap",
                "c",
                {"data": {"a": old}},
                {"data": {"a": new}},
            )
        )
    )
    assert "line seventy of" in rows


@pytest.mark.parametrize(
    ("old", "new"),
    [("", "x" * 99), ("x" * 99, ""), ("abc" * 40, "abc" * 40 + "d"), ("a" * 99, "b" * 99)],
)
def test_parts_of_values_are_never_longer_than_asked_for(old, new):
    assert all(len(part) <= 20 + len("… (99 characters)") for part in differing_parts(old, new, 20))


def test_a_run_that_failed_shows_its_errors_unfolded():
    said = {"diagnosticEvent": {"message": "no such pool", "severity": "error"}}
    text = render(report_on(said, result="failed", PolicyPacks={"p": "1"}))
    assert "### Errors\n\n- error  no such pool" in text
    assert "no violation found by" not in text
    assert "no violation found by" in render(report_on(PolicyPacks={"p": "1"}))


def test_the_rehearsal_of_a_stack_without_a_preview_is_reported():
    found = findings_of([], stack="other", base="a", head="b", outcome="stuck")
    text = render(make_report([preview()], rehearsals=[found]))
    assert "### Rehearsed upgrade of other" in text
    assert "it was not ready in time" in text


def test_each_stack_has_a_row_with_its_counts_accelerators_memory_and_cost():
    machine = {"instanceTypes": ["g6e.4xlarge"], "labels": {"inferplan.dev/pool": "l40s"}}
    old, new = (
        machine | {"scalingConfig": {"minSize": 1, "desiredSize": 1, "maxSize": most}}
        for most in (2, 4)
    )
    one = preview(step("update", "aws:eks/nodeGroup:NodeGroup", "l40s", old, new))
    text = render(make_report([one]))
    (row,) = [line for line in text.splitlines() if line.startswith("| <code>tiny/dev")]
    for word in (
        "1 to update",
        "l40s 2 → 4",
        "l40s 256 GiB → 512 GiB",
        "at most &#36;4,386 → &#36;8,772",
    ):
        assert word in row
    both = render(make_report([one, preview()]))
    assert row in both
    assert both.index(row) < both.index("### Monthly cost")


def test_a_stack_without_prices_says_so_and_one_that_is_not_whole_is_not_judged():
    free = render(report_on(step("create", DEPLOYMENT, "m", None, model())))
    assert "| nothing that has a price |" in free
    part = render(make_report([preview(maybeCorrupt=True), preview()]))
    assert "| none | none | not judged |" in part


def test_what_costs_what_it_did_is_one_row_and_commitments_are_a_range():
    group = {
        "instanceTypes": ["m7i.large"],
        "scalingConfig": {"minSize": 2, "desiredSize": 2, "maxSize": 2},
    }
    events = [step("same", "aws:ec2/eip:Eip", name, {}, {}) for name in "abc"]
    text = render(
        report_on(*events, step("create", "aws:eks/nodeGroup:NodeGroup", "n", None, group))
    )
    assert "| unchanged: 3 Eip | &#36;10.95 | none | &#36;10.95 |" in text
    # 2 x 0.1008 x 730, and 28 % of it
    assert (
        "Of it &#36;147.17 are on-demand instances: &#36;41.21 to &#36;147.17 with Savings Plans or"
        " reservations." in text
    )


def test_what_goes_without_ever_having_had_a_price_is_named():
    odd = {"instanceTypes": ["x9.huge"], "scalingConfig": {"minSize": 2, "maxSize": 2}}
    stays = [step("same", "aws:ec2/eip:Eip", "a", {}, {}), step("same", BUCKET, "weights", {}, {})]
    text = render(report_on(step("delete", "aws:eks/nodeGroup:NodeGroup", "h100", odd), *stays))
    assert "Removed, and without a price: NodeGroup h100 (no list price for x9.huge)." in text
    assert "Not priced: Bucket weights (by use: " in text


def policy(message, level="mandatory"):
    about = {
        "policyName": f"inferplan-{level}",
        "policyPackName": "inferplan",
        "policyPackVersion": "1",
        "enforcementLevel": level,
    }
    return {"policyEvent": {"resourceUrn": urn(DEPLOYMENT, "m"), "message": message, **about}}


def test_a_rule_of_our_pack_is_reported_with_its_name_and_severity():
    line = (
        "Rules on single resources.\n[image-disallow-latest] Deployment/m spec.containers[0].image:"
        " has the tag latest. Name a version.\n"
    )
    content = preview(policy(line))
    (result,) = make_report([content], read_rule=read_rule).stacks[0].policies
    assert (result.policy, result.level) == ("image-disallow-latest", "mandatory")
    assert result.severity in ("low", "medium", "high", "critical")
    assert result.findings == (
        ("Deployment m", "spec.containers[0].image: has the tag latest. Name a version."),
    )


def test_advice_that_was_not_evaluated_is_folded_and_a_violation_for_the_same_reason_blocks():
    unknown = (
        "x\n[image-disallow-latest] Deployment/m: is known only after an update, so the rule cannot"
        " be evaluated. Name a version."
    )
    advised = make_report([preview(policy(unknown, "advisory"))], read_rule=read_rule)
    assert [each.evaluated for each in advised.stacks[0].policies] == [False]
    assert not advised.verdict.startswith("blocked")
    assert (
        make_report([preview(policy(unknown))], read_rule=read_rule).verdict
        == "blocked: 1 mandatory policy violation"
    )


def test_another_packs_words_stay_as_they_are():
    event = policy("[image-disallow-latest] x: y")
    event["policyEvent"]["policyPackName"] = "theirs"
    (result,) = make_report([preview(event)], read_rule=read_rule).stacks[0].policies
    assert result.policy == "inferplan-mandatory"


def test_the_stream_of_a_failed_run_needs_no_resource_to_be_known_by():
    said = {
        "diagnosticEvent": {
            "urn": urn("pulumi:pulumi:Stack", "tiny-dev"),
            "message": "x",
            "severity": "error",
        }
    }
    assert re.search(rb'"diagnosticEvent"', stream(said))
    assert report_on(said, result="failed").stacks[0].title == "tiny/dev"


def renamed(kind, parent, old, new):
    """The deletion and the creation of one object whose name holds a digest of its content."""
    return [
        step("create", kind, "m-5833d79e84", None, new, parent=parent),
        step("delete", kind, "m-91187a57e2", old, parent=parent),
    ]


def test_an_object_named_by_its_content_is_judged_as_replaced():
    parent = urn("inferplan:preheat:PreheatJob", "llama")

    def job(root):
        env = [{"name": "REQUEST", "value": f'{{"root": "{root}"}}'}]
        labels = {"app.kubernetes.io/instance": "llama"}
        return {
            "metadata": {"labels": labels},
            "spec": {"template": {"spec": {"containers": [{"name": "preheat", "env": env}]}}},
        }

    found = risks(*renamed("kubernetes:batch/v1:Job", parent, job("s3:a"), job("s3:b")))
    assert ("serves other weights", "llama") in [(what, name) for what, name, _ in found]
    (claim,) = risks(*renamed("kubernetes:core/v1:PersistentVolumeClaim", parent, {}, {}))
    assert claim[0] == "replaced"


def test_two_similar_objects_are_not_merged():
    parent = urn("inferplan:preheat:PreheatJob", "llama")
    claim = "kubernetes:core/v1:PersistentVolumeClaim"
    twice = [
        *renamed(claim, parent, {}, {}),
        step("create", claim, "m-0123456789", None, {}, parent=parent),
    ]
    assert [what for what, _, _ in risks(*twice)] == ["deleted"]
    elsewhere = renamed(claim, parent, {}, {})
    elsewhere[0] = step(
        "create",
        claim,
        "m-5833d79e84",
        None,
        {},
        parent=urn("inferplan:preheat:PreheatJob", "qwen"),
    )
    assert [what for what, _, _ in risks(*elsewhere)] == ["deleted"]
