"""The engine's rules of identity in a plan: the owner of an object, automatic names, rejections."""

from typing import Any

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import ConfigMap, Secret, Service

from inferplan.pulumi_engine.plan.states import load, save, states_of
from inferplan.pulumi_engine.plan.steps import make_plan
from tests.recorder import declare


def plan(before, after):
    return make_plan(declare(after), load(save(states_of(declare(before)))))


class Holder(pulumi.ComponentResource):
    """A component of one type that has a Service `chat`."""

    def __init__(self, kind: str, *, aliases: list[Any] | None = None) -> None:
        super().__init__(f"acme:serving:{kind}", "chat", None, None)
        Service(
            "chat",
            metadata={"name": "chat", "namespace": "n"},
            opts=pulumi.ResourceOptions(parent=self, aliases=aliases),
        )


def configured(text: str, **metadata: str) -> None:
    named: Any = metadata or None
    made = ConfigMap("settings", metadata=named, data={"text": text}, immutable=True)
    volumes = [{"name": "c", "configMap": {"name": made.metadata.name}}]
    template = {
        "metadata": {"labels": {"m": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": volumes},
    }
    spec: Any = {"selector": {"matchLabels": {"m": "x"}}, "template": template}
    Deployment("d", metadata={"name": "d"}, spec=spec)


def steps(found):
    return {
        step.urn.rpartition("::")[2]: step
        for step in found.steps
        if "acme" not in step.urn.rpartition("$")[2]
    }


def test_an_object_that_another_urn_has_cannot_be_created():
    found = plan(lambda: Holder("Vllm"), lambda: Holder("Triton"))
    [(message, remedy)] = found.rejected
    assert message.startswith(
        "Service n/chat already exists: it belongs to the resource"
        " acme:serving:Vllm$kubernetes:core/v1:Service 'chat'"
    )
    assert "update twice" in remedy


def test_an_alias_makes_it_the_same_resource():
    urn = "urn:pulumi:test::inferplan::acme:serving:Vllm$kubernetes:core/v1:Service::chat"
    assert plan(lambda: Holder("Vllm"), lambda: Holder("Triton", aliases=[urn])).rejected == ()


def test_two_objects_that_change_names_are_rejected():
    def named(first: str, second: str) -> None:
        ConfigMap("a", metadata={"name": first}, data={})
        ConfigMap("b", metadata={"name": second}, data={})

    assert len(plan(lambda: named("x", "y"), lambda: named("y", "x")).rejected) == 2


def test_declared_name_is_free_in_another_namespace():
    def inside(namespace: str) -> None:
        ConfigMap("a", metadata={"name": "a", "namespace": namespace}, data={})

    assert plan(lambda: inside("x"), lambda: inside("y")).rejected == ()


def test_new_content_under_an_automatic_name_is_created_first_and_shows_where_the_name_is_used():
    found = steps(plan(lambda: configured("one"), lambda: configured("two")))
    assert found["settings"].op == "replace"
    assert not found["settings"].change.delete_first
    assert [each.text for each in found["settings"].change.differences] == ["data.text"]
    assert [each.text for each in found["d"].change.differences] == [
        "spec.template.spec.volumes[0].configMap.name"
    ]


def test_changed_content_under_a_declared_name_is_deleted_first():
    found = steps(
        plan(lambda: configured("one", name="own"), lambda: configured("two", name="own"))
    )
    assert found["settings"].change.delete_first
    assert found["d"].op == "same"


def test_update_in_place_keeps_an_automatic_name():
    found = steps(
        plan(lambda: configured("one", namespace="n"), lambda: configured("one", namespace="n"))
    )
    assert {each.op for each in found.values()} == {"same"}


def test_automatic_name_does_not_depend_on_secrets():
    def names(value: str) -> str:
        made = declare(lambda: Secret("s", string_data={"key": pulumi.Output.secret(value)}))
        return made.one("kubernetes:core/v1:Secret").inputs["metadata"]["name"]

    assert names("hush-hush") == names("tell-nobody")
