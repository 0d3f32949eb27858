"""The journal after a crash, the lock of a run, and the order of deletions."""

import errno
import json
import os
import sys

import pytest

from inferplan.errors import BusyError, DiskFullError
from inferplan.kube.marks import SIGNATURE
from inferplan.pulumi_engine.plan.states import ResourceState
from inferplan.pulumi_engine.recording import Registration
from inferplan.pulumi_engine.values import Masked
from inferplan.rehearsal.apply.inventory import Inventory
from inferplan.rehearsal.apply.journal import Journal, load
from inferplan.rehearsal.apply.prune import waves
from inferplan.rehearsal.apply.run import exclusive
from inferplan.rehearsal.wait.object_events import Key


def state(name, *, depends_on=(), **inputs):
    urns = tuple(f"urn:{each}" for each in depends_on)
    return ResourceState(
        urn=f"urn:{name}",
        type="kubernetes:core/v1:ConfigMap",
        custom=True,
        parent="",
        inputs=inputs,
        dependencies=urns,
    )


def key(name, kind="ConfigMap"):
    return Key(kind, "n", name)


def names(entries):
    return [each.key.name for each in entries]


def killed(journal):
    """What the disk holds when the process is gone now: the file as it is, nothing tidied."""
    journal._file.flush()


def test_object_is_recorded_before_its_request(tmp_path):
    journal = Journal(tmp_path, "uid")
    journal.intend(key("a"), "v1", state("a"))
    (entry,) = load(tmp_path, "uid")[0]
    assert (entry.key, entry.done) == (key("a"), False)


def test_applied_objects_are_recorded_after_a_crash(tmp_path):
    journal = Journal(tmp_path, "uid")
    journal.intend(key("a"), "v1", state("a", data={"x": Masked(digest="d")}))
    journal.applied(key("a"))
    journal.intend(key("b"), "v1", state("b"))
    journal.gone(key("b"))
    killed(journal)
    (entry,) = Journal(tmp_path, "uid").entries().values()
    assert (entry.key, entry.done, entry.state.inputs) == (
        key("a"),
        True,
        {"data": {"x": Masked(digest="d")}},
    )


@pytest.mark.parametrize("torn", range(1, 60, 7))
def test_incomplete_line_after_a_crash_is_dropped(tmp_path, torn):
    journal = Journal(tmp_path, "uid")
    journal.intend(key("a"), "v1", state("a"))
    before = (tmp_path / "applied.jsonl").read_bytes()
    journal.intend(key("b"), "v1", state("b"))
    whole = (tmp_path / "applied.jsonl").read_bytes()
    (tmp_path / "applied.jsonl").write_bytes(whole[: len(before) + torn])
    fresh = Journal(tmp_path, "uid")
    assert set(fresh.entries()) == {key("a")}
    fresh.intend(key("c"), "v1", state("c"))
    assert [each.key for each in load(tmp_path, "uid")[0]] == [key("a"), key("c")]


def test_the_journal_of_another_cluster_is_ignored(tmp_path):
    Journal(tmp_path, "one").intend(key("a"), "v1", state("a"))
    assert load(tmp_path, "two")[0] == []
    assert Journal(tmp_path, "two").entries() == {}


def test_closed_journal_has_entries_only_and_is_settled(tmp_path):
    journal = Journal(tmp_path, "uid")
    assert not journal.settled, "nothing tells what an earlier run applied"
    for _ in range(3):
        journal.intend(key("a"), "v1", state("a"))
        journal.applied(key("a"))
    journal.close()
    assert len((tmp_path / "applied.jsonl").read_bytes().splitlines()) == 3
    again = Journal(tmp_path, "uid")
    assert again.settled
    again.gone(key("a"))
    again.close()
    assert len((tmp_path / "applied.jsonl").read_bytes().splitlines()) == 1
    down = Journal(tmp_path, "uid")
    assert (down.entries(), down.settled) == ({}, True)
    assert not Journal(tmp_path, "another").settled


def test_journal_of_a_killed_run_is_not_settled_although_it_is_whole(tmp_path):
    killed = Journal(tmp_path, "uid")
    killed.intend(key("a"), "v1", state("a"))
    killed.intend(key("b"), "v1", state("b"))
    file = tmp_path / "applied.jsonl"
    head, first, *_ = file.read_bytes().splitlines(keepends=True)
    assert not Journal(tmp_path, "uid").settled
    file.write_bytes(head + first)
    again = Journal(tmp_path, "uid")
    assert (again.damage, again.settled) == ("", False), "what follows may be lost"


