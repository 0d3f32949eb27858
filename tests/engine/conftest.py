"""Every test of this folder finds Pulumi's engine: on the user's PATH, or as it was built for the
tests.
"""

from __future__ import annotations

import pytest

from tests.engine.requirement import REASON, engine_variables


@pytest.fixture(scope="session")
def engine_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="module", autouse=True)
def engine_on_path(engine_folder):
    """Set for the tests of one module only: other tests in the same process run where there is no
    Pulumi.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ({} if REASON else engine_variables(engine_folder)).items():
            patch.setenv(name, value)
        yield
