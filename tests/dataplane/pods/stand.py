"""What every case of pods has in common: how they are run, called and changed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.dataplane.pods import images
from tests.dataplane.pods.plan import Plan

OWN = (
    "unshare",
    "--mount",
    "--net",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--propagation",
    "private",
)
ENGINES = Path("docs/engines")
START_SECONDS = 400
Outcome = dict[str, Any]


def ask(plan: Plan, path: str, body: Mapping[str, Any], *, key: bool = True) -> dict[str, Any]:
    headers = {"Host": "llm.local.test", "Content-Type": "application/json"}
    headers |= {"Authorization": f"Bearer {plan.key('chat')}"} if key else {}
    return {
        "port": 8080,
        "method": "POST",
        "path": path,
        "headers": headers,
        "body": json.dumps(body),
    }


def changed(pod: Mapping[str, Any], edit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """`pod` with its server's container edited."""
    other = copy.deepcopy(dict(pod))
    edit(other["spec"]["containers"][0])
    return other


def gateway(plan: Plan) -> dict[str, Any]:
    return {**plan.pod("gateway"), "image": images.nginx()}
