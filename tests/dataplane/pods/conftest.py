from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.dataplane.gateway.stand import nginx_binary
from tests.dataplane.pods.plan import Plan
from tests.dataplane.pods.stand import OWN, START_SECONDS, Outcome
from tests.dataplane.serving.conftest import ray_environment, tritonserver, vllm_environment
from tests.stacks.test_committed_stacks import ROOT

__all__ = ["ray_environment", "tritonserver", "vllm_environment"]


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Outcome]:
    """Runs a request of pods; skips where the machine gives nobody namespaces of their own."""
    nginx_binary()
    if (
        os.geteuid() != 0
        or subprocess.run([*OWN, "true"], check=False, capture_output=True).returncode != 0
    ):
        pytest.skip("pods need root and the right to make namespaces (unshare --mount --net --pid)")

    def run(
        pods: Mapping[str, Any], plan: Plan, seconds: float = START_SECONDS, **more: Any
    ) -> Outcome:
        request = {"pods": pods, "secrets": plan.secrets(), "seconds": seconds, **more}
        (tmp_path / "request.json").write_text(json.dumps(request, default=str))
        command = [
            *OWN,
            sys.executable,
            "-m",
            "tests.dataplane.pods.sandbox",
            str(tmp_path / "request.json"),
        ]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=seconds + 400
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout)

    return run


@pytest.fixture
def weights(tmp_path: Path) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Fills the claims of a pod with the files of `model`, or of a file alone, marked READY as a
    preheat would.
    """

    def fill(pod: Mapping[str, Any], model: Path | None = None) -> dict[str, Any]:
        share = tmp_path / "share"
        for container in pod["spec"]["containers"]:
            for mount in container["volumeMounts"]:
                if "subPath" in mount and mount["name"] == "model":
                    place = share / mount["subPath"]
                    place.mkdir(parents=True, exist_ok=True)
                    if model is None:
                        (place / "config.json").write_text("tiny")
                    else:
                        shutil.copytree(model, place, dirs_exist_ok=True)
                        # As the preheat leaves them: every user may read.
                        for each in (place, *place.rglob("*")):
                            each.chmod(0o755 if each.is_dir() else 0o644)
                    files = sorted(
                        each
                        for each in place.rglob("*")
                        if each.is_file() and not each.name.startswith("READY")
                    )
                    (place / "READY.sizes").write_text(
                        "".join(
                            f"{each.stat().st_size} {each.relative_to(place)}\n" for each in files
                        )
                    )
                    (place / "READY").write_text("{}")
        claims = [
            each["name"] for each in pod["spec"]["volumes"] if "persistentVolumeClaim" in each
        ]
        return {
            **pod,
            "volumes": {**pod["volumes"], **{name: {"directory": str(share)} for name in claims}},
        }

    return fill
