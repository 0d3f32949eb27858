"""`inferplan usage`, from lines as nginx and the model servers print them."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from inferplan.commands import main

PROJECT = Path(__file__).parents[3]
POD = "c58c7a34149caa91"
FIELDS = ("requests", "rejected", "tokensIn", "tokensOut", "acceleratorSeconds")


def access(number: int, consumer: str = "chat", model: str = "llama-3-8b", **changed: Any) -> str:
    """A line of the gateway's access log, as nginx writes it."""
    line = {
        "time": "2026-11-28T23:51:17+00:00",
        "requestId": f"{POD}-{number}-1",
        "consumer": consumer,
        "keyVersion": "1",
        "deniedKey": "",
        "model": model,
        "protocol": "openai",
        "path": "/chat/completions",
        "method": "POST",
        "status": 200,
        "upstream": "10.0.0.7:8000",
        "upstreamStatus": "200",
    }
    return json.dumps({**line, **changed}, separators=(",", ":"))


def record(number: int, tokens: tuple[int, int], **changed: Any) -> str:
    """A line of a model server, as usage_log.py writes it."""
    line = {
        "usage": 1,
        "requestId": f"chatcmpl-{POD}-{number}-1",
        "server": "llama-3-8b-5d9f",
        "adapter": "",
        "tokensIn": tokens[0],
        "tokensCached": 0,
        "tokensOut": tokens[1],
        "start": 1795909870.0,
        "end": 1795909877.2,
    }
    return json.dumps({**line, **changed}, separators=(",", ":"))


