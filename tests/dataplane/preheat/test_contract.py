"""The contract of a preheat, kept by the real payload with a real S3 server and the real rclone."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import replace

import pytest
from boto3.s3.transfer import TransferConfig

from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

from .proxy import BUCKET
from .rig import MIB, MODEL, SECRET, small_model, tiny_model

SHARD = "model-00001-of-00002.safetensors"


def manifest(preheat):
    return json.loads((preheat.directory / "READY").read_text())


def test_a_model_arrives_whole_and_ready_names_every_file_with_size_sha256_and_evidence(job, model):
    preheat = job()
    outcome = preheat.run()
    assert outcome.code == 0, outcome.output
    assert preheat.files() == model
    ready = {each["path"]: (each["size"], each["sha256"]) for each in manifest(preheat)["files"]}
    assert ready == {
        path: (len(data), hashlib.sha256(data).hexdigest()) for path, data in model.items()
    }
    # The md5 of small objects, and the ETag of those that were uploaded in parts.
    evidence = {each["path"]: each["evidence"] for each in manifest(preheat)["files"]}
    assert evidence["config.json"] == "md5"
    assert evidence[SHARD] == "etag"


def test_an_object_that_no_checksum_covers_is_read_a_second_time(job, put, proxy):
    put({"config.json": b"{}"})
    data = tiny_model()[SHARD]
    odd = 13 * MIB // 2
    odd_parts = TransferConfig(multipart_threshold=odd, multipart_chunksize=odd, use_threads=False)
    put({SHARD: data}, config=odd_parts)
    preheat = job()
    outcome = preheat.run()
    assert outcome.code == 0, outcome.output
    assert {each["path"]: each["evidence"] for each in manifest(preheat)["files"]}[
        SHARD
    ] == "second reading"
    assert proxy.faults.body_bytes > 2 * len(data)


@pytest.mark.full
def test_published_checksums_are_believed_over_the_store(job, put):
    files = tiny_model()
    sums = "".join(
        f"{hashlib.sha256(data).hexdigest()}  ./{path}\n" for path, data in files.items()
    )
    put(files | {"SHA256SUMS": sums.encode()})
    preheat = job()
    outcome = preheat.run()
    assert outcome.code == 0, outcome.output
    assert {each["evidence"] for each in manifest(preheat)["files"]} == {"sha256"}
    assert preheat.files() == files


@pytest.mark.parametrize(
    ("sums", "words"),
    [
        (f"{'0' * 64}  {SHARD}\n", [SHARD, "differs from the source", "0" * 64]),
        pytest.param(
            f"{'0' * 64}  model-00009.safetensors\n",
            ["model-00009.safetensors", "names this file"],
            marks=pytest.mark.full,
        ),
        pytest.param(
            "hello\n", ["SHA256SUMS", "line 1", "hello", "sha256sum"], marks=pytest.mark.full
        ),
    ],
    ids=["a wrong sum", "a file that is not there", "no sums at all"],
)
def test_a_source_that_breaks_its_own_checksums_is_refused(job, put, sums, words):
    files = small_model()
    put(files | {"SHA256SUMS": sums.encode()})
    preheat = job()
    outcome = preheat.run()
    assert outcome.code == 3, outcome.output
    assert all(word in outcome.output for word in words), outcome.output
    assert not preheat.ready


@pytest.mark.full
@pytest.mark.usefixtures("model")
def test_only_the_files_asked_for_are_copied(job):
    preheat = job(preheat={"include": ["*.json", "*.txt"], "exclude": ["*.index.json"]})
    outcome = preheat.run()
    assert outcome.code == 0, outcome.output
    assert set(preheat.files()) == {"config.json", "empty.txt"}


def test_a_shard_that_the_index_names_but_the_source_lacks_is_refused_by_name(job, put):
    files = small_model()
    del files[SHARD]
    put(files)
    preheat = job()
    outcome = preheat.run()
    assert outcome.code == 3
    assert SHARD in outcome.output
    assert "missing" in outcome.output
    assert not preheat.ready


@pytest.mark.full
def test_a_shard_that_was_cut_off_at_the_source_is_refused_by_its_own_header(job, put):
    files = tiny_model()
    files[SHARD] = files[SHARD][: -4 * MIB]
    put(files)
    preheat = job()
    outcome = preheat.run()
    assert outcome.code == 3
    assert (
        f"{SHARD}: the file is cut off or damaged: expected {9 * MIB} bytes by its own header,"
        f" found {5 * MIB} bytes" in outcome.output
    )
    assert not preheat.ready


def test_a_pickle_is_refused_before_a_byte_moves_unless_it_is_allowed_by_name(job, put, proxy):
    put(small_model() | {"pytorch_model.bin": b"\x80\x04."})
    refused = job().run()
    assert refused.code == 3
    assert "pytorch_model.bin" in refused.output
    assert "preheat.allowPickle" in refused.output
    assert not proxy.faults.gets
    assert job(preheat={"allowPickle": ["pytorch_model.bin"]}).run().code == 0


@pytest.mark.usefixtures("bucket")
def test_an_empty_source_says_where_it_looked(job):
    outcome = job().run()
    assert outcome.code == 3
    assert f"{BUCKET}/llm/{MODEL}" in outcome.output
    assert "weights.path" in outcome.output


@pytest.mark.usefixtures("small")
def test_a_source_that_is_down_ends_with_a_remedy_and_no_traceback(job, store):
    down = replace(store, endpoint=f"http://127.0.0.1:{free_port()}")
    outcome = job(source=down, tuning={"retries": 1}, repair=lambda _job: job()).run()
    assert outcome.code == 5, outcome.output
    assert "check that it is up" in outcome.output
    assert "Traceback" not in outcome.output


@pytest.mark.usefixtures("bucket")
def test_a_request_that_cannot_be_understood_is_an_exit_code_of_its_own(job):
    preheat = job()
    for text in (
        "",
        "[]",
        "{",
        '{"kind": "ftp"}',
        json.dumps({**json.loads(preheat.env["PREHEAT_REQUEST"]), "directory": "../x-r0"}),
    ):
        preheat.env["PREHEAT_REQUEST"] = text
        outcome = preheat.run()
        assert outcome.code == 2, text
        assert "Traceback" not in outcome.output


@pytest.mark.usefixtures("small")
def test_no_credential_reaches_the_log_or_the_share(job, proxy):
    proxy.faults.plan = lambda _path, count: ("status", 403) if count == 1 else None
    preheat = job(tuning={"retries": 1})
    output = preheat.run().output
    on_share = b"".join(path.read_bytes() for path in preheat.target.rglob("*") if path.is_file())
    for secret in SECRET.values():
        assert secret not in output
        assert secret.encode() not in on_share


def test_progress_and_status_tell_bytes_rate_and_time_left(job, model, proxy):
    seen = threading.Event()
    # The other files come once everything has been looked at.
    proxy.faults.plan = lambda path, _count: (
        ("pace", 8 * MIB) if path.endswith(SHARD) else ("call", lambda: seen.wait(PATIENCE_SECONDS))
    )
    preheat = job(tuning={"report_seconds": 0.2})
    words = preheat.target.parent / "termination-log"
    words.touch()
    preheat.env["PREHEAT_TERMINATION_LOG"] = str(words)
    process = preheat.start()
    told = next(line for line in process.stdout if "/s, " in line)
    # The file is written after the line, and before the next one.
    next(process.stdout)
    status = json.loads((preheat.target / ".inferplan" / "status" / "tiny.json").read_text())
    seen.set()
    process.communicate(timeout=PATIENCE_SECONDS)
    assert "left" in told
    assert "of 10.0 MiB" in told
    assert status["state"] == "running"
    final = json.loads((preheat.target / ".inferplan" / "status" / "tiny.json").read_text())
    assert (final["state"], final["total"]) == ("ready", sum(map(len, model.values())))
    metrics = (preheat.target / ".inferplan" / "metrics" / "tiny.prom").read_text().splitlines()
    assert 'inferplan_preheat_state{model="tiny",state="ready"} 1' in metrics
    assert (
        f'inferplan_preheat_moved_bytes{{model="tiny"}} {sum(map(len, model.values()))}' in metrics
    )
    assert words.read_text().startswith(
        f"READY: {preheat.directory.parent.name}/{preheat.directory.name}, {len(model)} files, 10.0"
        " MiB verified"
    )


def test_a_raised_round_reads_the_source_again_and_moves_only_what_changed(job, small, put):
    job().run()
    put({"config.json": b'{"model_type": "changed"}'})
    again = job(preheat={"round": 1})
    outcome = again.run()
    assert outcome.code == 0, outcome.output
    assert ", 25 B moved" in outcome.output
    assert again.files() == small | {"config.json": b'{"model_type": "changed"}'}
    assert job().files() == small, "the earlier round stays as it was"


@pytest.mark.full
@pytest.mark.usefixtures("model")
def test_old_rounds_go_when_nobody_uses_them(job):
    first = job()
    first.run()
    other = job(name="other", preheat={"round": 1})
    other.run()
    for number in (2, 3):
        job(preheat={"round": number}).run()
    assert not first.directory.exists()
    assert other.ready, "another model still reads round 1"
    assert job(preheat={"round": 2}).ready, "keep: 2 leaves the round that a rollout replaces"
