"""Small HTTPS requests to one cluster's components with the administrator's certificate; no client library.

It reads only: whatever changes objects is the engine's.
"""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rehearsal.errors import ClusterError

_OK = 200


class Client:
    """Asks the components of one cluster; trusts that cluster's own authority and no other."""

    def __init__(self, pki: Path) -> None:
        self._pki = pki
        self._tls: ssl.SSLContext | None = None

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(self._pki / "ca.crt")
            context.load_cert_chain(self._pki / "admin.crt", self._pki / "admin.key")
            self._tls = context
        return self._tls

    def fetch(self, url: str, timeout: float) -> tuple[int, bytes]:
        """Status and body of GET `url`.

        Raises:
            OSError: no connection, no answer within `timeout` seconds, or a certificate of another authority.
        """
        parts = urlsplit(url)
        host, port = parts.hostname or "127.0.0.1", parts.port or 443
        if parts.scheme == "https":
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(host, port, timeout=timeout, context=self._context())
        else:
            connection = http.client.HTTPConnection(host, port, timeout=timeout)
        try:
            connection.request("GET", f"{parts.path}?{parts.query}" if parts.query else parts.path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except http.client.HTTPException as fault:
            raise OSError(f"{type(fault).__name__}: {fault}") from fault
        finally:
            connection.close()

    def complaint(self, url: str, timeout: float) -> str | None:
        """None where a health address says well, else what is amiss in a few words."""
        try:
            status, body = self.fetch(url, timeout)
        except OSError as fault:
            return fault.strerror or str(fault) or type(fault).__name__
        if status == _OK:
            return None
        failed = [
            line.removeprefix("[-]").partition(" failed")[0] for line in body.decode(errors="replace").splitlines() if line[:3] == "[-]"
        ]
        others = f" and {len(failed) - 2} more of its own checks" if len(failed) > 2 else ""
        return ", ".join(failed[:2]) + others or f"HTTP {status}"

    def get(self, server: str, path: str, timeout: float) -> Any:
        """The decoded JSON answer to GET `path`.

        Raises:
            ClusterError: no answer, or an error answer; its message carries the server's words.
        """
        try:
            status, body = self.fetch(server + path, timeout)
        except OSError as fault:
            raise ClusterError(
                f"the simulated cluster at {server} does not answer: {fault}", "start it again: a half-dead cluster is repaired"
            ) from fault
        if status != _OK:
            raise ClusterError(
                f"GET {path} on {server} answered HTTP {status}: {_words(body)}", "check the path and that the API is served"
            )
        return json.loads(body)


def _words(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace").strip()[:200]