def test_a_run_that_changes_nothing_writes_nothing_and_the_next_one_continues(tmp_path):
    journal = Journal(tmp_path, "uid")
    journal.intend(key("a"), "v1", state("a"))
    journal.applied(key("a"))
    journal.close()
    before = (tmp_path / "applied.jsonl").stat().st_mtime_ns
    idle = Journal(tmp_path, "uid")
    idle.applied(key("a"))
    idle.close()
    assert (tmp_path / "applied.jsonl").stat().st_mtime_ns == before
    Journal(tmp_path, "uid").intend(key("b"), "v1", state("b"))
    assert [(each.key, each.done) for each in load(tmp_path, "uid")[0]] == [
        (key("a"), True),
        (key("b"), False),
    ]


def test_a_full_disk_is_an_error_with_a_remedy(tmp_path, monkeypatch):
    def full(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    journal = Journal(tmp_path, "uid")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFullError, match="no space left on the disk that holds "):
        journal.intend(key("a"), "v1", state("a"))
    assert journal.entries() == {}


def test_only_its_owner_may_read_the_journal(tmp_path):
    Journal(tmp_path, "uid").intend(key("a"), "v1", state("a"))
    assert (tmp_path / "applied.jsonl").stat().st_mode & 0o777 == 0o600


PROGRAM = "a line of a program\n" * 9000


def declare(journal, count, **inputs):
    for index in range(count):
        journal.intend(
            key(f"c{index}"),
            "v1",
            state(f"c{index}", data={"program.py": PROGRAM, "rounds": "1"}, **inputs),
        )
        journal.applied(key(f"c{index}"))


@pytest.mark.parametrize("end", [killed, Journal.close])
def test_equal_long_texts_are_written_once_and_read_as_one_object(tmp_path, end):
    journal = Journal(tmp_path, "uid")
    declare(journal, 300)
    end(journal)
    assert (tmp_path / "applied.jsonl").stat().st_size < 2 * len(PROGRAM) + 300 * 1024
    read = load(tmp_path, "uid")[0]
    assert [each.state for each in read] == [each.state for each in journal.entries().values()]
    assert {id(each.state.inputs["data"]["program.py"]) for each in read} == {
        id(sys.intern(PROGRAM))
    }, "as in a registration"
    Journal(tmp_path, "uid").close()
    assert load(tmp_path, "uid")[0] == read


def test_a_long_text_is_on_disk_before_the_object_that_has_it(tmp_path):
    journal = Journal(tmp_path, "uid")
    journal.intend(key("a"), "v1", state("a", data={"program.py": PROGRAM}))
    facts = [
        json.loads(line) for line in (tmp_path / "applied.jsonl").read_bytes().splitlines()[1:]
    ]
    assert [each["fact"] for each in facts] == ["text", "intend"]
    assert facts[0]["text"] == PROGRAM
    assert facts[0]["digest"] in json.dumps(facts[1]), "a person finds the text by its digest"


@pytest.mark.parametrize("damage", ["lost", "changed"])
def test_objects_whose_long_text_is_damaged_count_as_unreadable(tmp_path, damage):
    journal = Journal(tmp_path, "uid")
    declare(journal, 3)
    journal.intend(key("other"), "v1", state("other"))
    journal.close()
    file = tmp_path / "applied.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    (at,) = (index for index, line in enumerate(lines) if b'"text"' in line and b"a line" in line)
    lines[at] = b"" if damage == "lost" else lines[at].replace(b"program", b"malware", 1)
    file.write_bytes(b"".join(lines))
    found, sentence, _ = load(tmp_path, "uid")
    assert names(found) == ["other"]
    assert sentence == f"{file} is damaged: 3 lines cannot be read and 3 objects are missing"


@pytest.mark.parametrize("torn", [10, 5000, len(PROGRAM) + 200])
def test_a_crash_within_a_long_text_loses_only_the_object_that_was_not_created(tmp_path, torn):
    journal = Journal(tmp_path, "uid")
    journal.intend(key("a"), "v1", state("a"))
    file = tmp_path / "applied.jsonl"
    before = len(file.read_bytes())
    declare(journal, 1)
    os.truncate(file, before + torn)
    assert [each.key for each in load(tmp_path, "uid")[0]] == [key("a")]
    assert load(tmp_path, "uid")[1] == ""
    declare(fresh := Journal(tmp_path, "uid"), 1)
    fresh.close()
    assert load(tmp_path, "uid")[0][1].state.inputs["data"]["program.py"] == PROGRAM


