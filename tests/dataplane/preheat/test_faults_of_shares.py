"""Faults of a model that comes from a mounted directory, and of a share that refuses small files:
verified, or refused with the reason.

A directory has no server to misbehave, so a program in front of the real head, which reads large
files, does.
"""

from __future__ import annotations

import hashlib
import shutil

import pytest

from inferplan.components.sources import VolumeClaim

from .disk_faults import EVERY, Fault, arm
from .rig import MIB, MODEL, refused, tiny_model, verified

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]

SHARD, OTHER = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
MODEL_FILES = tiny_model(12 * MIB, 12 * MIB)
# The first reading of a large file goes wrong once, or every time where FAULTS is `always`.
SHIM = """#!/bin/sh
case "$(readlink /proc/self/fd/0)" in *SHARD) ;; *) exec HEAD "$@" ;; esac
[ "$FAULTS" = always ] || mkdir "$0.happened" 2>/dev/null || exec HEAD "$@"
case "$FAULT" in
  cut) HEAD "$@" | HEAD -c 1000000 ;;
  flip) HEAD "$@" | { HEAD -c 5000; HEAD -c 1 >/dev/null; printf X; cat; } ;;
  fail) echo "head: error reading 'standard input': Input/output error" >&2; exit 1 ;;
  stall) sleep 60 ;;
  replace) mv "$REPLACEMENT" "$REPLACED"; exec HEAD "$@" ;;
  *) exec HEAD "$@" ;;
esac
"""


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source" / MODEL
    folder.mkdir(parents=True)
    for path, data in MODEL_FILES.items():
        (folder / path).write_bytes(data)
    return folder


def without_fault(made):
    made.env["FAULT"] = ""


@pytest.fixture
def preheat(job, source, tmp_path):
    """Makes the container of a Job that reads the directory through a head that misbehaves."""
    tools = tmp_path / "tools"
    tools.mkdir()
    head = shutil.which("head")
    assert head is not None
    (tools / "head").write_text(SHIM.replace("HEAD", head).replace("SHARD", SHARD))
    (tools / "head").chmod(0o755)

    def make(fault="", faults="once", **tuning):
        tuning = {"segment_bytes": 4 * MIB, "streams": 1, **tuning}
        made = job(
            source=VolumeClaim(name="origin"),
            mounts={"/source": source.parent},
            tuning=tuning,
            repair=without_fault,
        )
        made.env |= {"PATH": f"{tools}:/usr/bin:/bin", "FAULT": fault, "FAULTS": faults}
        made.env |= {"REPLACEMENT": str(tmp_path / "new"), "REPLACED": str(source / SHARD)}
        return made

    return make


@pytest.mark.parametrize("fault", ["cut", "flip", "fail", "stall"])
def test_a_reading_that_goes_wrong_once_ends_verified(preheat, tmp_path, fault):
    made = preheat(fault, stall_seconds=2.0, retries=40)
    verified(made.run(), made, MODEL_FILES)
    assert (tmp_path / "tools" / "head.happened").exists()


def test_a_file_of_which_each_reading_brings_a_little_arrives_and_one_that_cannot_be_read_is_given_up(
    preheat,
):
    made = preheat("cut", "always", retries=1)
    verified(made.run(), made, MODEL_FILES)
    shutil.rmtree(made.directory)
    made = preheat("fail", "always", retries=1)
    refused(made.run(), made, 5, SHARD, "the source stopped sending", "Input/output error")


def test_a_file_replaced_while_it_is_read_arrives_as_one_version(preheat, tmp_path):
    changed = MODEL_FILES | {SHARD: MODEL_FILES[OTHER]}
    (tmp_path / "new").write_bytes(changed[SHARD])
    made = preheat("replace")
    verified(made.run(), made, changed)
    assert not (tmp_path / "new").exists()


def test_a_shard_that_is_missing_or_cut_off_is_refused_by_name(preheat, source):
    whole = (source / SHARD).read_bytes()
    (source / SHARD).write_bytes(whole[: -4 * MIB])
    made = preheat()
    refused(made.run(), made, 3, SHARD, "cut off or damaged", "by its own header")
    (source / SHARD).unlink()
    made = preheat()
    refused(made.run(), made, 3, SHARD, "missing")
    (source / SHARD).write_bytes(whole)
    made = preheat()
    verified(made.run(), made, MODEL_FILES)


def test_bytes_that_differ_from_the_published_sums_are_refused_with_both(preheat, source):
    sums = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {path}\n" for path, data in MODEL_FILES.items()
    )
    (source / "SHA256SUMS").write_text(sums)
    with (source / SHARD).open("r+b") as stream:
        stream.seek(5 * MIB)
        stream.write(b"?")
    made = preheat()
    refused(made.run(), made, 3, SHARD, "differs from the source", "expected sha256")


def test_a_second_run_reads_nothing(preheat, source):
    made = preheat()
    verified(made.run(), made, MODEL_FILES)
    source.rename(source.with_name("gone"))
    outcome = preheat().run()
    verified(outcome, made, MODEL_FILES)
    assert ", 0 B moved" in outcome.output


def test_a_quota_that_is_used_up_is_told_as_a_full_share(preheat):
    made = arm(preheat(), Fault("EDQUOT", "write", "config.json", last=EVERY))
    refused(made.run(), made, 4, "is full", "preheat.keep")
