"""Readiness deadlines of one minute, so that an update that fails by timeout fails soon. Each
process of a scenario installs them.
"""

from __future__ import annotations

from dataclasses import replace

READY_WITHIN_SECONDS = 60


def shorten() -> None:
    """Replace the arithmetic of deadlines before the workload module imports it."""
    from inferplan.components.serving import demand as module

    full = module.timing
    module.timing = lambda **sizes: replace(
        full(**sizes), progress_deadline=READY_WITHIN_SECONDS, rollout=READY_WITHIN_SECONDS
    )
