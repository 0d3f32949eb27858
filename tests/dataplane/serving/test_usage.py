"""`inferplan usage` after a mixed load through the real gateway: each client knows what it used, and
the table says the same. The full lane runs vLLM itself, whose own counters must agree.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import subprocess
import sys
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from inferplan.commands import main
from inferplan.components.gateway import keys
from inferplan.components.serving.vllm.service import endpoint
from tests.dataplane.gateway.stand import SEED, Proxy, consumer, spec
from tests.dataplane.serving.mixed_load import Gateway, Sent, run
from tests.dataplane.serving.vllm_stand import (
    START_SECONDS,
    USAGE_LOG,
    prepared,
    serve,
    weights,
)
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port
from tests.unit.serving.models import KEY, container_of, vllm

PROJECT = Path(__file__).parents[3]
NAME, ADAPTER = "chat", "polite"
CONSUMERS = ("team", "batch", "hasty", "other")
MODEL = vllm(
    dtype="float32", maxModelLen=256, maxNumSeqs=16, extraArgs=["--enforce-eager"],
    consumers=["team", "batch", "hasty"], loraAdapters={ADAPTER: "adapters/polite"}, maxLoraRank=8,
    usageLog=True,
)  # fmt: skip
_COUNTER = re.compile(r"^vllm:(prompt|generation)_tokens_total\{[^}]*\} (\S+)", re.MULTILINE)


def load(port: int, directory: Path, count: int) -> tuple[list[Sent], Path]:
    """Send `count` requests through a gateway to the server at `port`; its access log."""
    made = endpoint(NAME, MODEL, KEY)
    protocols = tuple(replace(each, port=port) for each in made.protocols)
    directory.mkdir()
    proxy = Proxy(directory)
    proxy.run(
        spec(),
        [replace(made, host="127.0.0.1", protocols=protocols)],
        {name: consumer(keys=[1]) for name in CONSUMERS},
    )
    try:
        gateway = Gateway(proxy.port, {name: proxy.key(name) for name in CONSUMERS}, NAME, ADAPTER)
        sent = asyncio.run(run(gateway, count, at_once=16))
    finally:
        # An nginx that ends writes the rest of its log.
        proxy.stop()
    return sent, directory / "access.log"


@pytest.fixture
def report(monkeypatch, capsys):
    monkeypatch.chdir(PROJECT)

    def read(*logs: Path) -> tuple[dict, str]:
        options = [word for each in logs for word in ("--logs", str(each))]
        with pytest.raises(SystemExit) as ended:
            main.run(("usage", "--stack", "prod", "--json", *options))
        captured = capsys.readouterr()
        assert not ended.value.code, captured.err
        return json.loads(captured.out), captured.out + captured.err

    return read


def check(sent: list[Sent], access: Path, server_log: Path, report) -> None:
    """Compare the report of two logs with what the clients know."""
    document, output = report(access, server_log)
    rows: dict[tuple[str, str], Counter[str]] = {}
    for row in document["rows"]:
        # At /v1 a request without a right has no model.
        rows.setdefault((row["consumer"], row["adapter"]), Counter()).update(
            {name: row[name] for name in ("requests", "rejected", "tokensIn", "tokensOut")}
        )
    assert sum(row["requests"] for row in rows.values()) == len(sent)
    failed = Counter(
        "" if each.kind == "wrong key" else each.consumer
        for each in sent
        if each.kind in ("invalid", "unknown name", "no right", "wrong key")
    )
    rejected: Counter[str] = Counter()
    for (owner, _), row in rows.items():
        rejected[owner] += row["rejected"]
    assert +rejected == failed
    unjoined = document["unjoined"]
    assert unjoined["answeredWithoutRecord"] == {}
    assert (unjoined["recordsWithoutRequest"], unjoined["unreadable"]) == ([], [])
    early = {each.kind for each in sent if not each.request_id}
    assert early <= {"leaves before the answer"}
    used: dict[tuple[str, str], list[int]] = {}
    for each in sent:
        if each.kind == "wrong key" or each.consumer == "hasty":
            continue
        figures = used.setdefault((each.consumer, each.adapter), [0, 0, 0])
        for place, more in enumerate((1, each.tokens_in or 0, each.tokens_out or 0)):
            figures[place] += more
    assert used == {
        key: [row[name] for name in ("requests", "tokensIn", "tokensOut")]
        for key, row in rows.items()
        if key[0] not in ("", "hasty")
    }
    hasty = [each for each in sent if each.consumer == "hasty"]
    made = sum(row["tokensOut"] for (owner, _), row in rows.items() if owner == "hasty")
    assert sum(max(0, each.events - 1) for each in hasty) <= made <= 150 * len(hasty)
    told = [each for each in sent if each.usage]
    assert len(told) > len(sent) // 4
    assert [
        each
        for each in told
        if (each.usage["prompt_tokens"], each.usage["completion_tokens"])
        != (each.tokens_in, each.tokens_out)
    ] == []
    assert [word for word in ("ipk_", "xxxx", "assistant") if word in output] == []


def lines_of(log: Path) -> dict[str, list[dict]]:
    """The lines of the server by the gateway's id."""
    lines: dict[str, list[dict]] = {}
    for text in log.read_text(errors="replace").splitlines():
        if text.startswith('{"usage"'):
            line = json.loads(text)
            request = re.search(r"[0-9a-f]{16}-\d+-\d+", line["requestId"])
            assert request is not None, text
            lines.setdefault(request[0], []).append(line)
    return lines


