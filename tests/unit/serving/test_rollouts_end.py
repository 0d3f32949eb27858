"""A rollout that the plan accepts ends, wherever the scheduler puts the pods: replicas 1 to 8,
accelerators per pod 1, 2, 4 and 8, spare 0 to 8.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from math import ceil
from typing import TYPE_CHECKING

import pytest

from inferplan.stackfile.checks.placement import room_for_surge
from tests.unit.serving.models import deployment_of, pool, vllm

if TYPE_CHECKING:
    from collections.abc import Iterator

OFFERED = 8
NODES = {count: pool("nvidia-l40s", machine="g6e.48xlarge", nodes=count) for count in range(1, 18)}
MODES = ("inPlace", "surge")
SPECS = {
    (cards, mode): vllm(tensorParallelSize=cards, rollout=mode)
    for cards in (1, 2, 4, 8)
    for mode in MODES
}
# A node: its free accelerators, its old and its new pods. The order of nodes means nothing.
Node = tuple[int, int, int]
State = tuple[Node, ...]


@pytest.fixture(scope="module")
def steps():
    """The pods that the Deployment of each mode adds and removes at a time."""
    rolling = {
        mode: deployment_of(vllm(rollout=mode))["strategy"]["rollingUpdate"] for mode in MODES
    }
    return {mode: (each["maxSurge"], each["maxUnavailable"]) for mode, each in rolling.items()}


def successors(
    state: State, waiting: int, replicas: int, cards: int, step: tuple[int, int]
) -> Iterator[tuple[State, int]]:
    """What the controller and the scheduler can do next; started pods are ready. `waiting` new pods
    have no node.
    """
    surge, missing = step
    old, new = sum(each[1] for each in state), sum(each[2] for each in state)
    if new + waiting < replicas and old + new + waiting < replicas + surge:
        yield state, waiting + 1
    for index, (free, olds, news) in enumerate(state):
        rest = (*state[:index], *state[index + 1 :])
        if olds and old + new > replicas - missing:
            yield tuple(sorted((*rest, (free + cards, olds - 1, news)))), waiting
        if waiting and free >= cards:
            yield tuple(sorted((*rest, (free - cards, olds, news + 1)))), waiting - 1


@cache
def ends(start: State, replicas: int, cards: int, step: tuple[int, int]) -> bool:
    """True if no sequence of steps from `start` stops before every pod is new."""
    seen, todo = {(start, 0)}, [(start, 0)]
    while todo:
        state, waiting = todo.pop()
        reachable = set(successors(state, waiting, replicas, cards, step))
        if not reachable and (waiting or sum(each[2] for each in state) < replicas):
            return False
        todo += reachable - seen
        seen |= reachable
    return True


def placements(
    pods: int, cards: int, nodes: int, size: int, others: int, least: tuple[int, int] = (0, 0)
) -> Iterator[State]:
    """The ways to place `pods` of `cards` and `others` of `size` accelerators on the nodes; a node
    has at least the pods of the one before.
    """
    if nodes == 0:
        if pods == others == 0:
            yield ()
        return
    for old, other in product(
        range(min(pods, OFFERED // cards) + 1), range(min(others, OFFERED // size) + 1)
    ):
        free = OFFERED - cards * old - size * other
        if (old, other) >= least and free >= 0:
            for rest in placements(
                pods - old, cards, nodes - 1, size, others - other, (old, other)
            ):
                yield ((free, old, 0), *rest)


def accepted(replicas: int, cards: int, mode: str, nodes: int, size: int, others: int) -> bool:
    model = SPECS[cards, mode].model_copy(update={"replicas": replicas})
    models = {"m": model, "other": SPECS[size, "inPlace"].model_copy(update={"replicas": others})}
    target = NODES[nodes]
    return not [
        *model.shared_pool_errors(target, models["other"].most_accelerators),
        *room_for_surge(models, "m", target),
    ]


def cases(replicas: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Accelerators per pod, spare ones, those of other models' pods, nodes and other pods, for the
    fewest nodes that have the spare ones.
    """
    for cards, spare, size in product((1, 2, 4, 8), range(9), (1, 2, 4)):
        nodes = ceil((replicas * cards + spare) / OFFERED)
        others, rest = divmod(nodes * OFFERED - replicas * cards - spare, size)
        if not rest:
            yield cards, spare, size, nodes, others


@pytest.mark.parametrize(
    "replicas",
    [*range(1, 5), *(pytest.param(count, marks=pytest.mark.full) for count in range(5, 9))],
)
def test_a_rollout_in_place_ends_whatever_is_spare_and_surge_ends_where_the_plan_accepts_it(
    steps, replicas
):
    verdicts = set()
    for (cards, spare, size, nodes, others), mode in product(cases(replicas), MODES):
        is_accepted = accepted(replicas, cards, mode, nodes, size, others)
        states = {tuple(sorted(each)) for each in placements(replicas, cards, nodes, size, others)}
        outcome = all(ends(state, replicas, cards, steps[mode]) for state in states)
        verdicts.add((mode, is_accepted, outcome))
        assert outcome or not is_accepted, (mode, replicas, cards, spare, size)
    # The plan rejects nothing that always ends.
    assert verdicts == {("inPlace", True, True), ("surge", True, True), ("surge", False, False)}
