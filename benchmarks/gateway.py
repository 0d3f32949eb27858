"""Measures the cost of the gateway's checks: its nginx against the same nginx with a bare `proxy_pass`, in one run, as ratios.

All proxies forward to the same backend and take turns, so a busy machine slows them alike. Reported are requests a second, the
processor time of the proxy for each request, the added median latency, and the cost of 1,000 keys against one.
Needs nginx and wrk on PATH.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measuring import Result, answers, at_least, at_most, folder_in_memory, median_ratio, run, unbounded
from tests.dataplane.gateway.stand import Proxy, consumer, endpoint, spec
from tests.ports import free_port

ROUNDS, SECONDS, CONNECTIONS = 7, 2, 16
LEAST_THROUGHPUT, MOST_ADDED_MS, MOST_FOR_THOUSAND_KEYS = 0.85, 1.0, 1.2
_ANSWER = "x" * 200
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Subject:
    """One proxy under load: its port and process; and round by round requests a second, median milliseconds, processor us a request."""

    port: int
    pid: int
    rates: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)


@contextmanager
def _nginx(binary: str, folder: Path, port: int, directives: str) -> Iterator[int]:
    """Run an nginx at `port` with `directives` for every path; yields its process id."""
    folder.mkdir()
    temporary = "".join(f"{kind}_temp_path {folder}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    config = folder / "nginx.conf"
    config.write_text(
        f"worker_processes 1; pid {folder}/nginx.pid; error_log stderr crit; pcre_jit on;\n"
        f"events {{ worker_connections 4096; }}\nhttp {{ access_log /dev/null; map_hash_bucket_size 256; {temporary}\n"
        f"server {{ listen 127.0.0.1:{port}; location / {{ {directives} }} }}\n}}\n"
    )
    user = "user root; " if os.geteuid() == 0 else ""
    process = subprocess.Popen([binary, "-c", str(config), "-p", str(folder), "-g", f"{user}daemon off;"])
    try:
        end = time.monotonic() + 120
        while not answers(port):
            if time.monotonic() > end:
                raise TimeoutError(f"nothing listens on 127.0.0.1:{port}")
            time.sleep(0.01)
        yield process.pid
    finally:
        process.terminate()
        process.wait(60)


def gateway(stack: ExitStack, folder: Path, backend: int, consumers: int) -> Proxy:
    """The gateway before `backend` with one key for each of `consumers`; stopped with `stack`."""
    home = folder / f"gateway-{consumers}"
    home.mkdir()
    proxy = Proxy(home)
    # One worker and no log on disk, as the bare proxy has: only the work for a request is compared.
    object.__setattr__(proxy.layout, "workers", 1)
    object.__setattr__(proxy.layout, "access_log", "/dev/null")
    names = {f"c{number}": consumer(keys=[1]) for number in range(consumers)}
    stack.callback(proxy.stop)
    proxy.run(spec(), [endpoint("llama", backend, tuple(names))], names)
    return proxy


def throughput(folder: Path) -> dict[str, Subject]:
    with ExitStack() as stack:
        backend, port = free_port(), free_port()
        proxies = [gateway(stack, folder, backend, count) for count in (1, 1000)]
        binary, key = proxies[0].binary, proxies[0].key("c0")
        stack.enter_context(_nginx(binary, folder / "backend", backend, f"return 200 '{_ANSWER}';"))
        bare = stack.enter_context(_nginx(binary, folder / "bare", port, f"proxy_pass http://127.0.0.1:{backend};"))
        subjects = {"bare proxy_pass": Subject(port, bare)}
        for proxy, name in zip(proxies, ("gateway, 1 key", "gateway, 1,000 keys"), strict=True):
            subjects[name] = Subject(proxy.port, proxy.pid)
        for _ in range(ROUNDS):
            for name, subject in subjects.items():
                _load(name, subject, key)
    return subjects


def _load(name: str, subject: Subject, key: str) -> None:
    before = _processor_seconds(subject.pid)
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "--latency", "-H", f"Authorization: Bearer {key}"]
    url = f"http://127.0.0.1:{subject.port}/llama/v1/models"
    output = subprocess.run([*command, url], check=True, capture_output=True, text=True).stdout
    match = re.search(r"50%\s+([\d.]+)(us|ms|s)(?s:.*)\s(\d+) requests in(?s:.*)Requests/sec:\s+([\d.]+)", output)
    if match is None or "Non-2xx" in output:
        raise RuntimeError(f"{name} denies the load: {output}")
    latency, unit, requests, rate = match.groups()
    subject.rates.append(float(rate))
    subject.latencies.append(float(latency) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[unit])
    subject.costs.append((_processor_seconds(subject.pid) - before) / int(requests) * 1e6)


def _processor_seconds(pid: int) -> float:
    """Processor time of the workers of an nginx."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    fields = [Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split() for child in children]
    return sum(int(each[11]) + int(each[12]) for each in fields) / _TICK


def figures() -> Iterator[Result]:
    """The figures of every subject, and those of the gateway that have bounds; none without nginx and wrk."""
    if shutil.which("wrk") is None or shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
        yield unbounded("gateway", "skipped, needs nginx and wrk on PATH (apt-get install nginx-light wrk)")
        return
    with folder_in_memory() as name:
        subjects = throughput(Path(name))
    bare, ours, many = subjects["bare proxy_pass"], subjects["gateway, 1 key"], subjects["gateway, 1,000 keys"]
    for label, each in subjects.items():
        rate, latency, cost = map(statistics.median, (each.rates, each.latencies, each.costs))
        share = median_ratio(each.rates, bare.rates)
        yield unbounded(label, f"{rate:.0f} requests/s ({share:.2f} of bare), p50 {latency:.2f} ms, {cost:.0f} us of processor a request")
    yield at_least("throughput relative to bare", median_ratio(ours.rates, bare.rates), LEAST_THROUGHPUT)
    added = statistics.median(ours.latencies) - statistics.median(bare.latencies)
    yield at_most("median latency added", added, MOST_ADDED_MS, " ms")
    yield at_most("processor time with 1,000 keys relative to one", median_ratio(many.costs, ours.costs), MOST_FOR_THOUSAND_KEYS)


if __name__ == "__main__":
    run(figures, "benchmarks.gateway")
