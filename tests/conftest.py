"""Settings of the whole suite."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# A push must not fail on a case that the change has nothing to do with: every run draws the same examples, and
# `make test-full` draws new ones. No property is about time: a busy machine must not fail one.
_UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", derandomize=True, **_UNHURRIED)
settings.register_profile("new", **_UNHURRIED)
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "same")
settings.load_profile(_PROFILE)
if _PROFILE == "same":
    # Hypothesis draws from the numbers and strings of every module that is loaded: other examples whenever a file changes
    # anywhere, or tests run in another order. No setting turns that off.
    assert callable(providers._get_local_constants)
    providers._get_local_constants = providers.Constants
