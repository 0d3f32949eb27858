"""A run that is killed at any moment is completed by the next one."""

from __future__ import annotations

import functools
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from inferplan.rehearsal.apply.run import applied, apply, down
from tests.lanes import in_full
from tests.rehearsal.engine_programs import PROJECT, exists, names, objects_in, platform

pytestmark = pytest.mark.cluster

STACK = "crash"
# The child kills itself the way `kill -9` does, right before or right after its n-th request that
# changes something.
CHILD = """
import functools, itertools, json, os, signal, sys
from pathlib import Path
from inferplan.rehearsal.cluster import require_owned
from inferplan.kube.api import Api
from inferplan.rehearsal.apply.run import apply
from tests.rehearsal.engine_programs import platform

job = json.loads(sys.argv[1])
send, numbers = Api._send, itertools.count(1)

def watched(self, method, *args, **more):
    if method == "GET":
        return send(self, method, *args, **more)
    mine = next(numbers)  # in one step, as requests are sent by several threads
    if mine == job["at"] and not job["after"]:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        return send(self, method, *args, **more)
    finally:  # a refusal is an answer too
        if mine == job["at"]:
            os.kill(os.getpid(), signal.SIGKILL)

Api._send = watched
program = functools.partial(platform, "default", made=False, **job["program"])
apply(program, require_owned(Path(job["kubeconfig"]), job["context"]), project=job["project"], stack=job["stack"])
"""


def killed_run(cluster, *, at, after, **program):
    """Whether a run of `program` in a child was killed at its request number `at`; false when it
    ended before.
    """
    job = {"at": at, "after": after, "program": program, "project": PROJECT, "stack": STACK}
    job |= {"kubeconfig": str(cluster.kubeconfig), "context": cluster.context}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(job)],
        env=os.environ,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode == -signal.SIGKILL


@pytest.fixture(autouse=True)
def clean(cluster):
    yield
    down(cluster)


def settled(cluster, **program):
    """Run once more to its end, then twice: the second time nothing changes."""
    wanted = functools.partial(platform, "default", made=False, **program)
    outcome = apply(wanted, cluster, project=PROJECT, stack=STACK)
    again = apply(wanted, cluster, project=PROJECT, stack=STACK)
    assert again.total_changes == 0
    assert names(again.unchanged) == names(applied(cluster))
    return outcome


@pytest.mark.parametrize(
    ("at", "after"),
    [
        (1, True),
        (7, False),
        *in_full((1, False), (7, True), *itertools.product((2, 4, 9), (False, True))),
    ],
)
def test_next_run_finishes_first_run_that_was_killed_at_a_request(cluster, at, after):
    assert killed_run(cluster, at=at, after=after, models=2)
    settled(cluster, models=2)
    assert set(objects_in(cluster, "default")) == {
        "ConfigMap settings",
        "Secret key",
        *(
            kind
            for index in range(2)
            for kind in (
                f"Deployment model-{index}",
                f"Job model-{index}-gate",
                f"Service model-{index}",
            )
        ),
    }


@pytest.mark.parametrize("at", [12, *in_full(3, 5, 8, 11, 13)])
def test_next_run_finishes_update_that_was_killed_while_replacing_and_pruning(cluster, at):
    settled(cluster, models=2, image="server:1", key="first-key")
    assert killed_run(cluster, at=at, after=True, models=1, image="server:2", key="second-key")
    settled(cluster, models=1, image="server:2", key="second-key")
    found = objects_in(cluster, "default")
    assert set(found) == {
        "ConfigMap settings",
        "Secret key",
        "Deployment model-0",
        "Job model-0-gate",
        "Service model-0",
    }
    assert (
        found["Job model-0-gate"]["spec"]["template"]["spec"]["containers"][0]["image"]
        == "server:2"
    )
    assert found["Secret key"]["data"] == {"key": "c2Vjb25kLWtleQ=="}


def test_undeclared_objects_of_a_killed_run_are_pruned(cluster):
    assert killed_run(cluster, at=9, after=True, models=2)
    assert objects_in(cluster, "default")
    outcome = apply(lambda: None, cluster, project=PROJECT, stack=STACK)
    assert outcome.deleted
    assert objects_in(cluster, "default") == {}
    assert applied(cluster) == []


def test_down_deletes_objects_of_a_killed_run(cluster):
    assert killed_run(cluster, at=8, after=True, models=2)
    down(cluster)
    assert objects_in(cluster, "default") == {}
    assert not exists(cluster, "/api/v1/nodes/default-node")
