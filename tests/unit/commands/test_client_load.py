"""The verdict of clients during `rehearse-change` on an answer that misses the objective of its
model.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferplan.components.monitoring.slo_spec import SloSpec
from inferplan.updating import client_load
from inferplan.workspace.contract import contract_of
from inferplan.workspace.workspace import open_workspace

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("slo", "times", "missed"),
    [
        ({"ttft": "1s"}, [0.9, 5.0], ""),
        ({"ttft": "1s"}, [1.1, 1.2], "over ttft 1s"),
        ({"itl": "40ms"}, [3.0, 3.03, 3.06], ""),
        ({"itl": "40ms"}, [0.1, 0.2, 0.3], "over itl 40ms"),
        ({"ttft": "800ms", "itl": "40ms"}, [0.9, 1.0], "over ttft 800ms, over itl 40ms"),
        ({"ttft": "1s"}, [0.5], ""),
    ],
)
def test_an_answer_is_slow_if_it_misses_a_time_of_the_objective(slo, times, missed):
    assert client_load._missed(SloSpec.model_validate(slo), times) == missed


def test_a_slow_answer_is_written_to_the_diary(monkeypatch):
    done, written = threading.Event(), []
    clock = iter([0.0, 2.5, 2.6])

    def answer(*_: Any, **__: Any) -> list[str]:
        done.set()
        return ["one", "two"]

    monkeypatch.setattr(client_load, "answer", answer)
    monkeypatch.setattr(client_load, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    slo = SloSpec.model_validate({"ttft": "1s", "itl": "400ms"})
    workspace: Any = SimpleNamespace(
        settings=SimpleNamespace(models={"chat": SimpleNamespace(slo=slo)}), stack="local"
    )
    diary: Any = SimpleNamespace(write=lambda kind, **fields: written.append((kind, fields)))
    aim, who, sent = SimpleNamespace(model="chat"), SimpleNamespace(), Counter()
    client_load._call(aim, who, workspace, diary, done, sent)  # pyrefly: ignore  # small stand-ins for a target and a caller
    assert written == [("request", {"model": "chat", "result": "slow", "message": "over ttft 1s"})]
    assert sent == {"chat": 1}


def test_clients_call_routes_and_the_models_that_have_consumers_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    text = (ROOT / "stacks" / "Pulumi.local.yaml").read_text()
    text = (
        text.replace("consumers: [chat]", "consumers: []")
        + "  inferplan:routes: {chat-large: {backends: {llama-3-70b: 1}, consumers: [chat]}}\n"
    )
    (tmp_path / "Pulumi.local.yaml").write_text(text)
    workspace = open_workspace(str(tmp_path / "Pulumi.local.yaml"))
    contract = replace(contract_of(workspace.settings), gateway="http://127.0.0.1:1")
    monkeypatch.setattr(client_load, "local_contract", lambda _: contract)
    reasons: list[dict[str, str]] = []
    diary: Any = SimpleNamespace(write=lambda _kind, **fields: reasons.append(fields))
    calls = client_load._calls(workspace, diary)
    assert {(aim.model, who.consumer) for aim, who in calls} == {
        ("llama-3-8b", "chat"),
        ("chat-large", "chat"),
    }
    assert [aim.url for aim, _ in calls if aim.model == "chat-large"] == ["http://127.0.0.1:1/v1"]
    assert reasons == []
