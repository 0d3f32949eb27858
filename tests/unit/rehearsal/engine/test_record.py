"""A recording of a program, and the state of the process after it."""

import asyncio
import gc
import sys
from pathlib import Path

import pulumi
import pytest
from pulumi_kubernetes import Provider
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import ConfigMap, Namespace, Secret

from inferplan.errors import ProgramFailed
from inferplan.pulumi_engine.program.record import record
from inferplan.pulumi_engine.values import UNKNOWN
from inferplan.pulumi_engine.values import Secret as Marked
from tests.recorder import declare

CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
NAMESPACE = "kubernetes:core/v1:Namespace"


class Outer(pulumi.ComponentResource):
    def __init__(self, name, opts=None):
        super().__init__("inferplan:test:Outer", name, {"spec": {"replicas": 2}}, opts)
        Inner("inner", pulumi.ResourceOptions(parent=self))
        self.register_outputs({"answer": 42})


class Inner(pulumi.ComponentResource):
    def __init__(self, name, opts=None):
        super().__init__("inferplan:test:Inner", name, {}, opts)
        ConfigMap("leaf", metadata={"name": "leaf"}, opts=pulumi.ResourceOptions(parent=self))


def test_a_urn_holds_the_chain_of_component_types_and_leaves_the_stack_out():
    recording = declare(lambda: Outer("outer"))
    assert (
        recording.one("inferplan:test:Outer").urn
        == "urn:pulumi:test::inferplan::inferplan:test:Outer::outer"
    )
    leaf = recording.one(CONFIG_MAP, "leaf")
    assert (
        leaf.urn
        == "urn:pulumi:test::inferplan::inferplan:test:Outer$inferplan:test:Inner$kubernetes:core/v1:ConfigMap::leaf"
    )
    assert leaf.parent == recording.one("inferplan:test:Inner").urn
    assert (
        recording.one("inferplan:test:Outer").parent
        == "urn:pulumi:test::inferplan::pulumi:pulumi:Stack::inferplan-test"
    )


def test_a_component_keeps_its_intent_and_its_outputs():
    recording = declare(lambda: Outer("outer"))
    outer = recording.one("inferplan:test:Outer")
    assert outer.inputs == {"spec": {"replicas": 2}}
    assert not outer.custom
    assert recording.component_outputs[outer.urn] == {"answer": 42}
    assert [each.name for each in recording.children(outer)] == ["inner"]


def test_secrets_stay_marked_wherever_they_are_nested_and_never_print():
    def program():
        key = pulumi.Output.secret("hush")
        Secret("s", metadata={"name": "s"}, string_data={"key": key})
        ConfigMap(
            "c",
            metadata={"name": "c"},
            data={"url": pulumi.Output.concat("http://", key), "plain": "x"},
        )
        pulumi.export("key", key)

    recording = declare(program)
    assert recording.one("kubernetes:core/v1:Secret").inputs["stringData"] == Marked(
        {"key": "hush"}
    )
    assert recording.one(CONFIG_MAP).inputs["data"] == {"plain": "x", "url": Marked("http://hush")}
    assert recording.outputs == {"key": Marked("hush")}
    assert "hush" not in repr(recording)


def test_values_of_the_cluster_are_unknown_in_a_preview():
    def program():
        namespace = Namespace("n", metadata={"name": "n"})
        data = {
            "uid": namespace.metadata.uid,
            "id": namespace.id,
            "phase": namespace.status.phase,
            "name": namespace.metadata.name,
        }
        ConfigMap("c", metadata={"name": "c"}, data=data)
        pulumi.export("uid", namespace.metadata.uid)

    recording = declare(program)
    assert recording.one(CONFIG_MAP).inputs["data"] == {
        "uid": UNKNOWN,
        "id": UNKNOWN,
        "phase": UNKNOWN,
        "name": "n",
    }
    assert recording.outputs == {"uid": UNKNOWN}


def test_an_object_without_a_name_gets_one_that_stays_the_same():
    first, second = (
        declare(lambda: Namespace("n")).one(NAMESPACE).inputs["metadata"] for _ in range(2)
    )
    assert first == second
    assert first["name"].startswith("n-")
    assert first["annotations"] == {"pulumi.com/autonamed": "true"}


def test_dependencies_are_known_by_resource_and_by_property():
    def program():
        namespace = Namespace("n", metadata={"name": "n"})
        first = ConfigMap("first", metadata={"name": "first", "namespace": namespace.metadata.name})
        ConfigMap(
            "second", metadata={"name": "second"}, opts=pulumi.ResourceOptions(depends_on=[first])
        )

    recording = declare(program)
    namespace, first, second = (
        recording.one(NAMESPACE),
        recording.one(CONFIG_MAP, "first"),
        recording.one(CONFIG_MAP, "second"),
    )
    assert first.dependencies == (namespace.urn,)
    assert first.property_dependencies["metadata"] == (namespace.urn,)
    assert second.dependencies == (first.urn,)


