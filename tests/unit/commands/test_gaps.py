"""What a plan says of models that are without an answer for a while. Expectations are a user's,
changes those of a stack file.
"""

from __future__ import annotations

import copy
from functools import cache
from types import SimpleNamespace

import pytest

from inferplan.updating.downtime import declared_servers, downtimes, live_servers
from inferplan.workspace.live import LiveCluster
from tests.stacks.test_identity import SEED, TRITON, at, model_as, recorded, renamed


def many(*changes):
    def change(sections):
        for each in changes:
            each(sections)

    return change


@cache
def unchanged():
    return declared_servers(recorded(lambda _sections: None))


def found(change):
    return list(downtimes(unchanged(), declared_servers(recorded(change))))


def of_keys(notes):
    return [each for each in notes if "server key" in each]


def test_a_rename_is_recognised_and_the_remedy_without_downtime_is_shown():
    [note] = found(renamed("models", "support", "helpdesk"))
    assert note.startswith("support becomes helpdesk: the gateway drops /support at once")
    assert "update twice: first with support and helpdesk, then without support" in note


def test_another_seed_names_the_models_whose_servers_expect_the_old_key():
    [note] = of_keys(found(at("apiKeySeed", SEED[::-1])))
    assert note.startswith("search, support get a new server key")
    assert "401" in note
    assert "previousApiKeySeed" in note


def test_a_previous_seed_leaves_no_gap_but_for_servers_that_take_one_key():
    one_key = model_as("triton", **TRITON)

    def seeds(new, previous, *changes):
        def change(sections):
            sections |= {
                "apiKeySeed": new,
                **({"previousApiKeySeed": previous} if previous else {}),
            }
            for each in changes:
                each(sections)

        return declared_servers(recorded(change))

    for changes, rekeyed in (((), "search"), ((one_key,), "search, support")):
        old, both, new = (
            seeds(SEED, None, *changes),
            seeds(SEED[::-1], SEED, *changes),
            seeds(SEED[::-1], None, *changes),
        )
        assert of_keys(downtimes(old, both)) == []
        [note] = of_keys(downtimes(both, new))
        assert note.startswith(f"{rekeyed} get")
        assert of_keys(downtimes(both, old)) == []


def test_ray_serve_answers_under_a_service_of_its_own():
    from tests.stacks.test_identity import RAY

    notes = found(model_as("ray-serve", **RAY))
    assert [each.split(":")[0] for each in notes] == [
        "support moves to Ray Serve, whose Service has another name"
    ]


def test_a_single_replica_that_is_replaced_in_place_has_no_ready_server():
    [note] = found(at("models/search/env", {"LEVEL": "1"}))
    assert note.startswith("search has no ready server during the rollout")
    assert "set rollout: surge, which needs free accelerators, or add a replica" in note
    [both] = found(
        many(
            at("models/search/env", {"LEVEL": "1"}),
            at("models/support/env", {"LEVEL": "1"}),
            at("models/support/replicas", 1),
        )
    )
    assert both.startswith("search, support have no ready server")


def test_groups_of_pods_are_replaced_in_place_too():
    group = {"pipelineParallelSize": 2, "tensorParallelSize": 4, "nnodes": 2, "replicas": 1}
    before, after = (
        declared_servers(recorded(model_as("vllm", **group, env={"LEVEL": level})))
        for level in "12"
    )
    [note] = downtimes(before, after)
    assert note.startswith("support has no ready server")
    assert list(downtimes(before, before)) == []


@pytest.mark.parametrize(
    "change",
    [
        many(at("models/search/env", {"LEVEL": "1"}), at("models/search/rollout", "surge")),
        many(at("models/search/env", {"LEVEL": "1"}), at("models/search/replicas", 2)),
        at("models/search/rollout", "surge"),
        many(at("models/search/env", {"LEVEL": "1"}), at("models/search/replicas", 0)),
        many(at("models/search/env", {"LEVEL": "1"}), at("namespace", "team-b")),
        at("models/support/image", "docker.io/vllm/vllm-openai:v0.99.0"),
        at("models/support/weights/revision", "v2"),
        at("models/support/replicas", 3),
        at("models/support", None),
        model_as("vllm", pipelineParallelSize=2, tensorParallelSize=4, nnodes=2, replicas=1),
    ],
)
def test_other_changes_leave_no_gap(change):
    assert found(change) == []


def test_the_same_notes_come_from_what_runs():
    before = {name: as_stored(each) for name, each in unchanged().items()}
    lists = {
        "/apis/apps/v1/namespaces/team-a/deployments": [dict(each) for each in before.values()]
    }
    resources = {
        "/apis/apps/v1": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]
    }

    def get(path):
        if path in resources:
            return {"resources": resources[path]}
        return (
            {"items": lists[path]}
            if path in lists
            else {"groups": [{"versions": [{"groupVersion": "apps/v1"}]}], "versions": ["v1"]}
        )

    live = live_servers(LiveCluster(get), "team-a")
    assert live.keys() == before.keys()
    assert list(downtimes(live, unchanged())) == []
    [note] = downtimes(live, declared_servers(recorded(at("models/search/env", {"LEVEL": "1"}))))
    assert note.startswith("search has no ready server")


def as_stored(manifest):
    """`manifest` with fields that an API server adds."""
    stored = copy.deepcopy(dict(manifest))
    stored["metadata"] |= {"uid": "1", "generation": 3}
    stored["spec"]["template"]["spec"] |= {
        "schedulerName": "default-scheduler",
        "dnsPolicy": "ClusterFirst",
    }
    return stored


def scaled_deployment(least, image):
    labels = {"app.kubernetes.io/component": "model", "app.kubernetes.io/instance": "search"}
    pod = {"spec": {"containers": [{"image": image}]}}
    strategy = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    inputs = {
        "kind": "Deployment",
        "metadata": {"name": "search", "namespace": "inference", "labels": labels},
        "spec": {"replicas": least, "strategy": strategy, "template": pod},
    }
    return SimpleNamespace(inputs=inputs, ignore_changes=("spec.replicas",))


@pytest.mark.parametrize(
    ("least", "running", "stops"),
    [(1, None, True), (3, None, False), (1, 3, False), (3, 1, True), (0, None, False)],
)
def test_a_scaled_model_is_judged_by_the_replicas_that_run(least, running, stops):
    before, after = (declared_servers([scaled_deployment(least, image)]) for image in "ab")
    if running is not None:
        before["search"] = {
            **before["search"],
            "spec": {**before["search"]["spec"], "replicas": running},
        }
    assert bool(list(downtimes(before, after))) is stops
