"""Operators' own programs as processes next to a simulated cluster, where somebody has put them on
this machine.

It builds and fetches none: neither project can be had from the Go module proxy. In the folder that
INFERPLAN_OPERATORS names, `lws` and `kuberay` each hold `manager`, the program of the project's
image, and its definitions in `crds`. Every address is on 127.0.0.1.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from inferplan.rehearsal.cluster import Cluster
from tests.ports import free_port
from tests.rehearsal.engine_programs import api_of

PLACE = "INFERPLAN_OPERATORS"
_READY_SECONDS = 120
_LOG_LINES = 15
_SET = ("leaderworkerset.x-k8s.io", "v1", "leaderworkersets")
_HOOKS = {  # webhook: path, operations and resource, as in the manifests of LeaderWorkerSet v0.10.0
    "mutating": (
        ("/mutate-leaderworkerset-x-k8s-io-v1-leaderworkerset", ["CREATE", "UPDATE"], _SET),
        ("/mutate--v1-pod", ["CREATE"], ("", "v1", "pods")),
    ),
    "validating": (
        ("/validate-leaderworkerset-x-k8s-io-v1-leaderworkerset", ["CREATE", "UPDATE"], _SET),
    ),
}


def missing(name: str) -> str:
    """Why the operator `name` cannot run here, "" when it can."""
    if PLACE not in os.environ:
        return f"{PLACE} names no folder with operators"
    folder = Path(os.environ[PLACE]) / name
    lacking = [part for part in ("manager", "crds") if not (folder / part).exists()]
    return f"{folder} lacks {' and '.join(lacking)}" if lacking else ""


@contextlib.contextmanager
def leader_worker_set(cluster: Cluster, directory: Path) -> Iterator[None]:
    """Runs the LeaderWorkerSet operator on `cluster` with its webhooks, under the cluster's own
    authority, until the block ends.
    """
    webhooks, health = free_port(), free_port()
    certificates = directory / "certificates"
    certificates.mkdir(parents=True)
    for ours, theirs in (("server.crt", "tls.crt"), ("server.key", "tls.key")):
        shutil.copy(cluster.directory / "pki" / ours, certificates / theirs)
    settings = {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "webhook": {"host": "127.0.0.1", "port": webhooks, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
    }
    (directory / "settings.yaml").write_text(yaml.safe_dump(settings))
    with _running(
        "lws", cluster, directory, [f"--config={directory / 'settings.yaml'}"], health, {}
    ):
        _await(lambda: _answers(webhooks, "/", tls=True), directory / "lws.log", "the webhooks")
        for kind in _HOOKS:
            _install_webhooks(cluster, kind, webhooks)
        yield


def _install_webhooks(cluster: Cluster, kind: str, port: int) -> None:
    authority = base64.b64encode((cluster.pki / "ca.crt").read_bytes()).decode()
    hooks = [
        {
            "name": f"{kind}-{index}.lws.test",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": {"url": f"https://127.0.0.1:{port}{path}", "caBundle": authority},
            "rules": [
                {
                    "apiGroups": [group],
                    "apiVersions": [version],
                    "operations": operations,
                    "resources": [plural],
                }
            ],
        }
        for index, (path, operations, (group, version, plural)) in enumerate(_HOOKS[kind])
    ]
    plural, name = f"{kind}webhookconfigurations", f"{kind.capitalize()}WebhookConfiguration"
    document = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": name,
        "metadata": {"name": "lws"},
        "webhooks": hooks,
    }
    api_of(cluster).apply(
        f"/apis/admissionregistration.k8s.io/v1/{plural}/lws",
        document,
        manager="operators",
        force=True,
    )


@contextlib.contextmanager
def kuberay(cluster: Cluster, directory: Path) -> Iterator[None]:
    """Runs KubeRay's operator on `cluster` until the block ends; in the place of every dashboard
    something says that all applications run.

    No webhook is served: KubeRay's chart installs none.
    """
    directory.mkdir(parents=True)
    health = free_port()
    with ThreadingHTTPServer(("127.0.0.1", free_port()), _Dashboard) as dashboard:
        thread = threading.Thread(target=dashboard.serve_forever)
        thread.start()
        try:
            options = [
                "--enable-leader-election=false",
                "--metrics-addr=0",
                f"--health-probe-bind-address=127.0.0.1:{health}",
            ]
            # Dashboards have names of the cluster's DNS, which is not there: the operator asks a
            # proxy for them.
            with _running(
                "kuberay",
                cluster,
                directory,
                options,
                health,
                {"HTTP_PROXY": f"http://127.0.0.1:{dashboard.server_port}"},
            ):
                yield
        finally:
            dashboard.shutdown()
            thread.join()


class _Dashboard(BaseHTTPRequestHandler):
    """Takes a Serve configuration for each head, by the name it is asked under, and reports its
    applications as running.
    """

    protocol_version = "HTTP/1.1"
    _given: dict[str, Any] = {}

    def do_PUT(self) -> None:
        self._given[self.headers["Host"]] = json.loads(
            self.rfile.read(int(self.headers["Content-Length"]))
        )
        self._say({})

    def do_GET(self) -> None:
        named = [
            each["name"]
            for each in self._given.get(self.headers["Host"], {}).get("applications", [])
        ]
        self._say(
            {
                "applications": {
                    name: {"name": name, "status": "RUNNING", "deployments": {}} for name in named
                }
            }
        )

    def _say(self, answer: Any) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        pass


@contextlib.contextmanager
def _running(
    name: str,
    cluster: Cluster,
    directory: Path,
    options: list[str],
    health: int,
    more: dict[str, str],
) -> Iterator[None]:
    folder, log = Path(os.environ[PLACE]) / name, directory / f"{name}.log"
    for path in sorted((folder / "crds").glob("*.yaml")):
        for document in yaml.load_all(path.read_bytes(), Loader=_Loader):
            path_of = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{document['metadata']['name']}"
            api_of(cluster).apply(path_of, document, manager="operators", force=True)
    plain = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    environment = plain | {"KUBECONFIG": str(cluster.kubeconfig)} | more
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [folder / "manager", *options], env=environment, stdout=stream, stderr=subprocess.STDOUT
        )
    try:
        _await(lambda: process.poll() is not None or _answers(health, "/readyz"), log, name)
        if process.poll() is not None:
            raise RuntimeError(f"{name} ended with {process.returncode}:\n{_tail(log)}")
        yield
    finally:
        process.terminate()
        process.wait(60)


class _Loader(yaml.CSafeLoader):
    """PyYAML's, and the scalar `=`, which YAML 1.1 has a type for that PyYAML does not construct."""


_Loader.add_constructor("tag:yaml.org,2002:value", _Loader.construct_yaml_str)


def _answers(port: int, path: str, *, tls: bool = False) -> bool:
    import ssl

    unproven = ssl._create_unverified_context()  # noqa: S323 - only whether something listens; the API server proves who
    connection = (
        http.client.HTTPSConnection("127.0.0.1", port, context=unproven)
        if tls
        else http.client.HTTPConnection("127.0.0.1", port)
    )
    with contextlib.closing(connection), contextlib.suppress(OSError):
        connection.request("GET", path)
        return connection.getresponse().status < 500 or tls
    return False


def _await(done: Any, log: Path, what: str) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} did not answer in {_READY_SECONDS} s:\n{_tail(log)}")
        time.sleep(0.1)  # a process has no event for "ready" beyond this address


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
