"""`inferplan logs`, against a kubectl that answers as the API server does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inferplan.commands import main
from inferplan.workspace import kubectl

PROJECT = Path(__file__).parents[3]
PODS = {
    "items": [
        {"metadata": {"name": "qwen-b"}, "spec": {"containers": [{"name": "server"}]}},
        {
            "metadata": {"name": "qwen-a"},
            "spec": {"initContainers": [{"name": "weights"}], "containers": [{"name": "server"}]},
        },
    ]
}
KUBECTL = """#!/bin/sh
for last; do :; done
case "$last" in
*labelSelector=app.kubernetes.io%2Finstance%3Dllama-3-8b) cat "$ANSWERS/pods.json" ;;
*labelSelector=*) echo '{"items": []}' ;;
*qwen-b/log*) echo 'container "server" is waiting to start: ContainerCreating' >&2; exit 1 ;;
*container=weights\\&tailLines=7) echo "READY found" ;;
*container=server\\&tailLines=7) echo "Uvicorn running" ;;
esac
"""


@pytest.fixture
def logs(tmp_path, monkeypatch, capsys):
    (tmp_path / "kubectl").write_text(KUBECTL)
    (tmp_path / "kubectl").chmod(0o755)
    (tmp_path / "pods.json").write_text(json.dumps(PODS))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("ANSWERS", str(tmp_path))
    monkeypatch.chdir(PROJECT)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main.run(("logs", *arguments))
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def test_each_container_is_shown_under_its_pod_and_a_missing_log_says_why(logs):
    code, out, err = logs("llama-3-8b", "--stack", "local", "--context", "rack", "--tail", "7")
    assert code == 0
    assert out.splitlines() == ["READY found", "Uvicorn running"]
    assert [line for line in err.splitlines() if line.startswith("qwen")] == [
        "qwen-a weights",
        "qwen-a server",
        "qwen-b server",
    ]
    assert "ContainerCreating" in err


def test_json_has_one_entry_for_each_container(logs):
    code, out, _ = logs(
        "llama-3-8b", "--stack", "local", "--context", "rack", "--tail", "7", "--json"
    )
    assert code == 0
    assert [(each["pod"], each["container"], each["text"]) for each in json.loads(out)] == [
        ("qwen-a", "weights", "READY found"),
        ("qwen-a", "server", "Uvicorn running"),
        ("qwen-b", "server", ""),
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (
            ("llama-3-8b", "--stack", "local"),
            1,
            "The nodes of a simulated cluster run no containers",
        ),
        (
            ("llama-3-8b", "--stack", "prod"),
            2,
            (
                "Pulumi.prod.yaml names no context of a kubeconfig. Name one: inferplan logs"
                " llama-3-8b --stack prod"
            ),
        ),
        (("llama-3-80b", "--stack", "local"), 2, "Did you mean 'llama-3-8b'?"),
        (
            ("llama-3-70b", "--stack", "local", "--context", "rack"),
            1,
            "llama-3-70b has no pod in namespace inference",
        ),
        (("llama-3-8b",), 2, "missing option '--stack' / '-s'. Choose from: dev, local"),
    ],
)
def test_what_cannot_be_shown_is_an_error_with_a_remedy(logs, arguments, code, words):
    exit_code, out, err = logs(*arguments)
    assert (exit_code, out) == (code, "")
    assert words in " ".join(err.split())


@pytest.mark.parametrize(
    "command",
    [("logs", "qwen-3-8b", "--stack", "dev"), ("call", "qwen-3-8b", "Hello", "--stack", "dev")],
    ids=["logs", "call"],
)
def test_a_rehearsal_is_named_as_the_reason_why_nothing_answers(monkeypatch, capsys, command):
    monkeypatch.setattr(kubectl, "is_rehearsed", lambda _workspace: True)
    with pytest.raises(SystemExit) as ended:
        main.run(command)
    said = " ".join(capsys.readouterr().err.split())
    assert ended.value.code != 0
    assert "dev is rehearsed on this machine, and the pods of a rehearsal run no containers" in said
    assert "port-forward" not in said
