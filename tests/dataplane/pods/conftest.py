from __future__ import annotations

from tests.dataplane.serving.conftest import ray_environment, tritonserver

__all__ = ["ray_environment", "tritonserver"]
