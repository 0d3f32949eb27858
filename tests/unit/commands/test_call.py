"""`inferplan call` against servers that send everything but a whole answer: it says what came, and
ends with 1.
"""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest

from inferplan.commands import main

ROOT = Path(__file__).parents[3]


def _body(text: str, kind: str = "text/event-stream") -> bytes:
    data = text.encode()
    return (
        f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\nConnection:"
        " close\r\n\r\n".encode()
        + data
    )


def _events(*events: object, done: bool = True) -> bytes:
    return _body(
        "".join(f"data: {json.dumps(each)}\n\n" for each in events)
        + ("data: [DONE]\n\n" if done else "")
    )


def _delta(reason: str | None = None, **delta: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def _chunked(text: str) -> bytes:
    return (
        f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{len(text):x}\r\n{text}\r\n".encode()
    )


WHOLE = {
    "choices": [{"message": {"role": "assistant", "content": "forty-two"}, "finish_reason": "stop"}]
}
TOOL = {
    "tool_calls": [{"index": 0, "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}]
}
HELLO = _delta(content="Hello")


@pytest.fixture
def call(monkeypatch, capsys):
    """Calls a model of the local stack, whose gateway sends the given bytes once and closes."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("INFERPLAN_API_KEY", "ipk_canary")

    def run(sent: bytes, *options: str) -> tuple[int, str, str, bytes]:
        received = []
        with socket.create_server(("127.0.0.1", 0)) as server:

            def serve() -> None:
                connection, _ = server.accept()
                with connection:
                    data = b""
                    while b"\r\n\r\n" not in data or len(data.partition(b"\r\n\r\n")[2]) < 20:
                        data += connection.recv(2**16)
                    received.append(data)
                    connection.sendall(sent)
                    connection.shutdown(socket.SHUT_WR)
                    connection.recv(2**16)

            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            code = 0
            try:
                main.run(
                    (
                        "call",
                        "llama-3-8b",
                        "hi",
                        "--stack",
                        "local",
                        "--gateway",
                        f"http://127.0.0.1:{server.getsockname()[1]}",
                        *options,
                    )
                )
            # Pytest.raises would keep its frames, and with them the connection that the server
            # waits for.
            except SystemExit as exit_:
                code = int(exit_.code or 0)
            thread.join(10)
        captured = capsys.readouterr()
        return code, captured.out, " ".join(captured.err.split()), received[0]

    return run


@pytest.mark.parametrize(
    ("sent", "out", "err"),
    [
        (
            _body("<html><title>Sign in</title></html>", "text/html; charset=utf-8"),
            "",
            "answered with an HTML page, for example of a login",
        ),
        (_body("<html><title>Sign in</title></html>"), "", "sent text that is not JSON: '<html>"),
        (_body(""), "", "llama-3-8b sent no answer: its response has no text"),
        (_events(), "", "llama-3-8b sent no answer: its response has no text"),
        (
            _events(_delta(reasoning="Let me see."), _delta("stop")),
            "",
            "Let me see. inferplan: llama-3-8b sent no answer, only reasoning",
        ),
        (
            _events(_delta(reasoning_content="Hm."), _delta("stop")),
            "",
            "Hm. inferplan: llama-3-8b sent no answer, only reasoning",
        ),
        (
            _events(_delta(**TOOL), _delta("tool_calls")),
            "",
            'weather{"city": "Oslo"} inferplan: llama-3-8b sent no answer, only a tool call',
        ),
        (
            _events(_delta(refusal="No."), _delta("stop")),
            "",
            "No. inferplan: llama-3-8b sent no answer, only a refusal",
        ),
        (_events(HELLO, done=False), "Hello\n", "stopped in the middle of its answer"),
        (_chunked(f"data: {json.dumps(HELLO)}\n\n"), "Hello\n", "was cut off"),
        (_events(HELLO)[:-14], "Hello\n", "was cut off: IncompleteRead"),
        (
            _events(HELLO, _delta("length")),
            "Hello\n",
            "ended its answer at the limit of tokens. Allow more with --max-tokens",
        ),
        (
            _events(HELLO, _delta("content_filter")),
            "Hello\n",
            "ended its answer early: content_filter",
        ),
        (
            _events(HELLO, {"error": {"message": "out of \x1b[31mmemory"}}),
            "Hello\n",
            "out of \\x1b[31mmemory",
        ),
        (_events([1, 2]), "", "[1, 2]"),
        (_body('"just text"', "application/json"), "", "just text"),
    ],
)
def test_no_whole_answer_ends_with_1_and_says_what_came(call, sent, out, err):
    code, printed, message, _ = call(sent)
    assert (code, printed.strip("\n")) == (1, out.strip("\n"))
    assert err in message
    assert "defect" not in message


@pytest.mark.parametrize(
    ("sent", "out"),
    [
        (_events(HELLO, _delta("stop", content=" you")), "Hello you\n"),
        (_events(HELLO), "Hello\n"),
        (_body(json.dumps(WHOLE, indent=2), "application/json"), "forty-two\n"),
        (_events(_delta(reasoning="Let me see."), HELLO, _delta("stop")), "Hello\n"),
        (
            _events(
                _delta(content="\x1b]0;owned\x07\x1b[2Jred\x9b1m\u202egnp\r\nend\tx"),
                _delta("stop"),
            ),
            "\\x1b]0;owned\\x07\\x1b[2Jred\\x9b1m\\u202egnp\nend\tx\n",
        ),
    ],
)
def test_a_whole_answer_is_printed_without_control_of_the_terminal(call, sent, out):
    code, printed, _, _ = call(sent)
    assert (code, printed) == (0, out)


def test_a_redirect_is_named_and_the_key_goes_nowhere(call):
    code, _, message, received = call(
        b"HTTP/1.1 308 Permanent Redirect\r\nLocation:"
        b" https://elsewhere.test/v1?token=abc\r\nContent-Length: 0\r\n\r\n"
    )
    assert code == 1
    assert (
        "redirects to https://elsewhere.test/v1, and the key is sent to no other address. If that"
        " is the gateway, name it with" in message
    )
    assert "abc" not in message
    assert received.count(b"POST ") == 1


def test_json_has_the_answer_apart_from_what_else_the_model_says(call):
    sent = _events(_delta(reasoning_content="six times seven"), HELLO, _delta("stop"))
    code, out, err, _ = call(sent, "--json")
    document = json.loads(out)
    assert code == 0, err
    assert (document["answer"], document["reasoning"]) == ("Hello", "six times seven")
    assert (document["model"], "ipk_canary" in out) == ("llama-3-8b", False)


def test_json_of_a_cut_answer_prints_no_document(call):
    code, out, err, _ = call(
        _chunked('data: {"choices": [{"delta": {"content": "Hel"}}]}'), "--json"
    )
    assert (code, out) == (1, "")
    assert "was cut off" in err
