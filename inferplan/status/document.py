"""The state of a stack as one JSON document, for programs (docs/status.md). The same state gives
the same bytes.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from inferplan.images.catalogue import facts_of, family_of
from inferplan.kube.names import COMPONENT_LABEL, INSTANCE_LABEL
from inferplan.pulumi_engine.recording import Recording
from inferplan.status.differences import MOUNTS
from inferplan.status.models import ModelRow
from inferplan.status.status import StackState
from inferplan.workspace.contract import Contract

_VERSION = 1


def status_json(stack: str, state: StackState, contract: Contract, recording: Recording) -> str:
    pods = list(_pods(recording))
    document = {
        "version": _VERSION,
        "stack": stack,
        "namespace": contract.namespace,
        "settled": state.settled,
        "models": [
            _model(row, contract, [pod for name, pod in pods if name == row.name])
            for row in state.models
        ],
        **{
            name: [asdict(row) for row in getattr(state, name)]
            for name in ("pools", "stores", "preheats", "queues", "jobs", "consumers", "routes")
        },
        "differences": [{"object": name, "message": text} for name, text in state.differences],
        "gateway": list(state.gateway),
        "images": {"summary": state.images, "containers": list(_evidence(pods))},
    }
    return json.dumps(document, indent=2, sort_keys=True, default=str) + "\n"


def _model(row: ModelRow, contract: Contract, pods: list[Mapping[str, Any]]) -> dict[str, Any]:
    endpoint = contract.endpoint_of(row.name)
    servers = [pod["containers"][0] for pod in pods]
    return {
        **{
            name: getattr(row, name)
            for name in ("name", "engine", "server", "pool", "reason", "endpoint")
        },
        "image": servers[-1]["image"] if servers else None,
        "replicas": {"ready": row.ready, "declared": row.wanted},
        "host": endpoint.host,
        "protocols": [asdict(each) for each in endpoint.protocols],
        "servedNames": list(endpoint.served_names),
        "mounts": [mount for pod in pods for mount in _mounts(pod)],
    }


def _mounts(pod: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The objects that containers of `pod` mount. A pod's own volumes (emptyDir) are not objects."""
    volumes: dict[str, tuple[str, Any]] = {}
    for volume in pod.get("volumes") or []:
        for key, (kind, field) in MOUNTS.items():
            if key in volume:
                volumes[volume["name"]] = (kind, volume[key].get(field))
    for container in (*(pod.get("initContainers") or []), *pod["containers"]):
        for mount in container.get("volumeMounts") or []:
            if mount["name"] in volumes:
                kind, name = volumes[mount["name"]]
                where = {
                    "container": container["name"],
                    "path": mount["mountPath"],
                    "readOnly": bool(mount.get("readOnly")),
                }
                yield {"kind": kind, "name": name, **where, "subPath": mount.get("subPath", "")}


def _evidence(pods: list[tuple[str, Mapping[str, Any]]]) -> Iterator[dict[str, str | None]]:
    """The evidence for each container's image: its row of the image catalogue, another release of a
    known image, or nothing.
    """
    for workload, pod in pods:
        for container in (*(pod.get("initContainers") or []), *pod["containers"]):
            image = str(container["image"])
            row = facts_of(image)
            family = row or family_of(image)
            kind = (
                "catalogue" if row is not None else "nothing" if family is None else "otherRelease"
            )
            name = None if family is None else family.name
            yield {
                "workload": workload,
                "container": container["name"],
                "image": image,
                "evidence": kind,
                "row": name,
            }


def _pods(recording: Recording) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every pod spec that the stack declares, with its model or, for other workloads, their name;
    in the order of declaration.
    """
    for each in recording:
        if not each.type.startswith("kubernetes:"):
            continue
        for template in _templates(each.inputs):
            labels = (template.get("metadata") or {}).get("labels") or {}
            serves = labels.get(COMPONENT_LABEL) == "model"
            yield str(labels[INSTANCE_LABEL] if serves else each.name), template["spec"]


def _templates(value: Any) -> Iterator[Mapping[str, Any]]:
    """The pod templates in the inputs of an object, at any depth."""
    if isinstance(value, Mapping):
        spec = value.get("spec")
        if isinstance(spec, Mapping) and "containers" in spec and value.get("kind") != "Pod":
            yield value
            return
        for key in value:
            yield from _templates(value[key])
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _templates(each)
