"""A plan between two states of a program, and its saved form."""

import json
import os
import subprocess
import sys
from typing import Any

import pulumi
import pytest
from pulumi_kubernetes import Provider
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.batch.v1 import Job
from pulumi_kubernetes.core.v1 import ConfigMap, PersistentVolumeClaim, Secret, Service

from inferplan.pulumi_engine.plan.states import load, save, states_of
from inferplan.pulumi_engine.plan.steps import make_plan
from tests.recorder import declare


def plan(before, after, *, key=None):
    earlier = load(save(states_of(declare(before), key)))
    return make_plan(declare(after), earlier, key=key)


def config_map(name="c", namespace="default", opts=None, **data):
    return ConfigMap(name, metadata={"name": name, "namespace": namespace}, data=data, opts=opts)


def secret(value, opts=None):
    return Secret(
        "s",
        metadata={"name": "s", "namespace": "n"},
        string_data={"key": pulumi.Output.secret(value)},
        opts=opts,
    )


def deployment(replicas=1, image="i:1", label="a", **metadata):
    spec = {"containers": [{"name": "c", "image": image}]}
    template = {"metadata": {"labels": {"m": label}}, "spec": spec}
    wanted: Any = {
        "replicas": replicas,
        "selector": {"match_labels": {"m": label}},
        "template": template,
    }
    named: Any = {"name": "d", "namespace": "n", **metadata}
    return Deployment("d", metadata=named, spec=wanted)


def only(found):
    (step,) = found.steps
    return step.op, [
        (each.text, each.kind, each.replacing)
        for each in (step.change.differences if step.change else ())
    ]


def test_without_an_earlier_plan_everything_is_created():
    assert make_plan(declare(config_map)).counts == {"create": 1}


def test_the_same_program_changes_nothing():
    assert only(plan(lambda: secret("x"), lambda: secret("x"))) == ("same", [])


def test_a_change_names_its_exact_path():
    def after():
        deployment(replicas=2, image="i:2", annotations={"a.b/c": "d"})

    assert only(plan(lambda: deployment(annotations={"a.b/c": "e"}), after)) == (
        "update",
        [
            ('metadata.annotations["a.b/c"]', "update", False),
            ("spec.replicas", "update", False),
            ("spec.template.spec.containers[0].image", "update", False),
        ],
    )


def test_a_changed_secret_shows_as_changed_and_not_as_its_value():
    found = plan(lambda: secret("first-value"), lambda: secret("second-value"), key=b"k" * 32)
    assert only(found) == ("replace", [("data.key", "update", True)])
    saved = save(found.states).decode()
    assert "second-value" not in saved
    assert "[secret]" in saved


def test_a_secret_that_may_change_in_place_is_updated():
    def program(value):
        provider = Provider("p", enable_secret_mutable=True)
        secret(value, pulumi.ResourceOptions(provider=provider))

    found = plan(lambda: program("x"), lambda: program("y"))
    assert found.counts == {"same": 1, "update": 1}


def test_digests_cannot_be_compared_between_resources_or_keys():
    def program():
        secret("same-value")
        Secret("t", metadata={"name": "t"}, string_data={"key": "same-value"})

    digests = {
        json.dumps(each["inputs"]["stringData"]["digest"])
        for key in (b"one", b"two")
        for each in json.loads(save(states_of(declare(program), key)))["resources"]
    }
    assert len(digests) == 4


def test_digest_without_a_key_has_sixteen_bits():
    (resource,) = json.loads(save(states_of(declare(lambda: secret("x")))))["resources"]
    assert len(resource["inputs"]["stringData"]["digest"]) == 4
    assert len(resource["inputs"]["stringData"]["fields"]["key"]["digest"]) == 4


JOB: Any = {
    "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}}
}
JOB_AFTER: Any = {
    "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:2"}]}}
}


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [
        (
            lambda: deployment(label="a"),
            lambda: deployment(label="b"),
            "spec.selector.matchLabels.m",
        ),
        (
            lambda: Job("j", metadata={"name": "j"}, spec=JOB),
            lambda: Job("j", metadata={"name": "j"}, spec=JOB_AFTER),
            "spec.template.spec.containers[0].image",
        ),
        (
            lambda: PersistentVolumeClaim(
                "v", metadata={"name": "v"}, spec={"access_modes": ["ReadWriteOnce"]}
            ),
            lambda: PersistentVolumeClaim(
                "v", metadata={"name": "v"}, spec={"access_modes": ["ReadWriteMany"]}
            ),
            "spec.accessModes[0]",
        ),
        (
            lambda: Service("v", metadata={"name": "v"}, spec={"ports": [{"port": 1}]}),
            lambda: Service(
                "v", metadata={"name": "v"}, spec={"ports": [{"port": 1}], "cluster_ip": "None"}
            ),
            "spec.clusterIP",
        ),
        (lambda: config_map(x="1"), lambda: config_map(x="2"), "data.x"),
        (
            lambda: config_map(namespace="a"),
            lambda: config_map(namespace="b"),
            "metadata.namespace",
        ),
    ],
    ids=[
        "selector",
        "job template",
        "claim access modes",
        "service address",
        "config map data",
        "namespace",
    ],
)
def test_change_that_the_provider_cannot_update_replaces_the_object(before, after, path):
    op, found = only(plan(before, after))
    assert op == "replace"
    assert path in [text for text, _, replacing in found if replacing]


