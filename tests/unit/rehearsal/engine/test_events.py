"""The event stream of a plan against what a real engine wrote for the same program.

The expectations were read off `pulumi preview --json` (engine 3.260, Kubernetes provider 4.32, real
kube-apiserver 1.34).
"""

import json
from typing import Any

import pulumi
import pytest
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.batch.v1 import Job
from pulumi_kubernetes.core.v1 import ConfigMap, Namespace, Secret

from inferplan.pulumi_engine.plan.events import events_of, refusal_events, to_ndjson
from inferplan.pulumi_engine.plan.states import states_of
from inferplan.pulumi_engine.plan.steps import make_plan
from inferplan.pulumi_engine.program.record import record

STATE = {"custom", "id", "inputs", "outputs", "parent", "provider", "type", "urn"}
METADATA = {"detailedDiff", "new", "old", "op", "provider", "type", "urn"}
# op -> the keys of the metadata, of the old state and of the new state, as the engine wrote them
SHAPES = {
    "create": (METADATA | {"logical"}, None, STATE),
    "update": (METADATA | {"logical"}, STATE, STATE),
    "same": (METADATA | {"logical"}, STATE, STATE),
    "delete": (METADATA | {"logical"}, STATE, None),
    "delete-replaced": (METADATA, STATE | {"delete"}, None),
    "create-replacement": (METADATA | {"keys"}, STATE | {"delete"}, STATE),
    "replace": (METADATA | {"keys", "logical"}, STATE | {"delete"}, STATE),
}
IMAGE = "spec.template.spec.containers[0].image"
REPLACED_IMAGE = ([IMAGE], {IMAGE: {"diffKind": "update-replace", "inputDiff": False}})
REPLACED_KEY = (["data.a"], {"data.a": {"diffKind": "update-replace", "inputDiff": False}})
REAL = [
    ("create", "ConfigMap::cm", None, None),
    ("create-replacement", "Job::preheat", *REPLACED_IMAGE),
    ("create-replacement", "Secret::k", *REPLACED_KEY),
    ("delete", "Node::gpu-0", None, None),
    ("delete-replaced", "Job::preheat", None, None),
    ("delete-replaced", "Secret::k", None, None),
    ("replace", "Job::preheat", *REPLACED_IMAGE),
    ("replace", "Secret::k", *REPLACED_KEY),
    ("same", "Namespace::models", None, None),
    (
        "update",
        "Deployment::m",
        None,
        {"spec.replicas": {"diffKind": "update", "inputDiff": False}},
    ),
]


class Node(pulumi.CustomResource):
    def __init__(self, name):
        super().__init__(
            "kubernetes:core/v1:Node",
            name,
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}},
        )


