"""The application of inferplan/images/ray-app as it stands there, run by Serve's own local mode
with the packages that the recipe pins.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.patience import PATIENCE_SECONDS

RECIPE = Path(__file__).parents[3] / "inferplan" / "images" / "ray-app"
CALL = """
import json
from ray import serve
from rag.app import build
handle = serve.run(build({"base_model": "/models/chat/base"}), route_prefix=None, _local_testing_mode=True)
print("FOUND " + json.dumps(handle.answer.remote({"text": "why"}).result()))
"""


def test_the_application_of_the_recipe_answers(ray_environment):
    environment = {**os.environ, "PYTHONPATH": str(RECIPE), "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [str(ray_environment.python), "-c", CALL],
        env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = next(line for line in done.stdout.splitlines() if line.startswith("FOUND "))
    assert json.loads(found.removeprefix("FOUND ")) == {
        "question": "why",
        "files": {"/models/chat/base": False},
    }
