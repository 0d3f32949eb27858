"""The upgrade of a created cluster from one plan to the next: a control plane takes one minor version
at a time.
"""

import re
from collections.abc import Mapping
from typing import Any

from inferplan.kube.facts import read

_VERSION = re.compile(r"1\.([0-9]{1,3})")


def skipped_versions(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return what is wrong with an upgrade between two outputs of a stack, and the steps to take;
    "" for nothing.
    """
    old, new = _minors(before), _minors(after)
    for name in old.keys() & new.keys():
        first, last = old[name], new[name]
        if last - first > 1:
            steps = ", then ".join(f"'1.{minor}'" for minor in range(first + 1, last + 1))
            return (
                f"Kubernetes 1.{first} to 1.{last} skips a minor version, and a control plane takes"
                f" one at a time. Set cluster.create.kubernetesVersion: {steps}, each with an update"
                " of its own, and let the nodes follow before the next one."
            )
    return ""


def _minors(outputs: Mapping[str, Any]) -> dict[str, int]:
    """The minor versions of the clusters that a stack creates, by their region and name."""
    try:
        facts = read(outputs) or {}
    except ValueError:
        return {}  # of another release
    versions = {
        str(each.get("target")): _VERSION.fullmatch(str(each.get("kubernetesVersion")))
        for (kind, _), each in facts.items()
        if kind == "cluster"
    }
    return {target: int(match[1]) for target, match in versions.items() if match}
