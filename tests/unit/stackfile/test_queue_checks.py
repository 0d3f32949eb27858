from __future__ import annotations

import pytest

from tests.unit.stackfile.test_checks import (
    MODEL,
    lines,  # noqa: F401 - the fixture that judges a stack
    only,
)

QUEUE = {"pools": {"l40s": {"accelerators": 4}}, "priorities": {"online": 100}}
RAY = {
    **MODEL,
    "engine": "ray-serve",
    "image": "docker.io/acme/app:1",
    "rayVersion": "2.56.0",
    "applications": {"a": {"kind": "custom", "importPath": "a:b"}},
    "queue": "serving",
}


def test_a_model_in_a_queue_that_holds_it_has_no_fault(lines):  # noqa: F811 - the fixture
    assert (
        lines(
            {"queue": "serving", "queuePriority": "online", "replicas": 4},
            queues={"serving": QUEUE},
        )
        == ()
    )


@pytest.mark.parametrize(
    ("model", "queue", "said"),
    [
        (
            {"queue": "servin"},
            QUEUE,
            "chat-model.queue: Unknown queue 'servin'. Did you mean 'serving'?",
        ),
        (
            {"queuePriority": "online"},
            QUEUE,
            (
                "queuePriority: queuePriority is set without queue. Add queue, or remove"
                " queuePriority."
            ),
        ),
        (
            {"queue": "serving", "queuePriority": "on"},
            QUEUE,
            "queuePriority: Unknown priority 'on'. Priorities in queue 'serving': online.",
        ),
        (
            {"queue": "serving", "pool": "gaudi2"},
            QUEUE,
            "has quota for l40s, but the model runs on 'gaudi2' and would wait forever",
        ),
        (
            {"queue": "serving", "replicas": 5},
            QUEUE,
            (
                "needs 5 of nvidia.com/gpu of pool 'l40s', but its quota is 4, so up would wait"
                " forever"
            ),
        ),
        (
            {"queue": "serving", "replicas": 4, "rollout": "surge"},
            QUEUE,
            "needs 5 of nvidia.com/gpu",
        ),
        (
            {"queue": "serving"},
            {"pools": {"l40s": {"cpu": "1"}}},
            "of cpu of pool 'l40s', but its quota is 1",
        ),
        ({"queue": "serving", "replicas": 3}, {"pools": {"l40s": {"pods": 2}}}, "needs 3 of pods"),
        ({}, {"pools": {"l4": {}}}, "queues.serving.pools.l4: Unknown pool 'l4'."),
        ({}, {"pools": {"l40s": {"accelerators": 9}}}, "grant 9 of nvidia.com/gpu, but it has 8"),
        ({}, {"pools": {"system": {"accelerators": 1}}}, "has no accelerator. Set cpu and memory"),
        (
            {"affinity": {"podAffinity": ["nobody"]}},
            QUEUE,
            "affinity.podAffinity[0]: Unknown model 'nobody'.",
        ),
        ({"affinity": {"podAffinity": ["chat-model"]}}, QUEUE, "would never start"),
        (
            {"affinity": {"requiredNodes": [{"key": "inferplan.dev/pool", "values": ["x"]}]}},
            QUEUE,
            "none meets In ['x']. Correct the term",
        ),
    ],
)
def test_a_model_that_would_wait_in_its_queue_forever_is_rejected_with_position_and_remedy(
    lines,  # noqa: F811 - the fixture
    model,
    queue,
    said,
):
    fault = only(lines(model, queues={"serving": queue}))
    assert said in fault
    assert fault.startswith("s.yaml:1:")


def test_a_queue_that_would_catch_whatever_names_none_is_refused(lines):  # noqa: F811 - the fixture
    assert "also preheats and the gateway. Rename the queue." in only(
        lines({"queue": "default"}, queues={"default": QUEUE})
    )


def test_two_queues_do_not_promise_one_pool_twice(lines):  # noqa: F811 - the fixture
    fault = only(
        lines(
            queues={"one": {"pools": {"l40s": {}}}, "two": {"pools": {"l40s": {"accelerators": 1}}}}
        )
    )
    assert "queues.two.pools.l40s" in fault
    assert "would wait for a node forever" in fault


def test_quota_that_a_cohort_may_lend_is_not_checked(lines):  # noqa: F811 - the fixture
    assert (
        lines({"queue": "serving", "replicas": 6}, queues={"serving": {**QUEUE, "cohort": "acme"}})
        == ()
    )


def test_a_ray_service_in_a_queue_may_not_scale_its_own_workers(lines):  # noqa: F811 - the fixture
    assert lines(models={"app": RAY}, queues={"serving": QUEUE}) == ()
    fault = only(
        lines(
            models={"app": {**RAY, "workerAutoscaling": {"maxReplicas": 2}}},
            queues={"serving": QUEUE},
        )
    )
    assert "Kueue rejects a RayService that scales its own workers" in fault


def test_the_head_of_ray_counts_against_the_quota(lines):  # noqa: F811 - the fixture
    small = {"pools": {"l40s": {"cpu": "4", "accelerators": 4}}}
    resources = {"cpu": "3", "memory": "30Gi"}
    assert "of cpu" in only(
        lines(models={"app": {**RAY, "resources": resources}}, queues={"serving": small})
    )
