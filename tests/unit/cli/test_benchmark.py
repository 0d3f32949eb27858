"""`inferplan benchmark`, against a kubectl that answers as the API server does and the log of the real program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inferplan.cli import main
from inferplan.components.benchmark.payload import compare

PROJECT = Path(__file__).parents[3]
STACK = (PROJECT / "stacks" / "Pulumi.local.yaml").read_text()
TABLE = compare.table(
    [
        ["llm/ensemble", 128, 1, 64, 0, 400.0, 46.25, 111.1, 123.0, 2.5, 4.0, 5.25],
        ["llm/python", 128, 1, 63, 1, 100.0, 92.5, 222.2, 246.0, None, None, None],
        ["llm/ensemble", 128, 8, 64, 0, 800.0, 50.0, 111.1, 123.0, 2.5, 4.0, 5.25],
    ]
)
KUBECTL = """#!/bin/sh
for last; do :; done
case "$last" in
*/jobs?labelSelector=app.kubernetes.io%2Fcomponent%3Dbenchmark) cat "$ANSWERS/jobs.json" ;;
*/pods?labelSelector=app.kubernetes.io%2Fcomponent%3Dbenchmark) cat "$ANSWERS/pods.json" ;;
*/pods/new-x/log?container=compare*) cat "$ANSWERS/log" ;;
*) echo "unexpected $last" >&2; exit 1 ;;
esac
"""


def job(name: str, created: str, *conditions: str) -> dict[str, object]:
    status = {"conditions": [{"type": each, "status": "True"} for each in conditions]}
    return {"metadata": {"name": name, "creationTimestamp": created}, "status": status}


@pytest.fixture
def benchmark(tmp_path, monkeypatch, capsys):
    (tmp_path / "kubectl").write_text(KUBECTL)
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("ANSWERS", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(PROJECT)
    stack = tmp_path / "Pulumi.bench.yaml"
    stack.write_text(STACK + "  inferplan:benchmark: {models: [llama-3-8b, llama-3-70b], consumer: chat, tokenizer: llama-3-8b}\n")

    def run(*arguments: str, condition: str = "Complete", log: str = TABLE, jobs: bool = True, pods: bool = True):
        both = [job("new", "2026-11-02T10:00:00Z", *([condition] if condition else [])), job("old", "2026-11-01T10:00:00Z", "Failed")]
        (tmp_path / "jobs.json").write_text(json.dumps({"items": both if jobs else []}))
        owned = [{"metadata": {"name": f"{each}-x", "ownerReferences": [{"name": each}]}} for each in ("new", "old")]
        (tmp_path / "pods.json").write_text(json.dumps({"items": owned if pods else []}))
        (tmp_path / "log").write_text(log)
        with pytest.raises(SystemExit) as ended:
            main.run(("benchmark", *(arguments or (str(stack), "--context", "rack"))))
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def test_the_newest_job_is_shown_as_a_table_and_bars(benchmark):
    code, out, err = benchmark()
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines() if line.split()[:1] in (["llm/ensemble"], ["llm/python"])]
    assert rows[1] == ["llm/python", "128", "1", "63", "1", "100.0", "92.5", "222.2", "246.0", "-", "-", "-"]
    first = out[out.index("tokens/s, more") : out.index("128 prompt tokens, 8")]
    bars = {line.split()[0]: line.count("█") for line in first.splitlines() if "█" in line}
    assert bars == {"llm/ensemble": 20, "llm/python": 5}
    assert "time to first token p50 in ms, less is better" in out


def test_json_has_every_figure(benchmark, tmp_path):
    code, out, _ = benchmark(str(tmp_path / "Pulumi.bench.yaml"), "--context", "rack", "--json")
    document = json.loads(out)
    assert (code, document["job"], document["state"], document["failures"]) == (0, "new", "complete", [])
    assert document["measurements"][1] == {
        "model": "llm/python", "promptTokens": 128, "concurrency": 1, "requests": 63, "errors": 1, "tokensPerSecond": 100.0,
        "ttftMs": {"p50": 92.5, "p95": 222.2, "p99": 246.0}, "itlMs": {"p50": None, "p95": None, "p99": None},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("cluster", "code", "words"),
    [
        ({"condition": "", "log": "measuring llm: prompts of 128 tokens, 1 at once"}, 3, "new is still running: measuring llm"),
        ({"condition": "Failed", "log": f"{TABLE}\nFAILED llm/python, 128 tokens, 8 at once: no summary"}, 1, "1 measurements failed"),
        ({"condition": "Failed", "log": "The image has no aiperf."}, 1, "new failed: The image has no aiperf."),
        ({"jobs": False}, 1, "There is no benchmark Job in namespace inference. Run it with: inferplan up"),
        ({"condition": "", "pods": False}, 1, "new has no pod yet"),
        ({"pods": False}, 1, "its result with it. Delete the Job and run: inferplan up"),
    ],
)
def test_a_benchmark_without_a_result_says_why(benchmark, cluster, code, words):
    exit_code, _, err = benchmark(**cluster)
    assert exit_code == code
    assert words in " ".join(err.split())


def test_a_simulated_cluster_and_a_stack_without_benchmark_have_no_result(benchmark, tmp_path):
    code, out, err = benchmark(str(tmp_path / "Pulumi.bench.yaml"))
    assert (code, out) == (1, "")
    assert "run no containers, so a benchmark measures nothing there. Deploy the stack to a real cluster" in " ".join(err.split())
    code, _, err = benchmark("local", "--context", "rack")
    assert code == 2
    assert "local has no benchmark. Add inferplan:benchmark to stacks/Pulumi.local.yaml" in " ".join(err.split())
