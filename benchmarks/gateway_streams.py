"""Measures streams and single calls through the gateway against a bare nginx that keeps its
connections, in one run.

A stream has 200 events, each sent by itself; reported is the processor time of the proxy. Single
calls, 100 a second, take turns between the proxies: reported is what the gateway adds to the
99th percentile and to the median. Needs nginx and wrk on PATH, and a quiet machine for the times.
"""

import http.client
import json
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from benchmarks.gateway import (
    BARE,
    ONE,
    OWN,
    Subject,
    gateway,
    keeping_nginx,
    load,
    script,
)
from benchmarks.measuring import (
    Result,
    at_most,
    folder_in_memory,
    median_ratio,
    serving,
    unbounded,
)
from tests.ports import free_port

EVENTS, ROUNDS, CALLS, CALLS_A_SECOND = 200, 5, 500, 100
MOST_FOR_STREAM, MOST_ADDED_MS = 1.15, 0.6
_SERVER = """
import asyncio, sys
EVENT = b"data: " + b"x" * 200 + b"\\n\\n"
CHUNK = b"%x\\r\\n%b\\r\\n" % (len(EVENT), EVENT)
async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\\r\\n\\r\\n")).lower()
            await reader.readexactly(int(head.split(b"content-length: ")[1].split()[0]))
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/event-stream\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n")
            for _ in range(int(sys.argv[2])):
                writer.write(CHUNK)
                await writer.drain()
                await asyncio.sleep(0)
            writer.write(b"0\\r\\n\\r\\n")
    except (ConnectionError, asyncio.IncompleteReadError):
        writer.close()
async def main(port):
    await (await asyncio.start_server(serve, "127.0.0.1", port)).serve_forever()
asyncio.run(main(int(sys.argv[1])))
"""


def figures() -> Iterator[Result]:
    if shutil.which("wrk") is None:
        yield unbounded("streams", "skipped, needs wrk on PATH (apt-get install wrk)")
        return
    with folder_in_memory() as name, ExitStack() as stack:
        folder = Path(name)
        streams, answers = free_port(), free_port()
        for port, events in ((streams, EVENTS), (answers, 1)):
            server = [sys.executable, "-c", _SERVER, str(port), str(events)]
            stack.enter_context(serving(server, port))
        of_streams, of_answers = folder / "streams", folder / "answers"
        of_streams.mkdir()
        of_answers.mkdir()
        yield from _streams(stack, of_streams, streams)
        yield from _single_calls(stack, of_answers, answers)


def _streams(stack: ExitStack, folder: Path, backend: int) -> Iterator[Result]:
    proxy, port = gateway(stack, folder, backend, 1), free_port()
    bare = stack.enter_context(keeping_nginx(proxy.binary, folder / "bare", port, backend))
    post = script(folder / "post.lua", proxy.key("c0"), 28)
    subjects = {
        BARE: Subject(post, port, bare),
        "gateway": Subject(post, proxy.port, proxy.pid, OWN),
        "/v1": Subject(post, proxy.port, proxy.pid, ONE),
    }
    for _ in range(ROUNDS):
        for name, subject in subjects.items():
            load(name, subject)
    for name, subject in subjects.items():
        yield unbounded(
            f"{name}, stream of {EVENTS} events",
            f"{statistics.median(subject.costs):.0f} us of processor a stream",
        )
    for name in ("gateway", "/v1"):
        ratio = median_ratio(subjects[name].costs, subjects[BARE].costs)
        yield at_most(f"processor time of a stream through {name}", ratio, MOST_FOR_STREAM)


def _single_calls(stack: ExitStack, folder: Path, backend: int) -> Iterator[Result]:
    proxy, port = gateway(stack, folder, backend, 1), free_port()
    stack.enter_context(keeping_nginx(proxy.binary, folder / "bare", port, backend))
    ports = {"bare": port, "gateway": proxy.port}
    body = json.dumps({"model": "llama", "prompt": "x" * 2000})
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {proxy.key('c0')}"}
    times: dict[str, list[float]] = {name: [] for name in ports}
    with ExitStack() as clients:
        connections = {
            name: clients.enter_context(closing(http.client.HTTPConnection("127.0.0.1", each)))
            for name, each in ports.items()
        }
        due = time.perf_counter()
        for _ in range(CALLS):
            for name, connection in connections.items():
                time.sleep(max(0.0, due - time.perf_counter()))
                due += 1 / CALLS_A_SECOND
                begun = time.perf_counter()
                connection.request("POST", OWN, body, headers)
                connection.getresponse().read()
                times[name].append((time.perf_counter() - begun) * 1000)
    for label, part in (("p99", 98), ("median", 49)):
        bare, ours = (statistics.quantiles(times[name], n=100)[part] for name in ports)
        text = f"milliseconds that the gateway adds at the {label} with {CALLS_A_SECOND} calls/s"
        yield at_most(f"{text} ({bare:.2f} bare)", ours - bare, MOST_ADDED_MS)