def test_a_map_that_looks_like_a_reference_stays_a_map(tmp_path):
    data = {SIGNATURE: "another meaning", "digest": "0" * 64}
    Journal(tmp_path, "uid").intend(key("a"), "v1", state("a", data=data))
    assert load(tmp_path, "uid")[0][0].state.inputs == {"data": data}


def test_a_second_run_names_the_first_its_start_and_the_command_to_type(tmp_path):
    with (
        exclusive(tmp_path, command="up of local"),
        pytest.raises(BusyError) as busy,
        exclusive(tmp_path, command="down"),
    ):
        pass
    assert (
        f"process {os.getpid()} (up of local) is changing this cluster since " in busy.value.message
    )
    assert f"kill {os.getpid()}" in busy.value.remedy


def test_the_lock_is_free_after_a_run_that_failed(tmp_path):
    with pytest.raises(KeyError), exclusive(tmp_path, command="up"):
        raise KeyError
    with exclusive(tmp_path, command="up"):
        assert json.loads((tmp_path / "run.lock").read_text())["pid"] == os.getpid()


def entries(tmp_path, *declared):
    journal = Journal(tmp_path, "uid")
    for name, kind, depends_on in declared:
        journal.intend(key(name, kind), "v1", state(name, depends_on=depends_on))
    return list(journal.entries().values())


def test_dependents_are_deleted_before_what_they_depend_on(tmp_path):
    found = waves(
        entries(
            tmp_path,
            ("a", "ConfigMap", ()),
            ("b", "ConfigMap", ("a",)),
            ("c", "ConfigMap", ("b",)),
            ("d", "ConfigMap", ("a",)),
        )
    )
    assert [names(wave) for wave in found] == [["d", "c"], ["b"], ["a"]]


def test_namespaces_and_nodes_are_deleted_last(tmp_path):
    declared = [
        ("node", "Node", ()),
        ("ns", "Namespace", ()),
        ("pv", "PersistentVolume", ()),
        ("pvc", "PersistentVolumeClaim", ()),
        ("d", "Deployment", ()),
    ]
    assert [names(wave) for wave in waves(entries(tmp_path, *declared))] == [
        ["d"],
        ["pvc"],
        ["pv"],
        ["ns"],
        ["node"],
    ]


def test_dependency_on_a_remaining_object_does_not_delay_a_deletion(tmp_path):
    found = waves(
        entries(tmp_path, ("a", "ConfigMap", ("elsewhere",)), ("b", "ConfigMap", ("elsewhere",)))
    )
    assert [names(wave) for wave in found] == [["b", "a"]]


def registration(name, urn=None):
    inputs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}}
    return Registration(
        urn=urn or "urn:settings",
        type="kubernetes:core/v1:ConfigMap",
        name="settings",
        custom=True,
        parent="",
        inputs=inputs,
    )


def after_a_crash(tmp_path, *facts):
    """What a run finds whose predecessors announced objects of one resource, and were told that
    some of them exist.
    """
    journal = Journal(tmp_path, "uid")
    for name, agreed in facts:
        journal.intend(key(name), "v1", state("settings"))
        if agreed:
            journal.applied(key(name))
    killed(journal)
    tidied = Journal(tmp_path, "uid")
    tidied.close()
    return Inventory(Journal(tmp_path, "uid"))


@pytest.mark.parametrize(
    ("facts", "wanted", "current"),
    [
        ([("one", True)], "two", "one"),
        ([("one", True), ("two", True)], "one", "two"),
        # Killed while it created the second: it is taken up by the same update, and leaves the
        # first to a reverted one.
        ([("one", True), ("two", False)], "two", "two"),
        ([("one", True), ("two", False)], "one", "one"),
        # Killed while it updated the second, which exists.
        ([("one", True), ("two", True), ("two", False)], "one", "two"),
    ],
)
def test_newest_object_is_the_current_one_of_a_resource(tmp_path, facts, wanted, current):
    found = after_a_crash(tmp_path, *facts).current(registration(wanted), key(wanted))
    assert found is not None
    assert found.key == key(current)


def test_a_name_is_free_after_an_interrupted_creation_by_another_resource(tmp_path):
    inventory = after_a_crash(tmp_path, ("one", False))
    assert inventory.conflict(key("one"), registration("one", "urn:another"), None) is None
    assert (
        inventory.conflict(key("one"), registration("one", "urn:another"), {"kind": "ConfigMap"})
        is not None
    )
