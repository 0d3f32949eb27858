"""A run that is killed before any one of its changes to the share: the next one ends whole, and
nothing wrong is READY meanwhile.
"""

from __future__ import annotations

import hashlib
import shutil

import pytest

from inferplan.components.sources import VolumeClaim

from .rig import MIB, MODEL, tiny_model, verified

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]

SHARD = "model-00001-of-00002.safetensors"
SLICES = 8
# Python tells of every file that is made, opened to write, renamed or removed; this counts those of
# the share and kills at one.
TRIPWIRE = """
import os, signal, sys

share, fatal, count = os.environ["TRIPWIRE_SHARE"], int(os.environ["TRIPWIRE_STEP"]), 0
changes = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.truncate"}

def hook(event, args):
    global count
    if event == "open":
        counted = isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and str(args[0]).startswith(share)
    else:
        # A tree is removed by names below a directory that is open already.
        counted = event in changes and (not str(args[0]).startswith("/") or str(args[0]).startswith(share))
    if counted:
        count += 1
        if count == fatal:
            os.killpg(0, signal.SIGKILL)

sys.addaudithook(hook)
if not fatal:
    import atexit
    atexit.register(lambda: print("steps:", count))
"""


@pytest.fixture
def step(job, tmp_path):
    """Makes the container of a Job that copies a model between directories, and is killed before
    its change number `step`.
    """
    source = tmp_path / "source" / MODEL
    source.mkdir(parents=True)
    (tmp_path / "sitecustomize.py").write_text(TRIPWIRE)

    def make(files, step, **changes):
        sums = "".join(
            f"{hashlib.sha256(data).hexdigest()}  {path}\n" for path, data in files.items()
        )
        for path, data in {**files, "SHA256SUMS": sums.encode()}.items():
            # A file that is not written anew keeps its time, which is how the source's version of
            # it is known.
            if not (source / path).is_file() or (source / path).read_bytes() != data:
                (source / path).write_bytes(data)
        made = job(
            source=VolumeClaim(name="origin"),
            mounts={"/source": source.parent},
            tuning={"lease_seconds": 600.0, "report_seconds": 60.0},
            **changes,
        )
        made.env |= {
            "PYTHONPATH": str(tmp_path),
            "TRIPWIRE_SHARE": str(made.target),
            "TRIPWIRE_STEP": str(step),
        }
        return made

    return make


def model():
    return tiny_model(9 * MIB, 9 * MIB)


def changed():
    return model() | {"config.json": b'{"model_type": "changed"}'}


def empty(_step):
    return model(), {}


def third_round(step):
    for number in range(2):
        assert step(model(), -1, preheat={"round": number}).run().code == 0
    return changed(), {"preheat": {"round": 2}}


def damaged(step):
    made = step(model(), -1)
    assert made.run().code == 0
    made.directory.joinpath(SHARD).unlink()
    return model(), {}


def restored(share, saved):
    shutil.rmtree(share)
    shutil.copytree(saved, share, copy_function=shutil.copy2)


@pytest.mark.parametrize("before", [empty, third_round, damaged])
@pytest.mark.parametrize("part", range(SLICES))
def test_a_run_killed_before_any_of_its_changes_is_made_good_by_the_next(
    step, tmp_path, before, part
):
    files, changes = before(step)
    share, saved = tmp_path / "share", tmp_path / "saved"
    shutil.copytree(share, saved)
    whole = step(files, 0, **changes).run()
    steps = int(whole.output.rpartition("steps: ")[2])
    assert steps > SLICES
    for number in range(part + 1, steps + 1, SLICES):
        restored(share, saved)
        made = step(files, number, **changes)
        assert made.run().code == -9, f"{steps} steps, and it was not killed at {number}"
        if made.ready and before is not damaged:
            assert made.files() == files
        # As if the dead holder's lock had expired, which other tests wait for.
        shutil.rmtree(made.target / ".inferplan" / "locks", ignore_errors=True)
        again = step(files, -1, **changes)
        verified(again.run(), again, files)
        assert not any((again.target / ".inferplan").glob("staging/*"))
        if before is third_round:
            rounds = sorted(path.name[-3:] for path in again.directory.parent.iterdir())
            assert rounds == ["-r1", "-r2"]
            kept = step(changed(), -1, preheat={"round": 1})
            assert kept.ready
            assert kept.files() == model()