def assert_exact(sent: list[Sent], log: Path) -> None:
    """Each request that ended by itself has exactly its tokens, and each that left has a line."""
    lines = lines_of(log)
    wrong = []
    for each in sent:
        own = lines.get(each.request_id, [])
        prompts = {line["requestId"]: line["tokensIn"] for line in own}
        found = (sum(prompts.values()), sum(line["tokensOut"] for line in own))
        if each.tokens_in is not None and found != (each.tokens_in, each.tokens_out):
            wrong.append((each, found))
        if each.kind == "leaves a stream" and not max(0, each.events - 1) <= found[1] <= 150:
            wrong.append((each, found))
    assert wrong == []


def test_a_mixed_load_is_counted_exactly(tmp_path, report):
    port, log = free_port(), tmp_path / "server.log"
    stub = Path(__file__).with_name("usage_stub.py")
    command = [sys.executable, str(stub), str(port), str(USAGE_LOG), NAME, ADAPTER]
    with log.open("wb") as stream:
        process = subprocess.Popen([*command], stdout=stream, stderr=subprocess.PIPE)
        try:
            while b"listens" not in log.read_bytes():
                assert process.poll() is None, process.stderr and process.stderr.read()
            sent, access = load(port, tmp_path / "gateway", 400)
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)
    assert len({each.kind for each in sent}) == 12
    assert_exact(sent, log)
    check(sent, access, log, report)


@pytest.mark.full
@pytest.mark.timeout(1500)
def test_vllm_itself_prints_what_its_own_counters_count(vllm_environment, tmp_path, report):
    environment = prepared(vllm_environment)
    weights(environment, tmp_path / NAME)
    server = serve(
        environment,
        container_of(MODEL),
        models=tmp_path,
        key=keys.server_key(SEED, NAME),
        directory=tmp_path,
    )
    try:
        server.await_ready("/health", START_SECONDS)
        sent, access = load(server.port, tmp_path / "gateway", 400)
        with closing(
            http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS)
        ) as connection:
            connection.request("GET", "/metrics")
            counters = dict(_COUNTER.findall(connection.getresponse().read().decode()))
    finally:
        server.stop()
    assert_exact(sent, server.log)
    check(sent, access, server.log, report)
    lines = [line for own in lines_of(server.log).values() for line in own]
    assert sum(line["tokensOut"] for line in lines) == float(counters["generation"])
    assert sum(line["tokensIn"] for line in lines) == float(counters["prompt"])
