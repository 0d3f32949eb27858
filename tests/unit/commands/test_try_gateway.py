"""A question of a trial reaches the server through the gateway of the stack, as a consumer's does."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from inferplan.client.local_gateway import nginx
from inferplan.commands.try_model.gateway import gateway_before
from inferplan.trial.computer import Computer
from inferplan.trial.questions import Question
from inferplan.trial.subject import Subject
from inferplan.workspace.workspace import open_workspace

ROOT = Path(__file__).parents[3]
CHAT = Question("a chat", "/v1/chat/completions", {"model": "llama-3-8b", "messages": []})


@pytest.fixture
def settings(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    return open_workspace("local").settings


@pytest.fixture
def server():
    calls: list[tuple[str, str]] = []

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            calls.append((self.path, self.headers["Authorization"]))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - its name there

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as served:
        thread = Thread(target=served.serve_forever)
        thread.start()
        yield served.server_address[1], calls
        served.shutdown()
        thread.join()


def subject(gateway) -> Subject:
    empty = Path("/")
    return Subject(
        name="llama-3-8b",
        spec=None,
        container={},
        weights=empty,
        place=Computer(""),
        gateway=gateway,
    )


def test_a_question_passes_the_gateway_with_the_key_of_a_consumer(settings, server):
    port, calls = server
    gateway = gateway_before(settings, "llama-3-8b")
    (finding,) = subject(gateway).asked_through_gateway(CHAT, port)
    assert (finding.step, finding.state) == ("a chat through the gateway", "works")
    assert calls == [("/v1/chat/completions", f"Bearer {gateway.server_key}")]


def test_a_call_that_the_gateway_denies_is_a_finding(settings, server):
    port, calls = server
    question = Question("the tokens", "/tokenize", {"prompt": "a"})
    (finding,) = subject(gateway_before(settings, "llama-3-8b")).asked_through_gateway(
        question, port
    )
    assert (finding.state, calls) == ("rejected", [])
    assert finding.sentence.startswith("404")


def test_a_gateway_that_cannot_run_here_is_said(settings, monkeypatch):
    monkeypatch.setattr(nginx, "_binary", lambda: None)
    (finding,) = subject(gateway_before(settings, "llama-3-8b")).asked_through_gateway(CHAT, 1)
    assert finding.state == "not judged"
    assert "no gateway runs here: nginx is not on PATH" in finding.sentence
