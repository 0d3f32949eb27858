"""A good copy stays until its successor is verified, and READY stands over nothing but what was
asked for.
"""

from __future__ import annotations

import json
import shutil

import pytest

from tests.lanes import in_full

from .disk_faults import EVERY, Fault, arm
from .local import local_job, put, source_of
from .rig import MIB, refused, small_model, tiny_model, verified

SHARD = "model-00001-of-00002.safetensors"
MODEL_FILES = small_model()


@pytest.fixture
def source(tmp_path):
    folder = source_of(tmp_path)
    put(folder, MODEL_FILES)
    return folder


@pytest.fixture
def preheat(job, source):
    return lambda **changes: local_job(job, source, **changes)


@pytest.fixture
def ready(preheat):
    """A READY directory, and its source gone."""
    made = preheat()
    verified(made.run(), made, MODEL_FILES)
    return made


def test_a_manifest_of_another_revision_is_not_taken_for_the_one_asked_for(preheat, source):
    old = preheat(weights={"revision": "a" * 40})
    verified(old.run(), old, MODEL_FILES)
    changed = MODEL_FILES | {"config.json": b'{"model_type": "changed"}'}
    put(source, changed)
    new = preheat(weights={"revision": "b" * 40})
    shutil.copytree(old.directory, new.directory)
    outcome = new.run()
    verified(outcome, new, changed)
    assert f"'{'a' * 40}'" in outcome.output
    assert f"'{'b' * 40}'" in outcome.output
    assert ", 25 B moved" in outcome.output, "what is the same is linked"
    assert old.files() == MODEL_FILES


def test_a_manifest_of_another_model_is_not_taken_for_the_one_asked_for_even_while_the_source_is_down(
    preheat, source
):
    old = preheat(weights={"revision": "a" * 40})
    verified(old.run(), old, MODEL_FILES)
    source.rename(source.with_name("gone"))
    new = preheat(preheat={"include": ["*.json"]}, weights={"revision": "a" * 40})
    shutil.copytree(old.directory, new.directory)
    refused(new.run(), new, 3, "is asked for", "nothing is at")
    assert new.files() == MODEL_FILES, "no file is removed before there is another"


