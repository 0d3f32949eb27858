from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inferplan.components.serving.demand import PRE_STOP_SECONDS, SHORTEST_STARTUP_SECONDS, timing

ANY = {
    "model_bytes": st.integers(0, 2 * 2**40),
    "load_mib_per_second": st.integers(1, 20_000),
    "warmup_seconds": st.integers(0, 20_000),
    "drain_seconds": st.integers(0, 3600),
    "replicas": st.integers(0, 1000),
}


@given(**ANY)
def test_no_timeout_undercuts_what_it_has_to_cover(
    model_bytes, load_mib_per_second, warmup_seconds, drain_seconds, replicas
):
    times = timing(
        model_bytes=model_bytes,
        load_mib_per_second=load_mib_per_second,
        warmup_seconds=warmup_seconds,
        drain_seconds=drain_seconds,
        replicas=replicas,
    )
    assert times.startup >= max(
        SHORTEST_STARTUP_SECONDS, 2 * model_bytes / (load_mib_per_second * 2**20)
    )
    assert times.startup_failures * 10 >= times.startup
    assert times.grace >= PRE_STOP_SECONDS + drain_seconds + 5
    assert times.progress_deadline > times.startup + times.grace
    assert times.rollout >= max(1, replicas) * (times.grace + times.startup)


def test_kserves_constants_are_reached_with_one_setting():
    times = timing(
        model_bytes=0, load_mib_per_second=200, warmup_seconds=0, drain_seconds=45, replicas=1
    )
    assert (times.startup, times.grace) == (600, 70)
