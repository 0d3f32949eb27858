"""Measures the cost of the gateway's checks: its nginx against the same nginx with a bare `proxy_pass`, in one run, as ratios.

Both stand before the same backend and take turns, so a busy machine hits them alike. Reported are requests a second, the
processor time of the proxy for each request, the added median latency, what 1,000 keys cost against one, and ways to check
a key that were weighed against each other.
Needs nginx and wrk on PATH.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.ending import ended
from tests.dataplane.gateway.stand import Proxy, consumer, endpoint, spec
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 7
SECONDS = 2
CONNECTIONS = 16
LEAST_THROUGHPUT = 0.85
MOST_ADDED_MS = 1.0
MOST_FOR_THOUSAND_KEYS = 1.2
_ANSWER = "x" * 200
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Figures:
    """Requests a second, median latency in milliseconds, and processor microseconds for each request, round by round."""

    rates: list[float]
    latencies: list[float]
    costs: list[float]

    def median(self, which: str) -> float:
        """The middle of the rounds of `which` series."""
        return statistics.median(getattr(self, which))


@dataclass(frozen=True)
class Subject:
    """One proxy under load: its address, the header that opens it, and its process."""

    name: str
    port: int
    key: str
    pid: int


def _nginx(binary: str, folder: Path, name: str, http: str, head: str = "") -> subprocess.Popen[bytes]:
    folder = folder / name
    folder.mkdir()
    temporary = "".join(f"{kind}_temp_path {folder}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    config = folder / "nginx.conf"
    config.write_text(
        f"{head}worker_processes 1; pid {folder}/nginx.pid; error_log stderr crit; pcre_jit on;\n"
        f"events {{ worker_connections 4096; }}\nhttp {{ access_log /dev/null; map_hash_bucket_size 256; {temporary}\n{http}\n}}\n"
    )
    user = "user root; " if os.geteuid() == 0 else ""
    return subprocess.Popen([binary, "-c", str(config), "-p", str(folder), "-g", f"{user}daemon off;"])


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(60)


def _answers(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _await(port: int) -> None:
    end = time.monotonic() + 120
    while not _answers(port):
        if time.monotonic() > end:
            raise TimeoutError(f"nothing listens on 127.0.0.1:{port}")
        time.sleep(0.01)


def _processor_seconds(pid: int) -> float:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    fields = [Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split() for child in children]
    return sum(int(each[11]) + int(each[12]) for each in fields) / _TICK


def _load(subject: Subject, figures: Figures) -> None:
    before = _processor_seconds(subject.pid)
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "--latency", "-H", f"Authorization: Bearer {subject.key}"]
    url = f"http://127.0.0.1:{subject.port}/llama/v1/models"
    said = subprocess.run([*command, url], check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in said:
        raise RuntimeError(f"{subject.name} refuses the load: {said}")
    requests = int(_found(r"(\d+) requests in", said))
    value, unit = re.findall(r"50%\s+([\d.]+)(us|ms|s)", said)[0]
    figures.rates.append(float(_found(r"Requests/sec:\s+([\d.]+)", said)))
    figures.latencies.append(float(value) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[unit])
    figures.costs.append((_processor_seconds(subject.pid) - before) / requests * 1e6)


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise RuntimeError(f"wrk said nothing like {pattern}: {text}")
    return match[1]


def gateway(stack: ExitStack, folder: Path, backend: int, consumers: int) -> Proxy:
    """The gateway before `backend` with one key for each of `consumers`; stopped with `stack`."""
    home = folder / f"gateway-{consumers}"
    home.mkdir()
    proxy = Proxy(home)
    # One worker, as the bare proxy has, and no log on disk for either: what is compared is the work for a request.
    object.__setattr__(proxy.layout, "workers", 1)
    object.__setattr__(proxy.layout, "access_log", "/dev/null")
    names = {f"c{number}": consumer(keys=[1]) for number in range(consumers)}
    stack.callback(proxy.stop)
    proxy.run(spec(), [endpoint("llama", backend, tuple(names))], names)
    return proxy


def _alternatives(binary: str, folder: Path, backend: int, sidecar: int, key: str) -> dict[str, Callable[[int], subprocess.Popen[bytes]]]:
    """Ways to know a key, in a proxy that does nothing else: none, the key itself in a map, a hash, njs with SHA-256, a sidecar.

    The sidecar at port `sidecar` says yes to everything over kept connections, so no real one costs less.
    """
    forward = f"location / {{ proxy_pass http://127.0.0.1:{backend}; }}"
    known = f'map $http_authorization $who {{ default ""; "Bearer {key}" c0; }}'
    script = folder / "hash.js"
    script.write_text(
        "import c from 'crypto'; export default { of: r => c.createHash('sha256').update(r.headersIn.Authorization || '').digest('hex') };"
    )
    digest = hashlib.sha256(f"Bearer {key}".encode()).hexdigest()
    hashed = (
        f'js_path {folder}/; js_import gateway from hash.js; js_set $digest gateway.of; map $digest $who {{ default ""; {digest} c0; }}'
    )
    check = 'if ($who = "") { return 401; }'
    ways = {"bare proxy_pass": ("", "", ""), "key in a map": ("", known, check)}
    md5 = base64.urlsafe_b64encode(hashlib.md5(f"Bearer {key} salt".encode(), usedforsecurity=False).digest()).rstrip(b"=").decode()
    linked = f'secure_link "{md5}"; secure_link_md5 "$http_authorization salt"; map $secure_link $who {{ default ""; 1 c0; }}'
    ways["secure_link hash"] = ("", linked, check)
    asked = f"upstream sidecar {{ server 127.0.0.1:{sidecar}; keepalive 32; }}"
    asking = (
        "auth_request /auth; location = /auth { internal; proxy_pass http://sidecar; proxy_pass_request_body off; "
        'proxy_set_header Content-Length ""; proxy_http_version 1.1; proxy_set_header Connection ""; }'
    )
    ways["auth sidecar"] = ("", asked, asking)
    module = next((path for path in ("/usr/lib/nginx/modules/ngx_http_js_module.so",) if Path(path).exists()), None)
    if module is not None:
        ways["njs with SHA-256"] = (f"load_module {module};\n", hashed, check)
    return {
        name: lambda port, parts=parts, name=name: _nginx(
            binary, folder, name.replace(" ", "-"), f"{parts[1]} server {{ listen 127.0.0.1:{port}; {parts[2]} {forward} }}", parts[0]
        )
        for name, parts in ways.items()
    }


def throughput(folder: Path) -> dict[str, Figures]:
    """Loads every subject in turn, `ROUNDS` times; keyed by what it is."""
    with ExitStack() as stack:
        backend = free_port()
        proxies = [gateway(stack, folder, backend, count) for count in (1, 1000)]
        binary = proxies[0].binary
        serving = _nginx(binary, folder, "backend", f"server {{ listen 127.0.0.1:{backend}; location / {{ return 200 '{_ANSWER}'; }} }}")
        stack.callback(_stop, serving)
        _await(backend)
        sidecar = free_port()
        answering = _nginx(binary, folder, "sidecar", f"server {{ listen 127.0.0.1:{sidecar}; location / {{ return 204; }} }}")
        stack.callback(_stop, answering)
        _await(sidecar)
        key = proxies[0].key("c0")
        subjects = []
        for name, start in _alternatives(binary, folder, backend, sidecar, key).items():
            port = free_port()
            process = start(port)
            stack.callback(_stop, process)
            _await(port)
            subjects.append(Subject(name, port, key, process.pid))
        for proxy, name in zip(proxies, ("gateway, 1 key", "gateway, 1,000 keys"), strict=True):
            subjects.append(Subject(name, proxy.port, key, proxy.pid))
        made = {subject.name: Figures([], [], []) for subject in subjects}
        for _ in range(ROUNDS):
            for subject in subjects:
                _load(subject, made[subject.name])
    return made


def main() -> int:
    """Prints the figures; 1 when a goal is missed, 0 otherwise, and also when nginx or wrk is missing."""
    if shutil.which("wrk") is None or shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
        print("gateway: skipped, needs nginx and wrk on PATH (apt-get install nginx-light wrk)")
        return 0
    with tempfile.TemporaryDirectory() as name:
        made = throughput(Path(name))
    bare, ours, many = made["bare proxy_pass"], made["gateway, 1 key"], made["gateway, 1,000 keys"]
    for subject, figures in made.items():
        share = statistics.median(one / other for one, other in zip(figures.rates, bare.rates, strict=True))
        print(
            f"{subject:>20}: {figures.median('rates'):8.0f} requests/s ({share:.2f} of bare), p50 {figures.median('latencies'):.2f} ms, "
            f"{figures.median('costs'):.0f} us of processor a request"
        )
    share = statistics.median(one / other for one, other in zip(ours.rates, bare.rates, strict=True))
    added = ours.median("latencies") - bare.median("latencies")
    growth = statistics.median(one / other for one, other in zip(many.costs, ours.costs, strict=True))
    goals = {
        f"keeps {share:.2f} of the bare throughput (at least {LEAST_THROUGHPUT})": share >= LEAST_THROUGHPUT,
        f"adds {added:.2f} ms at the median (at most {MOST_ADDED_MS})": added <= MOST_ADDED_MS,
        f"1,000 keys cost {growth:.2f} of one (at most {MOST_FOR_THOUSAND_KEYS})": growth <= MOST_FOR_THOUSAND_KEYS,
    }
    for goal, met in goals.items():
        print(f"{'ok    ' if met else 'MISSED'} gateway {goal}")
    return 0 if all(goals.values()) else 1


if __name__ == "__main__":
    sys.exit(ended(main, "benchmarks.gateway"))
