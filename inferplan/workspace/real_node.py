"""The part of a stack that a real node runs in a rehearsal: pods without accelerators, and the models
of one pool if they fit this machine. It plans; `rehearsal/node` starts the node.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferplan.errors import RequestError
from inferplan.kube.names import FAKE_NODE
from inferplan.kube.objects import annotation
from inferplan.kube.quantity import millicores_of
from inferplan.pulumi_engine.recording import Recording
from inferplan.pulumi_engine.values import reveal
from inferplan.rehearsal.node import tiny_model
from inferplan.rehearsal.node.images import (
    has_stub,
    is_pulled,
    reason_against,
    recipe_of,
    recipes_of,
)
from inferplan.workspace.simulated_nodes import volume_of
from inferplan.workspace.workspace import Workspace

_RESERVED_MILLICORES = 300
"""CPU of the node that surge pods may need."""


@dataclass(frozen=True, kw_only=True)
class RealNode:
    """The images that the node needs, those of them that stubs stand for, its labels, its
    accelerators by resource, and the pool whose models it runs, "" for none.
    """

    images: tuple[str, ...]
    stubs: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    accelerators: Mapping[str, int] = field(default_factory=dict)
    pool: str = ""

    def cordons(self, node: Mapping[str, Any]) -> bool:
        """True for fake nodes that this node stands for: those without taints, and its pool's."""
        labels = node["metadata"].get("labels") or {}
        is_own = bool(self.labels) and self.labels.items() <= labels.items()
        taints = (node.get("spec") or {}).get("taints")
        return annotation(node, FAKE_NODE) == "fake" and (is_own or not taints)

    def notes(self, workspace: Workspace) -> Iterator[str]:
        """Say which pods are real, and what answers for each model."""
        made = [each for each in self.images if not is_pulled(each)]
        lacking = sorted(each for each in made if recipe_of(each) is None)
        is_debian = any(recipe_of(each) == "nginx" for each in made)
        nginx = ", with Debian's nginx instead of the image" if is_debian else ""
        yield (
            f"the gateway's pods are real{nginx}"
            if workspace.settings.gateway
            else "no gateway runs"
        )
        for name, model in workspace.settings.models.items():
            yield f"{name}: {self._kind(model.pool, model.engine)}"
            if model.pool == self.pool and not self.stubs and model.preheat is not None:
                yield f"{name}: its preheat has no network on this node; for files of this machine, use a claim (kind: pvc) without preheat"
        for image in self.stubs:
            for reason in filter(None, map(reason_against, recipes_of(image))):
                yield f"a stub stands for {image}: {reason}"
        if lacking:
            yield f"no recipe makes these images, so their pods do not start: {', '.join(lacking)}"

    def silent(self, workspace: Workspace) -> list[str]:
        """The models whose servers are on fake nodes."""
        return [
            name for name, model in workspace.settings.models.items() if model.pool != self.pool
        ]

    def _kind(self, pool: str, engine: str) -> str:
        if pool != self.pool:
            return "fake, nothing answers"
        if self.stubs:
            return "a stub in a container"
        return f"the real {engine} on this machine's CPUs"


def places_of_files(
    workspace: Workspace, node: RealNode, directories: Mapping[str, Path]
) -> dict[str, Path]:
    """The folder, relative to those of volumes, of each model that really runs with files on a claim
    that exists. Raises RequestError if `directories` have files of another model.
    """
    places = {}
    for name, model in workspace.settings.models.items():
        store = workspace.settings.storage.get(model.weights.store) if model.weights else None
        claim = None if store is None or model.preheat is not None else store.existing_claim
        if model.pool == node.pool and not node.stubs and model.weights is not None and claim:
            places[name] = Path(volume_of(workspace.settings, claim), model.weights.path)
    if others := sorted(directories.keys() - places.keys()):
        raise RequestError(
            f"--real: on the real node {', '.join(others)} cannot have files of this machine. That"
            f" takes a pool of CPUs that fits this machine, and weights on a claim (kind: pvc)"
            f" without preheat; models with both: {', '.join(places) or 'none'}"
        )
    return places


def place_files(places: Mapping[str, Path], volumes: Path, directories: Mapping[str, Path]) -> None:
    """Put the files of models into their `places` below `volumes`: those of `directories`, else a
    tiny generated model.
    """
    for name, place in places.items():
        folder = volumes / place
        if name in directories:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(directories[name], folder)
            for path in (folder, *folder.rglob("*")):
                # Pods have a user of their own.
                path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o644))
        elif not folder.exists():
            folder.mkdir(parents=True)
            tiny_model.write(folder)


def real_node(workspace: Workspace, recording: Recording) -> RealNode:
    """Plan the node for what `recording` declares."""
    pods = [
        (each.name, reveal(each.inputs["spec"]["template"]["spec"]), _count(each.inputs["spec"]))
        for each in recording
        if each.inputs.get("kind") in ("Deployment", "Job")
    ]
    room = (os.cpu_count() or 1) * 1000 - _RESERVED_MILLICORES
    room -= sum(
        _millicores(spec) * count for _, spec, count in pods if not spec.get("nodeSelector")
    )
    # Models on CPUs are real, so their pool comes first.
    pools = sorted(
        workspace.settings.node_pools.items(), key=lambda each: each[1].accelerator is not None
    )
    for name, pool in pools:
        target = pool.target(name)
        if target.accelerator is not None and target.accelerator.device_class:
            continue  # No DRA driver runs on the real node.
        own = [
            (spec, count)
            for _, spec, count in pods
            if spec.get("nodeSelector") == dict(target.node_selector)
        ]
        if own and sum(_millicores(spec) * count for spec, count in own) <= room:
            images = {each for spec, _ in own for each in _images(spec)}
            accelerators = (
                {target.accelerator.resource: target.capacity.accelerators}
                if target.accelerator
                else {}
            )
            return RealNode(
                images=tuple(sorted(images | _unplaced(pods))),
                stubs=tuple(sorted(filter(has_stub, images))),
                labels=dict(target.node_selector),
                accelerators=accelerators,
                pool=name,
            )
    return RealNode(images=tuple(sorted(_unplaced(pods))))


def _count(spec: Mapping[str, Any]) -> int:
    return int(spec.get("replicas", 1))


def _unplaced(pods: list[tuple[str, dict[str, Any], int]]) -> set[str]:
    return {each for _, spec, _ in pods if not spec.get("nodeSelector") for each in _images(spec)}


def _containers(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*(spec.get("initContainers") or ()), *spec["containers"]]


def _images(spec: Mapping[str, Any]) -> set[str]:
    return {str(each["image"]) for each in _containers(spec)}


def _millicores(spec: Mapping[str, Any]) -> int:
    requests = [(each.get("resources") or {}).get("requests") or {} for each in spec["containers"]]
    return sum(millicores_of(each.get("cpu", "0")) for each in requests)
