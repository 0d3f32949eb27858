"""What stands in for images on a machine without a container runtime: the same programs, at the
paths where the images have them.

An image that has to be more than its programs says so here, with the source that was read: an
entrypoint that is not the server, a directory that a library writes to.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.dataplane.serving.environment import Environment
from tests.dataplane.serving.triton_stand import Binary

_TOOLS = "/image/bin"
# By itself the server gives a model's process 30 s to start, which a busy machine exceeds.
_TRITONSERVER = (
    "#!/bin/sh\nexec /opt/tritonserver/bin/tritonserver"
    ' --backend-config=python,stub-timeout-seconds=400 "$@"\n'
)
# vllm-project/vllm-gaudi v0.26.0, .cd/Dockerfile.ubuntu.pytorch.vllm and
# .cd/entrypoints/entrypoint_main.py: ENTRYPOINT ["python3", "-m", "entrypoints.entrypoint_main"],
# WORKDIR /root/scripts, whose first argument is a mode.
GAUDI_ENTRYPOINT = """import argparse
parser = argparse.ArgumentParser(prog="entrypoint_main")
parser.add_argument("mode", nargs="?", default="server", choices=["server", "benchmark", "test"])
parser.parse_args()
"""
# Gaudi software (habanalabs-graph, libSynapse 1.24) logs to HABANA_LOGS, /var/log/habana_logs by
# default, and aborts where it cannot.
_GAUDI_PYTHON = """#!/bin/sh
logs=${HABANA_LOGS:-/var/log/habana_logs}
if ! { mkdir -p "$logs" && : > "$logs/dfa_log.txt"; } 2>/dev/null; then
  echo "Failed to open the log file in $logs" >&2
  kill -ABRT $$
fi
exec {python} "$@"
"""


def triton(server: Binary) -> dict[str, Any]:
    """Triton's image: the server and its backends below /opt/tritonserver."""
    mounts = {
        "/opt/tritonserver/bin": server.home / "bin",
        "/opt/tritonserver/backends": server.backends,
        "/opt/tritonserver/caches": server.home / "caches",
        str(server.environment.root): server.environment.root,
    }
    image = _image(server.environment, mounts, {"tritonserver": _TRITONSERVER})
    # A model's process finds its packages as the first python on PATH would, which a script in
    # front of it hides.
    del image["programs"][f"{_TOOLS}/python3"]
    return image


def pytriton(server: Binary) -> dict[str, Any]:
    """An image of inferplan/images/pytriton: a Python with the package."""
    return _image(server.environment, {str(server.environment.root): server.environment.root}, {})


def on_gaudi(image: dict[str, Any]) -> dict[str, Any]:
    """`image` with Gaudi's libraries, which open their log before anything else, and the entrypoint
    of Gaudi's vLLM image.
    """
    python = image["programs"][f"{_TOOLS}/python3"].split()[-2]
    programs = {
        **image["programs"],
        f"{_TOOLS}/python3": _GAUDI_PYTHON.replace("{python}", python),
        "/root/scripts/entrypoints/entrypoint_main.py": GAUDI_ENTRYPOINT,
    }
    entry = {
        "entrypoint": ["python3", "-m", "entrypoints.entrypoint_main"],
        "workdir": "/root/scripts",
        "closed": ["/root/scripts"],
    }
    return {**image, "programs": programs, **entry}


def ray(environment: Environment) -> dict[str, Any]:
    """Ray's image."""
    return _image(environment, {str(environment.root): environment.root}, {})


def vllm(environment: Environment) -> dict[str, Any]:
    """vLLM's image, with its build for CPUs."""
    image = _image(environment, {str(environment.root): environment.root}, {})
    # Without it vLLM takes half of this machine's memory for the cache of a model of 500 kB.
    return {**image, "env": {**image["env"], "VLLM_CPU_KVCACHE_SPACE": "1"}}


def nginx() -> dict[str, Any]:
    """nginx's image: the proxy of this machine."""
    return {"mounts": {}, "programs": {}, "env": {"PATH": "/usr/sbin:/usr/bin"}}


def _image(
    environment: Environment, mounts: Mapping[str, Path], programs: dict[str, str]
) -> dict[str, Any]:
    # The interpreter itself may lie anywhere.
    home = environment.python.resolve().parents[1]
    if home != Path("/usr"):
        mounts = {**mounts, str(home): home}
    libraries = [
        str(each)
        for each in (environment.library, environment.packages / "nvidia_pytriton.libs")
        if each is not None
    ]
    return {
        "mounts": {target: str(source) for target, source in mounts.items()},
        "programs": {
            f"{_TOOLS}/python3": f'#!/bin/sh\nexec {environment.python} "$@"\n',
            **{f"{_TOOLS}/{name}": text for name, text in programs.items()},
        },
        "env": {
            "PATH": os.pathsep.join(
                [_TOOLS, str(environment.root / "bin"), "/usr/sbin", "/usr/bin"]
            ),
            "LD_LIBRARY_PATH": os.pathsep.join(libraries),
        },
    }