@pytest.mark.parametrize(
    "damage", ["a truncated READY", *in_full("a file of an NFS client", "a file too many")]
)
def test_good_files_stay_while_the_source_is_down_and_move_no_byte_once_it_is_up(
    ready, preheat, source, damage
):
    match damage:
        case "a truncated READY":
            text = (ready.directory / "READY").read_bytes()
            (ready.directory / "READY").write_bytes(text[: len(text) // 2])
        case "a file of an NFS client":
            (ready.directory / ".nfs00000000005a4b3c00000001").write_bytes(b"open elsewhere")
        case "a file too many":
            (ready.directory / "lost.txt").write_bytes(b"?")
    there = ready.files()
    source.rename(source.with_name("gone"))
    outcome = preheat().run()
    assert outcome.code == (0 if damage == "a file of an NFS client" else 3), outcome.output
    assert ready.files() == there
    assert ready.ready
    source.with_name("gone").rename(source)
    outcome = preheat().run()
    assert outcome.code == 0, outcome.output
    assert ", 0 B moved" in outcome.output
    assert {
        path: data for path, data in ready.files().items() if not path.startswith(".nfs")
    } == MODEL_FILES


@pytest.mark.parametrize(
    ("error", "operation"),
    [
        ("EIO", "read"),
        ("ESTALE", "stat"),
        *in_full(("ESTALE", "read"), ("EIO", "stat"), ("EIO", "look"), ("ESTALE", "look")),
    ],
)
def test_an_error_while_a_good_copy_is_read_means_try_again_and_takes_nothing_away(
    ready, preheat, source, error, operation
):
    # A time that differs has the bytes read.
    (ready.directory / SHARD).touch()
    source.rename(source.with_name("gone"))
    text = "READY" if operation == "look" else f"{ready.directory.name}/{SHARD}"
    outcome = arm(preheat(), Fault(error, operation, text, 1, 99)).run()
    if operation == "stat" and outcome.code == 0:
        pytest.skip("nothing asks for the status of this file by name")
    assert outcome.code == 4, outcome.output
    assert "the share failed" in outcome.output
    assert ready.ready
    assert ready.files() == MODEL_FILES
    verified(preheat().run(), ready, MODEL_FILES)


@pytest.mark.parametrize("damage", ["cut off", *in_full("missing")])
def test_ready_goes_where_a_file_is_wrong_and_the_other_files_are_used_again(
    ready, preheat, source, damage
):
    if damage == "missing":
        (ready.directory / SHARD).unlink()
    else:
        with (ready.directory / SHARD).open("r+b") as stream:
            stream.truncate(1 << 10)
    there = ready.files()
    source.rename(source.with_name("gone"))
    refused(preheat().run(), ready, 3, SHARD, "damaged")
    assert ready.files() == there
    source.with_name("gone").rename(source)
    outcome = preheat().run()
    verified(outcome, ready, MODEL_FILES)
    assert ", 64.0 KiB moved" in outcome.output


def test_a_file_that_could_not_be_stored_is_copied_again(preheat, source):
    put(source, tiny_model())
    made = arm(preheat(tuning={"streams": 1}), Fault("EIO", "fsync", f"files/{SHARD}"))
    refused(made.run(), made, 4, "the share failed", "Input/output error")
    outcome = preheat().run()
    verified(outcome, made, tiny_model())
    moved = 9 * MIB
    assert f", {moved // MIB}.0 MiB moved" in outcome.output or ", 10.0 MiB moved" in outcome.output


@pytest.mark.parametrize("note", [b"round one\n", *in_full(b"", b"\xff")])
def test_a_note_of_a_reader_that_cannot_be_understood_protects_its_round(preheat, note):
    first = preheat(name="reader")
    verified(first.run(), first, MODEL_FILES)
    (users,) = (first.target / ".inferplan" / "users").iterdir()
    (mine,) = users.iterdir()
    mine.write_bytes(note)
    for number in (1, 2):
        later = preheat(preheat={"round": number, "keep": 1})
        verified(later.run(), later, MODEL_FILES)
    assert first.ready
    assert first.files() == MODEL_FILES


def test_a_disk_that_fills_up_leaves_the_reader_of_a_round_its_note(preheat):
    first = preheat(name="reader")
    verified(first.run(), first, MODEL_FILES)
    outcome = arm(
        preheat(name="reader"),
        Fault("ENOSPC", "write", "users"),
        Fault("ENOSPC", "write", ".part", 1, 99),
    ).run()
    assert outcome.code in (0, 4), outcome.output
    for number in (1, 2):
        later = preheat(preheat={"round": number, "keep": 1})
        verified(later.run(), later, MODEL_FILES)
    assert first.ready


def test_what_an_earlier_holder_had_begun_goes_once_the_file_is_whole(preheat, source):
    """A second copy of a large file would stay on the share next to the READY one."""
    put(source, tiny_model())
    killed, failed, last = (preheat() for _ in range(3))
    assert arm(killed, Fault("KILL", "write", f"files/{SHARD}", first=3)).run().code == -9
    killed.expire()
    assert arm(failed, Fault("ESTALE", "unlink", "/stale/", last=EVERY)).run().code == 4
    failed.expire()
    verified(last.run(), last, tiny_model())
    assert not list((last.target / ".inferplan" / "staging").rglob("*"))


def test_weights_of_which_a_layer_lacks_its_mlp_are_never_ready(preheat, source):
    config = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2}
    tensors = [f"model.layers.{n}.self_attn.q_proj.weight" for n in (0, 1)]
    whole = [*tensors, *(f"model.layers.{n}.mlp.up_proj.weight" for n in (0, 1))]
    for names, complete in ((whole[:-1], False), (whole, True)):
        index = {"weight_map": dict.fromkeys(names, SHARD)}
        files = MODEL_FILES | {
            "config.json": json.dumps(config).encode(),
            "model.safetensors.index.json": json.dumps(index).encode(),
        }
        put(source, files)
        made = preheat()
        if complete:
            verified(made.run(), made, files)
        else:
            refused(made.run(), made, 3, "layer 1 has no mlp.up_proj", "upload the weights again")
