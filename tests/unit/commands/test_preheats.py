"""Where a model's files stand, told from the Job and its pods in their own words."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from inferplan.commands.main import run
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from inferplan.status.jobs import preheats

PROJECT = Path(__file__).parents[3]
MODEL = "llama-3-8b"
READY = "llama-3-8b: READY: llama-3-8b/0123456789-r2, 9 files, 15.0 GiB verified, 15.0 GiB moved"
REFUSED = (
    "llama-3-8b: not READY: x.bin: loading this kind of file runs code that it contains; add"
    " 'x.bin' to preheat.exclude"
)


@pytest.fixture(scope="module")
def settings():
    return validate(read_stack(PROJECT / "stacks" / "Pulumi.local.yaml", shown_path="local"))


def job(*conditions, number=2, made="2026-11-20T10:00:00Z", name="llama-3-8b-preheat-0", **status):
    labels = {"app.kubernetes.io/component": "preheat", "app.kubernetes.io/instance": MODEL}
    request = json.dumps({"directory": f"llama-3-8b/0123456789-r{number}", "job": MODEL})
    container = {
        "name": "preheat",
        "env": [
            {"name": "POD_NAME", "valueFrom": {}},
            {"name": "PREHEAT_REQUEST", "value": request},
        ],
    }
    return {
        "metadata": {"name": name, "labels": labels, "creationTimestamp": made},
        "spec": {"template": {"spec": {"containers": [container]}}},
        "status": {"conditions": [{"status": "True", **each} for each in conditions], **status},
    }


def pod(
    phase,
    *,
    name="p1",
    made="2026-11-20T10:00:01Z",
    message=None,
    waiting=None,
    owner="llama-3-8b-preheat-0",
):
    state = (
        {"terminated": {"message": message}} if message else {"waiting": waiting} if waiting else {}
    )
    return {
        "metadata": {"name": name, "ownerReferences": [{"name": owner}], "creationTimestamp": made},
        "status": {"phase": phase, "containerStatuses": [{"name": "preheat", "state": state}]},
    }


@pytest.fixture
def row(settings):
    def look(jobs=(), pods=(), *, served=(), logs=None):
        found = preheats(
            settings, jobs, pods, served=served, last_line=lambda pod: (logs or {}).get(pod, "")
        )
        return next(each for each in found if each.name == MODEL)

    return look


def test_a_complete_job_is_ready_and_says_what_it_moved(row):
    found = row([job({"type": "Complete"})], [pod("Succeeded", message=READY)])
    assert (found.state, found.round, found.share, found.detail) == ("ready", 2, "shared", READY)


def test_a_simulated_cluster_tells_when_the_job_completed_since_its_pods_say_nothing(row):
    found = row(
        [job({"type": "Complete"}, completionTime="2026-11-20T10:05:00Z")], [pod("Succeeded")]
    )
    assert (found.state, found.detail) == ("ready", "completed 2026-11-20T10:05:00Z")


def test_a_failed_job_says_which_file_and_what_to_do_in_the_last_words_of_its_newest_pod(row):
    pods = [
        pod("Failed", message="older"),
        pod("Failed", name="p2", made="2026-11-20T11:00:00Z", message=f"noise\n{REFUSED}"),
    ]
    found = row([job({"type": "Failed", "reason": "PodFailurePolicy", "message": "exit 3"})], pods)
    assert (found.state, found.detail) == ("failed", REFUSED)


def test_a_failed_job_without_pods_says_why_kubernetes_gave_up(row):
    assert (
        row([job({"type": "Failed", "reason": "DeadlineExceeded", "message": "too long"})]).detail
        == "DeadlineExceeded: too long"
    )


def test_a_running_job_shows_the_newest_line_of_its_log(row):
    line = "llama-3-8b: copying: 3.0 GiB of 15.0 GiB (20%), 410.0 MiB/s, 30 s left"
    found = row([job(active=1)], [pod("Running")], logs={"p1": line})
    assert (found.state, found.detail) == ("copying", line)


@pytest.mark.parametrize("counted", [0, 1])
def test_a_second_try_says_what_the_first_one_said(row, counted):
    pods = [
        pod("Failed", message="the source did not answer"),
        pod("Pending", name="p2", made="2026-11-20T11:00:00Z"),
    ]
    found = row([job(active=1, failed=counted)], pods)
    assert (found.state, found.detail) == (
        "waiting",
        "try 2; message of the last one: the source did not answer",
    )


def test_a_pod_that_cannot_start_says_why(row):
    found = row(
        [job(active=1)],
        [pod("Pending", waiting={"reason": "ImagePullBackOff", "message": "no such image"})],
    )
    assert (found.state, found.detail) == ("waiting", "ImagePullBackOff no such image")


def test_of_two_jobs_the_newer_one_counts(row):
    older = job({"type": "Complete"}, number=1, name="old", made="2026-11-19T10:00:00Z")
    for jobs in ([older, job(active=1)], [job(active=1), older]):
        assert (row(jobs).round, row(jobs).state) == (2, "waiting")


def test_without_a_job_a_served_model_was_collected_and_another_one_is_not_applied(row):
    assert row(served=[MODEL]).state == "collected"
    assert row().state == "not applied yet"


KUBECTL = """#!{python}
import json, pathlib, sys
path = sys.argv[-1]
assert sys.argv[1:3] == ["--context", "onprem"], sys.argv
answers = json.loads(pathlib.Path(__file__).with_name("answers.json").read_text())
if "/log?" in path:
    print("llama-3-8b: copying: 1.0 GiB of 15.0 GiB"); sys.exit()