def test_the_options_that_change_what_an_engine_does_are_kept():
    def program():
        provider = Provider("onprem", context="onprem")
        options = pulumi.ResourceOptions(
            provider=provider,
            protect=True,
            retain_on_delete=True,
            delete_before_replace=True,
            ignore_changes=["data"],
            replace_on_changes=["data.x"],
            custom_timeouts=pulumi.CustomTimeouts(create="20m", delete="1m"),
            aliases=[pulumi.Alias(name="was")],
        )
        ConfigMap("c", metadata={"name": "c"}, opts=options)

    found = declare(program).one(CONFIG_MAP)
    assert found.provider == "urn:pulumi:test::inferplan::pulumi:providers:kubernetes::onprem"
    options = found.options
    assert (options.protect, options.retain_on_delete, options.delete_before_replace) == (
        True,
        True,
        True,
    )
    assert (options.ignore_changes, options.replace_on_changes) == (("data",), ("data.x",))
    assert (
        options.custom_timeouts.create,
        options.custom_timeouts.update,
        options.custom_timeouts.delete,
    ) == ("20m", None, "1m")
    assert "urn:pulumi:test::inferplan::kubernetes:core/v1:ConfigMap::was" in options.aliases


def test_an_alias_follows_the_parent_of_its_resource():
    def program():
        parent = Outer("outer")
        ConfigMap(
            "c",
            metadata={"name": "c"},
            opts=pulumi.ResourceOptions(parent=parent, aliases=[pulumi.Alias(name="was")]),
        )

    aliases = declare(program).one(CONFIG_MAP, "c").options.aliases
    assert (
        "urn:pulumi:test::inferplan::inferplan:test:Outer$kubernetes:core/v1:ConfigMap::was"
        in aliases
    )


def test_a_urn_registered_twice_is_rejected_with_the_message_of_the_engine():
    def program():
        Namespace("twin")
        Namespace("twin")

    with pytest.raises(ProgramFailed) as failed:
        declare(program)
    urn = "urn:pulumi:test::inferplan::kubernetes:core/v1:Namespace::twin"
    assert failed.value.message == f"Duplicate resource URN '{urn}'; try giving it a unique name"


def test_an_object_that_two_resources_declare_is_rejected():
    def program(namespace: str = "a", kind: type[ConfigMap | Secret] = ConfigMap):
        ConfigMap("one", metadata={"name": "twin", "namespace": "a"})
        kind("two", metadata={"name": "twin", "namespace": namespace})

    with pytest.raises(
        ProgramFailed,
        match=r"ConfigMap a/twin is declared twice: by urn:.*::(one|two) and .*::(one|two)",
    ):
        declare(program)
    declare(lambda: program("b"))
    declare(lambda: program(kind=Secret))


def test_two_clusters_may_have_an_object_of_the_same_name():
    def program():
        for each in ("east", "west"):
            cluster = Provider(each, kubeconfig=each)
            Namespace(
                each, metadata={"name": "twin"}, opts=pulumi.ResourceOptions(provider=cluster)
            )

    assert len(declare(program).of_type(NAMESPACE)) == 2


def test_the_message_of_a_run_error_is_unchanged():
    def program():
        Namespace("n")
        raise pulumi.RunError("stacks/Pulumi.local.yaml:3:1: no such pool\n  write one of: l40s")

    with pytest.raises(ProgramFailed) as failed:
        declare(program)
    assert str(failed.value) == "stacks/Pulumi.local.yaml:3:1: no such pool\n  write one of: l40s"


def test_program_that_exits_fails_with_its_last_logged_error():
    def program():
        pulumi.log.error("two faults in stacks/Pulumi.local.yaml")
        sys.exit(2)

    with pytest.raises(ProgramFailed) as failed:
        declare(program)
    assert failed.value.message == "two faults in stacks/Pulumi.local.yaml"


@pytest.mark.parametrize("late", [False, True], ids=["at once", "in an apply"])
def test_unexpected_error_is_one_line_with_its_position(late):
    def program():
        namespace = Namespace("n", metadata={"name": "n"})
        if late:
            namespace.metadata.name.apply(lambda _name: {}["missing"])
        else:
            _ = {}["missing"]

    with pytest.raises(ProgramFailed) as failed:
        declare(program)
    assert failed.value.message.startswith(
        "the program failed: KeyError: 'missing' (test_record.py:"
    )
    assert "\n" not in failed.value.message


def test_an_async_program_is_awaited():
    async def program():
        Namespace("n", metadata={"name": "n"})

    assert declare(program).one(NAMESPACE).name == "n"


