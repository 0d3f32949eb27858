"""Faults of a bucket, a web server and a hub that hold a model: verified, or refused with the
reason.
"""

from __future__ import annotations

import random
import threading

import pytest

from tests.lanes import in_full
from tests.patience import PATIENCE_SECONDS

from .origins import bucket_origin, hub_origin, web_origin
from .rig import MIB, kill_group, refused, safetensors, small_model, tiny_model, verified

pytestmark = pytest.mark.timeout(1800)

SHARD, OTHER = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
KILLS = range(50)
# What test_faults.py shows of a bucket.
OF_OTHERS = pytest.mark.parametrize(
    "empty", [pytest.param(each, marks=pytest.mark.full) for each in ("web", "hub")], indirect=True
)


@pytest.fixture(
    params=[
        "bucket",
        pytest.param("web", marks=pytest.mark.full),
        pytest.param("hub", marks=pytest.mark.full),
    ]
)
def empty(request):
    """A source that holds nothing yet."""
    match request.param:
        case "bucket":
            made = bucket_origin(*map(request.getfixturevalue, ("store", "proxy", "put")))
        case "web":
            made = web_origin(request.getfixturevalue("web"))
        case _:
            made = hub_origin(request.getfixturevalue("hub"))
    return made


@pytest.fixture
def origin(empty):
    empty.put(tiny_model())
    return empty


@pytest.fixture
def preheat(job, empty):
    """Makes the container of a Job that reads the model from the origin."""
    return lambda **changes: job(**{"source": empty.source, "weights": empty.weights, **changes})


@pytest.mark.parametrize("path", [SHARD, pytest.param("config.json", marks=pytest.mark.full)])
def test_a_bit_that_flips_on_the_way_is_noticed_and_the_file_is_read_again(origin, preheat, path):
    first = origin.probes + 1 if path == SHARD else 1
    origin.fail(lambda _path, count: ("flip", 11) if count == first else None, path)
    made = preheat()
    outcome = made.run()
    verified(outcome, made, tiny_model())
    # In a small file newer rclones (1.71) notice it themselves, by S3's own checksums.
    assert (path, origin.probes, origin.weights) == (
        "config.json",
        0,
        {},
    ) or f"{path}: the copy differs from the source; reading it again" in outcome.output


def test_a_bit_that_flips_every_time_is_refused_with_both_checksums(origin, preheat):
    origin.fail(
        lambda _path, count: ("flip", 1000 + count) if count > origin.probes else None, SHARD
    )
    made = preheat()
    refused(made.run(), made, 3, SHARD, "differs from the source", "expected", "found")


def test_answers_that_break_off_are_continued_where_they_broke(origin, preheat):
    origin.fail(lambda _path, count: ("cut", 3 * MIB // 2) if count % 2 else None)
    made = preheat()
    verified(made.run(), made, tiny_model())
    if not (origin.probes or origin.weights):
        # Bytes that arrived before a break are not sent again.
        assert origin.sent < len(tiny_model()[SHARD])


@OF_OTHERS
def test_a_server_that_breaks_off_after_a_few_bytes_each_time_is_given_up(origin, preheat):
    origin.fail(lambda _path, _count: ("cut", 8), SHARD)
    made = preheat(tuning={"retries": 3})
    refused(made.run(), made, 5, SHARD)
    assert origin.requests < 40


@pytest.mark.parametrize("code", in_full(500, 503))
def test_a_burst_of_server_errors_is_waited_out(origin, preheat, code):
    origin.fail(lambda _path, count: ("status", code) if count <= 3 else None)
    made = preheat()
    verified(made.run(), made, tiny_model())


def test_a_server_that_only_gives_errors_is_given_up_with_the_file_named(origin, preheat):
    origin.fail(lambda _path, count: ("status", 503) if count > origin.probes else None, SHARD)
    made = preheat(tuning={"retries": 2})
    refused(made.run(), made, 5, SHARD, "the source stopped sending", "the next run continues")


def test_a_connection_that_falls_silent_is_dropped_and_continued(origin, preheat):
    origin.fail(lambda _path, count: ("stall",) if count == origin.probes + 1 else None, SHARD)
    made = preheat(tuning={"stall_seconds": 2.0, "segment_bytes": 4 * MIB, "retries": 40})
    verified(made.run(), made, tiny_model())


@pytest.mark.full
def test_a_missing_shard_is_refused_by_name(job, web):
    origin = web_origin(web)
    origin.put({path: data for path, data in tiny_model().items() if path != OTHER})
    made = job(source=origin.source)
    refused(made.run(), made, 3, OTHER, "missing")


@pytest.mark.full
def test_a_file_replaced_on_the_server_while_it_is_read_arrives_as_one_version(job, web):
    origin = web_origin(web)
    model = tiny_model()
    origin.put(model)
    changed = model | {SHARD: safetensors(9 * MIB, 7)}
    once = threading.Event()

    def swap():
        if not once.is_set():
            once.set()
            origin.put({SHARD: changed[SHARD]})

    origin.fail(lambda _path, count: ("call", swap) if count == origin.probes + 2 else None, SHARD)
    made = job(source=origin.source, tuning={"segment_bytes": 4 * MIB, "streams": 1})
    verified(made.run(), made, changed)
    assert once.is_set()


@pytest.mark.full
def test_other_bytes_under_a_pinned_commit_are_refused(job, hub):
    origin = hub_origin(hub)
    origin.put(tiny_model())
    hub.blobs.files[origin.address(SHARD)] = (safetensors(9 * MIB, 7), 1_700_000_000)
    made = job(source=origin.source, weights=origin.weights)
    refused(made.run(), made, 3, SHARD, "differs from the source", "expected sha256")


@OF_OTHERS
@pytest.mark.parametrize("seed", KILLS)
def test_a_run_killed_at_any_offset_is_resumed_and_ends_whole(origin, preheat, seed):
    model = tiny_model()
    fatal = random.Random(seed).randrange(sum(map(len, model.values())))  # noqa: S311 - a place to kill at, nothing secret
    origin.fail(lambda _path, _count: ("pace", 64 * MIB))
    made = preheat(tuning={"segment_bytes": 2 * MIB, "streams": 2})
    kill_group(made.underway(lambda: origin.sent >= fatal))
    if made.ready:
        assert made.files() == model
    origin.fail(lambda _path, _count: None)
    before = origin.sent
    made.expire()
    verified(made.run(), made, model)
    # A web server's files are read once more as the proof; the hub's are not.
    readings = 2 if origin.weights == {} else 1
    assert origin.sent - before <= readings * sum(map(len, model.values())) + 8 * MIB


def test_a_second_run_asks_the_source_for_no_file(empty, preheat):
    empty.put(small_model())
    verified(preheat().run(), preheat(), small_model())
    before = empty.sent, empty.requests
    assert ", 0 B moved" in preheat().run().output
    assert (empty.sent, empty.requests) == before


def test_lists_that_fail_for_a_while_are_waited_out(empty, preheat):
    empty.put(small_model())
    empty.servers[0].faults.failing_lists = 3
    made = preheat()
    verified(made.run(), made, small_model())
    assert empty.servers[0].faults.failing_lists == 0


@OF_OTHERS
def test_two_runs_at_once_make_one_copy(origin, preheat):
    origin.fail(lambda _path, _count: ("pace", 16 * MIB))
    first, second = preheat(), preheat(name="other")
    processes = [first.start(), second.start()]
    outputs = [process.communicate(timeout=PATIENCE_SECONDS)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert sum(", 0 B moved" in output for output in outputs) == 1
    assert first.files() == tiny_model()
