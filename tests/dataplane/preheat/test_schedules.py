"""Random interleavings of Jobs that are stopped, killed and hit by disk faults, while their source
changes: the invariants hold after each step.

A schedule follows from its number. To repeat one: pytest tests/dataplane/preheat/test_schedules.py
-k 'schedule[17]'.
"""

from __future__ import annotations

import copy
import os
import random

import pytest

from .disk_faults import EVERY, Fault, arm, resume, stopped
from .invariants import CHANGE_SOMETHING
from .local import local_job, put, source_of
from .rig import MIB, kill_group, safetensors, small_model

pytestmark = pytest.mark.timeout(120)

SHORT, ALL = 4, 500
# Every dead or stopped holder of the lock costs its successor as long.
LEASE_SECONDS = 0.4
# A run that starts from nothing changes the share so often.
CALLS = 125
ERRORS = ("ENOSPC", "EDQUOT", "EIO", "ESTALE")
SHARD, LARGE = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def version(number):
    """One large file, which travels in segments, and small ones; versions differ in bytes and not
    in sizes.
    """
    files = small_model()
    return files | {
        LARGE: safetensors(8 * MIB + 4096, number),
        "config.json": b'{"version": %04d}' % number,
    }


class Schedule:
    """One interleaving, with what it did so far."""

    def __init__(self, seed, make, folder):
        self.random = random.Random(seed)  # noqa: S311 - a schedule, nothing secret
        self.folder = folder
        self.story = [f"seed {seed}"]
        self.suspended = []
        self.versions = 1
        put(folder, version(0))
        tuning = {"lease_seconds": LEASE_SECONDS, "segment_bytes": 5 * MIB, "retries": 1}
        self.jobs = [
            local_job(make, folder, name=name, tuning=tuning) for name in ("one", "two", "three")
        ]

    @property
    def invariants(self):
        return self.jobs[0].invariants

    def tell(self, event):
        self.story.append(event)
        self.invariants.about = self.about

    def job(self):
        job = copy.copy(self.random.choice(self.jobs))
        job.env = dict(job.env)
        return job

    def fault(self):
        first = self.random.randint(1, CALLS)
        action = self.random.choice(["STOP", "STOP", "KILL", *ERRORS])
        last = first + self.random.choice([0, 0, 3, EVERY // 2]) if action in ERRORS else first
        return Fault(action, first=first, last=last)

    def start(self):
        job, fault = self.job(), self.fault()
        self.tell(f"{job.name} with {fault}")
        process = arm(job, fault).start()
        if stopped(process):
            self.suspended.append(process)
            return
        process.communicate()
        self.over(process.returncode)

    def go_on(self):
        process = self.suspended.pop(self.random.randrange(len(self.suspended)))
        self.tell("a stopped one goes on")
        code, _output = resume(process)
        self.over(code)

    def over(self, code):
        # Nothing that a schedule does is for the user to change.
        assert code not in CHANGE_SOMETHING, f"exit code {code}; {self.about}"

    def change(self):
        self.tell("the source changes")
        put(self.folder, version(self.versions))
        self.versions += 1

    def lose_locks(self):
        self.tell("the lock files are lost")
        self.job().expire()

    def step(self):
        choices = [self.start] * 5 + [self.change] + [self.lose_locks]
        if self.suspended:
            choices += [self.go_on] * 3
        # Three at a time: another one would only wait for the same lock.
        (self.go_on if len(self.suspended) == 3 else self.random.choice(choices))()
        self.invariants.check(self.job())

    def end(self):
        while self.suspended:
            self.go_on()
        # Whatever said "try again" is right: without a fault the next run ends well.
        last = self.job()
        outcome = last.retried()
        assert outcome.code == 0, f"{outcome}; {self.about}"
        left = sorted(
            str(path.relative_to(last.target))
            for path in (last.target / ".inferplan" / "staging").rglob("*")
        )
        assert not left, f"{left}; {self.about}"

    @property
    def about(self):
        return ", then ".join(self.story)


@pytest.fixture
def schedule(job, tmp_path):
    made = []

    def make(seed):
        made.append(Schedule(seed, job, source_of(tmp_path)))
        return made[-1]

    yield make
    for each in made:
        for process in each.suspended:
            kill_group(process)


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=() if seed < SHORT else pytest.mark.full) for seed in range(ALL)],
)
def test_schedule(schedule, seed):
    made = schedule(seed)
    print(f"PREHEAT schedule {seed}, process {os.getpid()}")
    for _ in range(made.random.randint(2, 3 if seed < SHORT else 5)):
        made.step()
    made.end()
