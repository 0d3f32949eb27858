"""Every plan of the repository, recorded once: the example stacks and the examples of docs/engines,
and the pods that they declare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from inferplan.pulumi_engine.program.record import record
from inferplan.pulumi_engine.recording import Recording
from inferplan.pulumi_engine.secrets import open_secrets
from inferplan.stackfile.reader import read_stack

ROOT = Path(__file__).resolve().parents[1]
PLANS = sorted(
    [*(ROOT / "stacks").glob("Pulumi.*.yaml"), *(ROOT / "docs" / "engines").glob("Pulumi.*.yaml")]
)
_PASSPHRASE = {"PULUMI_CONFIG_PASSPHRASE": "inferplan-example"}


@dataclass(frozen=True)
class DeclaredContainer:
    """One container of a plan: the resource that declares it, its pod's spec, and itself.
    `by_kuberay` where KubeRay writes its command.
    """

    resource: str
    pod: Mapping[str, Any]
    container: Mapping[str, Any]
    init: bool
    by_kuberay: bool

    def __str__(self) -> str:
        return f"{self.resource} {self.container['name']}"


@cache
def recorded(plan: Path) -> Recording:
    """What the plan declares."""
    file = read_stack(plan)
    secrets = open_secrets(
        file.secrets, salt=file.encryption_salt, provider=None, environment=_PASSPHRASE
    )
    config = {**file.config, **secrets.values}
    name = plan.name.split(".")[1]
    return record(
        ROOT / "inferplan" / "infra",
        project="inferplan",
        stack=name,
        config=config,
        secret_keys=frozenset(secrets.values),
    )


def containers_of(recording: Recording) -> Iterator[DeclaredContainer]:
    """Every container of every pod template of a plan."""
    for each in recording:
        for spec, by_kuberay in _pods(each.inputs.get("spec") or {}):
            for key in ("initContainers", "containers"):
                for container in spec.get(key) or []:
                    init = key == "initContainers"
                    yield DeclaredContainer(
                        f"{each.type.rpartition(':')[2]}/{each.name}",
                        spec,
                        container,
                        init,
                        by_kuberay and not init,
                    )


def _pods(spec: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], bool]]:
    if "spec" in (spec.get("template") or {}):
        yield spec["template"]["spec"], False
    group = spec.get("leaderWorkerTemplate") or {}
    yield from (
        (group[key]["spec"], False) for key in ("leaderTemplate", "workerTemplate") if key in group
    )
    cluster = spec.get("rayClusterConfig")
    if cluster:
        for each in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            yield each["template"]["spec"], True
