"""usage_log.py around a processor that keeps its requests as vLLM's does."""

from __future__ import annotations

import json
import runpy
import sys
import time
from importlib.resources import files
from types import ModuleType, SimpleNamespace

import pytest

PROGRAM = str(files("inferplan.components.serving.vllm") / "payload" / "usage_log.py")
MODULES = ("vllm", "vllm.v1", "vllm.v1.engine", "vllm.v1.engine.output_processor")


def processor(monkeypatch, requests: object) -> type:
    """A class of processors, each with `requests`, that usage_log.py has changed."""

    class OutputProcessor:
        def __init__(self) -> None:
            self.request_states = requests

    for name in MODULES:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules[MODULES[-1]], "OutputProcessor", OutputProcessor, raising=False)
    monkeypatch.setenv("HOSTNAME", "chat-5d9f")
    runpy.run_path(PROGRAM, run_name="usage_log")
    return OutputProcessor


def state(**changed: object) -> SimpleNamespace:
    fields = {
        "external_req_id": "chatcmpl-c58c7a34149caa91-5-1",
        "prompt": "a secret prompt",
        "prompt_len": 15,
        "is_prefilling": False,
        "num_cached_tokens": 8,
        "lora_name": None,
        "detokenizer": SimpleNamespace(num_output_tokens=lambda: 7, output_text="an answer"),
        "stats": SimpleNamespace(scheduled_ts=time.monotonic() - 2),
    }
    return SimpleNamespace(**{**fields, **changed})


@pytest.fixture
def line(monkeypatch, capfd):
    def read(ended: SimpleNamespace) -> dict:
        running = processor(monkeypatch, {})()
        running.request_states["0_chatcmpl"] = ended
        assert running.request_states.pop("0_chatcmpl", None) is ended
        assert running.request_states.pop("0_chatcmpl", None) is None
        [text] = capfd.readouterr().out.splitlines()
        assert "secret" not in text
        assert "answer" not in text
        return json.loads(text)

    return read


def test_a_request_that_ends_has_one_line_with_its_figures(line):
    found = line(state())
    assert 2 <= found.pop("end") - found.pop("start") < 60
    assert found == {
        "usage": 1,
        "requestId": "chatcmpl-c58c7a34149caa91-5-1",
        "server": "chat-5d9f",
        "adapter": "",
        "tokensIn": 15,
        "tokensCached": 8,
        "tokensOut": 7,
    }


def test_a_request_that_leaves_before_its_first_token_has_no_tokens_in(line):
    none = SimpleNamespace(num_output_tokens=lambda: 0)
    found = line(state(is_prefilling=True, detokenizer=none))
    assert (found["tokensIn"], found["tokensOut"]) == (0, 0)


def test_a_request_that_leaves_the_queue_has_used_no_time(line):
    found = line(state(is_prefilling=True, stats=SimpleNamespace(scheduled_ts=0.0)))
    assert found["start"] == found["end"]


def test_an_embedding_has_tokens_in_only(line):
    found = line(state(detokenizer=None, lora_name="support"))
    assert (found["tokensIn"], found["tokensOut"], found["adapter"]) == (15, 0, "support")


def test_a_state_of_another_form_costs_its_line_and_not_the_answer(monkeypatch, capfd):
    running = processor(monkeypatch, {})()
    other = SimpleNamespace(external_req_id="chatcmpl-c58c7a34149caa91-5-1", prompt="a secret")
    running.request_states["a"] = other
    assert running.request_states.pop("a") is other
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == "usage: no line for chatcmpl-c58c7a34149caa91-5-1: AttributeError\n"


def test_a_processor_that_keeps_its_requests_in_another_way_ends_the_server(monkeypatch):
    changed = processor(monkeypatch, [])
    with pytest.raises(SystemExit, match="Remove usageLog from the model"):
        changed()
