"""What KubeRay makes of a RayService's pod templates, by the objects that its release 1.7.0 really
made (tests/fixtures/operators).
"""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

from inferplan.kube.quantity import bytes_of

TOKEN = "token-of-the-cluster"  # noqa: S105 - a test's own
_MADE = json.loads((Path(__file__).parents[2] / "fixtures/operators/RayService.json").read_text())[
    "assistant"
]


def pod_template(service: dict[str, Any], name: str, *, head: bool) -> dict[str, Any]:
    """The template of the head or of the workers of `service`, with the command, variables, labels
    and probes that KubeRay adds.
    """
    cluster = service["rayClusterConfig"]
    group = cluster["headGroupSpec"] if head else cluster["workerGroupSpecs"][0]
    template = copy.deepcopy(group["template"])
    [container] = template["spec"]["containers"]
    variables: dict[str, Any] = {}
    for path, value in _MADE["head pod" if head else "worker pod"].items():
        first, *parts = path.split("/")
        added = _own(value, name, container)
        if first == "labels":
            template["metadata"].setdefault("labels", {})["/".join(parts)] = added
        elif parts == ["restartPolicy"]:
            template["spec"]["restartPolicy"] = added
        elif parts[:1] == ["containers"] and parts[2] == "env":
            _put(variables.setdefault(parts[3], {"name": parts[3]}), parts[4:], added)
        elif parts[:1] == ["containers"]:
            _put(container, parts[2:], added)
    # Parameters that the recorded service did not have.
    further = " ".join(
        f"--{key}={value}"
        for key, value in group["rayStartParams"].items()
        if f"--{key}=" not in container["args"][0]
    )
    container["args"] = [f"{container['args'][0]} {further}"]
    container["env"] += variables.values()
    return template


def _put(place: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        place = place.setdefault(key, {})
    place[keys[-1]] = value


def _own(value: Any, name: str, container: dict[str, Any]) -> Any:
    """The value for this service: its names, and the amounts that its container has (common/pod.go,
    v1.7.0).
    """
    if isinstance(value, list):
        return [_own(each, name, container) for each in value]
    if not isinstance(value, str):
        return value
    text = value.replace("<cluster>", name).replace("<namespace>", "inference")
    amounts = {**container["resources"]["requests"], **container["resources"]["limits"]}
    text = re.sub(r"--memory=\d+", f"--memory={bytes_of(amounts['memory'])}", text)
    text = re.sub(r"--num-gpus=\d+", f"--num-gpus={amounts.get('nvidia.com/gpu', 0)}", text)
    return re.sub(r"--num-cpus=[1-9]\d*", f"--num-cpus={amounts['cpu']}", text)
