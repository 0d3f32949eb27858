"""What a run reports beside its log: status, metrics and last words."""

from __future__ import annotations

import json
import re
import threading

import pytest

from inferplan.components.preheat.payload import progress as module
from inferplan.components.preheat.payload.progress import Progress, exposition

SAMPLE = re.compile(
    r'^inferplan_preheat_[a-z_]+\{model="((?:[^"\\\n]|\\["\\n])*)"(?:,state="[a-z]+")?\} -?[0-9.]+$'
)
STATUS = {
    "job": "llama",
    "state": "running",
    "bytes": 5,
    "total": 10,
    "moved": 4,
    "bytesPerSecond": 3,
    "updatedSeconds": 7,
    "startedSeconds": 2,
}


def samples(text):
    return [line for line in text.splitlines() if not line.startswith("#")]


@pytest.fixture
def progress(tmp_path, monkeypatch):
    words = tmp_path / "termination-log"
    words.touch()
    monkeypatch.setenv("PREHEAT_TERMINATION_LOG", str(words))
    return Progress("llama", tmp_path / "private", 60)


def test_every_sample_has_help_and_type_before_it_and_no_time_stamp_behind_it():
    text = exposition(STATUS)
    assert text.endswith("\n")
    for line in samples(text):
        assert SAMPLE.match(line), line
        name = line.partition("{")[0]
        before = text.partition(line)[0]
        assert before.count(f"# TYPE {name} gauge\n") == before.count(f"# HELP {name} ") == 1


def test_one_state_holds_at_a_time_and_what_is_not_known_is_left_out():
    lines = samples(exposition(STATUS))
    assert [line for line in lines if "_state{" in line and line.endswith(" 1")] == [
        'inferplan_preheat_state{model="llama",state="running"} 1'
    ]
    assert "inferplan_preheat_moved_bytes" in exposition(STATUS)
    assert "exit_code" not in exposition(STATUS)


def test_a_name_cannot_break_out_of_its_label():
    text = exposition({**STATUS, "job": 'a"} 1\n\\'})
    assert all(SAMPLE.match(line) for line in samples(text))


def test_what_is_verified_while_other_bytes_are_copied_counts_once_everything_is_there(progress):
    progress.begin("copying", 10 << 20)
    progress.expect(10 << 20)
    progress.verified(4 << 20)
    progress.add(10 << 20, moved=True)
    assert progress.line().startswith("copying: 10.0 MiB of 10.0 MiB (100%)")
    progress.verify()
    assert progress.line().startswith("verifying: 4.0 MiB of 10.0 MiB (40%)")
    progress.expect(10 << 20)
    progress.verified(6 << 20)
    progress.verified(2 << 20, moved=True)
    assert progress.line().startswith("verifying: 12.0 MiB of 20.0 MiB (60%)")
    assert progress.moved == 12 << 20


def test_a_phase_without_bytes_is_told_by_its_name(progress):
    progress.begin("listing the source", 0)
    assert progress.line() == "listing the source"


def test_the_end_of_a_run_is_in_the_log_the_status_the_metrics_and_the_last_words(
    progress, tmp_path, capsys
):
    progress.begin("copying", 10, 10)
    progress.end("failed", "not READY: x.bin: no", code=3)
    assert capsys.readouterr().out == "llama: not READY: x.bin: no\n"
    status = json.loads((tmp_path / "private" / "status" / "llama.json").read_text())
    assert (status["state"], status["exitCode"]) == ("failed", 3)
    metrics = (tmp_path / "private" / "metrics" / "llama.prom").read_text()
    assert 'inferplan_preheat_exit_code{model="llama"} 3' in metrics
    assert (tmp_path / "termination-log").read_text() == "not READY: x.bin: no"


def test_figures_are_replaced_in_one_step_and_nothing_that_a_collector_would_read_lies_beside_them(
    progress, tmp_path
):
    for _ in range(3):
        progress.save("running")
    assert [path.name for path in (tmp_path / "private" / "metrics").iterdir()] == ["llama.prom"]


def test_a_share_that_takes_no_figures_does_not_end_a_run(progress, tmp_path):
    (tmp_path / "private").write_text("in the way")
    progress.end("ready", "READY", code=0)
    assert (tmp_path / "termination-log").read_text() == "READY"


def test_last_words_hold_no_credential(progress, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-canary")
    progress.end("failed", "canary-canary", code=5)
    assert "canary" not in (tmp_path / "termination-log").read_text()
    assert "canary" not in json.dumps(
        [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    )


def test_a_report_that_is_being_written_does_not_take_the_place_of_the_end(tmp_path, monkeypatch):
    writing, let_go = threading.Event(), threading.Event()
    replace = module.replace

    def held(path, text):
        if '"state": "running"' in text:
            writing.set()
            let_go.wait(60)
        replace(path, text)

    monkeypatch.setattr(module, "replace", held)
    with Progress("llama", tmp_path, 0.001) as progress:
        assert writing.wait(60)
        ending = threading.Thread(target=progress.end, args=("ready", "READY"), kwargs={"code": 0})
        ending.start()
        # Long enough for an end that waits for nobody; one that waits takes as long as it takes.
        ending.join(0.2)
        let_go.set()
        ending.join()
    assert json.loads((tmp_path / "status" / "llama.json").read_text())["state"] == "ready"
