"""Serves the metrics file of a preheat over HTTP, until Kubernetes ends the container: python3
serve_metrics.py FILE PORT.
"""

import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Metrics(BaseHTTPRequestHandler):
    """Answers GET /metrics with the file; with nothing while the run has not written it."""

    file: Path
    timeout = 10

    def do_GET(self) -> None:
        known = self.path.partition("?")[0] == "/metrics"
        try:
            body = self.file.read_bytes() if known else b""
        except OSError:
            body = b""
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Log nothing: a scrape every few seconds would hide the rest."""


if __name__ == "__main__":
    Metrics.file = Path(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ThreadingHTTPServer(("", int(sys.argv[2])), Metrics).serve_forever()
