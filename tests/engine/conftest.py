"""Every test of this folder finds Pulumi's engine: on the user's PATH, or as it was built for the
tests.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from inferplan.progress import silent
from inferplan.rehearsal.cluster import delete, start
from inferplan.rehearsal.cluster.definitions import installer
from tests.engine.requirement import REASON, engine_variables


@pytest.fixture(scope="session")
def engine_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("programs")


def end_plugins(home: Path) -> None:
    """End the providers below `home`: an engine that a test killed leaves its own, of 120 MB each."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (folder / "cmdline").read_bytes().startswith(f"{home}/".encode()):
                os.kill(int(folder.name), signal.SIGTERM)


@pytest.fixture(scope="module", autouse=True)
def engine_on_path(engine_folder, tmp_path_factory):
    """Set for the tests of one module only: other tests in the same process run where there is no
    Pulumi.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ({} if REASON else engine_variables(engine_folder)).items():
            patch.setenv(name, value)
        yield
    end_plugins(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def shared_engine(engine_folder, tmp_path_factory):
    """The engine on one cluster, for the files that bring declarations of their own. Its variables
    are in `environment`, and in no other test's.
    """
    from tests.engine.test_scenarios import STACK, Pulumi

    directory = tmp_path_factory.mktemp("scenarios")
    variables = {} if REASON else engine_variables(engine_folder)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.setenv("INFERPLAN_STATE_DIR", str(directory / "state"))
        cluster = start(STACK)
        # `up` stops where the operators of a stack are missing.
        for group in ("ray.io", "leaderworkerset.x-k8s.io"):
            assert installer(cluster, silent)(group)
        pulumi = Pulumi(directory, cluster)
    yield pulumi
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERPLAN_STATE_DIR", str(directory / "state"))
        delete(STACK)
