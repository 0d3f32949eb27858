"""A holder of the lock that is stopped between any two calls, and goes on after its successor has
ended, spoils nothing.
"""

from __future__ import annotations

import os

import pytest

from tests.lanes import in_full

from .disk_faults import Fault, arm, resume, stopped
from .local import local_job, put, source_of
from .rig import LOST_LOCK, MIB, safetensors, tiny_model, verified

pytestmark = pytest.mark.timeout(1800)

OLD = tiny_model()
# Of the same sizes, so that only bytes tell one version from the other.
SHARD, OTHER = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
NEW = OLD | {SHARD: safetensors(9 * MIB, 7), OTHER: safetensors(MIB, 8)}
SLICES = 8


@pytest.fixture
def preheat(job, tmp_path):
    def make(**changes):
        return local_job(
            job,
            source_of(tmp_path),
            **{
                **changes,
                "tuning": {"lease_seconds": 0.5, "streams": 1, **changes.get("tuning", {})},
            },
        )

    return make


def overtaken(preheat, tmp_path, fault):
    """Stop a Job at a call, let another one copy a newer version, and let the first go on: False
    where it never came to the call.
    """
    put(source_of(tmp_path), OLD)
    late = arm(preheat(), fault)
    process = late.start()
    if not stopped(process):
        output, _ = process.communicate()
        assert process.returncode in (0, LOST_LOCK), output
        return False
    put(source_of(tmp_path), NEW)
    other = preheat(name="other")
    outcome = other.retried()
    assert outcome.code == 0, outcome.output
    # Where the first had come so far that its copy was READY, nothing but a higher round reads the
    # source again.
    whole = other.files()
    assert whole in (OLD, NEW)
    code, output = resume(process)
    assert code in (0, LOST_LOCK), output
    assert "Traceback" not in output
    assert other.ready
    assert other.files() == whole, f"after {fault} and then: {output}"
    verified(preheat().retried(), other, whole)
    assert not any((other.target / ".inferplan").glob("staging/*"))
    return True


def steps(preheat, tmp_path):
    """How many calls of a whole run change the share; a beat of its lock may come between them."""
    log = tmp_path / "calls"
    put(source_of(tmp_path), OLD)
    whole = arm(preheat(tuning={"lease_seconds": 600.0}), log=log)
    verified(whole.run(), whole, OLD)
    return len(log.read_text().splitlines())


@pytest.mark.full
@pytest.mark.parametrize("part", range(SLICES))
def test_a_run_that_is_overtaken_before_any_of_its_calls_changes_nothing_afterwards(
    job, tmp_path, part
):
    def preheat(share, **changes):
        share.mkdir(exist_ok=True)
        return local_job(
            job,
            source_of(tmp_path),
            target=share,
            **{
                **changes,
                "tuning": {"lease_seconds": 0.5, "streams": 1, **changes.get("tuning", {})},
            },
        )

    count = steps(lambda **changes: preheat(tmp_path / "whole", **changes), tmp_path)
    assert count > SLICES
    for step in range(part + 1, count + 1, SLICES):
        share = tmp_path / f"share-{step}"
        overtaken(
            lambda share=share, **changes: preheat(share, **changes),
            tmp_path,
            Fault("STOP", first=step),
        )


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        ("rename", "files/READY"),
        *in_full(
            ("rename", "-r0"),
            ("fsync", f"files/{SHARD}"),
            ("write", f"files/{SHARD}"),
            ("mkdir", "staging/tiny-llm"),
        ),
    ],
)
def test_a_run_that_is_overtaken_just_before_it_publishes_stores_or_writes_changes_nothing_afterwards(
    preheat, tmp_path, operation, text
):
    assert overtaken(preheat, tmp_path, Fault("STOP", operation, text))


@pytest.mark.parametrize("call", ["READY.damaged", *in_full("removed-")])
def test_a_run_that_is_overtaken_just_before_it_withdraws_leaves_its_successors_copy(
    preheat, tmp_path, call
):
    put(source_of(tmp_path), OLD)
    first = preheat()
    verified(first.retried(), first, OLD)
    os.truncate(first.directory / SHARD, MIB)
    assert overtaken(preheat, tmp_path, Fault("STOP", "rename", call))


def test_what_a_killed_run_may_still_write_to_is_copied_and_never_written_to(preheat, tmp_path):
    put(source_of(tmp_path), OLD)
    killed = arm(
        preheat(tuning={"segment_bytes": 4 * MIB}), Fault("STOP", "write", f"files/{SHARD}", 6)
    )
    process = killed.start()
    assert stopped(process)
    # An open file stands for what a node that is cut off from the share may still have to write.
    (begun,) = killed.target.glob(f".inferplan/staging/*/*/files/{SHARD}")
    with begun.open("r+b") as late:
        other = preheat(name="other")
        verified(other.retried(), other, OLD)
        late.write(b"?" * MIB)
    assert other.files() == OLD
    code, output = resume(process)
    assert code == LOST_LOCK, output
    assert other.files() == OLD
