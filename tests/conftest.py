"""Settings of the whole suite."""

from __future__ import annotations

import os

from hypothesis import settings

# A push must not fail on a case that the change has nothing to do with: every run draws the same examples, and
# `make test-full` draws new ones. No property is about time: a busy machine must not fail one.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("new", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
