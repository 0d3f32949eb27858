"""A body without a deadline for its whole takes a call of its consumer's share, and nothing else.

Nginx limits only the pauses of such bodies: those below 10 KB at /v1, and all at /<model>/v1.
"""

from __future__ import annotations

import select
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from inferplan.components.gateway import consumer_spec
from tests.dataplane.gateway.stand import wait_for
from tests.dataplane.gateway.test_shares import (
    HONEST,
    MB,
    body,
    chunked,
    gateway,
    memory,
    opened,
    status,
)

CALLS = 200
MINE = CALLS // 4
PAUSE_SECONDS = 0.2
SLOW = {
    "tiny at /v1": ("/v1", 9_000),
    "small at /v1": ("/v1", 90_000),
    "small at its model": ("/llama/v1", 9_000),
    "large at its model": ("/llama/v1", 1_500_000),
}


@pytest.mark.parametrize(("path", "size"), SLOW.values(), ids=SLOW)
def test_a_consumer_with_slow_bodies_loses_its_own_calls_and_no_other_does(
    tmp_path, monkeypatch, path, size
):
    monkeypatch.setattr(consumer_spec, "CALLS", CALLS)
    with gateway(tmp_path, "greedy", *HONEST) as (proxy, _sink), ExitStack() as stack:
        before, done = memory(proxy), threading.Event()

        def slow_call():
            return stack.enter_context(closing(opened(proxy, "greedy", size, b" ", path)))

        slow = [slow_call() for _ in range(MINE)]

        def trickle() -> None:
            while not done.wait(PAUSE_SECONDS):
                for call in slow:
                    call.sendall(b" ")

        def denied() -> bool:
            text = body(200)
            with closing(opened(proxy, "greedy", len(text), text, path)) as more:
                return status(more) == 429

        def used_up() -> bool:
            # An earlier probe may have had the place of a slow body, which was denied instead.
            answered = select.select(slow, [], [], 0)[0]
            slow[:] = [slow_call() if each in answered else each for each in slow]
            return not answered and denied()

        wait_for(used_up, "the consumer has used its share")
        trickling = stack.enter_context(ThreadPoolExecutor()).submit(trickle)
        stack.callback(done.set)
        with ThreadPoolExecutor(len(HONEST)) as pool:
            assert set().union(*pool.map(lambda name: _statuses(proxy, name), HONEST)) == {200}
        assert denied()
        # Every slow body is still under way, and takes no more memory than the limit is derived from.
        assert not trickling.done()
        assert not select.select(slow, [], [], 0)[0]
        assert memory(proxy) - before < 1.1 * MINE * (54_000 + 2 * min(size, 99_999)) + 16 * MB


def _statuses(proxy, name):
    """The answers to bodies of each kind, at both addresses."""
    statuses = set()
    for size in (200, 9_000, 20_000, 150_000, 1_500_000, None):
        for path in ("/v1", "/llama/v1"):
            text = body(size or 200)
            with closing(opened(proxy, name, size, text if size else chunked(text), path)) as call:
                statuses.add(status(call))
    return statuses
