"""What a directory of a share can hold besides the model: files of an NFS client, lost lists,
pickles that another model allowed.
"""

from __future__ import annotations

import subprocess
import threading

import pytest

from inferplan.components.preheat.verify import ready_check
from tests.lanes import in_full

from .local import local_job, put, source_of
from .rig import safetensors, verified

MODEL_FILES = {
    "config.json": b"{}",
    "model.safetensors": safetensors(64 << 10, 1),
    "docs/with blanks.txt": b"text",
}
SILLY = ".nfs00000000005a4b3c00000001"


@pytest.fixture
def source(tmp_path):
    folder = source_of(tmp_path)
    put(folder, MODEL_FILES, sums=False)
    return folder


@pytest.fixture
def preheat(job, source):
    return lambda **changes: local_job(job, source, **changes)


def server_starts(made):
    """Whether the init container of a server lets it start."""
    done = subprocess.run(
        ready_check(str(made.directory)), capture_output=True, text=True, check=False
    )
    return done.returncode == 0, done.stdout


@pytest.mark.parametrize("folder", ["", *in_full("docs/")])
def test_a_file_that_an_nfs_client_keeps_at_the_source_is_no_file_of_the_model(
    preheat, source, folder
):
    (source / f"{folder}{SILLY}").write_bytes(b"removed and open")
    made = preheat()
    verified(made.run(), made, MODEL_FILES)
    again = made.run()
    assert ", 0 B moved" in again.output
    assert "damaged" not in again.output


def test_a_file_of_an_nfs_client_that_was_uploaded_is_no_file_of_the_model(job, put):
    put({**MODEL_FILES, SILLY: b"uploaded by a sync"})
    made = job()
    made.invariants = None
    made.run()
    assert made.files() == MODEL_FILES
    assert "damaged" not in made.run().output


@pytest.mark.parametrize("lost", ["gone", *in_full("empty", "other")])
def test_a_list_of_sizes_that_is_lost_is_written_again_and_servers_start(preheat, lost):
    made = preheat()
    verified(made.run(), made, MODEL_FILES)
    sizes = made.directory / "READY.sizes"
    sizes.unlink() if lost == "gone" else sizes.write_text(
        {"empty": "", "other": "1 config.json\n"}[lost]
    )
    assert not server_starts(made)[0]
    outcome = made.run()
    assert ", 0 B moved" in outcome.output
    assert server_starts(made) == (True, "")


@pytest.mark.parametrize("name", ["config.json ", *in_full(" config.json", "docs/a ")])
def test_a_name_with_a_blank_at_its_end_is_rejected_before_servers_wait_for_it(job, tmp_path, name):
    put(source_of(tmp_path), {**MODEL_FILES, name: b"{}"}, sums=False)
    made = local_job(job, source_of(tmp_path))
    outcome = made.run()
    assert outcome.code == 3, outcome.output
    assert repr(name) in outcome.output
    excluded = local_job(job, source_of(tmp_path), preheat={"exclude": [name]})
    assert excluded.run().code == 0
    assert server_starts(excluded) == (True, "")


PICKLES = {"by its name": "extra.pt", "by its bytes": "extra.dat"}


@pytest.mark.parametrize("how", ["by its name", "by its bytes"])
def test_a_directory_with_a_pickle_is_not_ready_for_a_model_that_does_not_allow_it(
    job, tmp_path, how
):
    put(source_of(tmp_path), {**MODEL_FILES, PICKLES[how]: b"\x80\x04N."}, sums=False)
    allowed = local_job(job, source_of(tmp_path), preheat={"allowPickle": [PICKLES[how]]})
    assert allowed.run().code == 0
    other = local_job(job, source_of(tmp_path), name="other")
    outcome = other.run()
    assert outcome.code == 3, outcome.output
    assert PICKLES[how] in outcome.output
    assert "allowPickle" in outcome.output
    assert allowed.ready, "the other model keeps its copy"
    assert allowed.run().code == 0


@pytest.mark.usefixtures("small")
def test_a_signal_during_a_slow_list_of_a_bucket_ends_the_run_within_its_grace(job, proxy):
    asked = threading.Event()

    def stall():
        asked.set()
        proxy.released.wait(60)

    proxy.faults.before_list = stall
    made = job(tuning={"retries": 1})
    process = made.underway(asked.is_set)
    process.terminate()
    process.communicate(timeout=25)
    assert process.returncode == 143
