"""Adds up the tokens of consumers by day, and marks those who have used their budget with a file that nginx looks for.

Each gateway pod runs it. Model servers send the sums since their start to every pod, and the pods send theirs to each other, so that a
new pod has all of them. A sum only grows, and the larger one counts: what arrives twice or late changes nothing.
"""

import json
import os
import socket
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_LARGEST = 1 << 22
_PAUSE_SECONDS, _IDLE_SECONDS = 2, 10


def today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())


class Ledger:
    """Tokens by day, process of a server, and consumer."""

    def __init__(self, budgets: dict[str, int]) -> None:
        self.budgets, self.changed = budgets, threading.Event()
        self._lock, self._days = threading.Lock(), {}

    def merge(self, days: dict[str, Any]) -> None:
        """Take the larger sums of `days`. Raises ValueError, TypeError or AttributeError for anything else."""
        sums = [
            (day, process, consumer, count)
            for day, processes in days.items()
            for process, own in processes.items()
            for consumer, count in own.items()
        ]
        if not all(type(count) is int and count >= 0 for *_, count in sums):
            raise ValueError("not a count of tokens")
        with self._lock:
            for day, process, consumer, count in sums:
                if consumer in self.budgets and day >= today():
                    own = self._days.setdefault(day, {}).setdefault(process, {})
                    if count > own.get(consumer, -1):
                        own[consumer] = count
                        self.changed.set()

    def document(self) -> bytes:
        with self._lock:
            return json.dumps(self._days).encode()

    def spent(self) -> set[str]:
        """Return the names of the files that deny calls."""
        day, sums = today(), dict.fromkeys(self.budgets, 0)
        with self._lock:
            self._days = {each: own for each, own in self._days.items() if each >= day}
            for own in self._days.get(day, {}).values():
                for consumer, count in own.items():
                    sums[consumer] += count
        return {f"{name}.{day}" for name, count in sums.items() if count >= self.budgets[name]}


def mark(folder: Path, names: set[str]) -> None:
    for path in folder.iterdir():
        if path.name not in names:
            path.unlink()
    for name in names:
        (folder / name).touch()


def exchange(ledger: Ledger, service: str) -> None:
    """Send the sums to every pod of `service`, and take theirs."""
    for place in service.split(","):
        host, _, port = place.rpartition(":")
        for *_, (address, *_) in socket.getaddrinfo(host, int(port), socket.AF_INET, socket.SOCK_STREAM):
            try:
                request = urllib.request.Request(f"http://{address}:{port}/", ledger.document())
                with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - a pod of the gateway
                    ledger.merge(json.loads(answer.read()))
            except (OSError, ValueError, TypeError, AttributeError):
                continue  # a pod that starts or ends; the next round sends everything again


def keep(ledger: Ledger, folder: Path, service: str) -> None:
    while True:
        ledger.changed.clear()
        try:
            mark(folder, ledger.spent())
            exchange(ledger, service)
        except OSError as error:
            print(f"budgets: {error}", file=sys.stderr, flush=True)
        ledger.changed.wait(_IDLE_SECONDS)
        time.sleep(_PAUSE_SECONDS)


def handler(ledger: Ledger) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_POST(self) -> None:
            try:
                ledger.merge(json.loads(self.rfile.read(min(_LARGEST, int(self.headers["Content-Length"])))))
            except (ValueError, TypeError, AttributeError):
                self._answer(400, b"not sums of tokens")
            else:
                self._answer(200, ledger.document())

        def do_GET(self) -> None:
            self._answer(200 if self.path == "/healthz" else 404, b"")

        def _answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            pass

    return Handler


def main(budgets: str, folder: str, service: str, listen: str) -> None:
    ledger = Ledger(json.loads(budgets))
    threading.Thread(target=keep, args=(ledger, Path(folder), service), daemon=True).start()
    host, _, port = listen.rpartition(":")
    ThreadingHTTPServer((host, int(port)), handler(ledger)).serve_forever()


if __name__ == "__main__":
    main(*(os.environ[name] for name in ("BUDGETS", "FOLDER", "SERVICE", "LISTEN")))
