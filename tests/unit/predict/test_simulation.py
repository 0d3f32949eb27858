"""The simulation against queues whose figures are known, the rules of the HorizontalPodAutoscaler,
and incidents.
"""

from __future__ import annotations

import itertools
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferplan.predict.batches import Replica
from inferplan.predict.configurations import UnknownSpeedError
from inferplan.predict.incidents import IncidentError, _multiplied, _poisson, play, read_incident
from inferplan.predict.simulation import Event, Rule, Simulation
from tests.unit.predict.facts import POOL, library, model


class Steps:
    """An engine whose prompts take 100 ms and whose steps take 10 ms, whatever else runs."""

    accelerators = 2

    def prefill(self, *_):
        return 0.1

    def decode(self, *_):
        return 0.01


def replica(slots=64):
    steps: Any = Steps()
    return Replica(steps=steps, prompt=1000, cached=0, answer=11, slots=slots, tokens_per_step=2048)


def run(rate, seconds, *, rule=None, limits=(None, None), events=(), slots=64):
    rule = rule or Rule(least=1, most=1)
    return Simulation(_poisson(rate, seconds, 1000, 11), replica(slots), rule, limits).run(events)


def test_a_quiet_replica_is_never_late_and_a_full_one_always():
    assert run(0.5, 3600, limits=(0.6, 0.02)).late_percent < 1
    assert run(20, 600, limits=(0.6, None)).late_percent > 95
    assert run(0.5, 3600).replica_hours == pytest.approx(1, rel=0.02)


def test_the_wait_for_prompts_is_that_of_an_m_d_1_queue():
    # P(W > t) tends to C exp(-rt), with load * (exp(r) - 1) = r and C = (1 - load) / (load * exp(r)
    # - 1), t in service times.
    load, decay = 0.8, 1.0
    for _ in range(200):
        decay = math.log(1 + decay / load)
    expected = (1 - load) / (load * math.exp(decay) - 1) * math.exp(-4 * decay)
    waits = run(8, 60_000, limits=(0.1 + 0.01 + 0.02 + 0.4, None))
    assert waits.late_percent == pytest.approx(100 * expected, rel=0.1)


def test_replicas_follow_the_load_and_leave_after_the_window():
    rule = Rule(least=1, most=4, signals={"requests_in_flight": 2.0}, start=120, window=300)
    trace = _multiplied(_poisson(1, 7200, 1000, 11), 1800, 3600, 12)
    outcome = Simulation(trace, replica(), rule, (None, None)).run()
    counts = dict(outcome.timeline)
    grown = next(second for second, count in counts.items() if count > 1)
    # 15 s for the scaler, two scrapes of 15 s, and 120 s to load.
    assert 1800 + 120 <= grown <= 1800 + 120 + 75
    assert outcome.most_ready == 4
    assert outcome.timeline[-1][1] == 1
    shrunk = next(second for second, count in outcome.timeline if second > 3600 and count < 4)
    assert 3600 + 300 <= shrunk <= 3600 + 300 + 90


def test_growth_keeps_the_period_of_the_policy():
    rule = Rule(
        least=1, most=16, signals={"requests_in_flight": 1.0}, start=600, period=600, window=300
    )
    outcome = run(30, 3000, rule=rule)
    grown = [second for second, count in outcome.timeline if count > 1]
    assert all(later - earlier >= 600 for earlier, later in itertools.pairwise(grown))
    assert [count for _, count in outcome.timeline][:3] == [1, 2, 4]


def test_a_lost_node_loses_what_ran_and_what_comes_until_it_is_back():
    rule = Rule(least=1, most=1, start=300)
    alone = run(5, 3600, rule=rule, events=[Event(kind="nodeLost", minute=10)])
    two = run(
        5, 3600, rule=Rule(least=2, most=2, start=300), events=[Event(kind="nodeLost", minute=10)]
    )
    # 180 s for the node and 300 s to load, at five requests a second.
    assert alone.lost == pytest.approx(480 * 5, rel=0.1)
    assert 0 <= two.lost < 20
    notice = run(
        5,
        3600,
        rule=Rule(least=2, most=2, start=300),
        events=[Event(kind="spotReclaimed", minute=10)],
    )
    assert notice.lost == 0


@pytest.mark.full
def test_a_million_requests_of_a_day_take_less_than_a_minute():
    trace = _poisson(1_000_000 / 86_400, 86_400, 1000, 11)
    began = time.process_time()
    outcome = Simulation(
        trace, replica(), Rule(least=2, most=20, signals={"requests_in_flight": 4.0}), (0.5, 0.05)
    ).run()
    assert outcome.requests == 1_000_000
    assert time.process_time() - began < 60


INCIDENT = """
model = "chat"
minutes = 60
[limits]
lost = 100
latePercent = 5
[[event]]
minute = 12
kind = "nodeLost"
[[event]]
minute = 20
kind = "trafficMultiplied"
factor = 2
forMinutes = 10
[[event]]
minute = 40
kind = "badRevision"
forMinutes = 15
"""


def incident(tmp_path, text=INCIDENT):
    path = tmp_path / "node-lost.toml"
    path.write_text(text)
    return read_incident(path, "incidents/prod/node-lost.toml")


