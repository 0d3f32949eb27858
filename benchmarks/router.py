"""Measures the router of a model against a random choice of the replica, in one run.

Four servers of vLLM on CPU with a small generated model, two routers of smg as a stack declares them,
and prompts that share a few long beginnings. The cache of one server has room for a third of them.
Takes minutes and the environments of the full lane, so it runs only on request: `python -m benchmarks
router`.
"""

import http.client
import itertools
import json
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

from benchmarks.measuring import Result, at_least, at_most, unbounded
from inferplan.components.router.spec import RouterSpec
from tests.dataplane.serving.environment import Environment, Unavailable, environment
from tests.dataplane.serving.router_stand import RouterProcess, router
from tests.dataplane.serving.vllm_stand import START_SECONDS, TINY, VllmProcess, prepared, serve
from tests.unit.serving.models import container_of, vllm

SERVERS, BEGINNINGS, ROUNDS, AT_ONCE = 4, 16, 6, 4
LENGTH, BLOCK, BLOCKS = 1900, 32, 400
LEAST_HITS, MOST_TTFT = 2.0, 0.7
_KEY = "sk-server"
_HITS, _QUERIES = "vllm:prefix_cache_hits_total{", "vllm:prefix_cache_queries_total{"
_SIZES = {
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 4096,
}
_MODEL = vllm(
    dtype="float32",
    maxModelLen=4096,
    maxNumSeqs=8,
    blockSize=BLOCK,
    enablePrefixCaching=True,
    # Servers that share processors do not bind threads to them.
    env={"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"},
    extraArgs=["--enforce-eager", f"--num-gpu-blocks-override={BLOCKS}"],
)


def figures() -> Iterator[Result]:
    try:
        engine, routers = prepared(environment("full/vllm")), environment("router")
    except Unavailable as reason:
        yield unbounded("router", f"skipped: {reason}")
        return
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        servers = _servers(engine, folder, stack)
        hits, times = {}, {}
        for policy in ("random", "prefix_hash"):
            hits[policy], times[policy] = _measure(routers, folder, policy, servers)
            text = f"{hits[policy]:.0%} of the prompts in a cache, p95 {times[policy]:.2f} s"
            yield unbounded(f"{policy}, to the first token", text)
    policy = "prefix_hash"
    yield at_least("cache hits by random", hits[policy] / hits["random"], LEAST_HITS)
    yield at_most("p95 to the first token by random", times[policy] / times["random"], MOST_TTFT)


def _servers(engine: Environment, folder: Path, stack: ExitStack) -> list[VllmProcess]:
    command = [str(engine.python), str(TINY), str(folder / "chat"), json.dumps(_SIZES)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    container = container_of(_MODEL)
    servers = []
    for _ in range(SERVERS):
        servers.append(serve(engine, container, models=folder, key=_KEY, directory=folder))
        stack.callback(servers[-1].stop)
    for server in servers:
        server.await_ready("/health", START_SECONDS)
    return servers


def _measure(
    routers: Environment, folder: Path, policy: str, servers: Sequence[VllmProcess]
) -> tuple[float, float]:
    """Return the share of prompt tokens that were in a cache, and the 95th percentile of the times to
    the first token, after each beginning was sent once.
    """
    # Each policy has beginnings of its own, so that it finds no cache of the other.
    chance = random.Random(policy)  # noqa: S311 - the same prompts each time are wanted
    beginnings = [
        "".join(chance.choice("abcdefghij ") for _ in range(LENGTH)) for _ in range(BEGINNINGS)
    ]
    ports, spec = [each.port for each in servers], RouterSpec.model_validate({"policy": policy})
    with ExitStack() as stack:
        pair = [
            stack.enter_context(router(routers, folder, ports, _KEY, spec=spec)) for _ in range(2)
        ]
        for each in pair:
            each.await_ready(_KEY, len(ports))
        numbers = itertools.count()
        pool = stack.enter_context(ThreadPoolExecutor(AT_ONCE))

        def send(rounds: int) -> list[float]:
            jobs = [
                (chance.choice(pair), f"{beginning} question {next(numbers)} {'x' * 40}")
                for _ in range(rounds)
                for beginning in chance.sample(beginnings, BEGINNINGS)
            ]
            return list(pool.map(lambda job: _first_token(*job), jobs))

        send(1)
        before = _counted(ports)
        times = sorted(send(ROUNDS))
        hits, queries = (after - each for after, each in zip(_counted(ports), before, strict=True))
    return hits / queries, times[int(len(times) * 0.95)]


def _first_token(running: RouterProcess, prompt: str) -> float:
    body = {"model": "chat", "prompt": prompt, "max_tokens": 2, "stream": True, "ignore_eos": True}
    headers = {"Authorization": f"Bearer {_KEY}", "Content-Type": "application/json"}
    began = time.monotonic()
    with closing(http.client.HTTPConnection("127.0.0.1", running.port, timeout=300)) as connection:
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        if answer.status != http.client.OK or not answer.readline().startswith(b"data:"):
            raise RuntimeError(f"the router answered {answer.status}")
        seconds = time.monotonic() - began
        answer.read()
    return seconds


def _counted(ports: Sequence[int]) -> tuple[float, float]:
    """Return the prompt tokens that were found in a cache, and those that were looked for."""
    lines = [line for port in ports for line in _get(port, "/metrics").splitlines()]
    hits, queries = (
        sum(float(line.split()[-1]) for line in lines if line.startswith(name))
        for name in (_HITS, _QUERIES)
    )
    return hits, queries


def _get(port: int, path: str) -> str:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=300)) as connection:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
