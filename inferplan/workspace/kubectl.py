"""Reads a cluster through `kubectl proxy`, with the user's own kubeconfig. Only `Kubectl.patch` and
`Kubectl.delete` change anything.
"""

import atexit
import http.client
import json
import os
import shlex
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from inferplan.documents.errors import unknown
from inferplan.errors import ClusterError, OperationError, RequestError, one_line, remedy_for
from inferplan.workspace.workspace import Workspace

NOT_INSTALLED = "kubectl is not on PATH, and only kubectl can log in to this cluster. Install it."
_SECONDS = 15


def is_rehearsed(workspace: Workspace) -> bool:
    """True if a simulated cluster of this machine runs the stack."""
    from inferplan.rehearsal.cluster import status

    try:
        return status(workspace.cluster) == "running"
    except ClusterError:
        return False


class Kubectl:
    """The cluster behind one context of the user's kubeconfig, or of `config`, a kubeconfig in a
    file that ends with this object.
    """

    def __init__(self, context: str, config: str | None = None) -> None:
        self._context = context
        self._file = None
        if config is not None:
            self._file = NamedTemporaryFile("w", suffix=".kubeconfig")  # noqa: SIM115 - it must be there for as long as kubectl may be asked
            self._file.write(config)
            self._file.flush()
            atexit.register(self._file.close)

    def get(self, path: str) -> Any:
        try:
            return json.loads(self.text(path))
        except ValueError as error:
            problem = (
                f"The cluster of context {self._context!r} answered {path} with text that is not"
                " JSON"
            )
            raise OperationError(
                f"{problem}. Check the server in: kubectl config view --minify --context"
                f" {self._context}"
            ) from error

    def text(self, path: str) -> str:
        done = self.run("get", "--raw", path)
        if done.returncode:
            message = one_line(done.stderr) or f"kubectl ended with {done.returncode}"
            problem = (
                f"The cluster of context {self._context!r} did not answer {path}:"
                f" {message.rstrip('.')}"
            )
            raise OperationError(f"{problem}. {self._remedy(message, path)}")
        return done.stdout

    def log(self, namespace: str, pod: str, container: str, lines: int) -> str:
        done = self.run(
            "get",
            "--raw",
            f"/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}&tailLines={lines}",
        )
        if done.returncode:
            raise OperationError(f"The log cannot be read: {one_line(done.stderr)}")
        return done.stdout.rstrip("\n")

    def last_line(self, namespace: str, pod: str, container: str) -> str:
        with suppress(OperationError):
            return self.log(namespace, pod, container, 1).strip().rpartition("\n")[2]
        return ""

    def patch(self, kind: str, name: str, patch: Mapping[str, Any]) -> None:
        command = ["patch", kind, name, "--type=merge", "-p", json.dumps(patch)]
        done = self.run(*command)
        if done.returncode:
            message = one_line(done.stderr).rstrip(".")
            typed = shlex.join(["kubectl", "--context", self._context, *command])
            raise OperationError(
                f"{kind} {name} could not be changed: {message}. Ask someone who may to run:"
                f" {typed}"
            )

    def _remedy(self, message: str, path: str) -> str:
        files = [each for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each] or [
            str(Path.home() / ".kube" / "config")
        ]
        if self._file is None and not any(Path(each).expanduser().is_file() for each in files):
            return (
                f"There is no file {' or '.join(files)}. Set KUBECONFIG to your kubeconfig, or"
                " create one, on EKS: aws eks update-kubeconfig --name CLUSTER"
            )
        remedy = remedy_for("kubectl", message).get("remedy", "Check with: {command}")
        return remedy.format(
            command=f"kubectl --context {self._context} get --raw {path}", context=self._context
        )

    def delete(self, path: str) -> None:
        """Send DELETE of an API path. Raises OperationError with the command to run."""
        done = self.run("delete", "--raw", path)
        if done.returncode:
            problem = f"DELETE {path} failed: {one_line(done.stderr).rstrip('.')}"
            raise OperationError(
                f"{problem}. Ask someone who may to run: kubectl --context {self._context} delete"
                f" --raw {path}"
            )

    @property
    def shown(self) -> str:
        return f"kubectl --context {self._context}"

    def command(self, *arguments: str) -> list[str]:
        chosen = [] if self._file is None else ["--kubeconfig", self._file.name]
        return ["kubectl", *chosen, "--context", self._context, *arguments]

    def run(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """kubectl with `arguments` and `text` as its standard input. Raises OperationError if it is
        not installed.
        """
        command = self.command("--request-timeout", f"{_SECONDS}s", *arguments)
        try:
            return subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise OperationError(NOT_INSTALLED) from None


def real_cluster(
    workspace: Workspace, context: str | None, *, otherwise: str, command: str
) -> Kubectl:
    """The cluster of `context`, by default that of the stack file. Raises OperationError with
    `command` to repeat if neither names one.
    """
    if name := context or workspace.context:
        return Kubectl(name)
    if workspace.simulated:
        remedy = (
            f"Deploy the stack to a real cluster and name its context: {command} --context NAME"
        )
        raise OperationError(
            f"The nodes of a simulated cluster run no containers, so {otherwise}. {remedy}"
        )
    if is_rehearsed(workspace):
        raise OperationError(
            f"{workspace.stack} is rehearsed on this machine, and the pods of a rehearsal run no"
            f" containers, so {otherwise}. Name the context of a real cluster: {command} --context"
            " NAME"
        )
    raise RequestError(
        f"{workspace.file.shown_path} names no context of a kubeconfig. Name one: {command}"
        " --context NAME"
    )


@dataclass(frozen=True)
class ContainerLog:
    """The last lines of one container; `problem` says why there are none."""

    pod: str
    container: str
    text: str
    problem: str = ""


def read_logs(
    workspace: Workspace, model: str, *, context: str | None, lines: int
) -> list[ContainerLog]:
    """The last `lines` of each container of `model`, init containers first, of its preheat and its
    engine build. Raises OperationError.
    """
    settings = workspace.settings
    if model not in settings.models:
        raise RequestError(unknown("model", model, settings.models, owner=workspace.stack))
    command = f"inferplan logs {model} --stack {workspace.typed}"
    cluster = real_cluster(
        workspace, context, otherwise=f"{model} has no logs there", command=command
    )
    namespace = settings.namespace
    pods = cluster.get(
        f"/api/v1/namespaces/{namespace}/pods?labelSelector=app.kubernetes.io%2Finstance%3D{model}"
    )["items"]
    if not pods:
        raise OperationError(
            f"{model} has no pod in namespace {namespace}. inferplan status shows what is missing."
        )
    logs = []
    for pod in sorted(pods, key=lambda each: each["metadata"]["name"]):
        name, spec = pod["metadata"]["name"], pod["spec"]
        for container in [*spec.get("initContainers", ()), *spec["containers"]]:
            try:
                logs.append(
                    ContainerLog(
                        name,
                        container["name"],
                        cluster.log(namespace, name, container["name"], lines),
                    )
                )
            except OperationError as error:
                logs.append(ContainerLog(name, container["name"], "", str(error)))
    return logs


_PROXY_SECONDS = 30.0


@contextmanager
def proxy_socket(kubectl: Kubectl) -> Iterator[Path]:
    """The socket of a proxy to the cluster that `kubectl` reads. Raises OperationError if the proxy
    does not start.
    """
    with tempfile.TemporaryDirectory(prefix="inferplan-") as folder:
        path = Path(folder) / "api.sock"
        command = kubectl.command(
            "proxy",
            "--unix-socket",
            str(path),
            "--reject-paths",
            "^/api/.*/(exec|attach|portforward)",
        )
        pipes = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
        }
        try:
            process = subprocess.Popen(command, text=True, **pipes)
        except FileNotFoundError:
            raise OperationError(NOT_INSTALLED) from None
        with process:
            try:
                # It prints a line once it listens, or an error.
                announcement = process.stdout.readline() if process.stdout else ""
                if "Starting to serve" not in announcement:
                    problem = announcement.strip() or "it said nothing"
                    raise OperationError(
                        f"kubectl proxy did not start: {problem}. Check: {kubectl.shown} version"
                    )
                yield path
            finally:
                process.terminate()


def send(
    path: Path,
    method: str,
    address: str,
    body: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, bytes]:
    """Status and content of the answer through the socket `path`. Raises OSError and HTTPException."""
    with closing(_SocketConnection(path)) as connection:
        # A server may answer and close before it has read the whole request.
        with suppress(BrokenPipeError):
            connection.request(
                method, address, body, {"Accept": "application/json", **(headers or {})}
            )
        response = connection.getresponse()
        return response.status, response.read()


class _SocketConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_PROXY_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_PROXY_SECONDS)
        self.sock.connect(str(self._path))
