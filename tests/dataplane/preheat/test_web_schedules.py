"""Random series of what web servers do, while the source changes and runs are stopped: the
invariants hold, and the end is READY.

A schedule follows from its number. To repeat one: pytest
tests/dataplane/preheat/test_web_schedules.py -k 'schedule[17]'.
"""

from __future__ import annotations

import random
import time

import pytest

from inferplan.components.sources import WebStore

from .conftest import running
from .rig import MODEL, kill_group, small_model, verified
from .wild_web import Wild

pytestmark = pytest.mark.timeout(180)

SAMPLE, ALL = (1, 2), 200
GRACE_SECONDS = 20


def version(number):
    files = small_model()
    return files | {
        "config.json": b'{"version": %d}' % number,
        "sub/vocab.txt": b"a\n" * 90,
        "sub/deep/part.json": b"[1, 2]",
    }


class Schedule:
    """One series of runs, with what the server did to each."""

    def __init__(self, seed, job, web):
        self.random = random.Random(seed)  # noqa: S311 - a schedule, nothing secret
        self.web, self.versions = web, 0
        self.story = [f"seed {seed}"]
        tuning = {"retries": 2, "report_seconds": 60.0, "stall_seconds": 5.0, "lease_seconds": 0.4}
        self.job = job(source=WebStore(address=f"{web.url}/llm"), tuning=tuning)
        self.change()

    def change(self):
        self.web.put(version(self.versions), f"llm/{MODEL}")
        self.versions += 1

    def misbehave(self):
        web, draw = self.web, self.random
        web.reset()
        paths = sorted(web.files)
        target = draw.choice(paths)
        folder = f"/llm/{MODEL}/" + draw.choice(["", "sub/", "sub/deep/"])
        first = draw.randint(1, 3)
        last = first + draw.choice([0, 0, 1, 100])
        action = draw.choice(
            [
                ("cut", draw.randint(0, 600)),
                ("undelimited", draw.randint(0, 600)),
                ("status", 503),
                ("stall",),
            ]
        )
        asked = draw.choice([target, folder])
        web.faults.plan = lambda path, count: (
            action if path == asked and first <= count <= last else None
        )
        web.slashless = draw.random() < 0.3
        web.redirects = draw.random() < 0.7
        web.page_size = draw.choice([0, 0, 0, 2])
        encoded, denied = draw.random() < 0.2, draw.random() < 0.2
        web.says_so, web.login_is_a_redirect = draw.random() < 0.5, draw.random() < 0.5
        web.encodes = lambda path: encoded and path == target
        web.denies = lambda path: denied and path in (target, folder)
        self.story.append(
            f"{action} for {asked} from {first} to {last}, {encoded=} {denied=}"
            f" {vars(web)['page_size']=} {web.slashless=}"
        )
        self.job.invariants.about = ", then ".join(self.story)

    def step(self):
        self.misbehave()
        if self.random.random() < 0.3:
            self.change()
        wanted = self.random.randint(1, 12)
        if self.random.random() < 0.3:
            process = self.job.underway(
                lambda: sum(self.web.faults.gets.values()) >= wanted, may_fail=True
            )
            if self.random.random() < 0.5:
                kill_group(process)
            else:
                began = time.monotonic()
                process.terminate()
                process.communicate(timeout=60)
                assert time.monotonic() - began < GRACE_SECONDS, self.job.invariants.about
        else:
            self.job.run()
        self.job.invariants.check(self.job)

    def end(self):
        was_ready = self.job.ready
        self.web.reset()
        outcome = self.job.retried()
        if not was_ready:
            verified(outcome, self.job, version(self.versions - 1))
        assert outcome.code == 0, f"{outcome}; {self.job.invariants.about}"


@pytest.fixture
def wild():
    yield from running(Wild())


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=() if seed in SAMPLE else pytest.mark.full) for seed in range(ALL)],
)
def test_schedule(job, wild, seed):
    schedule = Schedule(seed, job, wild)
    for _ in range(schedule.random.randint(1, 2)):
        schedule.step()
    schedule.end()
