"""Settings of the whole suite."""

from __future__ import annotations

import gc
import os
import signal
import tempfile

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.entropy import deterministic_PRNG
from xdist.scheduler import LoadFileScheduling

from tests.lanes import worker_scope

# A proxy meant for the internet would be asked on the loopback as well.
for _name in ("no_proxy", "NO_PROXY"):
    os.environ[_name] = ",".join(filter(None, [os.environ.get(_name, ""), "127.0.0.1,localhost"]))

# The workers of pytest-xdist get the width of the terminal that pytest was started in; messages
# would fold at it.
os.environ.pop("COLUMNS", None)

# The Makefile marks its own passphrase, so that `make up` prints the export; tests set the mark
# themselves.
os.environ.pop("INFERPLAN_DEFAULT_PASSPHRASE", None)

# What a developer has up on this machine is no part of a test.
if "INFERPLAN_STATE_DIR" not in os.environ:
    _state = tempfile.TemporaryDirectory(prefix="inferplan-state-")
    os.environ["INFERPLAN_STATE_DIR"] = _state.name

# Under nohup, or behind a shell's `&`, an interrupt is ignored, and so it is by everything that is
# started from here: what a test interrupts would go on for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A push must not fail on a case that the change has nothing to do with: every run draws the same
# examples, and
# `make test-full` draws new and more ones. No property is about time: a busy machine must not fail
# one.
_UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", derandomize=True, max_examples=40, **_UNHURRIED)
settings.register_profile("new", **_UNHURRIED)
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "same")
settings.load_profile(_PROFILE)
if _PROFILE == "same":
    # Hypothesis draws from the numbers and strings of every module that is loaded: other examples
    # whenever a file changes anywhere, or tests run in another order. No setting turns that off.
    assert callable(providers._get_local_constants)
    providers._get_local_constants = providers.Constants
# The first property of a process registers a source of random numbers, and looks through the whole
# heap for who holds it: seconds, once all tests are collected.
with deterministic_PRNG():
    pass


# The collection only adds objects that stay, and the collector would look through all of them again
# and again, in every worker.
gc.disable()
# Some modules record a plan when they are imported, and the first plan reads whether there are
# frozen objects. Without any, every plan would thaw the heap and leave its own garbage to a full
# collection that never comes: plans got slower with each test.
gc.freeze()


@pytest.fixture(autouse=True)
def _secrets_may_be_opened(monkeypatch):
    """`plan --against` closes the secrets of its process, which has other tests after it."""
    monkeypatch.setattr("inferplan.pulumi_engine.secrets.PROJECT.forgotten", False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop():
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Control planes first: tests that wait for them leave processor time to others, and at the end
    there are no others.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(("tests/rehearsal/", "tests/engine/")))


class _Scheduling(LoadFileScheduling):
    def _split_scope(self, nodeid):
        return worker_scope(super()._split_scope(nodeid))


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_make_scheduler(config, log):
    """One worker for each file, and for files that share a simulated cluster; in the order of
    collection.
    """
    config.option.loadscopereorder = False
    return _Scheduling(config, log)
