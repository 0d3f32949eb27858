"""Measures the cost of the gateway's checks: its nginx against the same nginx with a bare
`proxy_pass` that keeps connections, in one run, as ratios.

All proxies forward the same POST of 2 KB to the same backend and take turns, so a busy machine
slows them alike. Reported are requests a second, the processor time of the proxy for each request,
the median latency, the cost of /v1, which reads the model from the body, also with bodies of 20 KB
and 300 KB, and of 1,000 keys with 200 models against one of each. Envoy, Caddy and LiteLLM with the
same key take turns too where they are installed.
Needs nginx and wrk on PATH.
"""

import json
import os
import re
import shutil
import statistics
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from benchmarks.gateway_peers import ONE, OWN, PEERS, missing, peers
from benchmarks.measuring import (
    Result,
    at_least,
    at_most,
    folder_in_memory,
    median_ratio,
    processor_seconds,
    serving,
    unbounded,
)
from tests.dataplane.gateway.stand import Proxy, consumer, endpoint, spec
from tests.ports import free_port

ROUNDS, SECONDS, CONNECTIONS = 7, 2, 16
# Requests in a second of processor time, relative to the bare one.
LEAST_WORK, MOST_LATENCY, MOST_FOR_MANY = 0.65, 1.25, 1.05
# Another gateway with the same key must not need less.
LEAST_OF_PEER = 1.0
# A budget may take a quarter of the requests.
LEAST_WITH_BUDGET = 0.75
# LiteLLM reads the answer.
_ANSWER = json.dumps(
    {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "llama",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "yes"},
            }
        ],
        "usage": {"prompt_tokens": 400, "completion_tokens": 1, "total_tokens": 401},
    }
)
_LINE = "lorem ipsum dolor sit amet, consectetur adipisici elit, sed eiusmod\n"
# Lines of a prompt, by the size that labels show.
_LINES = {"": 28, "20 KB": 280, "300 KB": 4200}
BARE, _LARGE = "bare proxy_pass", ("20 KB", "300 KB")


@dataclass(frozen=True)
class Subject:
    """One address under load: wrk's script, port, process, path and seconds of a round; by round
    requests a second, median milliseconds, processor us a request.
    """

    script: Path
    port: int
    pid: int
    path: str = OWN
    seconds: int = SECONDS
    rates: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)


@contextmanager
def bare_nginx(
    binary: str, folder: Path, port: int, directives: str, upstream: str = ""
) -> Iterator[int]:
    """Run an nginx at `port` with `directives` for every path; yields its process id."""
    folder.mkdir()
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind}; "
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / "nginx.conf"
    config.write_text(
        f"worker_processes 1; pid {folder}/nginx.pid; error_log stderr crit; pcre_jit on;\nevents"
        " { worker_connections 4096; }\nhttp { access_log /dev/null; map_hash_bucket_size 256;"
        f" {temporary}\n{upstream}\nserver {{ listen 127.0.0.1:{port}; location / {{ {directives} }} }}\n}}\n"
    )
    user = "user root; " if os.geteuid() == 0 else ""
    with serving(
        [binary, "-c", str(config), "-p", str(folder), "-g", f"{user}daemon off;"], port
    ) as pid:
        yield pid


def keeping_nginx(
    binary: str, folder: Path, port: int, backend: int
) -> AbstractContextManager[int]:
    """The reference: an nginx at `port` that forwards everything and keeps its connections."""
    return bare_nginx(
        binary,
        folder,
        port,
        'proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection "";'
        " proxy_buffering off;",
        f"upstream model {{ server 127.0.0.1:{backend}; keepalive 64; }}",
    )


def gateway(
    stack: ExitStack,
    folder: Path,
    backend: int,
    consumers: int,
    models: int = 1,
    limits: Mapping[str, int] = MappingProxyType({}),
) -> Proxy:
    """The gateway before `backend` with one key and `limits` for each of `consumers`, and `models`
    models; stopped with `stack`.
    """
    home = folder / f"gateway-{consumers}-{models}-{len(limits)}"
    home.mkdir()
    proxy = Proxy(home)
    # One worker and no log on disk, as the bare proxy has: only the work for a request is compared.
    object.__setattr__(proxy.layout, "workers", 1)
    object.__setattr__(proxy.layout, "access_log", "/dev/null")
    names = {f"c{number}": consumer(keys=[1], limits=limits) for number in range(consumers)}
    stack.callback(proxy.stop)
    others = [f"model-{number}" for number in range(models - 1)]
    proxy.run(
        spec(), [endpoint(model, backend, tuple(names)) for model in ("llama", *others)], names
    )
    return proxy


