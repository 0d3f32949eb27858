"""A shard that is still being appended to at its source while it is copied: never READY in part,
and "try again" until it is whole.
"""

from __future__ import annotations

import shutil
import threading

import pytest

from .invariants import publish
from .local import local_job, put, source_of
from .origins import bucket_origin, web_origin
from .rig import MIB, refused, tiny_model, verified

SHARD = "model-00001-of-00002.safetensors"
WHOLE = tiny_model(12 * MIB, MIB)
# Appends once, when the first bytes of the shard are read, and then is the real head.
SHIM = """#!/bin/sh
case "$(readlink /proc/self/fd/0)" in *SHARD) mkdir "$0.happened" 2>/dev/null && cat "$0.more" >> "SOURCE/SHARD" ;; esac
exec HEAD "$@"
"""


def begun(size):
    """The model with only so many bytes of the shard uploaded."""
    return WHOLE | {SHARD: WHOLE[SHARD][:size]}


@pytest.fixture(params=["web", pytest.param("bucket", marks=pytest.mark.full)])
def origin(request):
    give = request.getfixturevalue
    made = (
        web_origin(give("web"))
        if request.param == "web"
        else bucket_origin(give("store"), give("proxy"), give("put"))
    )
    made.put(begun(9 * MIB))
    return made


@pytest.fixture
def preheat(job, origin):
    tuning = {"segment_bytes": 4 * MIB, "streams": 1, "retries": 1, "report_seconds": 60.0}
    return lambda: job(source=origin.source, tuning=tuning, repair=lambda _job: origin.put(WHOLE))


def grow_once(origin, size):
    once = threading.Event()

    def append():
        if not once.is_set():
            once.set()
            origin.put({SHARD: WHOLE[SHARD][:size]})

    origin.fail(
        lambda _path, count: ("call", append) if count == origin.probes + 2 else None, SHARD
    )
    return once


@pytest.mark.full
def test_a_shard_that_is_whole_once_it_has_grown_is_copied_anew(preheat, origin):
    grown = grow_once(origin, 12 * MIB)
    made = preheat()
    verified(made.run(), made, WHOLE)
    assert grown.is_set()


def test_a_shard_that_has_grown_and_is_not_whole_yet_means_try_again(preheat, origin):
    grown = grow_once(origin, 10 * MIB)
    made = preheat()
    refused(made.run(), made, 5, SHARD, "upload")
    assert grown.is_set()
    origin.put(WHOLE)
    verified(made.run(), made, WHOLE)


@pytest.mark.full
def test_a_shard_that_grows_with_every_look_means_try_again(preheat, origin):
    sizes = iter(range(9 * MIB, 12 * MIB, 4096))
    origin.servers[0].faults.before_list = lambda: origin.put(begun(next(sizes)))
    made = preheat()
    refused(made.run(), made, 5, SHARD, "keeps changing")


@pytest.mark.parametrize("size", [pytest.param(10 * MIB, marks=pytest.mark.full), 12 * MIB])
def test_a_file_of_a_directory_that_is_appended_to_while_it_is_read(job, tmp_path, size):
    folder = source_of(tmp_path)
    put(folder, begun(9 * MIB), sums=False)
    shim = tmp_path / "tools" / "head"
    shim.parent.mkdir()
    shim.write_text(
        SHIM.replace("HEAD", str(shutil.which("head")))
        .replace("SHARD", SHARD)
        .replace("SOURCE", str(folder))
    )
    shim.chmod(0o755)
    shim.with_name("head.more").write_bytes(WHOLE[SHARD][9 * MIB : size])
    publish(str(folder), begun(size), whole=True)
    made = local_job(job, folder)
    made.env["PATH"] = f"{shim.parent}:/usr/bin:/bin"
    outcome = made.run()
    assert shim.with_name("head.happened").is_dir()
    if size == 12 * MIB:
        verified(outcome, made, WHOLE)
        return
    refused(outcome, made, 5, SHARD, "upload")
    put(folder, WHOLE, sums=False)
    verified(made.run(), made, WHOLE)
