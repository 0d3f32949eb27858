"""Adapters that the real vLLM gets while it runs: only in the whole suite."""

from __future__ import annotations

import http.client
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.dataplane.serving.vllm_stand import (
    START_SECONDS,
    VllmProcess,
    prepared,
    serve,
    weights,
)
from tests.patience import PATIENCE_SECONDS
from tests.unit.serving.models import container_of, vllm

pytestmark = [pytest.mark.full, pytest.mark.timeout(1500)]

NAME, KEY = "chat", "a-server-key"
MODEL = vllm(
    dtype="float32", maxModelLen=256, maxNumSeqs=8, extraArgs=["--enforce-eager"], maxLoraRank=8,
    preheat={"into": "shared"}, loraLoading="runtime",
)  # fmt: skip


@pytest.fixture(scope="module")
def models(vllm_environment, tmp_path_factory):
    directory = tmp_path_factory.mktemp("models")
    weights(prepared(vllm_environment), directory / NAME)
    # The same adapter with the opposite effect, as a new revision would be.
    adapters = directory / NAME / "adapters"
    shutil.copytree(adapters / "polite", adapters / "rude")
    settings = json.loads((adapters / "rude" / "adapter_config.json").read_text())
    settings["lora_alpha"] = -settings["lora_alpha"]
    (adapters / "rude" / "adapter_config.json").write_text(json.dumps(settings))
    return directory


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("vllm")


@pytest.fixture(scope="module")
def server(vllm_environment, models, directory):
    written(directory, {})
    container = container_of(MODEL)
    running = serve(
        prepared(vllm_environment), container, models=models, key=KEY, directory=directory
    )
    try:
        running.await_ready("/health", START_SECONDS)
        yield running
    finally:
        running.stop()


def written(directory: Path, adapters: dict[str, Path]) -> None:
    """Replaces the file of the adapters at once, as a kubelet does."""
    new = directory / "adapters.new"
    new.write_text(json.dumps({name: str(path) for name, path in adapters.items()}))
    new.replace(directory / "adapters.json")


def call(server: VllmProcess, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    with closing(
        http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS)
    ) as connection:
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")


def said(server: VllmProcess, model: str) -> str | int:
    """What the model says, or the status of its refusal."""
    body = {"model": model, "prompt": "hello", "max_tokens": 16, "temperature": 0}
    status, answer = call(server, "/v1/completions", body)
    return answer["choices"][0]["text"] if status == 200 else status


def test_an_adapter_that_is_added_answers_without_a_restart(server, models, directory):
    adapters = models / NAME / "adapters"
    process, base = server.process.pid, said(server, NAME)
    assert said(server, "helper") == 404

    written(directory, {"helper": adapters / "polite"})
    with ThreadPoolExecutor(8) as pool:
        [polite] = set(pool.map(lambda _: said(server, "helper"), range(8)))
    assert isinstance(polite, str)
    assert polite != base
    message = {"model": "helper", "messages": [{"role": "user", "content": "hello"}]}
    assert call(server, "/v1/chat/completions", {**message, "max_tokens": 4})[0] == 200

    written(directory, {"helper": adapters / "rude", "second": adapters / "polite"})
    rude = said(server, "helper")
    assert isinstance(rude, str)
    assert rude not in (base, polite)
    assert said(server, "second") == polite

    written(directory, {"second": adapters / "polite"})
    assert said(server, "helper") == 404
    assert (said(server, "second"), said(server, NAME)) == (polite, base)
    assert (server.process.poll(), server.process.pid) == (None, process)
    assert server.log.read_text(errors="replace").count("Loaded new LoRA adapter") == 3


def test_an_adapter_that_cannot_be_loaded_ends_its_calls_only(server, models, directory):
    base = said(server, NAME)
    written(directory, {"broken": models / NAME / "adapters" / "none"})
    assert said(server, "broken") == 404
    assert said(server, NAME) == base
    assert "adapters: broken was not loaded from" in server.log.read_text(errors="replace")


def test_a_file_that_is_cut_off_changes_nothing(server, models, directory):
    written(directory, {"helper": models / NAME / "adapters" / "polite"})
    polite = said(server, "helper")
    (directory / "adapters.json").write_text('{"helper": ')
    assert said(server, "helper") == polite


def test_no_route_loads_an_adapter(server, models):
    path = str(models / NAME / "adapters" / "polite")
    for route in ("/v1/load_lora_adapter", "/v1/unload_lora_adapter"):
        assert call(server, route, {"lora_name": "stolen", "lora_path": path})[0] == 404
