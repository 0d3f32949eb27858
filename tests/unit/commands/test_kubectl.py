"""A kubeconfig that does not work ends in one sentence with what to do, for each way in which it
can be broken.
"""

from __future__ import annotations

import shutil
import socket
import subprocess

import pytest

from inferplan.errors import OperationError
from inferplan.workspace.kubectl import Kubectl

CONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:PORT"}}]
users: [{name: u, user: {token: canary-token}}]
contexts: [{name: prod, context: {cluster: c, user: u}}]
"""


def message(context="prod"):
    with pytest.raises(OperationError) as caught:
        Kubectl(context).get("/api/v1/nodes")
    assert "canary-token" not in str(caught.value)
    return str(caught.value)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on PATH")
@pytest.mark.parametrize(
    ("text", "context", "parts"),
    [
        (None, "prod", ["There is no file", "Set KUBECONFIG"]),
        ("a: [b", "prod", ["error loading config file", "The kubeconfig is damaged."]),
        (CONFIG, "nosuch", ['context "nosuch" does not exist', "kubectl config get-contexts"]),
        (CONFIG, "prod", ["refused", "The server cannot be reached."]),
    ],
)
def test_a_broken_kubeconfig_is_named_with_its_cure(tmp_path, monkeypatch, text, context, parts):
    path = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(path))
    with socket.socket() as bound:  # bound and not listening, so that connections are refused
        bound.bind(("127.0.0.1", 0))
        if text is not None:
            path.write_text(text.replace("PORT", str(bound.getsockname()[1])))
        told = message(context)
    assert all(part in told for part in parts), told


@pytest.mark.parametrize(
    ("stderr", "remedy"),
    [
        ("error: You must be logged in to the server (Unauthorized)", "Log in again"),
        (
            "tls: failed to verify certificate: x509: certificate has expired or is not yet valid",
            "Log in again",
        ),
        (
            "tls: failed to verify certificate: x509: certificate signed by unknown authority",
            "certificate-authority",
        ),
        ('Error from server (Forbidden): nodes is forbidden: User "a" cannot list', "may not read"),
        (
            "Unable to connect to the server: getting credentials: exec: executable aws not found",
            "login program",
        ),
        ("Unable to connect to the server: dial tcp: lookup x: no such host", "cannot be reached"),
        ("something new", "Check with: kubectl --context prod get --raw /api/v1/nodes"),
    ],
)
def test_each_error_of_kubectl_has_a_remedy(tmp_path, monkeypatch, stderr, remedy):
    (tmp_path / "config").touch()
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(
        subprocess, "run", lambda *_args, **_options: subprocess.CompletedProcess([], 1, "", stderr)
    )
    assert remedy in message()