def test_an_incident_tells_one_replica_from_three(tmp_path):
    library()
    found = incident(tmp_path)
    facts = model(
        traffic={"requestsPerSecond": 2},
        slo={"ttft": "2s", "itl": "100ms"},
        drainSeconds=60,
        rollout="inPlace",
    )
    alone = play(found, facts | {"replicas": 1, "maxReplicas": 1}, POOL, Path())
    three = play(found, facts | {"replicas": 3, "maxReplicas": 3}, POOL, Path())
    assert alone.lost > 1000
    assert three.lost < 100
    assert found.broken(alone).startswith(f"{alone.lost:,} requests lost; at most 100")
    assert found.broken(three) == ""
    # The same requests in every run, ten minutes of them twice.
    assert alone.requests == three.requests == pytest.approx(2 * 3600 + 2 * 600, rel=0.05)
    assert play(found, facts | {"replicas": 3, "maxReplicas": 3}, POOL, Path()) == three


def test_the_least_throughput_within_the_error_has_more_late_requests():
    library()
    facts = model(
        traffic={"requestsPerSecond": 5}, slo={"ttft": "2s", "itl": "100ms"}, drainSeconds=60
    )
    likely = play(None, facts, POOL, Path())
    least = play(None, facts, POOL, Path(), least=True)
    assert likely.late_percent < 1
    assert least.late_percent > 20
    # A token errs by its own band: a light load within it is not late.
    light = model(
        traffic={"requestsPerSecond": 1}, slo={"ttft": "2s", "itl": "47ms"}, drainSeconds=60
    )
    assert play(None, light, POOL, Path(), least=True).late == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = ", "cannot be read: Invalid value"),
        (
            'model = "chat"',
            "node-lost.toml: misses minutes. Correct it as inferplan docs prediction shows",
        ),
        (
            INCIDENT.replace("nodeLost", "fire"),
            "event[0].kind is 'fire', which should be 'nodeLost', 'spotReclaimed', ",
        ),
        (INCIDENT.replace("factor", "factors"), "event[1].factors is 2, "),
        (
            INCIDENT.replace("lost = 100", "lost = -1"),
            "limits.lost is -1, which should be greater than or equal to 0",
        ),
        (
            INCIDENT.replace("minute = 12", "minute = 99"),
            "event[0].minute is 99, which should be less than minutes, 60. Correct it",
        ),
    ],
)
def test_a_wrong_incident_is_one_line_with_place_and_remedy(tmp_path, text, message):
    with pytest.raises(IncidentError) as caught:
        incident(tmp_path, text)
    assert str(caught.value).startswith("incidents/prod/node-lost.toml")
    assert message in str(caught.value)


def test_multiplied_traffic_stays_in_order():
    trace = _multiplied(_poisson(10, 600, 9, 9), 100, 200, 3)
    assert len(trace.arrivals) == pytest.approx(6000 + 2 * 1000, rel=0.03)
    assert np.all(np.diff(trace.arrivals) >= 0)


def test_a_rule_on_another_signal_names_those_that_can_be_simulated():
    facts = model(replicas=1, maxReplicas=3) | {"signals": {"queue_milliseconds": 50.0}}
    with pytest.raises(UnknownSpeedError) as caught:
        play(None, facts, POOL, Path())
    assert str(caught.value).startswith(
        "the scaling rule follows queueMilliseconds, which cannot be simulated. Simulated are"
        " waitingRequests, "
    )
    assert "requestsInFlight" in str(caught.value)


def test_requests_spread_at_random_wait_where_the_fewest_requests_would_not():
    """A Service knows no load: with two slots on each of four replicas, some queues are long while
    others are empty.
    """
    outcome = run(16, 3600, rule=Rule(least=4, most=4), slots=2, limits=(0.3, None))
    assert outcome.late_percent > 5


def test_a_request_wakes_a_model_without_replicas_and_is_late_but_not_lost():
    rule = Rule(
        least=0, most=1, signals={"waiting_requests": 5.0}, start=120, period=120, window=300
    )
    trace = _poisson(1, 600, 1000, 11)
    later = _poisson(1, 600, 1000, 11)
    quiet = type(trace)(
        np.concatenate([trace.arrivals, later.arrivals + 3000]),
        np.tile(trace.prompts, 2),
        np.tile(trace.answers, 2),
    )
    outcome = Simulation(quiet, replica(), rule, (1.0, None)).run()
    assert (outcome.lost, outcome.requests) == (0, 1200)
    # Those of the two minutes of each start wait for it.
    assert 200 < outcome.late < 320
    assert [count for _, count in outcome.timeline] == [0, 1, 0, 1]
    asleep = outcome.timeline[2][0] - 600
    assert 300 <= asleep <= 300 + 120 + 75


def test_requests_that_wait_for_a_slot_are_in_flight_too():
    rule = Rule(
        least=1, most=8, signals={"requests_in_flight": 4.0}, start=15, period=15, window=300
    )
    assert run(30, 900, rule=rule, slots=2).most_ready == 8


def test_a_policy_of_growth_grants_its_limit_in_parts():
    """From four replicas, eight are allowed within a period: one at once, and the rest as soon as
    the load asks for it.
    """
    rule = Rule(
        least=4, most=8, signals={"requests_in_flight": 1.0}, start=0, period=600, window=3000
    )
    trace = _multiplied(_poisson(20, 900, 1000, 11), 300, 900, 4)
    ready = [count for _, count in Simulation(trace, replica(), rule, (None, None)).run().timeline]
    assert ready[-1] == 8
    assert ready[0] == 4