def test_a_replacement_that_keeps_the_name_deletes_first():
    (step,) = plan(lambda: config_map(x="1"), lambda: config_map(x="2")).steps
    assert step.change is not None
    assert step.change.delete_first
    (moved,) = plan(lambda: config_map(namespace="a"), lambda: config_map(namespace="b")).steps
    assert moved.change is not None
    assert not moved.change.delete_first


def test_the_default_namespace_may_be_written_or_left_out():
    assert (
        only(
            plan(
                lambda: ConfigMap("c", metadata={"name": "c"}),
                lambda: ConfigMap("c", metadata={"name": "c", "namespace": "default"}),
            )
        )[0]
        == "same"
    )


def test_ignored_changes_are_ignored_and_listed_ones_replace():
    ignoring = pulumi.ResourceOptions(ignore_changes=["data.x"])
    assert only(
        plan(lambda: config_map(x="1", opts=ignoring), lambda: config_map(x="2", opts=ignoring))
    ) == ("same", [])
    replacing = pulumi.ResourceOptions(replace_on_changes=["metadata.labels"])

    def labelled(label):
        ConfigMap("c", metadata={"name": "c", "labels": {"l": label}}, opts=replacing)

    assert only(plan(lambda: labelled("1"), lambda: labelled("2"))) == (
        "replace",
        [("metadata.labels.l", "update", True)],
    )


def test_a_renamed_resource_with_an_alias_is_the_same_one():
    def after():
        ConfigMap(
            "new",
            metadata={"name": "c"},
            opts=pulumi.ResourceOptions(aliases=[pulumi.Alias(name="old")]),
        )

    found = plan(lambda: ConfigMap("old", metadata={"name": "c"}), after)
    assert found.counts == {"same": 1}


def test_undeclared_resources_are_deleted_dependents_first():
    def before():
        first = config_map("first")
        config_map("second", opts=pulumi.ResourceOptions(depends_on=[first]))

    found = plan(before, lambda: None)
    assert [(step.op, step.urn.rpartition("::")[2]) for step in found.steps] == [
        ("delete", "second"),
        ("delete", "first"),
    ]


def test_values_known_only_later_do_not_count_as_a_change():
    def program():
        other = config_map("other")
        config_map("c", uid=other.metadata.uid)

    assert plan(program, program).counts == {"same": 2}


def test_saved_plan_is_read_as_written():
    def program():
        config_map(
            opts=pulumi.ResourceOptions(
                protect=True, custom_timeouts=pulumi.CustomTimeouts(delete="1m")
            ),
            uid="x",
        )
        secret("x")
        pulumi.export("key", pulumi.Output.secret({"a": ["b"]}))

    states = states_of(declare(program), b"key")
    assert save(load(save(states))) == save(states)
    assert load(save(states)).resources == states.resources


@pytest.mark.parametrize(
    "text",
    [b"", b"{}", b"[1]", b'{"format": "other/1"}', b'{"format": "inferplan-plan/1"}', b"\x00"],
)
def test_a_file_that_is_not_a_saved_plan_is_rejected(text):
    with pytest.raises(ValueError, match="not a saved plan"):
        load(text)


@pytest.mark.slow
def test_the_same_program_gives_the_same_bytes_in_every_process():
    code = (
        "import sys\nfrom tests.unit.rehearsal.engine import test_plan as t\ndef program():\n   "
        " t.secret('x'); t.deployment(annotations={'b': 'c', 'a': 'd', 'z': 'y'});"
        " t.config_map(z='1', y='2',"
        " x='3')\nsys.stdout.buffer.write(t.save(t.states_of(t.declare(program))))"
    )
    outputs = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        outputs.add(done.stdout)
    (output,) = outputs
    assert output.startswith(b"{")