def test_configuration_reaches_the_program_and_is_recorded_without_its_secrets():
    def program():
        config = pulumi.Config("inferplan")
        ConfigMap(
            "c",
            metadata={"name": "c"},
            data={
                "gateway": config.require_object("gateway")["host"],
                "seed": config.require_secret("seed"),
            },
        )

    recording = declare(
        program,
        config={"inferplan:gateway": '{"host": "h"}', "inferplan:seed": "abc"},
        secret_keys={"inferplan:seed"},
    )
    assert recording.one(CONFIG_MAP).inputs["data"] == {"gateway": "h", "seed": Marked("abc")}
    assert recording.config == {"inferplan:gateway": '{"host": "h"}', "inferplan:seed": "[secret]"}


def test_runs_follow_each_other_and_leave_nothing_behind():
    from pulumi.runtime.settings import get_project, get_root_resource

    assert gc.isenabled()
    before = (get_project(), get_root_resource(), sys.path[:], Path.cwd())
    seen = []
    for number in range(2):
        recording = declare(
            lambda number=number: (seen.append(gc.isenabled()), Namespace(f"n{number}"))
        )
        assert [each.name for each in recording] == [f"n{number}"]
    assert seen == [False, False]
    assert gc.isenabled()
    assert (get_project(), get_root_resource(), sys.path, Path.cwd()) == before


def test_a_folder_is_run_as_the_language_host_runs_it(tmp_path):
    folder = tmp_path / "infra"
    folder.mkdir()
    (folder / "beside_the_program.py").write_text("VALUE = 'found'\n")
    (folder / "__main__.py").write_text(
        "import pathlib, sys\n"
        "import pulumi\n"
        "import beside_the_program\n"
        "pulumi.export('value', beside_the_program.VALUE)\n"
        "pulumi.export('first', sys.path[0])\n"
        "pulumi.export('cwd', str(pathlib.Path.cwd()))\n"
        "pulumi.export('name', __name__)\n"
    )
    before = (sys.path[:], Path.cwd())
    recording = record(folder, project="p", stack="s")
    assert recording.outputs == {
        "value": "found",
        "first": str(folder),
        "cwd": str(folder),
        "name": "__main__",
    }
    assert (sys.path, Path.cwd()) == before


def test_log_messages_of_the_program_are_kept_and_those_of_the_sdk_are_not():
    recording = declare(lambda: (pulumi.log.warn("mind the gap"), Namespace("n")))
    assert [(each.severity, each.message) for each in recording.diagnostics] == [
        ("warning", "mind the gap")
    ]


def test_lookup_error_lists_registered_resources():
    recording = declare(
        lambda: Deployment("d", metadata={"name": "d"}, spec={"selector": {}, "template": {}})
    )
    with pytest.raises(
        LookupError, match=r"0 resources match kubernetes:apps/v1:Deployment 'e'.*Deployment 'd'"
    ):
        recording.one("kubernetes:apps/v1:Deployment", "e")
    assert recording.of_type("kubernetes:batch/v1:Job") == []


def test_a_method_of_a_provider_is_rejected():
    def program():
        pulumi.runtime.invoke("aws:ec2/getInstance:getInstance", {})

    with pytest.raises(ProgramFailed, match="aws:ec2/getInstance:getInstance"):
        declare(program)


def test_a_run_takes_no_stack_traces_and_leaves_the_sdk_as_it_was(monkeypatch):
    from pulumi.runtime import resource

    taken = []
    whole = resource._get_stack_trace
    monkeypatch.setattr(resource, "_get_stack_trace", lambda: taken.append(1) or whole())
    stub = resource._get_stack_trace
    recording = record(
        lambda: pulumi.ComponentResource("a:b:C", "one") and None, project="p", stack="s"
    )
    assert [each.name for each in recording if each.type == "a:b:C"] == ["one"]
    assert taken == []
    assert resource._get_stack_trace is stub


def test_waiting_for_many_outputs_scans_each_a_few_times(monkeypatch):
    scanned = []
    wait = asyncio.wait

    def counted(tasks, **options):
        scanned.extend(tasks := list(tasks))
        return wait(tasks, **options)

    async def late(number):
        for _ in range(number):
            await asyncio.sleep(0)
        return number

    def program():
        for number in range(300):
            pulumi.Output.from_input(late(number)).apply(str)

    monkeypatch.setattr(asyncio, "wait", counted)
    declare(program)
    assert 300 <= len(scanned) < 3000


def test_an_output_that_fails_ends_the_program_with_its_message():
    async def never():
        await asyncio.Event().wait()

    def program():
        pulumi.Output.from_input(never())
        pulumi.Output.from_input(1).apply(lambda _: {}["absent"])

    with pytest.raises(ProgramFailed, match="absent"):
        declare(program)
