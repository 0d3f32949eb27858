"""Every fault ends in verified or refused, and wrong bytes are never READY."""

from __future__ import annotations

import os
import random
import threading
from itertools import count

import pytest

from tests.dataplane.gateway.stand import wait_for
from tests.patience import PATIENCE_SECONDS

from .rig import MIB, Listener, kill_group, refused, safetensors, tiny_model, verified

SHARD = "model-00001-of-00002.safetensors"
# One of a kind in every run, all of them in the whole suite.
KILLS = [pytest.param(seed, marks=() if seed < 1 else pytest.mark.full) for seed in range(100)]


def only(path, count, action):
    return lambda asked, number: action if asked.endswith(path) and number <= count else None


@pytest.mark.usefixtures("model")
def test_an_object_replaced_while_it_is_read_arrives_as_one_version(job, put, proxy):
    changed = tiny_model() | {SHARD: safetensors(9 * MIB, 7)}
    proxy.faults.plan = only(SHARD, 99, None)
    swapped = threading.Event()

    def swap():
        if not swapped.is_set():
            swapped.set()
            put({SHARD: changed[SHARD]})

    proxy.faults.plan = lambda path, count: (
        ("call", swap) if path.endswith(SHARD) and count == 2 else None
    )
    preheat = job(tuning={"segment_bytes": 4 * MIB, "streams": 1})
    verified(preheat.run(), preheat, changed)


@pytest.mark.usefixtures("model")
@pytest.mark.full
def test_a_source_that_keeps_changing_is_refused(job, put, proxy):
    sizes = count(1)
    # Each list names another version of the file than the one before it.
    proxy.faults.before_list = lambda: put({"config.json": b"{}" + b" " * next(sizes)})
    preheat = job()
    refused(preheat.run(), preheat, 5, "config.json", "keeps changing")


@pytest.mark.parametrize("seed", KILLS)
def test_a_run_killed_at_any_offset_is_resumed_without_reading_twice(job, put, proxy, seed):
    model = tiny_model(9 * MIB, 9 * MIB)
    put(model)
    total = sum(map(len, model.values()))
    fatal = random.Random(seed).randrange(total)  # noqa: S311 - a place to kill at, nothing secret
    proxy.faults.plan = lambda _path, _count: ("pace", 64 * MIB)
    preheat = job(tuning={"segment_bytes": 4 * MIB, "streams": 2})
    kill_group(preheat.underway(lambda: proxy.faults.body_bytes >= fatal))
    if preheat.ready:
        assert preheat.files() == model
    staged = preheat.staged()
    before = proxy.faults.body_bytes
    proxy.faults.plan = lambda _path, _count: None
    preheat.expire()
    verified(preheat.run(), preheat, model)
    assert proxy.faults.body_bytes - before <= max(0, total - staged) + 2 * MIB


def test_a_run_that_is_asked_to_stop_gives_the_lock_back_and_keeps_what_came(job, model, proxy):
    proxy.faults.plan = lambda _path, _count: ("pace", 4 * MIB)
    preheat = job()
    # What is sent may still lie in buffers; what is on the share stays there.
    process = preheat.underway(lambda: preheat.staged() > 2 * MIB)
    process.terminate()
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 143, output
    assert "stopped as asked" in output
    assert not preheat.ready
    staged = preheat.staged()
    assert staged > 2 * MIB
    proxy.faults.plan = lambda _path, _count: None
    before = proxy.faults.body_bytes
    verified(preheat.run(), preheat, model)
    assert proxy.faults.body_bytes - before < sum(map(len, model.values())) - staged + MIB


def test_two_runs_at_once_make_one_copy(job, model, proxy):
    met = threading.Event()
    proxy.faults.plan = lambda _path, _count: ("call", lambda: met.wait(PATIENCE_SECONDS))
    first, second = job(), job(name="other")
    assert first.directory == second.directory
    runs = [Listener(each.start()) for each in (first, second)]
    # No byte comes before one of them has found the other at work.
    wait_for(lambda: any(each.said("waiting: ") for each in runs), "one waits for the other")
    met.set()
    outcomes = [each.end() for each in runs]
    assert [each.code for each in outcomes] == [0, 0], outcomes
    assert sum(", 0 B moved" in each.output for each in outcomes) == 1
    assert first.files() == model


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param("missing", marks=pytest.mark.full),
        pytest.param("extra", marks=pytest.mark.full),
        pytest.param("resized", marks=pytest.mark.full),
        "flipped",
    ],
)
def test_a_damaged_cache_is_taken_back_and_made_whole_by_moving_only_what_is_wrong(
    job, model, proxy, damage
):
    preheat = job()
    preheat.run()
    path = preheat.directory / SHARD
    match damage:
        case "missing":
            path.unlink()
        case "extra":
            preheat.directory.joinpath("stray.safetensors").write_bytes(b"?")
        case "resized":
            os.truncate(path, 5 * MIB)
        case "flipped":
            data = bytearray(path.read_bytes())
            data[MIB] ^= 1
            path.write_bytes(data)
    before = proxy.faults.body_bytes
    outcome = preheat.run()
    verified(outcome, preheat, model)
    assert "damaged" in outcome.output
    moved = proxy.faults.body_bytes - before
    # A file whose ETag does not fit is read once to tell damage from unknown part sizes, and once
    # to mend it.
    readings = {"extra": 0, "flipped": 2}.get(damage, 1)
    assert moved < readings * len(model[SHARD]) + MIB


@pytest.mark.full
def test_a_directory_that_something_else_put_there_is_replaced(job, model):
    preheat = job()
    preheat.directory.mkdir(parents=True)
    (preheat.directory / SHARD).write_bytes(b"not a model")
    verified(preheat.run(), preheat, model)
