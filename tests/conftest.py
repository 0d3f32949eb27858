"""Settings of the whole suite."""

from __future__ import annotations

import os

from hypothesis import settings

# A push must not fail on a case that the change has nothing to do with: every run draws the same examples, and
# `make test-full` draws new ones.
settings.register_profile("same", derandomize=True)
settings.register_profile("new")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
