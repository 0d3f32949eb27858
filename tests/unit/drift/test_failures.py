"""A comparison that the API server does not answer is never a comparison without differences."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from inferplan.commands.drift.command import command
from inferplan.errors import OperationError, UnsettledError
from inferplan.updating.drift.cluster import DryRunRejected, behind_kubectl
from inferplan.updating.drift.drift import Drift
from tests.unit.drift.comparison import compared, pod, texts


@pytest.mark.parametrize("status", [401, 404, 422, 500, 502])
def test_a_rejected_dry_run_is_said(monkeypatch, status):
    def dry_run(_path: str, _body: Mapping[str, Any], _manager: str) -> dict[str, Any]:
        raise DryRunRejected(
            status, 'Deployment "a" is invalid: spec.template: Invalid value: {"env": "CANARY"}'
        )

    result = compared(monkeypatch, pod(), pod(), dry_run=dry_run)
    assert result.findings == ()
    for text in (
        "Deployment x/a",
        "only declared fields were compared",
        f"HTTP {status}",
        "spec.template",
    ):
        assert text in texts(result)
    assert "no difference" not in texts(result)
    assert "CANARY" not in texts(result)


def run_command(monkeypatch: pytest.MonkeyPatch, result: Drift) -> None:
    workspace = SimpleNamespace(
        stack="x",
        record=lambda: None,
        settings=SimpleNamespace(namespace="x"),
        secrets=SimpleNamespace(placeholders=False),
        file=SimpleNamespace(shown_path="Pulumi.x.yaml"),
    )
    monkeypatch.setattr("inferplan.commands.drift.command.open_workspace", lambda _: workspace)
    monkeypatch.setattr(
        "inferplan.commands.drift.command._cluster",
        lambda *_: contextlib.nullcontext(SimpleNamespace(kubectl="kubectl", simulated=False)),
    )
    monkeypatch.setattr("inferplan.commands.drift.command.drift", lambda *_, **__: result)
    command("x")


def test_the_command_fails_if_an_object_was_not_compared(monkeypatch, capsys):
    with pytest.raises(OperationError, match="HTTP 502") as caught:
        run_command(
            monkeypatch,
            Drift(stack="x", findings=(), compared=1, failures=("Deployment x/a: HTTP 502",)),
        )
    assert not isinstance(caught.value, UnsettledError)
    assert "not compared: Deployment x/a: HTTP 502" in capsys.readouterr().out
    run_command(monkeypatch, Drift(stack="x", findings=(), compared=1))


SERVER = """
import socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
print("Starting to serve", flush=True)
connection = server.accept()[0]
connection.recv(65536)
connection.sendall(sys.argv[2].encode())
"""


def dry_run_answered_with(answer: str) -> None:
    """Send a dry run to a kubectl proxy that answers with these bytes."""
    kubectl = SimpleNamespace(
        command=lambda *arguments: [sys.executable, "-S", "-c", SERVER, arguments[2], answer],
        get=None,
        shown="kubectl --context dev",
    )
    with behind_kubectl(kubectl) as cluster:  # type: ignore[arg-type] # a command and its name are all that is read
        assert cluster.dry_run
        cluster.dry_run("/apis/apps/v1/x", {}, "m")


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
        "nonsense\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n<>",
    ],
)
def test_a_broken_connection_is_an_error_with_a_remedy(answer):
    with pytest.raises(
        OperationError, match=r"/apis/apps/v1/x.*Check: kubectl --context dev version"
    ):
        dry_run_answered_with(answer)


def test_a_rejection_through_kubectl_proxy_has_the_status():
    with pytest.raises(DryRunRejected, match="bad") as caught:
        dry_run_answered_with("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nbad")
    assert caught.value.status == 502
