"""A share that is too small, fills up, or cannot be written: told with what to do, and never READY."""

from __future__ import annotations

import subprocess

import pytest

from .rig import MIB, refused, verified

SHARD = "model-00001-of-00002.safetensors"


@pytest.fixture
def small_share(tmp_path):
    share = tmp_path / "small"
    share.mkdir()
    done = subprocess.run(
        ["/bin/mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(share)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"no file system of a fixed size can be mounted here: {done.stderr.strip()}")
    yield share
    subprocess.run(["/bin/umount", "--lazy", str(share)], check=True)


@pytest.mark.usefixtures("model")
def test_a_share_too_small_is_refused_before_a_byte_moves(job, proxy, small_share):
    (small_share / "filler").write_bytes(bytes(8 * MIB))
    preheat = job(target=small_share, repair=lambda _job: (small_share / "filler").unlink())
    facts = ("expected 11.0 MiB free", "found 8.0 MiB free", "preheat.keep", "a larger share")
    place = f"the share ({small_share}: tmpfs tmpfs) is full"
    refused(preheat.run(), preheat, 4, place, *facts)
    assert not proxy.faults.gets


def test_a_share_that_fills_up_on_the_way_is_told_and_the_next_run_goes_on(
    job, model, proxy, small_share
):
    filler = small_share / "filler"
    proxy.faults.plan = lambda path, count: (
        ("call", lambda: filler.write_bytes(bytes(12 * MIB)))
        if path.endswith(SHARD) and count == 1
        else None
    )
    preheat = job(target=small_share)
    place = f"the share ({small_share}: tmpfs tmpfs) is full"
    refused(preheat.run(), preheat, 4, place, "found 0 B free", "the next run continues")
    filler.unlink()
    verified(preheat.run(), preheat, model)


@pytest.mark.usefixtures("small")
def test_a_read_only_share_is_told_with_the_user_that_needs_to_write(job, small_share):
    def remount(mode):
        subprocess.run(["/bin/mount", "-o", f"remount,{mode}", str(small_share)], check=True)

    remount("ro")
    preheat = job(target=small_share, repair=lambda _job: remount("rw"))
    refused(
        preheat.run(),
        preheat,
        4,
        "does not let this user write",
        "preheat.runAsUser",
        "Read-only file system",
    )
