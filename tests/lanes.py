"""Which cases of a sweep run in `make test` and which only in `make test-full`, and which files run
in one process.
"""

from __future__ import annotations

from typing import Any

import pytest


def in_full(*values: Any) -> list[Any]:
    """The values as cases for `parametrize` that run only in `make test-full`, for sweeps of which
    `make test` keeps a sample.
    """
    return [
        pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=pytest.mark.full)
        for each in values
    ]


# A control plane takes three seconds of processor time to start and a fortieth of a core while it
# is idle; to record the plans of all stacks takes as long. The first command of a process imports
# for a second, the first call of moto's AWS for two.
SCOPES = {
    "moto": {
        *(f"tests/unit/aws/test_{name}.py" for name in ("graviton", "offerings")),
        *(
            f"tests/unit/doctor/test_{name}.py"
            for name in ("aws_checks", "recorded_calls", "worlds")
        ),
    },
    "recorded stacks": {
        *(
            f"tests/policies/test_{name}.py"
            for name in (
                "budget",
                "karpenter_pools",
                "mutants",
                "own_output",
                "stacks",
                "stores",
                "three_ways",
            )
        ),
        *(f"tests/stacks/test_{name}.py" for name in ("committed_stacks", "outlines", "starts")),
        "tests/unit/infra/test_image_evidence.py",
    },
    "preheat command": {
        f"tests/dataplane/preheat/test_{name}.py" for name in ("preview", "private_ca_preview")
    },
    "stack local": {
        f"tests/rehearsal/test_{name}.py"
        for name in ("damaged_state", "drift", "gateway", "local_gateway", "render", "stacks")
    },
    "shared engine": {f"tests/engine/test_{name}.py" for name in ("kills", "scenarios")},
    "real node": {
        f"tests/rehearsal/test_{name}.py"
        for name in (
            "real_node",
            "real_node_disk",
            "real_node_policies",
            "real_node_render",
            "real_node_room",
        )
    },
    "examples": {f"tests/rehearsal/test_{name}.py" for name in ("component_programs", "examples")},
    "shared cluster": {
        *(
            f"tests/rehearsal/test_cluster_{name}.py"
            for name in ("behaviour", "faults", "lifecycle")
        ),
        *(
            f"tests/rehearsal/test_engine_{name}.py"
            for name in ("apply", "crash", "identity", "waiting")
        ),
        *(
            f"tests/rehearsal/test_{name}.py"
            for name in (
                "boundaries",
                "claims",
                "doctor",
                "foreign_objects",
                "monitoring",
                "nodes",
                "operators",
                "preflight",
                "preheat_gate",
                "rollouts_end",
                "scaling",
                "toolchain",
            )
        ),
    },
}


def worker_scope(file: str) -> str:
    """The name of the files that run in one process with `file`, because they share a simulated
    cluster or recorded plans; or `file`.
    """
    return next((scope for scope, files in SCOPES.items() if file in files), file)
