"""The program of the Job on summaries as aiperf 0.13 writes them (taken from a run of it), and on a
tool of the test's own.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from inferplan.components.benchmark.payload import compare
from tests.dataplane.gateway.backend import Backend
from tests.patience import PATIENCE_SECONDS

PROGRAM = Path(compare.__file__)
SUMMARY = {
    "schema_version": "1.4",
    "request_count": {"unit": "requests", "avg": 6.0},
    "time_to_first_token": {
        "unit": "ms",
        "avg": 54.4,
        "p50": 46.2850575,
        "p95": 111.14,
        "p99": 123.08,
        "min": 14.9,
        "max": 126.0,
    },
    "inter_token_latency": {"unit": "ms", "avg": 3.0, "p50": 2.5, "p95": 4.0, "p99": 5.25},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 432.698550984183},
    "error_summary": [
        {
            "error_details": {"code": 429, "type": "Too Many Requests", "message": "slow down"},
            "count": 2,
        }
    ],
}
# Stands in for aiperf: keeps its arguments, and writes the summary unless the model is called
# broken.
TOOL = """#!{python}
import json, pathlib, sys
place = pathlib.Path(sys.argv[sys.argv.index("--artifact-dir") + 1])
place.mkdir(parents=True)
(place / "arguments.json").write_text(json.dumps(sys.argv[1:]))
if sys.argv[sys.argv.index("--model") + 1] == "broken":
    sys.exit("the key " + sys.argv[sys.argv.index("--api-key") + 1] + " did not help")
(place / "profile_export_aiperf.json").write_text({summary!r})
"""


def test_a_summary_becomes_a_line_with_every_figure():
    made = compare.row("llama", 128, 8, SUMMARY)
    assert made == [
        "llama",
        128,
        8,
        6,
        2,
        432.698550984183,
        46.2850575,
        111.14,
        123.08,
        2.5,
        4.0,
        5.25,
    ]
    head, rule, line, *_ = compare.table([made]).splitlines()
    assert head.split() == [
        "model",
        "prompt",
        "callers",
        "requests",
        "errors",
        "tokens/s",
        "TTFT",
        "p50",
        "TTFT",
        "p95",
        "TTFT",
        "p99",
        "ITL",
        "p50",
        "ITL",
        "p95",
        "ITL",
        "p99",
    ]
    assert set(rule) == {"-"}
    assert line.split() == [
        "llama",
        "128",
        "8",
        "6",
        "2",
        "432.7",
        "46.3",
        "111.1",
        "123.1",
        "2.5",
        "4.0",
        "5.2",
    ]


def test_what_was_not_measured_is_a_dash_and_a_summary_of_nothing_is_no_line():
    made = compare.row("llama", 128, 8, {"error_summary": [{"count": 5}]})
    assert made[3:6] == [0, 5, None]
    assert compare.table([made]).splitlines()[2].split()[-1] == "-"
    with pytest.raises(KeyError):
        compare.row("llama", 128, 8, {})


@pytest.fixture
def gateway():
    backend = Backend().start()
    yield backend
    backend.stop()


def run(
    tmp_path, gateway, *, served=("one", "two"), path="/v1/chat/completions", tool=True, **plan
):
    folder = tmp_path / "bin"
    folder.mkdir()
    if tool:
        program = folder / "aiperf"
        program.write_text(TOOL.format(python=sys.executable, summary=json.dumps(SUMMARY)))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    base = f"http://127.0.0.1:{gateway.port}"
    services = [
        {
            "model": each,
            "served": each,
            "protocol": "openai",
            "url": f"{base}/{each}",
            "probe": base + path,
        }
        for each in served
    ]
    whole = {
        "program": "aiperf", "services": services, "tokenizer": "/tokenizer", "promptTokens": [16, 64], "outputTokens": 8,
        "concurrency": [1, 4], "requests": 6, "waitSeconds": 0, **plan,
    }  # fmt: skip
    environment = {
        **os.environ,
        "PATH": str(folder),
        "BENCHMARK": json.dumps(whole),
        "API_KEY": "ipk_secret",
        "ARTIFACTS": str(tmp_path / "out"),
    }
    return subprocess.run(
        [sys.executable, str(PROGRAM)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_every_service_gets_the_same_load_and_one_table_is_printed(tmp_path, gateway):
    done = run(tmp_path, gateway)
    assert done.returncode == 0, done.stderr
    lines = [line.split()[:3] for line in done.stdout.splitlines()[2:10]]
    assert lines == [
        [model, prompt, callers]
        for model in ("one", "two")
        for prompt in ("16", "64")
        for callers in ("1", "4")
    ]
    asked = {
        model: [
            json.loads((tmp_path / "out" / f"{model}-{run}" / "arguments.json").read_text())
            for run in ("16-1", "16-4", "64-1", "64-4")
        ]
        for model in ("one", "two")
    }
    same = [
        [argument.replace("one", "M").replace("two", "M") for argument in each]
        for each in asked["one"]
    ]
    assert same == [
        [argument.replace("one", "M").replace("two", "M") for argument in each]
        for each in asked["two"]
    ]
    assert "ipk_secret" not in done.stdout + done.stderr


def test_a_measurement_that_fails_is_told_after_the_table_of_the_others_without_the_key(
    tmp_path, gateway
):
    done = run(tmp_path, gateway, served=("one", "broken"), promptTokens=[16], concurrency=[1])
    assert done.returncode == 1
    assert done.stdout.splitlines()[2].split()[0] == "one"
    assert "FAILED broken, 16 tokens, 1 at once" in done.stderr
    assert "the key <key> did not help" in done.stderr
    assert "ipk_secret" not in done.stdout + done.stderr


def test_an_image_without_the_tool_says_what_to_name(tmp_path, gateway):
    done = run(tmp_path, gateway, tool=False)
    assert done.returncode == 2
    assert "benchmark.image" in done.stderr


def test_a_service_that_never_gets_ready_is_given_up_and_the_others_are_measured(tmp_path, gateway):
    closed = {
        "model": "gone",
        "served": "gone",
        "protocol": "openai",
        "url": "http://127.0.0.1:1",
        "probe": "http://127.0.0.1:1/x",
    }
    base = f"http://127.0.0.1:{gateway.port}"
    there = {"model": "one", "served": "one", "protocol": "openai", "url": base, "probe": base}
    done = run(tmp_path, gateway, services=[closed, there], promptTokens=[16], concurrency=[1])
    assert done.returncode == 1
    assert "FAILED gone: http://127.0.0.1:1/x cannot be reached" in done.stderr
    assert done.stdout.splitlines()[2].split()[0] == "one"
