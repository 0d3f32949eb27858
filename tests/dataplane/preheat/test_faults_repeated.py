"""Many faults at once, at random places, many times: each run ends verified or refused with the
reason, and the next one mends it.
"""

from __future__ import annotations

import random
import re
import threading

import pytest

from .origins import bucket_origin, hub_origin, web_origin
from .rig import MIB, refused, tiny_model, verified

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]

SHARD, OTHER = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
MODEL_FILES = tiny_model(12 * MIB, 12 * MIB)
RUNS = 25
STALLS = 0.03
# 3 refused, 5 the source failed; only these say that it was the source's fault.
REASONS = {
    3: r"differs from the source|cut off or damaged",
    5: (
        r"did not deliver|stopped sending|keeps changing|did not answer as it should|sends other"
        r" bytes each time"
    ),
}


@pytest.fixture(params=["bucket", "web", "hub"])
def origin(request):
    give = request.getfixturevalue
    match request.param:
        case "bucket":
            made = bucket_origin(give("store"), give("proxy"), give("put"))
        case "web":
            made = web_origin(give("web"))
        case _:
            made = hub_origin(give("hub"))
    made.put(MODEL_FILES)
    return made


class Weather:
    """What happens to each GET of a file, decided by `seed`, the file and the number of the GET:
    mostly nothing.
    """

    def __init__(self, seed: int, origin, replacement) -> None:
        self._seed = seed
        self._origin = origin
        self._replacement = replacement
        self._once = threading.Event()
        rng = random.Random(seed)  # noqa: S311 - places of faults, nothing secret
        self._share = rng.uniform(0.05, 0.5)
        self._replaced_at = rng.randrange(1, 6) if replacement and rng.random() < 0.3 else 0
        origin.servers[0].faults.failing_lists = rng.randrange(3)
        self.happened = {f"{origin.servers[0].faults.failing_lists} lists"}

    def __call__(self, path: str, count: int):
        if path.endswith(SHARD) and count == self._replaced_at and not self._once.is_set():
            self._once.set()
            return ("call", lambda: self._origin.put(self._replacement))
        rng = random.Random(f"{self._seed} {path} {count}")  # noqa: S311 - as above
        if rng.random() > self._share:
            return None
        at = rng.randrange(12 * MIB)
        actions = [
            ("status", 500),
            ("status", 503),
            ("cut", at),
            ("cut", 0),
            ("flip", at),
            ("flip", at % 20),
        ]
        # A connection that falls silent costs its whole patience, so it is the rarest.
        action = ("stall",) if rng.random() < STALLS else rng.choice(actions)
        self.happened.add(action[0])
        return action

    @property
    def replaced(self) -> bool:
        return self._once.is_set()


@pytest.mark.parametrize("seed", range(RUNS))
def test_whatever_happens_on_the_way_ends_verified_or_refused_with_the_reason(
    request, job, origin, seed
):
    model = MODEL_FILES
    pinned = "hub" in request.node.callspec.id
    replacement = {} if pinned else {SHARD: model[OTHER]}
    weather = Weather(seed, origin, replacement)
    origin.fail(weather)
    made = job(
        source=origin.source,
        weights=origin.weights,
        tuning={"retries": 3, "segment_bytes": 4 * MIB, "stall_seconds": 5.0},
    )
    outcome = made.run(timeout=500)
    now = model | replacement if weather.replaced else model
    if outcome.code == 0:
        verified(outcome, made, now)
    else:
        refused(outcome, made, outcome.code)
        assert outcome.code in REASONS, (weather.happened, outcome.output)
        last = outcome.output.splitlines()[-1]
        assert re.search(REASONS[outcome.code], last), last
        assert "; " in last, "what to do"
    for server in origin.servers:
        server.reset()
    again = made.run()
    verified(again, made, now)
