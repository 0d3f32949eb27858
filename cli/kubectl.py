"""Reads a cluster through kubectl, with the user's own kubeconfig: every way of logging in that kubectl knows works here too.

It asks and never changes anything.
"""

from __future__ import annotations

import json
import subprocess
from tempfile import NamedTemporaryFile
from typing import Any

from cli.errors import CommandError

_SECONDS = 15


class Kubectl:
    """The cluster behind one context of the user's kubeconfig, or of `config`, a kubeconfig in a file that ends with this object."""

    def __init__(self, context: str, config: str | None = None) -> None:
        self._context = context
        self._file = None
        if config is not None:
            self._file = NamedTemporaryFile("w", suffix=".kubeconfig")  # noqa: SIM115 - it must be there for as long as kubectl may be asked
            self._file.write(config)
            self._file.flush()

    def get(self, path: str) -> Any:
        """The decoded answer to GET `path` of the Kubernetes API. Raises CommandError with kubectl's own words."""
        done = self._ask(path)
        if done.returncode:
            words = " ".join(done.stderr.split())[:300] or f"kubectl ended with {done.returncode}"
            remedy = f"check: kubectl --context {self._context} get --raw {path}"
            raise CommandError(f"the cluster behind context {self._context!r} does not answer {path}: {words}; {remedy}", exit_code=1)
        return json.loads(done.stdout)

    def last_line(self, namespace: str, pod: str, container: str) -> str:
        """The newest line that a container logged, empty where its log cannot be read."""
        done = self._ask(f"/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}&tailLines=1")
        lines = [] if done.returncode else done.stdout.strip().splitlines()
        return lines[-1] if lines else ""

    def _ask(self, path: str) -> subprocess.CompletedProcess[str]:
        chosen = [] if self._file is None else ["--kubeconfig", self._file.name]
        command = ["kubectl", *chosen, "--context", self._context, "--request-timeout", f"{_SECONDS}s", "get", "--raw", path]
        try:
            return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise CommandError("there is no kubectl on PATH, and only it can log in to this cluster; install it", exit_code=1) from None
