from __future__ import annotations

import pytest

from tests.unit.stackfile.test_checks import MODEL, lines, only  # noqa: F401 - the fixture that judges a stack

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
    assert lines({"queue": "serving", "queuePriority": "online", "replicas": 4}, queues={"serving": QUEUE}) == ()


@pytest.mark.parametrize(
    ("model", "queue", "said"),
    [
        ({"queue": "servin"}, QUEUE, "chat-model.queue: 'servin' is no queue of this stack; did you mean 'serving'"),
        ({"queuePriority": "online"}, QUEUE, "queuePriority: 'online' is a place in a queue, and there is none; write queue"),
        ({"queue": "serving", "queuePriority": "on"}, QUEUE, "queuePriority: 'on' is no priority of queue 'serving' of this stack"),
        ({"queue": "serving", "pool": "gaudi2"}, QUEUE, "hands out l40s and the model runs on 'gaudi2', so it would wait for ever"),
        (
            {"queue": "serving", "replicas": 5},
            QUEUE,
            "ask for 5 of nvidia.com/gpu of pool 'l40s' and its quota is 4, so up would wait for ever",
        ),
        ({"queue": "serving", "replicas": 4, "rollout": "surge"}, QUEUE, "ask for 5 of nvidia.com/gpu"),
        ({"queue": "serving"}, {"pools": {"l40s": {"cpu": "1"}}}, "of cpu of pool 'l40s' and its quota is 1"),
        ({"queue": "serving", "replicas": 3}, {"pools": {"l40s": {"pods": 2}}}, "ask for 3 of pods"),
        ({}, {"pools": {"l4": {}}}, "queues.serving.pools.l4: 'l4' is no pool of this stack"),
        ({}, {"pools": {"l40s": {"accelerators": 9}}}, "hand out 9 of nvidia.com/gpu and it holds 8"),
        ({}, {"pools": {"system": {"accelerators": 1}}}, "has no accelerator; write cpu and memory"),
        ({"affinity": {"beside": ["nobody"]}}, QUEUE, "affinity.beside[0]: 'nobody' is no model of this stack"),
        ({"affinity": {"beside": ["chat-model"]}}, QUEUE, "never starts"),
        ({"affinity": {"requiredNodes": [{"key": "inferplan.dev/pool", "values": ["x"]}]}}, QUEUE, "none meets In ['x']; mend the term"),
    ],
)
def test_what_would_wait_for_ever_is_refused_with_the_place_and_the_remedy(lines, model, queue, said):  # noqa: F811 - the fixture
    fault = only(lines(model, queues={"serving": queue}))
    assert said in fault
    assert fault.startswith("s.yaml:1:")


def test_a_queue_that_would_catch_whatever_names_none_is_refused(lines):  # noqa: F811 - the fixture
    assert "preheats and the gateway too; call it differently" in only(lines({"queue": "default"}, queues={"default": QUEUE}))


def test_two_queues_do_not_promise_one_pool_twice(lines):  # noqa: F811 - the fixture
    fault = only(lines(queues={"one": {"pools": {"l40s": {}}}, "two": {"pools": {"l40s": {"accelerators": 1}}}}))
    assert "queues.two.pools.l40s" in fault
    assert "waits for a node for ever" in fault


def test_what_a_cohort_may_lend_is_not_judged(lines):  # noqa: F811 - the fixture
    assert lines({"queue": "serving", "replicas": 6}, queues={"serving": {**QUEUE, "cohort": "acme"}}) == ()


def test_a_ray_service_in_a_queue_may_not_scale_its_own_workers(lines):  # noqa: F811 - the fixture
    assert lines(models={"app": RAY}, queues={"serving": QUEUE}) == ()
    fault = only(lines(models={"app": {**RAY, "workerAutoscaling": {"maxReplicas": 2}}}, queues={"serving": QUEUE}))
    assert "Kueue refuses a RayService that scales its own workers" in fault


def test_the_head_of_ray_counts_against_the_quota(lines):  # noqa: F811 - the fixture
    small = {"pools": {"l40s": {"cpu": "4", "accelerators": 4}}}
    resources = {"cpu": "3", "memory": "30Gi"}
    assert "of cpu" in only(lines(models={"app": {**RAY, "resources": resources}}, queues={"serving": small}))
