"""The caches of replicas and the choice by prefix, in a simulated trace."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from inferplan.predict.prefixes import Choice, PrefixCache
from inferplan.predict.simulation import Rule, Simulation
from inferplan.predict.traces import Trace, TraceError, read_trace
from tests.unit.predict.test_simulation import replica

# Each of 64 beginnings has four blocks, and one more is each prompt's own.
BEGINNINGS, REQUESTS, RATE = 64, 4000, 32.0


def trace():
    chance = np.random.default_rng(7)
    whose = chance.integers(0, BEGINNINGS, REQUESTS)
    blocks = tuple(
        (*(int(10 * each) + block for block in range(4)), 1000 + number)
        for number, each in enumerate(whose)
    )
    arrivals = np.cumsum(chance.exponential(1 / RATE, REQUESTS))
    return Trace(arrivals, np.full(REQUESTS, 1000), np.full(REQUESTS, 11), blocks)


def outcome(**choice):
    rule = Rule(least=4, most=4)
    return Simulation(
        trace(), replica(), rule, (None, None), choice=Choice(cached_blocks=100, **choice)
    ).run()


def test_a_cache_keeps_what_was_read_last_and_the_beginnings_of_prompts():
    cache = PrefixCache()
    assert cache.read([1, 2, 3], 4) == 0
    assert cache.read([1, 2, 4], 4) == 2
    assert cache.read([7, 8], 4) == 0
    assert cache.read([1, 2, 4], 4) == 2, "the ends of prompts go before their beginnings"
    assert cache.read([7, 9], 4) == 1


def test_a_router_finds_prompts_in_caches_and_shortens_the_wait():
    random, routed = outcome(), outcome(beginning=256)
    assert (routed.cached_percent or 0) > 2 * (random.cached_percent or 0) > 0
    assert routed.ttft_p95 < 0.7 * random.ttft_p95
    # Four of five blocks are shared, and no cache has more.
    assert 65 < (routed.cached_percent or 0) <= 80


def test_without_a_cache_a_router_gains_nothing():
    assert (
        Simulation(trace(), replica(), Rule(least=4, most=4), (None, None)).run().cached_percent
        is None
    )


class Busy:
    ready_at = 0.0

    def __init__(self, running):
        self._running = running

    def running(self, now):
        del now
        return self._running


def test_a_router_leaves_a_replica_that_is_much_busier_than_the_others():
    idle = [Busy(0), Busy(0), Busy(0)]
    choice = Choice(beginning=256, cached_blocks=1)
    first = idle.index(choice.of(idle, (5,), 0.0, 0.0))
    for load, leaves in ((10, False), (40, True)):
        servers = [Busy(load if each == first else 0) for each in range(3)]
        assert (servers.index(choice.of(servers, (5,), 0.0, 0.0)) != first) is leaves


def test_a_trace_of_mooncake_has_the_hashes_of_prompts(tmp_path):
    rows: list[dict[str, Any]] = [
        {"timestamp": 1000 * each, "input_length": 1000, "output_length": 9, "hash_ids": [0, each]}
        for each in range(3)
    ]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert read_trace(path, "t.jsonl").blocks == ((0, 0), (0, 1), (0, 2))
    del rows[1]["hash_ids"]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert read_trace(path, "t.jsonl").blocks == ()
    rows[1]["hash_ids"] = ["a"]
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(TraceError, match=r"t\.jsonl:2: .* is not a request"):
        read_trace(path, "t.jsonl")