def program(*, image, key, replicas, after):
    namespace = Namespace("models", metadata={"name": "models"})
    place = {"namespace": namespace.metadata.name}
    pod: Any = {"restartPolicy": "Never", "containers": [{"name": "c", "image": image}]}
    Job("preheat", metadata=place, spec={"template": {"spec": pod}})
    template = {
        "metadata": {"labels": {"m": "m"}},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
    Deployment(
        "m",
        metadata=place,
        spec={"replicas": replicas, "selector": {"match_labels": {"m": "m"}}, "template": template},
    )
    Secret("k", metadata=place, string_data={"a": key})
    if after:
        ConfigMap("cm", metadata=place, data={"ns": namespace.metadata.uid})
    else:
        Node("gpu-0")
    pulumi.export("replicas", 2)


@pytest.fixture(scope="module")
def stream():
    before = record(
        lambda: program(image="x", key="hush-one", replicas=2, after=False),
        project="tiny",
        stack="dev",
    )
    after = record(
        lambda: program(image="y", key="hush-two", replicas=3, after=True),
        project="tiny",
        stack="dev",
    )
    return to_ndjson(events_of(make_plan(after, states_of(before))))


@pytest.fixture(scope="module")
def events(stream):
    return [json.loads(line) for line in stream.splitlines()]


def metadata_of(events, kind):
    return [event[kind]["metadata"] for event in events if kind in event]


def test_the_steps_are_those_of_the_engine_for_the_same_change(events):
    steps = [
        each
        for each in metadata_of(events, "resOutputsEvent")
        if each["type"] != "pulumi:pulumi:Stack"
    ]
    told = [
        (
            each["op"],
            "::".join([each["type"].rpartition(":")[2], each["urn"].rpartition("::")[2]]),
            each.get("keys"),
            each["detailedDiff"],
        )
        for each in steps
    ]
    assert sorted(told, key=str) == sorted(REAL, key=str)


def test_every_event_has_the_keys_that_the_engine_wrote(events):
    for each in metadata_of(events, "resOutputsEvent"):
        if each["type"] == "pulumi:pulumi:Stack":
            assert set(each["new"]) == STATE - {"custom"}
            continue
        metadata, old, new = SHAPES[each["op"]]
        assert set(each) == metadata
        # The one key of ours: what a resource depends on, which an engine tells in its digest only.
        assert (each["old"] and set(each["old"]) - {"dependencies"}) == old
        assert (each["new"] and set(each["new"]) - {"dependencies"}) == new


def test_the_counts_are_the_engines_own(events):
    (summary,) = [event["summaryEvent"] for event in events if "summaryEvent" in event]
    # the engine counts the stack as one that stays the same
    assert summary["resourceChanges"] == {
        "create": 1,
        "delete": 1,
        "replace": 2,
        "same": 2,
        "update": 1,
    }
    assert set(summary) == {
        "PolicyPacks",
        "durationSeconds",
        "isPreview",
        "maybeCorrupt",
        "resourceChanges",
        "result",
    }


def test_each_line_has_a_number_a_time_and_one_event(events):
    assert [event["sequence"] for event in events] == list(range(len(events)))
    assert {event["timestamp"] for event in events} == {0}
    assert all(len(event) == 3 for event in events)
    assert "preludeEvent" in events[0]
    assert events[-1]["cancelEvent"] == {}


def test_secrets_have_the_markers_of_the_engine_and_no_plain_text(stream, events):
    assert b"hush" not in stream
    assert b"digest" not in stream
    (secret,) = [
        each
        for each in metadata_of(events, "resOutputsEvent")
        if each["op"] == "replace" and "Secret" in each["type"]
    ]
    marker = {
        "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
        "ciphertext": "[secret]",
    }
    assert secret["new"]["inputs"]["stringData"] == secret["old"]["inputs"]["stringData"] == marker


def test_unknown_values_and_ids_are_spelled_as_the_engine_spells_them(events):
    (created,) = [each for each in metadata_of(events, "resOutputsEvent") if each["op"] == "create"]
    assert created["new"]["inputs"]["data"] == {"ns": "04da6b54-80e4-46f7-96ec-b56ff0331ba9"}
    assert created["new"]["id"] == ""
    assert created["provider"].endswith("::04da6b54-80e4-46f7-96ec-b56ff0331ba9")
    (deleted,) = [each for each in metadata_of(events, "resOutputsEvent") if each["op"] == "delete"]
    assert deleted["old"]["id"] == "gpu-0"


def test_the_outputs_of_the_stack_end_the_stream(events):
    stack = [
        each
        for each in metadata_of(events, "resOutputsEvent")
        if each["type"] == "pulumi:pulumi:Stack"
    ][-1]
    assert (stack["old"]["outputs"], stack["new"]["outputs"]) == ({"replicas": 2}, {"replicas": 2})
    assert stack["op"] == "same"


def test_a_warning_of_the_program_is_a_diagnostic():
    recording = record(lambda: pulumi.log.warn("mind the gap"), project="p", stack="s")
    found = [
        event["diagnosticEvent"]
        for event in events_of(make_plan(recording))
        if "diagnosticEvent" in event
    ]
    assert found == [
        {
            "prefix": "warning: ",
            "message": "mind the gap\n",
            "color": "never",
            "severity": "warning",
        }
    ]


def test_dependencies_of_a_resource_are_listed_once(events):
    (created,) = [each for each in metadata_of(events, "resOutputsEvent") if each["op"] == "create"]
    assert [urn.rpartition("::")[2] for urn in created["new"]["dependencies"]] == ["models"]


def test_a_run_that_fails_before_its_plan_says_why():
    events = [
        json.loads(line)
        for line in to_ndjson(refusal_events("p", "s", "no such pool")).splitlines()
    ]
    assert events[1]["diagnosticEvent"] == {
        "urn": "urn:pulumi:s::p::pulumi:pulumi:Stack::p-s",
        "prefix": "error: ",
        "message": "no such pool\n",
        "color": "never",
        "severity": "error",
    }
    assert events[2]["summaryEvent"]["result"] == "failed"