@pytest.fixture
def usage(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(PROJECT)

    def run(
        *lines: str, options: tuple[str, ...] = (), stack: str = "prod"
    ) -> tuple[int, str, str]:
        file = tmp_path / "lines.log"
        file.write_text("".join(f"{line}\n" for line in lines))
        with pytest.raises(SystemExit) as ended:
            main.run(("usage", "--stack", stack, "--logs", str(file), *options))
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, " ".join(captured.err.split())

    return run


def rows(out: str) -> dict[tuple[str, str, str], tuple[float, ...]]:
    return {
        (row["consumer"], row["model"], row["adapter"]): tuple(
            round(row[name], 6) for name in FIELDS
        )
        for row in json.loads(out)["rows"]
    }


def test_tokens_are_summed_by_consumer_model_and_adapter(usage):
    code, out, _ = usage(
        access(1),
        access(2),
        access(3, "batch"),
        access(4, status=429, upstreamStatus="-"),
        access(5, "", "", status=401, upstreamStatus="-"),
        "INFO 11-28 23:48:48 [api_server.py:286] Starting vLLM",
        record(1, (10, 7)),
        record(2, (20, 5), adapter="support"),
        record(3, (30, 1)),
        options=("--json",),
    )
    assert code == 0
    # Three requests ran at once for 7.2 s, on a replica of one accelerator: 2.4 s each.
    assert rows(out) == {
        ("", "", ""): (1, 1, 0, 0, 0),
        ("batch", "llama-3-8b", ""): (1, 0, 30, 1, 2.4),
        ("chat", "llama-3-8b", ""): (2, 1, 10, 7, 2.4),
        ("chat", "llama-3-8b", "support"): (1, 0, 20, 5, 2.4),
    }


def test_a_request_of_several_prompts_and_answers_counts_each_prompt_once(usage):
    prompts = [f"cmpl-{POD}-1-1-{prompt}" for prompt in (0, 0, 1, 1)]
    records = [
        record(0, (4, 6), requestId=each, end=1795909877.0 + n) for n, each in enumerate(prompts)
    ]
    _, out, err = usage(access(1), *records, options=("--json",))
    [figures] = rows(out).values()
    assert figures[:4] == (1, 0, 8, 24)
    assert "no line" not in err


@pytest.mark.parametrize(
    ("spans", "seconds"),
    [
        ([(0, 4), (4, 8)], (4, 4)),
        ([(0, 4), (0, 4)], (2, 2)),
        ([(0, 4), (2, 6)], (3, 3)),
        ([(0, 8), (2, 4)], (7, 1)),
        ([(0, 1), (5, 6)], (1, 1)),
        ([(0, 4), (3, 3)], (4, 0)),
    ],
)
def test_time_of_a_replica_is_divided_among_the_requests_that_it_runs_at_once(
    usage, spans, seconds
):
    records = [
        record(n, (1, 1), start=1795909870.0 + start, end=1795909870.0 + end)
        for n, (start, end) in enumerate(spans)
    ]
    _, out, _ = usage(access(0, "chat"), access(1, "batch"), *records, options=("--json",))
    found = {consumer: figures[-1] for (consumer, *_), figures in rows(out).items()}
    assert (found["chat"], found["batch"]) == seconds


def test_replicas_of_several_accelerators_cost_the_share_of_their_node(usage):
    _, out, _ = usage(access(1, model="llama-3-70b"), record(1, (1, 1)), options=("--json",))
    [row] = json.loads(out)["rows"]
    assert row["acceleratorSeconds"] == pytest.approx(4 * 7.2)
    # Four of the eight H100 of a p5.48xlarge at 55.04 USD per hour.
    assert row["usd"] == pytest.approx(7.2 * 55.04 / 2 / 3600)


def test_a_gateway_that_restarts_and_gives_ids_again_loses_no_request(usage):
    _, out, err = usage(
        access(1, "chat", time="2026-11-28T23:51:17+00:00"),
        access(1, "batch", time="2026-11-28T20:00:00+00:00"),
        record(1, (10, 7), end=1795909877.2),
        record(1, (20, 5), start=1795896000.0, end=1795896000.4),
        options=("--json",),
    )
    assert {consumer: figures[:4] for (consumer, *_), figures in rows(out).items()} == {
        "batch": (1, 0, 20, 5),
        "chat": (1, 0, 10, 7),
    }
    assert "read twice" not in err


def test_two_replicas_do_not_divide_their_time(usage):
    both = [record(1, (1, 1)), record(2, (1, 1), server="llama-3-8b-7777")]
    _, out, _ = usage(access(1), access(2), *both, options=("--json",))
    assert [figures[-1] for figures in rows(out).values()] == [pytest.approx(14.4)]


def test_every_line_that_cannot_be_joined_is_counted_and_named(usage):
    code, out, err = usage(
        access(1),
        access(2, model="qwen-3-8b"),
        access(3, status=499, upstreamStatus="-"),
        record(4, (3, 4), requestId="cmpl-ipk_chat_1_secret"),
        access(5, status=400, upstreamStatus="400"),
        access(6, method="GET", path="/models"),
        access(9, model="gone"),
        record(7, (5, 6))[:90],
        access(8),
        access(8),
        record(8, (1, 1)),
        options=("--json",),
    )
    assert code == 0
    unjoined = json.loads(out)["unjoined"]
    assert unjoined["answeredWithoutRecord"] == {
        "llama-3-8b": [f"{POD}-1-1"],
        "qwen-3-8b": [f"{POD}-2-1"],
        "gone": [f"{POD}-9-1"],
    }
    assert unjoined["leftBeforeAnAnswer"] == [f"{POD}-3-1"]
    assert [each.rpartition(":")[2] for each in unjoined["recordsWithoutRequest"]] == ["4"]
    assert [each.rpartition(":")[2] for each in unjoined["unreadable"]] == ["8"]
    assert (unjoined["tokensWithoutRequest"], unjoined["repeated"]) == (7, 1)
    for words in (
        f"1 answered requests of qwen-3-8b ({POD}-2-1) have no log line of a server.",
        "Its tokens are not counted: set models.qwen-3-8b.usageLog: true",
        "The stack has no such model.",
        "lines of servers",
        "1 requests",
        "cannot be read",
        "read twice",
    ):
        assert words in err
    # An id that is not of the gateway can be anything, a key for example.
    assert "secret" not in out + err


def test_an_engine_without_a_usage_log_is_named(usage):
    _, _, err = usage(access(1, model="writer"), stack="docs/engines/Pulumi.triton.yaml")
    assert "engine triton has no usage log" in err


def test_a_month_is_counted_by_utc_and_the_rest_is_said(usage):
    code, out, err = usage(
        access(1, time="2026-12-01T00:30:00+01:00"),
        access(2, time="2026-12-01T00:30:00+00:00"),
        record(1, (1, 2)),
        record(2, (30, 40)),
        options=("--json", "--month", "2026-11"),
    )
    assert code == 0
    assert [figures[:4] for figures in rows(out).values()] == [(1, 0, 1, 2)]
    assert "1 requests ended in other months" in err
    assert "no line" not in err


@pytest.mark.parametrize(
    "prefix", ["2026-11-28T23:51:17.1Z stdout F ", "[pod/llama-3-8b-5d9f/server] "]
)
def test_lines_may_have_the_prefix_of_a_container_runtime_or_of_kubectl(usage, prefix):
    _, out, err = usage(prefix + access(1), prefix + record(1, (1, 2)), options=("--json",))
    assert [figures[2:4] for figures in rows(out).values()] == [(1, 2)]
    assert "cannot be read" not in err


def test_the_table_has_a_sum_and_the_hours_of_its_lines(usage):
    code, out, _ = usage(access(1), access(2, "batch"), record(1, (1000, 7)), record(2, (30, 1)))
    assert code == 0
    assert "usage from 2026-11-28 23:51 to 2026-11-28 23:51" in out
    [total] = [line.split() for line in out.splitlines() if line.split()[:1] == ["all"]]
    assert total == ["all", "2", "0", "1,030", "0", "8", "7.2", "0.0060"]


def test_csv_and_prometheus_have_the_same_figures(usage):
    lines = (access(1), record(1, (10, 7), adapter='odd"name'))
    _, as_csv, _ = usage(*lines, options=("--csv",))
    [row] = csv.DictReader(io.StringIO(as_csv))
    assert (row["consumer"], row["adapter"], row["tokens_out"]) == ("chat", 'odd"name', "7")
    _, text, _ = usage(*lines, options=("--prometheus",))
    assert "# TYPE inferplan_usage_tokens_out gauge" in text.splitlines()
    labels = 'consumer="chat",model="llama-3-8b",adapter="odd\\"name"'
    assert f"inferplan_usage_tokens_out{{{labels}}} 7" in text.splitlines()


def test_compressed_files_and_several_files_are_joined(usage, tmp_path):
    with gzip.open(tmp_path / "server.log.gz", "wt") as stream:
        stream.write(record(1, (10, 7)) + "\n")
    options = ("--logs", str(tmp_path / "server.log.gz"), "--json")
    _, out, _ = usage(access(1), options=options)
    assert [figures[2:4] for figures in rows(out).values()] == [(10, 7)]


@pytest.mark.parametrize(
    ("lines", "options", "words"),
    [
        ((), (), "No file has a line of the gateway's access log"),
        (
            (access(1),),
            ("--month", "2026-13"),
            "--month: '2026-13' is not a month. Expected YYYY-MM",
        ),
        ((access(1),), ("--logs", "/none.log"), "'/none.log' cannot be read: No such file"),
        ((access(1),), ("--json", "--csv"), "--json, --csv and --prometheus exclude each other"),
    ],
)
def test_what_cannot_be_shown_is_an_error_with_a_remedy(usage, lines, options, words):
    code, out, err = usage(*lines, options=options)
    assert code in (1, 2)
    assert out == ""
    assert words in err


KUBECTL = """#!/bin/sh
for last; do :; done
case "$last" in
*/pods) cat "$ANSWERS/pods.json" ;;
*gateway-1/log?container=nginx) cat "$ANSWERS/gateway.log" ;;
*llama-1/log?container=server) cat "$ANSWERS/llama.log" ;;
*llama-2/log?container=server) echo "container is waiting to start" >&2; exit 1 ;;
*) echo "unexpected $last" >&2; exit 1 ;;
esac
"""


def test_a_cluster_is_read_by_the_labels_of_its_pods(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(PROJECT)

    def pod(name: str, component: str, instance: str) -> dict[str, Any]:
        prefix = "app.kubernetes.io"
        labels = {f"{prefix}/component": component, f"{prefix}/instance": instance}
        return {"metadata": {"name": name, "labels": labels}}

    pods = [
        pod("gateway-1", "gateway", "gateway"),
        pod("llama-1", "model", "llama-3-8b"),
        pod("llama-2", "model", "llama-3-8b"),
        pod("qwen-1", "model", "qwen-3-8b"),
        pod("preheat-1", "preheat", "llama-3-8b"),
    ]
    (tmp_path / "kubectl").write_text(KUBECTL)
    (tmp_path / "kubectl").chmod(0o755)
    (tmp_path / "pods.json").write_text(json.dumps({"items": pods}))
    (tmp_path / "gateway.log").write_text(access(1))
    (tmp_path / "llama.log").write_text(record(1, (10, 7)))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("ANSWERS", str(tmp_path))
    monkeypatch.setattr(
        "inferplan.commands.usage.command.counted_models", lambda _settings: {"llama-3-8b"}
    )
    with pytest.raises(SystemExit) as ended:
        main.run(("usage", "--stack", "prod", "--context", "rack", "--json"))
    captured = capsys.readouterr()
    assert not ended.value.code
    assert [figures[2:4] for figures in rows(captured.out).values()] == [(10, 7)]
    for words in ("For a whole month read the files of your log store", "waiting to start"):
        assert words in " ".join(captured.err.split())
    assert "unexpected" not in captured.err
