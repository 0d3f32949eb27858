"""Prometheus itself on 127.0.0.1, which scrapes a target of the test every second. Needs the
program `prometheus` (Debian's package).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.rehearsal.operator_programs import await_ready, free_ports, running

_CONFIG = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
- job_name: stack
  honor_labels: true
  file_sd_configs: [{{files: [{targets}], refresh_interval: 1s}}]
"""


class Metrics:
    """The target: `values` by series. A series that is not in it is not exposed; a target that is
    down answers nothing (503).
    """

    def __init__(self, targets: Path) -> None:
        self.values: dict[str, float] = {}
        self.down = False
        self.address = ""
        self.target = ""
        self._targets = targets

    def list_targets(self, *targets: str) -> None:
        """Write the targets that Prometheus discovers."""
        part = self._targets.with_suffix(".part")
        part.write_text(json.dumps([{"targets": list(targets)}] if targets else []))
        part.replace(self._targets)


@contextmanager
def prometheus(directory: Path) -> Iterator[Metrics]:
    """Run Prometheus with its data in `directory` until the block ends."""
    metrics = Metrics(directory / "targets.json")

    class Handler(BaseHTTPRequestHandler):
        """Answers `/metrics`."""

        def do_GET(self) -> None:
            body = "".join(
                f"{series} {value:g}\n" for series, value in metrics.values.items()
            ).encode()
            self.send_response(503 if metrics.down else 200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            metrics.target = f"127.0.0.1:{server.server_port}"
            metrics.list_targets(metrics.target)
            (directory / "prometheus.yml").write_text(
                _CONFIG.format(targets=directory / "targets.json")
            )
            [port] = free_ports(1)
            metrics.address = f"http://127.0.0.1:{port}"
            command = [
                "prometheus",
                f"--config.file={directory}/prometheus.yml",
                f"--storage.tsdb.path={directory}/data",
            ]
            log = directory / "prometheus.log"
            with running([*command, f"--web.listen-address=127.0.0.1:{port}"], log) as process:
                await_ready(process, f"{metrics.address}/-/ready", log)
                yield metrics
        finally:
            server.shutdown()
            thread.join()
