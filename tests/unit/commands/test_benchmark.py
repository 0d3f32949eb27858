"""`inferplan benchmark`, against a kubectl that answers as the API server does and the log of the
real program.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from inferplan.commands import main
from inferplan.components.benchmark.payload import compare
from inferplan.predict.profiles import load, measured

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
    stack.write_text(
        STACK
        + "  inferplan:benchmark: {models: [llama-3-8b, llama-3-70b], consumer: chat, tokenizer:"
        " llama-3-8b}\n"
    )

    def run(
        *arguments: str,
        condition: str = "Complete",
        log: str = TABLE,
        jobs: bool = True,
        pods: bool = True,
    ):
        both = [
            job("new", "2026-11-02T10:00:00Z", *([condition] if condition else [])),
            job("old", "2026-11-01T10:00:00Z", "Failed"),
        ]
        (tmp_path / "jobs.json").write_text(json.dumps({"items": both if jobs else []}))
        owned = [
            {"metadata": {"name": f"{each}-x", "ownerReferences": [{"name": each}]}}
            for each in ("new", "old")
        ]
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
    rows = [
        line.split()
        for line in out.splitlines()
        if line.split()[:1] in (["llm/ensemble"], ["llm/python"])
    ]
    assert rows[1] == [
        "llm/python",
        "128",
        "1",
        "63",
        "1",
        "100.0",
        "92.5",
        "222.2",
        "246.0",
        "-",
        "-",
        "-",
    ]
    first = out[out.index("tokens/s, more") : out.index("128 prompt tokens, 8")]
    bars = {line.split()[0]: line.count("█") for line in first.splitlines() if "█" in line}
    assert bars == {"llm/ensemble": 20, "llm/python": 5}
    assert "time to first token p50 in ms, less is better" in out


def test_json_has_every_figure(benchmark, tmp_path):
    code, out, _ = benchmark(str(tmp_path / "Pulumi.bench.yaml"), "--context", "rack", "--json")
    document = json.loads(out)
    assert (code, document["job"], document["state"], document["failures"]) == (
        0,
        "new",
        "complete",
        [],
    )
    assert document["measurements"][1] == {
        "model": "llm/python", "promptTokens": 128, "concurrency": 1, "requests": 63, "errors": 1, "tokensPerSecond": 100.0,
        "ttftMs": {"p50": 92.5, "p95": 222.2, "p99": 246.0}, "itlMs": {"p50": None, "p95": None, "p99": None},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("cluster", "code", "words"),
    [
        (
            {"condition": "", "log": "measuring llm: prompts of 128 tokens, 1 at once"},
            3,
            "new is still running: measuring llm",
        ),
        (
            {
                "condition": "Failed",
                "log": f"{TABLE}\nFAILED llm/python, 128 tokens, 8 at once: no summary",
            },
            1,
            "1 measurements failed",
        ),
        (
            {"condition": "Failed", "log": "The image has no aiperf."},
            1,
            "new failed: The image has no aiperf.",
        ),
        (
            {"jobs": False},
            1,
            "There is no benchmark Job in namespace inference. Run it with: inferplan up",
        ),
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
    assert (
        "run no containers, so a benchmark measures nothing there. Deploy the stack to a real"
        " cluster" in " ".join(err.split())
    )
    code, _, err = benchmark("local", "--context", "rack")
    assert code == 2
    assert (
        "local has no benchmark. Add inferplan:benchmark to stacks/Pulumi.local.yaml"
        in " ".join(err.split())
    )


def test_a_kept_result_is_a_profile_that_forecasts_prefer(benchmark, tmp_path, monkeypatch):
    """The log is what the program of the Job prints for two summaries of aiperf; one measurement
    had errors, and is left out.
    """
    summary = {
        "request_count": {"avg": 64.0},
        "time_to_first_token": {"p50": 46.2, "p95": 111.1, "p99": 123.0},
        "inter_token_latency": {"p50": 2.5, "p95": 4.0, "p99": 5.2},
        "output_token_throughput": {"avg": 12_800.0},
    }
    failed = {**summary, "error_summary": [{"error_details": {"message": "slow down"}, "count": 2}]}
    loads = [
        (1, {**summary, "output_token_throughput": {"avg": 1280.0}}),
        (8, summary),
        (32, failed),
    ]
    log = compare.table(
        [
            compare.row(model, 1000, callers, report)
            for model in ("llama-3-8b", "llama-3-70b")
            for callers, report in loads
        ]
    )
    shutil.copy(PROJECT / "Pulumi.yaml", tmp_path)
    (tmp_path / "inferplan").symlink_to(PROJECT / "inferplan")
    monkeypatch.chdir(tmp_path)
    code, _, err = benchmark(
        str(tmp_path / "Pulumi.bench.yaml"), "--context", "rack", "--keep", log=f"{log}\n"
    )
    assert code == 0, err
    assert "wrote profiles/bench/llama-3-8b.json; commit it" in " ".join(err.split())
    profile = load(
        tmp_path / "profiles" / "bench" / "llama-3-8b.json", "profiles/bench/llama-3-8b.json"
    )
    assert (profile.job, [row.concurrency for row in profile.measurements]) == ("new", [1, 8])
    found = measured(profile, 1000, profile.output_tokens, 95)
    assert found.capacity == pytest.approx(12_800 / profile.output_tokens / profile.replicas)
    speed = found.at(found.capacity / 2)
    assert speed is not None
    assert (speed.ttft, speed.itl) == (pytest.approx(0.1111), pytest.approx(0.004))
    code, _, err = benchmark(
        str(tmp_path / "Pulumi.bench.yaml"),
        "--context",
        "rack",
        "--keep",
        log=compare.table([compare.row("llama-3-8b", 1000, 1, failed)]),
    )
    assert code == 1
    assert "Every measurement of llama-3-8b had errors" in err