def throughput(folder: Path) -> dict[str, Subject]:
    with ExitStack() as stack:
        backend, port = free_port(), free_port()
        one, many = (gateway(stack, folder, backend, *counts) for counts in ((1, 1), (1000, 200)))
        budgeted = gateway(stack, folder, backend, 1, limits={"tokensPerDay": 10**15})
        binary = one.binary
        posts = {
            size: script(folder / f"post-{count}.lua", one.key("c0"), count)
            for size, count in _LINES.items()
        }
        stack.enter_context(
            bare_nginx(
                binary,
                folder / "backend",
                backend,
                f"default_type application/json; return 200 '{_ANSWER}';",
            )
        )
        bare = stack.enter_context(keeping_nginx(binary, folder / "bare", port, backend))
        subjects = {BARE: Subject(posts[""], port, bare)}
        paths = {
            "gateway": (one, OWN),
            "gateway, 1,000 keys and 200 models": (many, OWN),
            "/v1": (one, ONE),
            "/v1, 1,000 keys and 200 models": (many, ONE),
            "gateway, budget of tokens": (budgeted, OWN),
            "/v1, budget of tokens": (budgeted, ONE),
        }
        for name, (proxy, path) in paths.items():
            subjects[name] = Subject(posts[""], proxy.port, proxy.pid, path)
        for size in _LARGE:
            # Streams the body, as /v1 cannot; the bare proxy would write it to a file.
            subjects[f"gateway, {size}"] = Subject(posts[size], one.port, one.pid)
            subjects[f"/v1, {size}"] = Subject(posts[size], one.port, one.pid, ONE)
        for name, (ports, pid) in peers(stack, folder, backend, one.key("c0")):
            for path, each in ports.items():
                label = f"{name}, /v1" if path == ONE else name
                # LiteLLM answers a few dozen calls in a second.
                seconds = SECONDS * 5 if name == "LiteLLM" else SECONDS
                subjects[label] = Subject(posts[""], each, pid, path, seconds)
        for _ in range(ROUNDS):
            for name, subject in subjects.items():
                load(name, subject)
    return subjects


def script(file: Path, key: str, lines: int) -> Path:
    """Write wrk's script that posts a prompt of so many lines to `file`."""
    body = json.dumps(
        {
            "messages": [{"role": "user", "content": _LINE * lines}],
            "model": "llama",
            "stream": False,
        }
    )
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    settings = [f'wrk.headers["{name}"] = "{value}"' for name, value in headers.items()]
    file.write_text("\n".join(['wrk.method = "POST"', *settings, f"wrk.body = [==[{body}]==]"]))
    return file


def load(name: str, subject: Subject) -> None:
    before = processor_seconds(subject.pid)
    command = [
        "wrk",
        "-t1",
        f"-c{CONNECTIONS}",
        f"-d{subject.seconds}s",
        "--latency",
        "-s",
        str(subject.script),
    ]
    url = f"http://127.0.0.1:{subject.port}{subject.path}"
    output = subprocess.run([*command, url], check=True, capture_output=True, text=True).stdout
    match = re.search(
        r"50%\s+([\d.]+)(us|ms|s)(?s:.*)\s(\d+) requests in(?s:.*)Requests/sec:\s+([\d.]+)", output
    )
    if match is None or "Non-2xx" in output:
        raise RuntimeError(f"{name} denies the load: {output}")
    latency, unit, requests, rate = match.groups()
    subject.rates.append(float(rate))
    subject.latencies.append(float(latency) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[unit])
    subject.costs.append((processor_seconds(subject.pid) - before) / int(requests) * 1e6)


def figures() -> Iterator[Result]:
    """The figures of every subject, and those of the gateway that have bounds; none without nginx
    and wrk.
    """
    if (
        shutil.which("wrk") is None
        or shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None
    ):
        yield unbounded(
            "gateway", "skipped, needs nginx and wrk on PATH (apt-get install nginx-light wrk)"
        )
        return
    with folder_in_memory() as name:
        subjects = throughput(Path(name))
    bare, ours, ours_of_many, one, one_of_many, ours_budgeted, one_budgeted, *_ = subjects.values()
    for label, each in subjects.items():
        rate, latency, cost = map(statistics.median, (each.rates, each.latencies, each.costs))
        size = label.rpartition(", ")[2]
        other = f"gateway, {size}" if size in _LARGE else BARE
        share = median_ratio(subjects[other].costs, each.costs)
        yield unbounded(
            label,
            f"{cost:.1f} us of processor a request ({share:.2f} of the requests of {other} in that"
            f" time), {rate:.0f} requests/s, p50 {latency:.2f} ms",
        )
    for label, each in (("gateway", ours), ("/v1", one)):
        yield at_least(
            f"requests of {label} in a second of processor time, relative to bare",
            median_ratio(bare.costs, each.costs),
            LEAST_WORK,
        )
    for label, each in subjects.items():
        peer, _, path = label.partition(", ")
        if peer in PEERS:
            name, here = ("/v1", one) if path else ("gateway", ours)
            yield at_least(
                f"processor time of {peer} relative to {name}",
                median_ratio(each.costs, here.costs),
                LEAST_OF_PEER,
            )
    for reason in missing():
        yield unbounded("gateway relative to a peer", f"skipped, {reason}")
    yield at_most(
        "median latency relative to bare",
        median_ratio(ours.latencies, bare.latencies),
        MOST_LATENCY,
    )
    for label, each, fewer in (("gateway", ours_of_many, ours), ("/v1", one_of_many, one)):
        yield at_most(
            f"processor time of {label} with 1,000 keys and 200 models relative to one",
            median_ratio(each.costs, fewer.costs),
            MOST_FOR_MANY,
        )
    for label, each, free in (("gateway", ours_budgeted, ours), ("/v1", one_budgeted, one)):
        yield at_least(
            f"requests of {label} with a budget of tokens relative to none",
            median_ratio(free.costs, each.costs),
            LEAST_WITH_BUDGET,
        )
