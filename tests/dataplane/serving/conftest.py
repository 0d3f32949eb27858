from __future__ import annotations

import pytest

from tests.dataplane.serving.environment import (
    IN_A_TEST_SECONDS,
    Environment,
    Unavailable,
    environment,
)
from tests.dataplane.serving.triton_stand import binary


def _environment(name: str) -> Environment:
    try:
        return environment(name, IN_A_TEST_SECONDS)
    except Unavailable as reason:
        pytest.skip(f"the environment {name} cannot be built: {reason}")


@pytest.fixture(scope="session")
def tritonserver(tmp_path_factory):
    return binary(_environment("triton"), tmp_path_factory.mktemp("backends"))


@pytest.fixture(scope="session")
def ray_environment():
    return _environment("ray")


@pytest.fixture(scope="session")
def client_environment():
    return _environment("client")


@pytest.fixture(scope="session")
def vllm_environment():
    return _environment("full/vllm")


@pytest.fixture(scope="session")
def router_environment():
    return _environment("router")
