"""A name server for nginx."""

from __future__ import annotations

import socket
import threading
from contextlib import closing

from tests.dataplane.gateway.stand import Proxy
from tests.patience import PATIENCE_SECONDS


class NameServer:
    """A name server that says where `llama.inference.svc.cluster.test` is, for a second at a time, while
    `answers` is set. It knows no host that is `missing`.
    """

    def __init__(self) -> None:
        self.address = b"\x7f\x00\x00\x01"
        self.asked: list[str] = []
        self.missing: set[str] = set()
        self.answers = threading.Event()
        self.answers.set()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.answers.set()
        # A socket that is closed under a thread which reads it goes on reading; an empty datagram
        # ends that first.
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as end:
            end.sendto(b"", self.socket.getsockname())
        self.thread.join(PATIENCE_SECONDS)
        self.socket.close()

    def _run(self) -> None:
        while True:
            query, peer = self.socket.recvfrom(512)
            if not query:
                return
            name, at = [], 12
            while size := query[at]:
                name.append(query[at + 1 : at + 1 + size].decode())
                at += size + 1
            kind = int.from_bytes(query[at + 1 : at + 3], "big")
            self.asked.append(".".join(name))
            question = query[12 : at + 5]
            found = kind == 1 and name[0] not in self.missing and self.address
            record = (
                b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x01\x00\x04" + self.address if found else b""
            )
            self.answers.wait(PATIENCE_SECONDS)
            self.socket.sendto(
                query[:2]
                + b"\x81\x80\x00\x01"
                + (b"\x00\x01" if found else b"\x00\x00")
                + b"\x00" * 4
                + question
                + record,
                peer,
            )

    def serve(self, proxy: Proxy) -> None:
        """Make it the resolver of a proxy that is not started yet."""
        runtime = proxy.directory / "runtime.conf"
        address = f"resolver 127.0.0.1:{self.socket.getsockname()[1]} valid=1s;"
        runtime.write_text(runtime.read_text().replace("resolver 127.0.0.1 valid=10s;", address))