if answers is None:
    print("Unable to connect to the server", file=sys.stderr); sys.exit(1)
print(json.dumps({{"items": answers.get(path.rpartition("/")[2], [])}}))
"""


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    def answer(answers):
        (tmp_path / "kubectl").write_text(KUBECTL.format(python=sys.executable))
        (tmp_path / "kubectl").chmod(0o755)
        (tmp_path / "answers.json").write_text(json.dumps(answers))
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.setenv("INFERPLAN_STATE_DIR", str(tmp_path / "state"))
        monkeypatch.chdir(PROJECT)
        monkeypatch.setenv("COLUMNS", "250")

    return answer


def status(capsys):
    with pytest.raises(SystemExit) as ended:
        run(["status", "local", "--context", "onprem"])
    captured = capsys.readouterr()
    return ended.value.code, captured.out + captured.err


def test_a_real_cluster_is_asked_through_kubectl_and_shows_the_newest_line_of_the_copy(
    kubectl, capsys
):
    kubectl({"jobs": [job(active=1)], "pods": [{**pod("Running"), "spec": {"containers": []}}]})
    code, words = status(capsys)
    assert code == 3
    assert "copying: 1.0 GiB of 15.0 GiB" in words


def test_a_cluster_that_does_not_answer_is_reported_with_the_message_of_kubectl(
    kubectl, capsys, monkeypatch, tmp_path
):
    (tmp_path / "kubeconfig").write_text("apiVersion: v1")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    kubectl(None)
    code, words = status(capsys)
    assert code == 1
    assert "Unable to connect to the server" in words
    assert "kubectl config view --minify --context onprem" in words


@pytest.mark.skipif(
    shutil.which("rclone") is None, reason="no rclone on PATH, which lists the source"
)
def test_the_mount_point_of_a_source_leads_to_the_files_of_the_model_alone(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(PROJECT)
    share = tmp_path / "share"
    for file in (
        "llama-3-8b/config.json",
        "llama-3-8b/model.safetensors",
        "other/pytorch_model.bin",
    ):
        (share / file).parent.mkdir(parents=True, exist_ok=True)
        (share / file).write_text("{}")
    tree = yaml.safe_load((PROJECT / "stacks" / "Pulumi.local.yaml").read_text())
    tree["config"]["inferplan:storage"]["origin"] = {
        "kind": "nfs",
        "server": "nas.acme.example",
        "path": "/export",
        "capacity": "4Ti",
    }
    tree["config"]["inferplan:models"][MODEL]["weights"]["store"] = "origin"
    stack = tmp_path / "Pulumi.share.yaml"
    stack.write_text(yaml.safe_dump(tree, sort_keys=False))
    with pytest.raises(SystemExit):
        run(["preheat", MODEL, "--stack", str(stack), "--source", str(share)])
    printed = capsys.readouterr().out
    assert "source     2 files" in printed
    assert "other" not in printed
